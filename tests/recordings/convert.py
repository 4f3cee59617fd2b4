"""From a recorded Responses answer to the Chat answer that says the same, and what must come back."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bascule.testing import Call, Finish, Reasoning, Refusal, Reply, Step, Text, Usage
from tests.recordings.files import Recording

Json = dict[str, Any]

SCOPE = frozenset(
    [
        "model",
        "input",
        "instructions",
        "include",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "text",
        "reasoning",
        "metadata",
        "store",
        "stream",
        "service_tier",
        "max_tool_calls",
        "truncation",
        "top_logprobs",
        "user",
        "prompt_cache_key",
        "safety_identifier",
    ]
)
"""Request fields that are replayed."""

# Not replayed: `previous_response_id`, since the response that it names was never here (its calls are
# put in instead).

NO_TEXT = "reasoning without any text cannot come from a Chat server"
MERGED = "a Chat answer has one place for text and one for reasoning: neighbours become one item"


@dataclass
class Expected:
    """The items that must come back, and what had to be changed in them."""

    items: list[Json] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        return [item["type"] for item in self.items]


def output_of(recording: Recording) -> tuple[Json, list[Json]]:
    """The recorded final response, and its items."""
    if not recording.streamed:
        return recording.body, recording.body["output"]
    last = recording.decoded_events[-1]["response"]
    return last, last["output"]


def expected(items: Iterable[Json]) -> Expected:
    """The recorded items as a Chat server can give them."""
    result = Expected()
    for item in items:
        if item["type"] == "reasoning" and not reasoning_text(item):
            result.notes.append(NO_TEXT)
        elif result.items and item["type"] == result.items[-1]["type"] in ("message", "reasoning"):
            result.notes.append(MERGED)
        else:
            result.items.append(item)
    return result


def reasoning_text(item: Json) -> str:
    parts = item.get("content") or item.get("summary") or ()
    return "".join(part["text"] for part in parts)


def reply(recording: Recording) -> Reply:
    """What the Chat server answers, in a few chunks each."""
    response, items = output_of(recording)
    made: list[Step] = []
    for item in items:
        made += steps(item)
    calls = any(isinstance(step, Call) for step in made)
    reason = (response.get("incomplete_details") or {}).get("reason")
    reasons = {"max_output_tokens": "length", "content_filter": "content_filter"}
    finish = reasons[reason] if reason else "tool_calls" if calls else "stop"
    return Reply(*made, Finish(finish), *_usage(response.get("usage")))


def steps(item: Json) -> list[Step]:
    """What a model says that stands for an item."""
    match item["type"]:
        case "message":
            return [step for part in item["content"] for step in _part(part)]
        case "reasoning":
            text = reasoning_text(item)
            return [Reasoning(text, chunks=3)] if text else []
        case "function_call":
            return [Call(_wire(item), item["arguments"], id=item["call_id"], split=3)]
        case "custom_tool_call":
            arguments = msgspec.json.encode({"input": item["input"]}).decode()
            return [Call(_wire(item), arguments, id=item["call_id"], split=4)]
        case "shell_call" | "local_shell_call" | "apply_patch_call":
            name = item["type"].removesuffix("_call")
            return [Call(name, _built_in_arguments(item), id=item["call_id"], split=4)]
        case other:
            raise ValueError(f"no Chat server writes a {other}")


def _wire(call: Json) -> str:
    """The name that the model's server was told, of tools whose names are short and legal."""
    namespace = call.get("namespace")
    return f"{namespace}__{call['name']}" if namespace else call["name"]


def _built_in_arguments(item: Json) -> Json:
    """What a model calls the function with that stands for a built-in tool."""
    if item["type"] == "apply_patch_call":
        return {"operation": item["operation"]}
    return {
        name: value
        for name, value in item["action"].items()
        if value is not None and name != "type"
    }


def _part(part: Json) -> list[Step]:
    if part["type"] == "refusal":
        return [Refusal(part["refusal"], chunks=2)]
    return [Text(part["text"], chunks=4)] if part["text"] else []


def _usage(usage: Json | None) -> list[Step]:
    if not usage:
        return []
    return [
        Usage(
            usage["input_tokens"],
            usage["output_tokens"],
            cached=usage["input_tokens_details"]["cached_tokens"],
            reasoning=usage["output_tokens_details"]["reasoning_tokens"],
        )
    ]


# --- the request


def request(recording: Recording) -> Json:
    """The recorded request without what is out of scope; for files without one, what the
    answer tells of it."""
    recorded = recording.request
    response, items = output_of(recording)
    if recorded is None:
        recorded = {"input": "Hello", "tools": response.get("tools") or _declarations(items)}
    fields: Json = {key: value for key, value in recorded.items() if key in SCOPE}
    fields["stream"] = recording.streamed
    fields["model"] = recording.name
    if any("obfuscation" in event for event in recording.decoded_events):
        fields["stream_options"] = {"include_obfuscation": True}
    if isinstance(fields.get("input"), list):
        fields["input"] = _with_calls(fields["input"])
    if _shows_summary(items) and not (fields.get("reasoning") or {}).get("summary"):
        fields["reasoning"] = {**(fields.get("reasoning") or {}), "summary": "auto"}
    if _shows_raw(items):
        fields["reasoning"] = {**(fields.get("reasoning") or {}), "summary": None}
    return fields


def _shows_summary(items: Iterable[Json]) -> bool:
    return any(item["type"] == "reasoning" and item["summary"] for item in items)


def _shows_raw(items: Iterable[Json]) -> bool:
    return any(item["type"] == "reasoning" and item.get("content") for item in items)


def _declarations(items: Iterable[Json]) -> list[Json]:
    parameters = {"type": "object", "properties": {}}
    tools: dict[str, Json] = {}
    for item in items:
        if item["type"] == "function_call":
            name = item["name"]
            tools[name] = {"type": "function", "name": name, "parameters": parameters}
        elif item["type"] == "custom_tool_call":
            tools[item["name"]] = {"type": "custom", "name": item["name"]}
        elif item["type"] == "local_shell_call":
            tools["local_shell"] = {"type": "local_shell"}
    return list(tools.values())


def _with_calls(items: list[Json]) -> list[Json]:
    """The input with the calls that the stored response before it held."""
    made = {item.get("call_id") for item in items if str(item.get("type")).endswith("_call")}
    whole: list[Json] = []
    for item in items:
        if item.get("type") == "function_call_output" and item["call_id"] not in made:
            call = {"type": "function_call", "name": "earlier", "arguments": "{}"}
            whole.append({**call, "call_id": item["call_id"]})
        whole.append(item)
    return whole
