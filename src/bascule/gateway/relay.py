"""The relay: bytes untouched both ways, where client and server speak the same protocol and nothing
in the request is the gateway's business."""

import asyncio
import re
from typing import Final

import msgspec
from msgspec import Raw

from bascule.engine.engine import Engine
from bascule.engine.inference import failure_error, http_fault
from bascule.gateway.push import HeaderList, SendWriter
from bascule.gateway.sinks import error_answer
from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.protocols.ids import is_minted
from bascule.protocols.responses import door
from bascule.protocols.responses.decoder import counted
from bascule.protocols.responses.encoder import is_understood
from bascule.protocols.responses.events import ErrorEvent
from bascule.protocols.responses.items import Item, Reasoning
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import Usage
from bascule.protocols.sse import SseReader
from bascule.telemetry.observe import RoundObserver, TurnObserver, TurnStatus
from bascule.toolkit.names import Ledger
from bascule.toolkit.prepare import plan_tools
from bascule.upstreams.client import Headers, UpstreamFailure, UpstreamRequest
from bascule.upstreams.target import Target

_FORWARDED: Final = re.compile(rb"(?:anthropic|openai)-[\w-]+|accept|user-agent")
_NOT_BACK: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"content-length", b"set-cookie", b"date", b"server", b"x-request-id"),
    }
)
_MAX_ERROR_BODY: Final = 1024 * 1024
_MAX_BODY: Final = 256 * 1024 * 1024
_TERMINAL: Final = (
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
    b"response.cancelled",
)
_OF_THE_FAMILY: Final = (b'"namespace"', b'"caller"')
"""Members of calls that only servers of the tool_search family know."""
_Members = dict[str, Raw]
_members = json.decoder(_Members)
_NUMBER: Final = re.compile(rb'"sequence_number":\s*(\d+)')


async def may_relay(engine: Engine, request: TurnRequest, target: Target) -> bool:
    """Whether the request is between the client and the server alone: no state, no alias, no tool
    or item of the gateway's, no flag that asks for a change.

    Raises ApiError 400 for tools that are wrong.
    """
    if target.protocol.name != "responses" or request.store or request.model != target.model:
        return False
    if request.previous_response_id is not None or request.conversation is not None:
        return False
    if not is_understood(request, target.flags):
        return False
    if not all(_is_foreign(engine, target, item) for item in request.input):
        return False
    plan = await plan_tools(
        bytes(request.raw.get("tools", b"")),
        request.tools,
        handlers=engine.handlers,
        names=Ledger(),
        limits=engine.settings.tool_limits,
        cache=engine.plans,
        surface=target.surface,
    )
    return plan is not None and plan.is_verbatim


def _is_foreign(engine: Engine, target: Target, item: Item) -> bool:
    """Whether an item is none of ours, and one that the server takes as it is."""
    if item.type == "item_reference" or (item.id is not None and is_minted(item.id)):
        return False
    if item.type == "reasoning":
        blob = item.view(Reasoning).encrypted_content
        return blob is None or not engine.sealer.is_sealed(blob)
    if not target.surface.family and any(name in item.raw for name in _OF_THE_FAMILY):
        return False
    return engine.handlers.passes(target.surface, item.type)


