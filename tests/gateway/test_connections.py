"""Connections that carry several requests, in every order that HTTP/1.1 allows."""

import asyncio

import msgspec
import pytest

from bascule.testing import Data, Finish, Gate, ModelServer, Reply
from tests.gateway.leaks import nothing_left
from tests.gateway.raw import connected, request
from tests.serving import serving

pytestmark = pytest.mark.anyio


async def test_one_connection_serves_answers_of_every_kind() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api, connected(api.url) as client:
        for _ in range(3):
            for body, status in (
                ({"stream": True}, 200),
                ({}, 200),
                ({"temperature": 9}, 400),
                ({"stream": True, "tools": 5}, 400),
            ):
                client.write(request(body=body))
                assert (await client.answer())[0] == status
            client.write(request("GET", "/health"))
            assert (await client.answer())[0] == 200
        assert len(model.chats) == 6
        await nothing_left(api)
        assert model.connections == 1


async def test_an_answer_that_is_complete_does_not_wait_for_the_end_of_its_body() -> None:
    reply = Reply("Hi", Finish(), Data("[DONE]"), Gate("never"))
    async with ModelServer(reply) as model, serving(model.url) as api:
        assert (await api.create(stream=True)).response["status"] == "completed"
        await model.wait_disconnected()
        await nothing_left(api)


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with (
        ModelServer([Reply("one", Gate("one")), Reply("two"), Reply("three")]) as model,
        serving(model.url) as api,
        connected(api.url) as client,
    ):
        client.write(
            request(body={"stream": True})
            + request("GET", "/health")
            + request(body={})
            + request("GET", "/nowhere")
            + request(body={"stream": True})
        )
        await model.reached("one")
        model.open("one")
        answers = [await client.answer() for _ in range(5)]
        assert [status for status, _, _ in answers] == [200, 200, 200, 404, 200]
        assert b"one" in answers[0][2]
        assert answers[0][2].endswith(b"\n\n")
        assert b"two" in answers[2][2]
        assert b"three" in answers[4][2]
        await nothing_left(api)


async def test_a_client_that_leaves_with_requests_in_the_pipeline_stops_the_first() -> None:
    async with ModelServer(Reply("one", Gate("never"))) as model, serving(model.url) as api:
        async with connected(api.url) as client:
            client.write(request(body={"stream": True}) + request(body={}))
            await model.reached("never")
        await model.wait_disconnected(seconds=1)
        await nothing_left(api)
        assert len(model.chats) == 1


async def test_expect_continue() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api, connected(api.url) as client:
        whole = request(body={}, headers={"expect": "100-continue"})
        head, blank, body = whole.partition(b"\r\n\r\n")
        client.write(head + blank)
        async with asyncio.timeout(5):
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.write(body)
        assert (await client.answer())[0] == 200


async def test_connection_close_is_honoured() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for body, status in (({"stream": True}, 200), ({}, 200), ({"temperature": 9}, 400)):
            async with connected(api.url) as client:
                client.write(request(body=body, headers={"connection": "close"}))
                assert (await client.answer())[0] == status
                assert await client.closed() == b""


async def test_a_chunked_request_cut_at_every_byte() -> None:
    body = msgspec.json.encode({"model": "mock-model", "input": "Hé"})
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    async with ModelServer("Hi") as model, serving(model.url) as api, connected(api.url) as client:
        for byte in head + chunks:
            client.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[0] == 200
        assert model.chats[0].json["messages"][0]["content"] == "Hé"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_the_gateway_goes_on(data: bytes) -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        async with connected(api.url) as client:
            client.write(data)
            said = await client.closed()
            assert said.startswith(b"HTTP/1.1 400 ")
            assert b'{"error":{"type":"invalid_request_error"' in said
        await nothing_left(api)
        assert (await api.create()).status == 200


async def test_a_websocket_that_is_not_served_gets_an_answer() -> None:
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
    async with ModelServer("Hi") as model, serving(model.url) as api, connected(api.url) as client:
        client.write(request("GET", "/v1/responses", headers=headers))
        status, _, body = await client.answer()
        assert status == 405
        assert msgspec.json.decode(body)["error"]["message"]
