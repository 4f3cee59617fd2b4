"""The scripted model server."""

import asyncio
from types import TracebackType
from typing import Literal, Self

from bascule.testing.answer import Answer, HttpAnswer, Verbatim, http_error, http_json
from bascule.testing.connection import Connection
from bascule.testing.dialect import PLAIN, Dialect
from bascule.testing.render import Rendered, render, render_http
from bascule.testing.request import Request
from bascule.testing.script import Player, Script
from bascule.testing.steps import Cut, Delay, Eof, Gate, Json, Stall
from bascule.testing.stream import Occasion
from bascule.testing.watch import Watch

CREATED = 1_750_000_000
_LOADING = http_error(503, "Loading model", kind="unavailable_error", code=503)


class ModelServer:
    """Speaks Chat Completions on a loopback port and answers by a script.

    On `/v1/responses` it plays the same script: `responded` and `recorded` make answers for it.

    Use it as an async context manager, or `start` and `stop` it. It logs every request. With
    `unknown_model="refused"` a model that is not among `models` gets a 404. `health_failures` is how many
    times `/health` answers 503 before the server is up; until then chat requests get a 503 too.
    """

    def __init__(
        self,
        script: Script = "Hello!",
        *,
        then: Literal["fail", "repeat"] = "fail",
        dialect: Dialect = PLAIN,
        models: list[str] | None = None,
        unknown_model: Literal["served", "refused"] = "served",
        health_failures: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._player = Player(script, then)
        self._dialect = dialect
        self._models = models or ["mock-model"]
        self._unknown_model = unknown_model
        self._health_failures = health_failures
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._watch = Watch()
        self._opened: set[str] = set()
        self._at_gate: dict[str, int] = {}
        self._live: set[Connection] = set()
        self.requests: list[Request] = []
        """Every request, in order of arrival."""
        self.disconnected = 0
        """How many clients have left while their answer was under way."""
        self.connections = 0
        """How many connections have been accepted so far."""
        self.answered = 0
        """How many answers have been sent to their end, cuts included."""

    # --- life

    async def start(self) -> None:
        """Listen. The port is known afterwards."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections, those of answers under way included, and the port."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._live):
            await connection.stopped()
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        return self._port

    @property
    def origin(self) -> str:
        """`http://HOST:PORT`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def url(self) -> str:
        """The base URL for clients, with `/v1`."""
        return f"{self.origin}/v1"

    # --- what tests look at and wait for

    @property
    def chats(self) -> list[Request]:
        """The requests among `requests` that the script answered."""
        return [request for request in self.requests if request.number]

    def open(self, gate: str) -> None:
        """Let all pass that wait at this gate, and all that come to it later."""
        self._opened.add(gate)
        self._watch.changed()

    async def reached(self, gate: str, seconds: float = 5) -> None:
        """Wait until an answer has come to this gate. Raises `TimeoutError`."""
        await self._watch.until(lambda: gate in self._at_gate, f"gate {gate!r}", seconds)

    async def wait_requests(self, count: int = 1, seconds: float = 5) -> None:
        """Wait until so many chat requests have come in all. Raises `TimeoutError`."""
        await self._watch.until(lambda: len(self.chats) >= count, f"{count} chat requests", seconds)

    async def wait_disconnected(self, count: int = 1, seconds: float = 5) -> None:
        """Wait until so many clients in all have left their answer. Raises `TimeoutError`."""
        await self._watch.until(
            lambda: self.disconnected >= count, f"{count} clients to leave", seconds
        )

    async def wait_answered(self, count: int = 1, seconds: float = 5) -> None:
        """Wait until so many answers have been sent in all. Raises `TimeoutError`."""
        await self._watch.until(lambda: self.answered >= count, f"{count} answers", seconds)

    # --- requests

    def _accept(self) -> Connection:
        connection = Connection(self._respond, self._client_left, self._live.discard)
        self._live.add(connection)
        self.connections += 1
        return connection

    def _client_left(self) -> None:
        self.disconnected += 1
        self._watch.changed()

    async def _respond(self, request: Request, connection: Connection) -> None:
        if _is_chat(request):
            request.number = len(self.chats) + 1
        self.requests.append(request)
        self._watch.changed()
        answer = self._chat(request) if request.number else self._other(request)
        if isinstance(answer, Verbatim):
            await self._verbatim(answer, connection)
        else:
            rendered = self._rendered(answer, request)
            if request.method == "HEAD":
                rendered.ops.clear()
            await self._play(rendered, connection)
        self.answered += 1
        self._watch.changed()

    def _chat(self, request: Request) -> Answer:
        if self._health_failures > 0:
            return _LOADING
        try:
            model = request.model
        except ValueError as error:
            return http_error(400, f"the body is not a JSON object: {error}", code=400)
        if self._unknown_model == "refused" and model not in self._models:
            message = f"The model `{model}` does not exist."
            return http_error(404, message, kind="NotFoundError", param="model", code=404)
        return self._player.next(request)

    def _rendered(self, answer: Answer, request: Request) -> Rendered:
        if isinstance(answer, HttpAnswer):
            return render_http(answer)
        assert not isinstance(answer, Verbatim)  # noqa: S101 -- for the type checker
        options: Json = request.json.get("stream_options") or {}
        occasion = Occasion(
            number=request.number,
            model=request.model,
            stream=request.stream,
            include_usage=options.get("include_usage") is True,
            created=CREATED,
        )
        return render(answer, self._dialect, occasion)

    def _other(self, request: Request) -> HttpAnswer:
        path = request.path.removeprefix("/v1")
        if request.method not in ("GET", "HEAD"):
            return http_error(404 if path != "/models" else 405, f"No {request.method} {path} here")
        match path:
            case "/health":
                return self._health()
            case "/version":
                return http_json(200, {"version": "0.0.0-mock"})
            case "/models":
                cards = [
                    {"id": name, "object": "model", "created": CREATED, "owned_by": "bascule"}
                    for name in self._models
                ]
                return http_json(200, {"object": "list", "data": cards})
            case _:
                return http_error(404, f"No {path} here", kind="not_found_error")

    def _health(self) -> HttpAnswer:
        if self._health_failures > 0:
            self._health_failures -= 1
            return _LOADING
        return http_json(200, {"status": "ok"})

    # --- answers

    async def _verbatim(self, answer: Verbatim, connection: Connection) -> None:
        if answer.data:
            connection.write(answer.data)
        if answer.then == "hang":
            await asyncio.Event().wait()
        connection.close()

    async def _play(self, rendered: Rendered, connection: Connection) -> None:
        head = rendered.head
        if not rendered.hold_head:
            connection.write(head)
            head = b""
        for op in rendered.ops:
            await connection.drained()
            match op:
                case bytes():
                    connection.write(head + (_chunk(op) if rendered.chunked else op))
                    head = b""
                case Delay():
                    await asyncio.sleep(op.seconds)
                case Gate():
                    await self._pass(op.name)
                case Stall():
                    await asyncio.Event().wait()
                case Cut():
                    await self._cut(op, connection, rendered.chunked)
                    return
                case Eof():
                    break
        # No pause after the last bytes: a client that leaves on seeing them has not left too early.
        if rendered.chunked:
            await connection.drained()
        connection.write(head + (b"0\r\n\r\n" if rendered.chunked else b""))
        if rendered.close:
            connection.close()

    async def _pass(self, gate: str) -> None:
        self._at_gate[gate] = self._at_gate.get(gate, 0) + 1
        self._watch.changed()
        while gate not in self._opened:
            await self._watch.change()

    async def _cut(self, cut: Cut, connection: Connection, chunked: bool) -> None:
        if cut.mid_chunk and chunked:
            connection.write(b"40\r\ndata: ")
        await connection.drained()
        if cut.reset:
            connection.reset()
        else:
            connection.close()


def _is_chat(request: Request) -> bool:
    path = request.path.removeprefix("/v1")
    return request.method == "POST" and path in ("/chat/completions", "/responses")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
