"""The Responses protocol as its server: decode a request, encode events.

Source of the field rules: the Open Responses document of 2026-04-24 and openai-python 3.57.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw

from bascule.protocols import capabilities, json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.events import (
    ErrorBody,
    Event,
    OtherItemEvent,
    PassedEvent,
    ResponseEvent,
    frame,
)
from bascule.protocols.responses.fields import CHECKED, READ, unknown_members
from bascule.protocols.responses.request import TurnRequest

_CONTINUES: Final = ("previous_response_id", "conversation")


def honoured_fields() -> tuple[str, ...]:
    """Names of the request fields that do something."""
    return (*READ, *CHECKED)


def decode(body: bytes) -> TurnRequest:
    """A request body. Raises ApiError 400 with `param` for whatever is wrong with it."""
    fields = json.envelope(body)
    values: dict[str, Any] = {}
    ignored: list[str] = []
    passed: list[str] = []
    unset: list[str] = []
    if "model" not in fields:
        raise _missing("model")
    for name, raw in fields.items():
        read = READ.get(name)
        try:
            if read is not None:
                values[name] = read(raw, name)
                ignored += unknown_members(name, raw)
            elif name not in capabilities.FIELDS:
                ignored.append(name)
            elif json.is_null(raw):
                unset.append(name)
            elif _is_passed(name, raw):
                passed.append(name)
        except ApiError:
            if not json.is_null(raw):
                raise
            unset.append(name)  # null says the same as leaving the field out
    for name in unset:
        del fields[name]
    _check_together(values)
    values.pop("tools", None)
    return TurnRequest(**values, ignored=tuple(ignored), passed=tuple(passed), raw=fields)


def _check_together(values: dict[str, Any]) -> None:
    """What one field cannot say alone."""
    if not values.get("model"):
        raise _missing("model")
    continues = [name for name in _CONTINUES if name in values]
    if len(continues) > 1:
        raise invalid(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. "
            "Only one of them can be given.",
            "conversation",
            "mutually_exclusive_parameters",
        )
    if "input" not in values:
        if not continues:
            raise _missing("input")
        values["input"] = []
    if "stream_options" in values and not values.get("stream"):
        raise invalid(
            "The parameter 'stream_options' is allowed with 'stream' only.",
            "stream_options",
            code="invalid_value",
        )


def _is_passed(name: str, raw: Raw) -> bool:
    """Whether a field asks for something that the upstream will have to answer for."""
    row = capabilities.FIELDS[name]
    check = CHECKED.get(name)
    if check is not None:
        check(raw, name)
    elif capabilities.asks_for_nothing(row, raw):
        return False
    elif name in capabilities.REFUSED_ANYWHERE:
        raise capabilities.refusal(row, name)
    return True


def _missing(name: str) -> ApiError:
    return invalid(
        f"Missing required parameter: '{name}'.", name, code="missing_required_parameter"
    )


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


_UNTYPED: Final = (ResponseEvent, OtherItemEvent, PassedEvent)


def _encode_other(event: ResponseEvent | OtherItemEvent | PassedEvent) -> tuple[str, bytes]:
    if isinstance(event, ResponseEvent):
        assert event.response is not None  # noqa: S101 -- made in one place, always with one
        return event.name, b'{"type":"%b","response":%b,"sequence_number":%d}' % (
            event.name.encode(),
            event.response.encode(),
            event.sequence_number,
        )
    if isinstance(event, PassedEvent):
        members: dict[str, Any] = {**event.members, "sequence_number": event.sequence_number}
        if event.output_index >= 0:
            members["output_index"] = event.output_index
            if "item_id" in members:
                members["item_id"] = event.item_id
        return event.name, json.encode(members)
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
