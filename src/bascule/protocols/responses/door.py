"""The Responses protocol as its server: decode a request, encode events.

Source of the field rules: the Open Responses document of 2026-04-24 and openai-python 3.57.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.events import (
    ErrorBody,
    Event,
    OtherItemEvent,
    ResponseEvent,
    frame,
)
from bascule.protocols.responses.items import read_input
from bascule.protocols.responses.request import (
    ENCRYPTED_REASONING,
    ReasoningOptions,
    TextOptions,
    ToolChoice,
    ToolRef,
    TurnRequest,
)

Decode = Callable[[Raw, str], Any]


def _typed(type_: Any) -> Decode:
    decode = json.decoder(type_)

    def read(raw: Raw, param: str) -> Any:
        try:
            return decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return json.field(decode, raw, param)

    return read


# --- fields with rules of their own


class _AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    tools: list[ToolRef]
    mode: str


_choice_word = json.decoder(str)
_choice_ref = json.decoder(ToolRef)
_choice_allowed = json.decoder(_AllowedTools)


def _tool_choice(raw: Raw, param: str) -> ToolChoice:
    if json.opens_with(raw, b'"'):
        word = json.field(_choice_word, raw, param)
        if word in ("auto", "none", "required"):
            return ToolChoice(mode=word)
        raise invalid(
            f"Invalid value for '{param}': '{word}'. It must be 'auto', 'none', 'required' "
            "or an object.",
            param,
            code="invalid_value",
        )
    ref = json.field(_choice_ref, raw, param)
    if ref.type != "allowed_tools":
        return ToolChoice(mode="required", named=ref)
    allowed = json.field(_choice_allowed, raw, param)
    if allowed.mode not in ("auto", "required"):
        raise invalid(
            f"Invalid value for '{param}.mode': it must be 'auto' or 'required'.",
            f"{param}.mode",
            code="invalid_value",
        )
    if not allowed.tools:
        raise invalid(f"'{param}.tools' is empty.", f"{param}.tools", code="empty_array")
    return ToolChoice(mode=allowed.mode, allowed=tuple(allowed.tools))


_text = _typed(TextOptions)


def _text_options(raw: Raw, param: str) -> TextOptions:
    text: TextOptions = _text(raw, param)
    form = text.format
    if form is not None and form.type == "json_schema":
        for name in ("name", "schema"):
            if not (form.name if name == "name" else bytes(form.schema)):
                place = f"{param}.format.{name}"
                raise invalid(
                    f"Missing required parameter: '{place}'.",
                    place,
                    code="missing_required_parameter",
                )
        if not bytes(form.schema).lstrip().startswith(b"{"):
            place = f"{param}.format.schema"
            raise invalid(f"'{place}' must be an object.", place, code="invalid_type")
    return text


_includes = _typed(tuple[str, ...])


def _include(raw: Raw, param: str) -> tuple[str, ...]:
    values: tuple[str, ...] = _includes(raw, param)
    for i, value in enumerate(values):
        if value != ENCRYPTED_REASONING:
            place = f"{param}[{i}]"
            raise invalid(
                f"'{place}' is '{value}', which this server cannot include yet.",
                place,
                code="unsupported_parameter",
            )
    return values


def _limited(low: float, high: float) -> Decode:
    read = _typed(float)
    whole = (int(low), int(high))

    def check(raw: Raw, param: str) -> float:
        value: float = read(raw, param)
        if not low <= value <= high:
            below = value < low
            raise invalid(
                f"Invalid value for '{param}': {value:g} is not between {whole[0]} and {whole[1]}.",
                param,
                code="decimal_below_min_value" if below else "decimal_above_max_value",
            )
        return value

    return check


_integer = _typed(int)


def _max_output_tokens(raw: Raw, param: str) -> int:
    value: int = _integer(raw, param)
    if value < 16:
        raise invalid(
            f"Invalid value for '{param}': {value} is below the minimum of 16.",
            param,
            code="integer_below_min_value",
        )
    return value


_Key = Annotated[str, Meta(max_length=64)]
_Value = Annotated[str, Meta(max_length=512)]


def _tools(raw: Raw, param: str) -> None:
    """Kept as bytes: the same list comes with every turn, and its plan is known by them."""
    if not json.opens_with(raw, b"["):
        raise invalid(f"Invalid value for '{param}': expected `array`.", param, "invalid_type")


_HONOURED: Final[dict[str, Decode]] = {
    "model": _typed(str),
    "input": read_input,
    "instructions": _typed(str),
    "previous_response_id": _typed(str),
    "store": _typed(bool),
    "stream": _typed(bool),
    "include": _include,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _typed(bool),
    "max_output_tokens": _max_output_tokens,
    "temperature": _limited(0, 2),
    "top_p": _limited(0, 1),
    "text": _text_options,
    "reasoning": _typed(ReasoningOptions),
    "metadata": _typed(Annotated[dict[_Key, _Value], Meta(max_length=16)]),
}

# Known fields that are refused unless they say what is done anyway.
_REFUSED: Final[dict[str, tuple[bytes, ...]]] = {
    "background": (b"false",),
    "background_options": (),
    "conversation": (),
    "stream_options": (b"{}", b'{"include_obfuscation":false}'),
    "max_tool_calls": (),
    "presence_penalty": (b"0", b"0.0"),
    "frequency_penalty": (b"0", b"0.0"),
    "top_logprobs": (b"0",),
    "truncation": (b'"disabled"',),
    "service_tier": (b'"auto"', b'"default"'),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
    "prompt_cache_options": (),
    "safety_identifier": (),
    "user": (),
    "prompt": (),
    "context_management": (),
    "image": (),
    "moderation": (),
    "access_programs": (),
    "multi_agent": (),
    "betas": (),
}


def honoured_fields() -> tuple[str, ...]:
    """Names of the request fields that do something."""
    return tuple(_HONOURED)


def decode(body: bytes) -> TurnRequest:
    """A request body. Raises ApiError 400 with `param` for whatever is wrong with it."""
    fields = json.envelope(body)
    values: dict[str, Any] = {}
    ignored: list[str] = []
    unset: list[str] = []
    if "model" not in fields:
        raise _missing("model")
    for name, raw in fields.items():
        read = _HONOURED.get(name)
        try:
            if read is not None:
                values[name] = read(raw, name)
            elif name in _REFUSED:
                _refuse(name, bytes(raw))
            else:
                ignored.append(name)
        except ApiError:
            if not json.is_null(raw):
                raise
            unset.append(name)  # null says the same as leaving the field out
    for name in unset:
        del fields[name]
    if not values.get("model"):
        raise _missing("model")
    if "input" not in values:
        if "previous_response_id" not in values:
            raise _missing("input")
        values["input"] = []
    values.pop("tools", None)
    return TurnRequest(**values, ignored=tuple(ignored), raw=fields)


def _missing(name: str) -> ApiError:
    return invalid(
        f"Missing required parameter: '{name}'.", name, code="missing_required_parameter"
    )


def _refuse(name: str, raw: bytes) -> None:
    value = raw.replace(b" ", b"")
    if value not in _REFUSED[name]:
        raise invalid(
            f"The parameter '{name}' is not supported by this server yet.",
            name,
            code="unsupported_parameter",
        )


_DEFAULTS: Final = {
    name: (b',"%b":' % name.encode(), default)
    for name, default in {
        "instructions": b"null",
        "max_output_tokens": b"null",
        "previous_response_id": b"null",
        "store": b"true",
        "temperature": b"1.0",
        "top_p": b"1.0",
        "metadata": b"{}",
        "tool_choice": b'"auto"',
        "parallel_tool_calls": b"true",
    }.items()
}
_FIXED: Final = (
    b',"background":false,"max_tool_calls":null,"prompt_cache_key":null,'
    b'"prompt_cache_retention":null,"safety_identifier":null,"service_tier":"default",'
    b'"top_logprobs":0,"truncation":"disabled","frequency_penalty":0.0,"presence_penalty":0.0,'
    b'"user":null'
)


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
    return json.on_one_line(b"".join(parts))


def _show_reasoning(reasoning: ReasoningOptions) -> bytes:
    if reasoning.effort is None and reasoning.summary is None:
        return b'{"effort":null,"summary":null}'
    return json.encode({"effort": reasoning.effort, "summary": reasoning.summary})


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


# --- events


def encode(batch: Sequence[Event]) -> bytes:
    """SSE bytes of a batch: each event with its `event` line, LF line ends."""
    if len(batch) == 1 and batch[0].FRAME:
        return b"%b%b\n\n" % (batch[0].FRAME, json.encode(batch[0]))
    out = bytearray()
    for event in batch:
        if event.FRAME:
            out += event.FRAME
            json.encode_into(event, out, -1)
        elif isinstance(event, _UNTYPED):
            name, data = _encode_other(event)
            out += b"event: %b\ndata: %b" % (name.encode(), data)
        else:
            out += frame(event)
            json.encode_into(event, out, -1)
        out += b"\n\n"
    return bytes(out)


DONE: Final = b"data: [DONE]\n\n"


def encode_json(event: Event) -> bytes:
    """One event as its JSON object."""
    if isinstance(event, _UNTYPED):
        return _encode_other(event)[1]
    return json.encode(event)


_UNTYPED: Final = (ResponseEvent, OtherItemEvent)


def _encode_other(event: ResponseEvent | OtherItemEvent) -> tuple[str, bytes]:
    if isinstance(event, ResponseEvent):
        assert event.response is not None  # noqa: S101 -- made in one place, always with one
        return event.name, b'{"type":"%b","response":%b,"sequence_number":%d}' % (
            event.name.encode(),
            event.response.encode(),
            event.sequence_number,
        )
    return event.name, json.encode(
        {
            "type": event.name,
            "item_id": event.item_id,
            "output_index": event.output_index,
            "sequence_number": event.sequence_number,
            **event.fields,
        }
    )


def error_body(error: ApiError) -> ErrorBody:
    return ErrorBody(error.type, error.code, error.message, error.param)


def encode_error(error: ApiError) -> bytes:
    """The body of an HTTP error answer."""
    return json.encode({"error": error_body(error)})
