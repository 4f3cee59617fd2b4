"""The server's own behaviour: log, gates, leaving clients, exhaustion, keep-alive, other paths."""

import asyncio

import pytest
from openai import AsyncOpenAI, InternalServerError

from bascule.testing import Delay, Gate, ModelServer, Reply, Request, Stall, silence
from tests.testing.http import Client, ask, chat_body, get

pytestmark = pytest.mark.anyio


async def test_logs_every_request_with_its_headers_and_bodies() -> None:
    async with ModelServer() as server:
        async with AsyncOpenAI(base_url=server.url, api_key="secret") as client:
            await client.models.list()
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}]
            )
        models, chat = server.requests
        assert (models.method, models.path, models.number) == ("GET", "/v1/models", 0)
        assert (chat.method, chat.path, chat.number) == ("POST", "/v1/chat/completions", 1)
        assert chat.headers["authorization"] == "Bearer secret"
        assert chat.json["messages"] == chat.messages == [{"role": "user", "content": "hi"}]
        assert chat.model == "m"
        assert chat.body.startswith(b"{")
        assert chat.time >= models.time
        assert server.chats == [chat]


async def test_keeps_connections_alive_and_answers_pipelined_requests_in_order() -> None:
    async with ModelServer(["one", "two"]) as server, Client(server) as client:
        await client.send(body=chat_body())
        await client.send(body=chat_body(stream=True))
        assert (await client.receive()).json["choices"][0]["message"]["content"] == "one"
        assert (await client.receive()).deltas[1] == {"content": "two"}
        assert server.connections == 1


async def test_closes_when_the_client_asks_for_it() -> None:
    async with ModelServer() as server, Client(server) as client:
        await client.send(body=chat_body(), headers="connection: close\r\n")
        assert (await client.receive()).status == 200
        assert await client.reader.read() == b""
        assert server.disconnected == 0


async def test_an_exhausted_script_says_so() -> None:
    async with (
        ModelServer(["only"]) as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        await client.chat.completions.create(model="m", messages=[])
        with pytest.raises(
            InternalServerError, match="exhausted: it has 1 replies, this is request 2"
        ):
            await client.chat.completions.create(model="m", messages=[])


async def test_the_last_reply_may_repeat() -> None:
    async with ModelServer(["one", "two"], then="repeat") as server:
        texts = [(await ask(server)).json["choices"][0]["message"]["content"] for _ in range(4)]
    assert texts == ["one", "two", "two", "two"]


async def test_one_reply_answers_every_request() -> None:
    async with ModelServer(Reply("same")) as server:
        for _ in range(3):
            assert (await ask(server)).json["choices"][0]["message"]["content"] == "same"


async def test_a_rule_sees_the_request() -> None:
    def rule(request: Request) -> str:
        return f"{request.number} {request.model} {request.stream}"

    async with ModelServer(rule) as server:
        assert (await ask(server)).json["choices"][0]["message"]["content"] == "1 m False"
        assert (await ask(server, stream=True)).deltas[1]["content"] == "2 m True"


async def test_a_rule_that_raises_is_a_500_that_tells() -> None:
    def rule(request: Request) -> str:
        raise LookupError("no such case")

    async with ModelServer(rule) as server:
        answer = await ask(server)
    assert answer.status == 500
    assert answer.json["error"]["code"] == "script_failed"
    assert "no such case" in answer.json["error"]["message"]


async def test_a_gate_holds_the_answer_until_it_is_opened() -> None:
    async with ModelServer(Reply("a", Gate("go"), "b")) as server, Client(server) as client:
        await client.send(body=chat_body(stream=True))
        await server.reached("go")
        head = await client.reader.readuntil(b'{"content":"a"}')
        assert b"200 OK" in head
        assert server.answered == 0
        server.open("go")
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert b'{"content":"b"}' in rest
        await server.wait_answered(1)
        assert (await client.chat(stream=True)).done


async def test_waiting_has_a_bound_and_says_for_what() -> None:
    async with ModelServer() as server:
        with pytest.raises(TimeoutError, match=r"0\.01 s in vain for gate 'x'"):
            await server.reached("x", seconds=0.01)
        with pytest.raises(TimeoutError, match="2 chat requests"):
            await server.wait_requests(2, seconds=0.01)


async def test_a_client_that_leaves_is_noticed() -> None:
    async with ModelServer([Reply("a", Gate("never")), silence(), "whole"]) as server:
        for count in (1, 2):
            client = Client(server)
            await client.__aenter__()
            await client.send(body=chat_body(stream=True))
            await server.wait_requests(count)
            await client.close()
            await server.wait_disconnected(count)
        await ask(server)
        assert server.disconnected == 2
        assert server.answered == 1


async def test_a_delay_delays() -> None:
    async with ModelServer(Reply(Delay(0.05), "late")) as server:
        clock = asyncio.get_running_loop().time
        start = clock()
        await ask(server)
        assert clock() - start >= 0.05


async def test_stopping_ends_answers_under_way() -> None:
    server = ModelServer(Reply("a", Stall()))
    await server.start()
    async with Client(server) as client:
        await client.send(body=chat_body(stream=True))
        await client.reader.readuntil(b'{"content":"a"}')
        await server.stop()
        async with asyncio.timeout(5):
            assert b"[DONE]" not in await client.reader.read()
    assert server.disconnected == 0


async def test_health_version_and_models() -> None:
    async with ModelServer(models=["a", "b"]) as server:
        assert (await get(server, "/health")).json == {"status": "ok"}
        assert (await get(server, "/v1/health?x=1")).status == 200
        assert "version" in (await get(server, "/version")).json
        assert [card["id"] for card in (await get(server, "/v1/models")).json["data"]] == ["a", "b"]
        assert (await get(server, "/v1/nothing")).status == 404
        async with Client(server) as client:
            await client.send("HEAD", "/health")
            assert (await client.receive(head_only=True)).status == 200
            await client.send("GET", "/health")
            assert (await client.receive()).json == {"status": "ok"}
        assert (await get(server, "/v1/chat/completions")).status == 404


async def test_a_body_that_is_not_json_is_a_400() -> None:
    async with ModelServer() as server, Client(server) as client:
        for body in (b"{", b"[]"):
            await client.send(body=body)
            assert (await client.receive()).status == 400


@pytest.mark.parametrize("garbage", [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_what_is_not_http_is_refused(garbage: bytes) -> None:
    async with ModelServer() as server, Client(server) as client:
        client.writer.write(garbage)
        assert (await client.receive()).status == 400
        assert await client.reader.read() == b""


async def test_expect_continue_is_honoured() -> None:
    async with ModelServer() as server, Client(server) as client:
        body = chat_body()
        client.writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        assert (await client.receive(head_only=True)).status == 100
        client.writer.write(body)
        assert (await client.receive()).status == 200


async def test_the_server_on_ipv6_has_a_usable_url() -> None:
    server = ModelServer(host="::1", port=7)
    assert server.url == "http://[::1]:7/v1"
