"""What of a request is shown in its response object."""

from typing import Any, Final

from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.request import ReasoningOptions, TextOptions, TurnRequest

_DEFAULTS: Final = {
    name: (b',"%b":' % name.encode(), default)
    for name, default in {
        "instructions": b"null",
        "max_output_tokens": b"null",
        "max_tool_calls": b"null",
        "previous_response_id": b"null",
        "store": b"true",
        "temperature": b"1.0",
        "top_p": b"1.0",
        "presence_penalty": b"0.0",
        "frequency_penalty": b"0.0",
        "top_logprobs": b"0",
        "truncation": b'"disabled"',
        "metadata": b"{}",
        "tool_choice": b'"auto"',
        "parallel_tool_calls": b"true",
        "prompt_cache_key": b"null",
        "prompt_cache_retention": b"null",
        "safety_identifier": b"null",
        "user": b"null",
    }.items()
}
_FIXED: Final = b',"background":false'


def echo(request: TurnRequest, model: str, tools: bytes) -> bytes:
    """The constant members of the response object: what the request said, defaults filled in.

    `tools` is the JSON list as it is to be shown.
    """
    raw = request.raw
    parts: list[bytes | Raw] = [b'"model":', json.encode(model)]
    for name, (key, default) in _DEFAULTS.items():
        value = raw.get(name)
        parts.append(key)
        parts.append(default if value is None else value)
    parts += (b',"text":', _show_text(request.text), b',"reasoning":')
    parts += (_show_reasoning(request.reasoning), b',"tools":', tools, _FIXED)
    if request.conversation is not None:
        parts += (b',"conversation":{"id":', json.encode(request.conversation), b"}")
    return json.on_one_line(b"".join(parts))


def _show_reasoning(reasoning: ReasoningOptions) -> bytes:
    shown: dict[str, Any] = {"effort": reasoning.effort, "summary": reasoning.asked_summary}
    for name in ("context", "mode"):
        value = getattr(reasoning, name)
        if value is not None:
            shown[name] = value
    return json.encode(shown)


_PLAIN_TEXT: Final = b'{"format":{"type":"text"},"verbosity":"medium"}'


def _show_text(text: TextOptions) -> bytes:
    form = text.format
    if form is None and text.verbosity is None:
        return _PLAIN_TEXT
    shown: dict[str, Any] = {"type": "text"}
    if form is not None:
        shown = {"type": form.type}
        if form.type == "json_schema":
            shown |= {
                "name": form.name,
                "description": form.description,
                "schema": form.schema,
                "strict": form.strict or False,
            }
    return json.encode({"format": shown, "verbosity": text.verbosity or "medium"})