class Relay:
    """Receives one exchange and writes what comes. An error keeps its status and its headers."""

    def __init__(
        self, target: Target, writer: SendWriter, headers: HeaderList, observed: TurnObserver
    ) -> None:
        self._target = target
        self._writer = writer
        self._headers = headers
        self._observed = observed
        self._round: RoundObserver | None = None
        self._status = 0
        self._back: HeaderList = []
        self._whole: list[bytes] | None = []
        self._size = 0
        self._fault = ""
        self._tail = b""
        self._told: list[bytes] = []
        """Pieces with the response as it began, and with finished items."""
        self._last = b""
        self._terminal: _Members | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, body: bytes, client_headers: Headers) -> None:
        """To the answer's end; a cancellation drops the server's connection."""
        target = self._target
        forwarded = [(n, v) for n, v in client_headers if _FORWARDED.fullmatch(n)]
        observed = self._round = self._observed.round(target.url, target.headers, body)
        request = UpstreamRequest(
            url=target.url,
            headers=[*target.headers, *forwarded, *observed.propagated],
            body=body,
            timeouts=target.timeouts,
        )
        exchange = target.client.send(request, self)
        self._writer.on_pause = exchange.pause
        self._writer.on_resume = exchange.resume
        try:
            await self._done
        finally:
            observed.end(None, "cancelled")  # unless it has ended
            self.leave()
            exchange.drop()

    def leave(self) -> None:
        """Nothing more is written."""
        self._writer.on_pause = self._writer.on_resume = None

    # --- the receiver

    def head(self, status: int, headers: Headers) -> None:
        self._status = status
        if self._round is not None:
            self._round.head(status, headers)
        self._back = [(name, value) for name, value in headers if name not in _NOT_BACK]
        kind = b"".join(value for name, value in headers if name == b"content-type")
        if status == 200 and b"text/event-stream" in kind:
            self._whole = None
            known = {name for name, _ in self._back}
            more = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
            self._back += [(name, value) for name, value in more if name not in known]
            self._writer.start(status, [*self._headers, *self._back])

    def data(self, data: bytes) -> None:
        if self._round is not None and self._round.file is not None:
            self._round.file.data(data)
        if self._whole is not None:
            self._keep(data)
            return
        if self._tail:
            data, self._tail = self._tail + data, b""
        if data[-2:] != b"\n\n":
            # An event that is not whole yet waits: if the server breaks off, nobody reads half of it.
            data, self._tail = _whole_events(data)
            if not data:
                return
        self._writer.write(data)
        if not self._last:
            self._told.append(data)
            if self._round is not None:
                self._round.first()
        elif b"response.output_item.done" in data:
            self._told.append(data)
        self._last = data
        if self._terminal is None and any(name in data for name in _TERMINAL):
            self._terminal = _terminal_of(data)

    def end(self) -> None:
        if self._whole is not None:
            self._respond(b"".join(self._whole))
            return
        if (last := _terminal_of(self._tail)) is not None:
            self._writer.write(self._tail)  # a last event without its blank line
            self._terminal = last
        if self._terminal is not None:
            self._finish()
        else:
            self._broke_off("The model server closed the stream before its answer was complete.")

    def fail(self, failure: UpstreamFailure) -> None:
        error = failure_error(failure)
        self._fault = failure.kind
        if failure.kind == "receiver":
            self._settle(failure.__cause__ or failure)
        elif self._whole is not None:
            self._refuse(error)
        elif self._terminal is not None:
            self._finish()
        else:
            self._broke_off(error.message)

    # --- the end

    def _keep(self, data: bytes) -> None:
        whole = self._whole
        if whole is None or self._done.done():
            return
        self._size += len(data)
        if self._size > (_MAX_BODY if self._status == 200 else _MAX_ERROR_BODY):
            self._refuse(ApiError(502, "The model server's answer is too large."))
            return
        whole.append(data)

    def _refuse(self, error: ApiError) -> None:
        error.message = self._target.masked(error.message)
        error_answer(self._writer, error, self._headers)
        self._note("refused", None, error)
        self._settle()

    def _respond(self, body: bytes) -> None:
        if self._done.done():
            return
        if self._status != 200:
            # Some servers repeat in their errors the key that they were given.
            body = self._target.masked(body.decode("latin-1")).encode("latin-1")
            self._fault = http_fault(self._status)
            self._note("refused", None, ApiError(self._status, ""))
        else:
            self._said(_members_or_none(body))
        self._writer.respond(self._status, [*self._headers, *self._back], body)
        self._settle()

    def _broke_off(self, message: str) -> None:
        """The protocol's error and terminal event, and nothing else."""
        error = ApiError(502, self._target.masked(message), code="server_error")
        numbers = _NUMBER.findall(self._last)
        number = int(numbers[-1]) + 1 if numbers else 0
        said = next((e for e in _events(self._last) if _type_of(e) == b"error"), None)
        if said is None:
            self._writer.write(door.encode([ErrorEvent(number, door.error_body(error))]))
            number += 1
        event = {
            "type": "response.failed",
            "response": Raw(self._failed_response(error)),
            "sequence_number": number,
        }
        self._writer.write(b"event: response.failed\ndata: %b\n\n" % json.encode(event))
        self._fault = self._fault or "stream"
        self._note("failed", None, error)
        self._finish()

    def _failed_response(self, error: ApiError) -> bytes:
        """The server's own response as it began, with the items that it finished."""
        events = [event for data in self._told for event in _events(data)]
        begun = next((e["response"] for e in events if "response" in e), Raw(b"{}"))
        items = [e["item"] for e in events if _type_of(e) == b"response.output_item.done"]
        failed = {"code": error.code, "message": error.message}
        return json.merge(begun, status="failed", error=failed, output=items)

    def _finish(self) -> None:
        if self._terminal is not None:
            self._said(_members_or_none(self._terminal.get("response", b"{}")))
        self._writer.finish()
        self._settle()

    def _said(self, response: _Members) -> None:
        """What the server's response says of itself."""
        status = bytes(response.get("status", b"")).strip(b'"').decode()
        usage = counted(response.get("usage"))
        if status == "incomplete":
            self._note("incomplete", usage)
        elif status in ("failed", "cancelled"):
            self._fault = "stream"
            self._note("failed", usage, ApiError(502, ""))
        else:
            self._note("completed", usage)

    def _note(self, status: TurnStatus, usage: Usage | None, error: ApiError | None = None) -> None:
        if self._round is not None:
            self._round.end(usage, self._fault or None)
        self._observed.end(status, usage, None if error is None else error.code or error.type)

    def _settle(self, error: BaseException | None = None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


def _whole_events(data: bytes) -> tuple[bytes, bytes]:
    """The events that are complete, and the rest."""
    end = data.rfind(b"\n\n") + 2
    if b"\r" in data:
        end = max(end, data.rfind(b"\r\n\r\n") + 4, data.rfind(b"\r\r") + 2)
        return (b"", data) if end < 4 else (data[:end], data[end:])
    return (b"", data) if end < 2 else (data[:end], data[end:])


def _members_or_none(data: bytes | Raw) -> _Members:
    try:
        return _members(data)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _terminal_of(data: bytes) -> _Members | None:
    # It is among the last of a piece, nearly always: the others need not be read for it.
    last = b"\n\n".join(data.rsplit(b"\n\n", 3)[1:])
    for part in (last, data):
        for event in _events(part):
            if _type_of(event) in _TERMINAL:
                return event
    return None


def _events(data: bytes) -> list[_Members]:
    """The events in a piece of a stream; what is no JSON object is left out."""
    reader = SseReader()
    found: list[_Members] = []
    for _, payload in [*reader.feed(data), *reader.finish()]:
        try:
            found.append(_members(payload))
        except (msgspec.DecodeError, RecursionError):
            continue
    return found


def _type_of(event: _Members) -> bytes:
    return bytes(event.get("type", b"")).strip(b'"')
