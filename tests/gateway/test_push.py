"""The seam to the server: what the writers rely on in uvicorn, and the same answers without it."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bascule.config import convert
from bascule.gateway.push import EXTENSION, PushProtocol, PushWriter, SendWriter, writer_for
from bascule.gateway.serve import build, make_client
from bascule.testing import Eof, Gate, ModelServer, Reply, Text
from bascule.upstreams.http1 import Http1Client
from tests.gateway.leaks import nothing_left, until
from tests.gateway.raw import Client, connected, request
from tests.serving import Api
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

KB = b"x" * 1024


@asynccontextmanager
async def running(app: Any, http: type[Any] | str) -> AsyncGenerator[str]:
    """An ASGI application under uvicorn; gives its URL."""
    config = uvicorn.Config(
        app, port=0, http=http, ws="none", lifespan="off", access_log=False, log_config=None
    )  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    try:
        await until(lambda: server.started or task.done(), "the server to start")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def _read_request(receive: Any) -> None:
    while (await receive()).get("more_body"):
        pass


# --- PushProtocol and PushWriter


async def test_the_protocol_offers_each_requests_cycle() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        writer = writer_for(scope, send)
        seen.append(writer)
        writer.respond(200, [(b"x", b"y")], b"hello")

    async with running(app, PushProtocol) as url, connected(url) as client:
        for _ in range(2):
            client.write(request())
            status, headers, body = await client.answer()
            assert (status, body, headers["x"], headers["content-length"]) == (
                200,
                b"hello",
                "y",
                "5",
            )
    assert [type(writer) for writer in seen] == [PushWriter, PushWriter]


async def test_each_write_is_one_chunk_and_the_end_ends_the_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        writer = writer_for(scope, send)
        writer.start(200, [])
        writer.write(b"one")
        writer.write(KB)
        writer.finish()
        await writer.drained()

    async with running(app, PushProtocol) as url, connected(url) as client:
        for _ in range(2):  # the connection stays usable
            client.write(request())
            status, headers = await client.head()
            assert (status, headers["transfer-encoding"]) == (200, "chunked")
            assert [await client.chunk() for _ in range(3)] == [b"one", KB, b""]


async def test_a_full_transport_pauses_and_a_drained_one_resumes() -> None:
    calls: list[str] = []
    paused, resumed = asyncio.Event(), asyncio.Event()

    def note(name: str, event: asyncio.Event) -> None:
        calls.append(name)
        event.set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        writer = writer_for(scope, send)
        writer.on_pause = lambda: note("pause", paused)
        writer.on_resume = lambda: note("resume", resumed)
        writer.start(200, [])
        while not paused.is_set():
            writer.write(KB * 64)
        await resumed.wait()
        writer.write(b"last")
        writer.finish()
        await writer.drained()

    async with running(app, PushProtocol) as url, connected(url, limit=1 << 16) as client:
        transport: Any = client.writer.transport
        transport.pause_reading()
        client.write(request())
        await asyncio.wait_for(paused.wait(), 5)
        transport.resume_reading()
        _, _, body = await client.answer()
    assert body.endswith(b"last")
    assert calls == ["pause", "resume"]


async def test_the_head_comes_first_also_when_the_answer_before_is_still_unread() -> None:
    big = KB * 1024 * 16
    second = asyncio.Event()
    paused: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        writer = writer_for(scope, send)
        if scope["path"] == "/first":
            writer.respond(200, [], big)
            return
        paused.append(scope["extensions"][EXTENSION]().flow.write_paused)
        writer.start(200, [])
        writer.write(b"one")
        writer.write(b"two")
        second.set()
        writer.finish()
        await writer.drained()

    async with running(app, PushProtocol) as url, connected(url, limit=1 << 16) as client:
        transport: Any = client.writer.transport
        transport.pause_reading()
        client.write(request(path="/first") + request(path="/second"))
        await asyncio.wait_for(second.wait(), 5)
        transport.resume_reading()
        assert (await client.answer())[2] == big
        assert (await client.answer())[2] == b"onetwo"
    assert paused == [True]


async def test_nothing_refers_to_a_writer_or_a_cycle_once_the_answer_is_over() -> None:
    writers: list[weakref.ref[Any]] = []
    cycles: list[weakref.ref[Any]] = []
    listeners: list[Any] = []
    flows: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        cycle = scope["extensions"][EXTENSION]()
        cycles.append(weakref.ref(cycle))
        flows.append(cycle.flow)
        writer = writer_for(scope, send)
        writers.append(weakref.ref(writer))

        async def turn() -> None:
            writer.start(200, [])
            writer.write(b"x")
            listeners.append(cycle.flow.listener is writer)
            writer.finish()

        await writer.write_by(turn(), receive)

    gc.collect()
    gc.disable()
    try:
        async with running(app, PushProtocol) as url:
            async with connected(url) as client:
                client.write(request())
                await client.answer()
                await until(lambda: writers[0]() is None, "the writer to go")
                assert listeners == [True]
                assert flows[0].listener is None
            await until(lambda: cycles[0]() is None, "the cycle to go")
    finally:
        gc.enable()


async def test_a_lost_connection_cancels_the_turn_and_leaves_nothing() -> None:
    ended: list[str] = []
    started = asyncio.Event()
    writers: list[weakref.ref[Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _read_request(receive)
        writer = writer_for(scope, send)
        writers.append(weakref.ref(writer))

        async def turn() -> None:
            writer.start(200, [])
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        await writer.write_by(turn(), receive)
        ended.append("returned")

    for pipelined in (b"", request()):
        ended.clear()
        started.clear()
        async with running(app, PushProtocol) as url:
            async with connected(url) as client:
                client.write(request() + pipelined)
                await asyncio.wait_for(started.wait(), 5)
                await asyncio.sleep(0)
            await until(lambda: "returned" in ended, "the turn to be cancelled")
            await until(lambda: writers[-1]() is None, "the writer to go")
        assert ended == ["cancelled", "returned"]


# --- SendWriter


class BlockingSend:
    """An ASGI `send` that waits for a permit where `blocks` says so."""

    def __init__(self, blocks: Callable[[int], bool]) -> None:
        self._blocks = blocks
        self.begun = 0
        self.sent: list[Any] = []
        self.permit = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        self.begun += 1
        if self._blocks(self.begun):
            await self.permit.wait()
        self.sent.append(message.get("body", message["type"]))


async def test_a_send_that_never_waits_is_done_at_once() -> None:
    send = BlockingSend(lambda _: False)
    writer = SendWriter(send)
    writer.start(200, [])
    writer.write(b"a")
    writer.finish()
    assert send.sent == ["http.response.start", b"a", b""]
    await writer.drained()


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
async def test_messages_keep_their_order_behind_a_send_that_waits(at: int) -> None:
    calls: list[str] = []
    send = BlockingSend(lambda n: n == at)
    writer = SendWriter(send)
    writer.on_pause = lambda: calls.append("pause")
    writer.on_resume = lambda: calls.append("resume")
    writer.start(200, [])
    for part in (b"a", b"b", b"c"):
        writer.write(part)
    writer.finish()
    assert len(send.sent) == at - 1
    assert calls == ["pause"]
    send.permit.set()
    await writer.drained()
    assert send.sent == ["http.response.start", b"a", b"b", b"c", b""]
    assert calls == ["pause", "resume"]


async def test_a_send_that_waits_again_and_again() -> None:
    async def send(message: Any) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        sent.append(message.get("body"))

    sent: list[Any] = []
    writer = SendWriter(send)
    writer.start(200, [])
    for n in range(20):
        writer.write(b"%d" % n)
        if n % 7 == 0:
            await asyncio.sleep(0)
    writer.finish()
    await writer.drained()
    assert sent[1:-1] == [b"%d" % n for n in range(20)]


# --- the whole gateway under other protocols


@asynccontextmanager
async def gateway(upstream: str, http: Any) -> AsyncGenerator[Api]:
    tree = {
        "state": {"url": "sqlite://"},
        "upstreams": [{"name": "mock", "base_url": upstream, "profile": "openai"}],
    }
    built = await build(convert(tree, {}), make_client())
    client = Http1Client()
    try:
        async with running(built, http) as url:
            yield Api(url, built, client)
            await client.aclose()
    finally:
        await built._close()


PROTOCOLS = [PushProtocol, HttpToolsProtocol, H11Protocol]


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_the_gateway_answers_the_same_under_every_protocol(http: Any) -> None:
    reply = Reply(Text("Hello there", chunks=5))
    async with ModelServer(reply) as model, gateway(model.url, http) as api:
        streamed = await api.create(stream=True)
        whole = await api.create()
        refused = await api.create(temperature=9)
        unknown = await api.send("GET", "/nowhere")
        await nothing_left(api)
    check_stream(streamed.frames)
    assert streamed.response["output"][0]["content"] == whole.json["output"][0]["content"]
    assert (refused.status, refused.error["param"]) == (400, "temperature")
    assert (unknown.status, unknown.error["code"]) == (404, "unknown_url")


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_failure_is_told_under_every_protocol(http: Any) -> None:
    async with ModelServer(Reply("Once", Eof())) as model, gateway(model.url, http) as api:
        answer = await api.create(stream=True)
        await nothing_left(api)
    check_stream(answer.frames)
    assert answer.types[-2:] == ["error", "failed"]


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_client_that_leaves_is_noticed_under_every_protocol(http: Any) -> None:
    async with (
        ModelServer(Reply("Once", Gate("never"))) as model,
        gateway(model.url, http) as api,
    ):
        async with api.open() as pieces:
            await anext(pieces)
        await model.wait_disconnected()
        await nothing_left(api)


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_client_that_does_not_read_pauses_the_model_under_every_protocol(http: Any) -> None:
    words = [f"{n:07d} " for n in range(40_000)]
    async with ModelServer(Reply(Text(words))) as model, gateway(model.url, http) as api:
        async with connected(api.url, limit=1 << 16) as client:
            await _unread(client, api)
            transport: Any = client.writer.transport
            transport.resume_reading()
            body = (await client.answer())[2]
        await nothing_left(api)
    assert body.count(b'"type":"response.output_text.delta"') == len(words)
    assert b"response.completed" in body


async def _unread(client: Client, api: Api) -> None:
    client.write(request(body={"stream": True, "store": False}))
    transport: Any = client.writer.transport
    transport.pause_reading()
    retrying: Any = next(iter(api.gateway.router.upstreams.values())).client
    await until(
        lambda: any(c.exchange and c.exchange.paused for c in retrying.client._open),
        "the model server's connection to be paused",
    )
