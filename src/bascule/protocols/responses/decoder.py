"""Answers of a server that speaks Responses, streamed or whole, as canonical events."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.events import PassedEvent, RoundEnd, RoundEvent, RoundFailed
from bascule.protocols.responses.item_life import ItemLife, zero_form
from bascule.protocols.responses.items import OpenItem
from bascule.protocols.responses.response import MEMBERS, Usage
from bascule.protocols.sse import SseReader, SseTooLong
from bascule.protocols.upstream_errors import in_stream_error


class _Delta(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, gc=False):
    """The hot events; one with a member more is read like any other."""

    output_index: int
    delta: str
    item_id: str = ""
    sequence_number: int = 0
    obfuscation: str = ""


class _TextDelta(_Delta, tag="response.output_text.delta", gc=False):
    content_index: int = 0
    logprobs: list[Raw] | None = None


class _ReasoningDelta(_Delta, tag="response.reasoning_text.delta", gc=False):
    content_index: int = 0


class _SummaryDelta(_Delta, tag="response.reasoning_summary_text.delta", gc=False):
    summary_index: int = 0


class _ArgumentsDelta(_Delta, tag="response.function_call_arguments.delta", gc=False):
    pass


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None
    total_tokens: int | None = None


class _Details(msgspec.Struct):
    reason: str | None = None


_hot = msgspec.json.Decoder(_TextDelta | _ReasoningDelta | _SummaryDelta | _ArgumentsDelta).decode
_members = json.decoder(dict[str, Raw])
_word = json.decoder(str)
_number = json.decoder(int)
_items = json.decoder(list[dict[str, Raw]])
_usage = json.decoder(_Usage)
_details = json.decoder(_Details)

_SILENT: Final = frozenset(
    {"response.created", "response.in_progress", "response.queued", "ping", "keepalive"}
)
"""The gateway says these itself, or nobody needs to hear them."""
_TERMINAL: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_FAULTS: Final = (ApiError, SseTooLong, RecursionError)


class ResponsesDecoder:
    """One answer: `feed` its bytes and `end` it, or give it `whole`; see Decoder."""

    def __init__(self) -> None:
        self._sse = SseReader()
        self._out: list[RoundEvent] = []
        self._lives: list[ItemLife] = []
        self._by_place: dict[int, ItemLife] = {}
        self._over = False

    def feed(self, data: bytes) -> list[RoundEvent]:
        """Bytes of a stream, cut anywhere."""
        if not self._over:
            try:
                for name, payload in self._sse.feed(data):
                    self._payload(name, payload)
                    if self._over:
                        break
            except _FAULTS as e:
                self._failed(e)
        return self._taken()

    def end(self) -> list[RoundEvent]:
        """The stream has ended. Without a terminal event that is a failure."""
        return self._guarded(self._read_end)

    def whole(self, body: bytes) -> list[RoundEvent]:
        """An answer that came as one JSON body."""
        return self._guarded(self._read_whole, body)

    def _guarded(self, step: Callable[..., None], *args: bytes) -> list[RoundEvent]:
        if not self._over:
            try:
                step(*args)
            except _FAULTS as e:
                self._failed(e)
        return self._taken()

    def _taken(self) -> list[RoundEvent]:
        out = self._out[:]
        self._out.clear()  # the lives append to this very list
        return out

    def _failed(self, fault: Exception) -> None:
        if isinstance(fault, SseTooLong):
            fault = _broken(f"sent {fault}")
        elif isinstance(fault, RecursionError):
            fault = _broken("nested its answer too deeply")
        self._over = True
        self._close("incomplete")
        self._out.append(RoundFailed(fault))

    def _read_end(self) -> None:
        for name, payload in self._sse.finish():
            self._payload(name, payload)
            if self._over:
                return
        raise _broken("closed the stream before its answer was complete")

    def _read_whole(self, body: bytes) -> None:
        response = _object(body)
        if "output" not in response:
            raise (
                in_stream_error(None, body)
                if "error" in response
                else _broken("answered without a response")
            )
        self._terminal(_text(response.get("status")) or "completed", response)

    # --- events

    def _payload(self, name: bytes, payload: bytes) -> None:
        try:
            hot = _hot(payload)
        except (msgspec.DecodeError, RecursionError):
            self._event(name, payload)
            return
        life = self._by_place.get(hot.output_index)
        if life is None:
            raise _broken("sent an event of an item that it had not begun")
        if isinstance(hot, _TextDelta):
            life.delta("response.output_text", hot.content_index, hot.delta, hot.logprobs)
        elif isinstance(hot, _ReasoningDelta):
            life.delta("response.reasoning_text", hot.content_index, hot.delta)
        elif isinstance(hot, _SummaryDelta):
            life.delta("response.reasoning_summary_text", hot.summary_index, hot.delta)
        else:
            life.delta("response.function_call_arguments", 0, hot.delta)

    def _event(self, name: bytes, payload: bytes) -> None:
        if payload == b"[DONE]" or not payload.strip():
            return
        members = _object(payload)
        type_ = _text(members.get("type")) or name.decode(errors="replace")
        if type_ == "error" or ("error" in members and "type" not in members):
            raise in_stream_error(_error_of(members), payload)
        if type_ in _SILENT:
            return
        status = _TERMINAL.get(type_)
        if status is not None:
            self._terminal(status, _object(members.get("response", b"{}")))
        elif type_ == "response.output_item.added":
            self._added(members)
        elif type_ == "response.output_item.done":
            self._done(members)
        else:
            self._other(type_, members)

    def _added(self, members: dict[str, Raw]) -> None:
        place = _int(members.get("output_index"))
        if place is None:
            place = len(self._lives)
        earlier = self._by_place.get(place)
        if earlier is not None and not earlier.closed:
            raise _broken("began an item twice")
        self._begin(place, _open_item(members.get("item")))

    def _begin(self, place: int, item: OpenItem) -> ItemLife:
        life = ItemLife(self._out, len(self._lives), place, item)
        self._lives.append(life)
        self._by_place[place] = life
        return life

    def _done(self, members: dict[str, Raw]) -> None:
        item = _open_item(members.get("item"))
        life = self._life(members)
        if life is None or (life.closed and life.item.text("id") != item.text("id")):
            place = _int(members.get("output_index"))
            life = self._begin(len(self._lives) if place is None else place, zero_form(item))
        life.finish(item)

    def _other(self, type_: str, members: dict[str, Raw]) -> None:
        members.pop("obfuscation", None)  # the gateway's own business with its client
        if "output_index" not in members and "item_id" not in members:
            self._out.append(PassedEvent(-1, "", -1, type_, members))
            return
        life = self._life(members)
        if life is None:
            raise _broken(f"sent {type_} of an item that it had not begun")
        if not life.closed:
            life.event(type_, members)

    def _life(self, members: dict[str, Raw]) -> ItemLife | None:
        place = _int(members.get("output_index"))
        if place is not None:
            return self._by_place.get(place)
        id_ = _text(members.get("item_id"))
        return next((life for life in self._lives if id_ and life.item.text("id") == id_), None)

    # --- the end

    def _terminal(self, status: str, response: dict[str, Raw]) -> None:
        if status in ("failed", "cancelled"):
            detail = _error_of(response)
            if detail is None:
                raise _broken("cancelled its answer" if status == "cancelled" else "failed")
            raise in_stream_error(detail, b"{}")
        if status not in ("completed", "incomplete"):
            raise _broken(f"ended its answer with the status '{status}'")
        for place, members in enumerate(_list(response.get("output"))):
            item = _read_item(members)
            # By order: ids may differ between the stream and the end, indexes may have gaps.
            known = place < len(self._lives)
            life = self._lives[place] if known else self._begin(place, zero_form(item))
            if not life.closed and life.item.type == item.type:
                life.finish(item)
        self._over = True
        self._close("completed" if status == "completed" else "incomplete")
        reason = None
        if status == "incomplete":
            details = _lenient(_details, response.get("incomplete_details"))
            reason = (details.reason if details else None) or "max_output_tokens"
        extra = {
            name: raw
            for name, raw in response.items()
            if name not in MEMBERS and not json.is_null(raw)
        }
        tier = _text(response.get("service_tier")) or None
        self._out.append(RoundEnd(counted(response.get("usage")), reason, extra, tier))

    def _close(self, status: str) -> None:
        for life in self._lives:
            if not life.closed:
                life.cut(status)


def _broken(what: str) -> ApiError:
    return ApiError(502, f"The model server {what}.", code="server_error")


def _object(data: bytes | Raw) -> dict[str, Raw]:
    try:
        return _members(data)
    except (msgspec.DecodeError, RecursionError):
        raise _broken("sent an event that is not a JSON object") from None


def _open_item(raw: Raw | None) -> OpenItem:
    if raw is None:
        raise _broken("sent an event without its item")
    return _read_item(_object(raw))


def _read_item(members: dict[str, Raw]) -> OpenItem:
    type_ = _text(members.get("type"))
    if not type_:
        raise _broken("sent an item without a type")
    return OpenItem(type_, members)


def _list(raw: Raw | None) -> list[dict[str, Raw]]:
    if raw is None or json.is_null(raw):
        return []
    try:
        return _items(raw)
    except (msgspec.DecodeError, RecursionError):
        raise _broken("sent an output that is no list of items") from None


def _lenient(decode: Callable[[bytes | Raw], Any], raw: Raw | None) -> Any:
    """A member of an unknown form is not worth an answer."""
    try:
        return None if raw is None else decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(raw: Raw | None) -> str:
    return _lenient(_word, raw) or ""


def _int(raw: Raw | None) -> int | None:
    return _lenient(_number, raw)


def _error_of(members: dict[str, Raw]) -> Any:
    """The nested form, as OpenAI has it on the wire, or the flat one of its types."""
    nested = _lenient(msgspec.json.decode, members.get("error"))
    if nested is not None:
        return nested
    flat = {
        name: _lenient(msgspec.json.decode, members.get(name))
        for name in ("message", "code", "param")
    }
    return flat if flat["message"] is not None else None


def counted(raw: Raw | None) -> Usage | None:
    """A response's `usage`; None where there is none that can be read."""
    usage = _lenient(_usage, raw)
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return None
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    given = usage.input_tokens_details or _InputDetails()
    made = usage.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=read,
        cached_tokens=given.cached_tokens or 0,
        cache_write_tokens=given.cache_write_tokens or 0,
        output_tokens=written,
        reasoning_tokens=made.reasoning_tokens or 0,
        total_tokens=usage.total_tokens if usage.total_tokens is not None else read + written,
    )
