"""Clients that leave, clients that do not read, and many at once."""

import asyncio
import time
from typing import Any

import pytest

from bascule.state.store import Commit
from bascule.testing import Call, Gate, ModelServer, Reply, Text, http_error, silence
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.gateway.leaks import commits_of, nothing_left, until
from tests.gateway.raw import connected, request
from tests.serving import serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

SOON = 0.1
"""Seconds, and something for a busy machine."""
SLACK = 0.4


async def leaves(model: ModelServer, began: float) -> None:
    await model.wait_disconnected()
    assert asyncio.get_running_loop().time() - began < SOON + SLACK


@pytest.mark.parametrize("store", [True, False])
async def test_a_client_that_leaves_in_the_stream_stops_the_model(store: bool) -> None:
    kept: list[Commit] = []
    reply = Reply("Once upon", Gate("never"), " a time")
    async with (
        ModelServer(reply) as model,
        serving(model.url, adjust=lambda gateway: kept.append(commits_of(gateway))) as api,  # type: ignore
    ):
        commits: Any = kept[0]
        async with api.open(store=store) as pieces:
            seen = b""
            while b"Once upon" not in seen:
                seen += await anext(pieces)
            began = asyncio.get_running_loop().time()
        await leaves(model, began)
        await nothing_left(api)
        if not store:
            assert commits == []
            return
        await until(lambda: bool(commits), "the commit")
        assert [commit.response.status for commit in commits] == ["cancelled"]
        stored = await api.send("GET", f"/v1/responses/{commits[0].response.id}")
        assert stored.json["status"] == "cancelled"
        assert [item["status"] for item in stored.json["output"]] == ["incomplete"]
        assert stored.json["output"][0]["content"][0]["text"] == "Once upon"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_answer_stops_the_request(stream: bool) -> None:
    kept: list[Any] = []
    async with (
        ModelServer(silence()) as model,
        serving(model.url, adjust=lambda gateway: kept.append(commits_of(gateway))) as api,
    ):
        async with connected(api.url) as client:
            client.write(request(body={"stream": stream}))
            await model.wait_requests()
            began = asyncio.get_running_loop().time()
        await leaves(model, began)
        await nothing_left(api)
        assert kept[0] == []


async def test_a_client_that_leaves_while_a_retry_is_due_is_not_retried_for() -> None:
    async with ModelServer([http_error(503)], then="repeat") as model, serving(model.url) as api:
        async with connected(api.url) as client:
            client.write(request(body={}))
            await model.wait_answered()
        await nothing_left(api)
        assert len(model.chats) <= 3


async def test_a_client_that_leaves_while_a_tool_runs_cancels_it() -> None:
    cancelled = asyncio.Event()

    async def forever(_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    executor = LookupExecutor(forever)
    reply = Reply(Call("lookup", {"query": "x"}))
    async with ModelServer(reply) as model, serving(model.url, adjust=install(executor)) as api:
        async with connected(api.url) as client:
            client.write(request(body={"stream": True, "tools": [TOOL]}))
            await asyncio.wait_for(executor.started.wait(), 5)
        await asyncio.wait_for(cancelled.wait(), SOON + SLACK)
        await nothing_left(api)


async def test_a_client_that_leaves_during_the_commit_leaves_one_true_row() -> None:
    entered, go = asyncio.Event(), asyncio.Event()
    commits: list[Commit] = []

    def adjust(gateway: Any) -> None:
        original = gateway.engine.store.commit

        async def commit(turn: Commit) -> None:
            commits.append(turn)
            entered.set()
            await go.wait()
            await original(turn)

        gateway.engine.store.commit = commit

    async with ModelServer("Hello") as model, serving(model.url, adjust=adjust) as api:
        async with connected(api.url) as client:
            client.write(request(body={"stream": True}))
            await asyncio.wait_for(entered.wait(), 5)
        go.set()
        await nothing_left(api)
        id_ = commits[0].response.id

        async def status() -> str:
            answer = await api.send("GET", f"/v1/responses/{id_}")
            return answer.json.get("status", "none")

        deadline = time.monotonic() + 5
        while (said := await status()) == "none" and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert said == "completed"
        assert len(commits) == 1


async def test_a_client_that_leaves_in_the_middle_of_its_request() -> None:
    async with ModelServer("Hello") as model, serving(model.url) as api:
        async with connected(api.url) as client:
            client.write(request(body=b'{"model":"mock-model","inp', length=1000))
            await asyncio.sleep(0)
        await nothing_left(api)
        assert (await api.create()).status == 200
        assert len(model.chats) == 1


async def test_a_client_that_does_not_read_pauses_the_model_and_gets_everything_later() -> None:
    words = [f"{n:07d} " for n in range(50_000)]
    async with (
        ModelServer(Reply(Text(words))) as model,
        serving(model.url) as api,
        connected(api.url, limit=1024) as client,
    ):
        client.write(request(body={"stream": True, "store": False}))
        status, _ = await client.head()
        assert status == 200
        transport: Any = client.writer.transport
        transport.pause_reading()
        retrying: Any = next(iter(api.gateway.router.upstreams.values())).client
        await until(
            lambda: any(
                c.exchange is not None and c.exchange.paused for c in retrying.client._open
            ),
            "the model server's connection to be paused",
        )
        turns = [c for c in retrying.client._open if c.exchange is not None]
        assert len(turns) == 1
        assert model.answered == 0
        transport.resume_reading()
        said: list[str] = []
        rest = b""
        while part := await client.chunk():
            blocks = (rest + part).split(b"\n\n")
            rest = blocks.pop()
            for block in blocks:
                if block.startswith(b"event: response.output_text.delta"):
                    said.append(block.split(b'"delta":"')[1][:8].decode())
        assert said == words


async def test_a_client_that_leaves_while_the_model_is_paused() -> None:
    words = [f"{n:07d} " for n in range(50_000)]
    async with ModelServer(Reply(Text(words))) as model, serving(model.url) as api:
        async with connected(api.url, limit=1024) as client:
            client.write(request(body={"stream": True}))
            await client.head()
            transport: Any = client.writer.transport
            transport.pause_reading()
            retrying: Any = next(iter(api.gateway.router.upstreams.values())).client
            await until(
                lambda: any(c.exchange and c.exchange.paused for c in retrying.client._open),
                "the model server's connection to be paused",
            )
            client.abort()
        await model.wait_disconnected()
        await nothing_left(api)


async def test_fifty_streams_at_once_do_not_mix() -> None:
    def rule(asked: Any) -> Reply:
        return Reply(Text(asked.messages[-1]["content"] * 20, chunks=20))

    async with ModelServer(rule) as model, serving(model.url) as api:
        answers = await asyncio.gather(
            *(api.create(stream=True, input=f"<{n}>") for n in range(50))
        )
        await nothing_left(api)
    for n, answer in enumerate(answers):
        response = check_stream(answer.frames)
        assert response["output"][0]["content"][0]["text"] == f"<{n}>" * 20
    assert len({answer.response["id"] for answer in answers}) == 50


async def test_fifty_clients_that_leave_at_once() -> None:
    reply = Reply("Once", Gate("never"))
    async with ModelServer(reply) as model, serving(model.url) as api:

        async def one() -> None:
            async with api.open() as pieces:
                await anext(pieces)

        await asyncio.gather(*(one() for _ in range(50)))
        await model.wait_disconnected(50)
        await nothing_left(api)
        assert not api.gateway._create._running
