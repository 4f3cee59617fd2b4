"""A proxy between a client and a model server that writes their exchanges to a script file.

Answers pass at once and byte for byte. The file is one that `bascule mock --script` plays: each chat
exchange is a reply, in the order in which the requests came. Keys are masked in it.
"""

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from bascule.protocols.sse import SseReader, SseTooLong
from bascule.telemetry.redact import Redactor, keys_in
from bascule.upstreams.client import Timeouts, UpstreamClient, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import stream

Json = dict[str, Any]
Say = Callable[[str], None]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_SENT: Final = _HOP | {b"host", b"content-length", b"accept-encoding", b"expect"}
"""Compressed answers could not be read here."""
_SHOWN: Final = ("retry-after", "x-request-id", "request-id", "content-type")
_TIMEOUTS: Final = Timeouts(connect=10, first_byte=3600, idle=3600)


class Recording:
    """The script file, written anew after each exchange. Raises OSError if the file is there."""

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise FileExistsError(f"{path} is there already")
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent}")
        self._path = path
        self._replies: dict[int, bytes] = {}
        self._begun = 0
        self._write()

    def begin(self) -> int:
        """A chat request has come; its number."""
        self._begun += 1
        return self._begun

    def end(self, number: int, reply: Json, redactor: Redactor) -> None:
        """Raises OSError."""
        self._replies[number] = redactor.text(msgspec.json.encode(reply).decode()).encode()
        self._write()

    def _write(self) -> None:
        replies = [msgspec.Raw(self._replies[n]) for n in sorted(self._replies)]
        data = msgspec.json.format(msgspec.json.encode({"replies": replies}), indent=1)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".record-")
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
        Path(name).replace(self._path)


class RecordingProxy:
    """An ASGI application. `base_url` is the model server's; `say` is told what is not recorded."""

    def __init__(
        self, base_url: str, client: UpstreamClient, recording: Recording, say: Say
    ) -> None:
        self._base_url = base_url
        self._client = client
        self._recording = recording
        self._say = say

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._pass(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _pass(self, scope: Any, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        path: str = scope["raw_path"].decode("latin-1").partition("?")[0].removeprefix("/v1")
        chat = scope["method"] == "POST" and path == "/chat/completions"
        number = self._recording.begin() if chat else 0
        query: bytes = scope["query_string"]
        request = UpstreamRequest(
            url=f"{self._base_url}{path}{'?' if query else ''}{query.decode('latin-1')}",
            method=scope["method"],
            headers=[(n, v) for n, v in scope["headers"] if n not in _NOT_SENT],
            body=body,
            timeouts=_TIMEOUTS,
        )
        taken = _Taken()
        try:
            await self._relay(request, taken, send)
        except UpstreamFailure as failure:
            taken.cut = True
            await self._failed(failure, taken, send)
        except BaseException:
            taken.cut = True  # the client left
            raise
        finally:
            if not chat:
                self._say(f"passed on, not recorded: {scope['method']} {path}")
            elif taken.status:
                redactor = Redactor(keys_in(scope["headers"]))
                self._recording.end(number, reply_of(_decoded(body), taken), redactor)

    async def _relay(self, request: UpstreamRequest, taken: "_Taken", send: Send) -> None:
        async with stream(self._client, request) as answer:
            taken.status = answer.status
            taken.headers = {n.decode(): v.decode("latin-1") for n, v in answer.headers}
            headers = [(n, v) for n, v in answer.headers if n not in _HOP]
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            async for piece in answer:
                taken.pieces.append(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _failed(self, failure: UpstreamFailure, taken: "_Taken", send: Send) -> None:
        self._say(f"the model server failed: {failure}")
        if taken.status:
            raise failure  # the server closes the connection: the client sees a cut as we did
        body = msgspec.json.encode({"error": {"message": f"The model server failed: {failure}."}})
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 502, "headers": head})
        await send({"type": "http.response.body", "body": body})


class _Taken:
    """An answer as it came."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.cut = False

    @property
    def streams(self) -> bool:
        return "text/event-stream" in self.headers.get("content-type", "")


def reply_of(request: Any, taken: _Taken) -> Json:
    """An exchange as a reply in a script file: by its events if it is whole, else by its bytes."""
    body = b"".join(taken.pieces)
    headers = {n: taken.headers[n] for n in _SHOWN if n in taken.headers}
    exchange: Json = {"request": request, "status": taken.status, "headers": headers}
    if not taken.cut and not taken.streams:
        answer = _decoded(body)
        if isinstance(answer, dict | list):
            return {"recorded": {**exchange, "response": answer}}
        text = body.decode(errors="replace")
        kind = headers.get("content-type")
        return {"http": {"status": taken.status, "text": text, "content_type": kind}}
    if not taken.cut:
        found = _events(body)
        if found is not None:
            return {"recorded": {**exchange, **found}}
    end = "cut" if taken.cut else "eof"
    steps: list[Json] = [{"raw": body.decode(errors="replace")}, {end: True}]
    wire = {"answer": "sse", "content_type": headers.get("content-type")}
    return {"steps": steps, "wire": wire}


def _events(body: bytes) -> Json | None:
    """The events of a stream; None if there is more to it than JSON and the end mark."""
    reader = SseReader()
    try:
        payloads = reader.feed(body)
    except SseTooLong:
        return None
    if not body.endswith((b"\n\n", b"\r\n\r\n")) or any(name for name, _ in payloads):
        return None
    data = [payload for _, payload in payloads]
    done = data[-1:] == [b"[DONE]"]
    events = [_decoded(payload) for payload in (data[:-1] if done else data)]
    if not all(isinstance(event, dict) for event in events):
        return None
    return {"events": events, "done_marker": done, "comments": body.startswith(b":")}


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data.decode(errors="replace")


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
