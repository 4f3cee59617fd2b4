"""Stored turns on each database, through HTTP: chains, retention, and a database that fails."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bascule.state.postgres_writer import WRITE_LOCK
from bascule.state.retention import Retention
from bascule.testing import Call, ModelServer, Reply
from tests import postgres
from tests.serving import Answer, Api, serving

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the sealing key of a gateway on PostgreSQL is kept."""
    home = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    return home


def text_of(response: dict[str, Any]) -> str:
    return response["output"][0]["content"][0]["text"]


async def test_a_chain_of_turns_over_two_gateways(url: str) -> None:
    replies = [Reply(Call("get_weather", {"city": "Oslo"}, id="call_1")), "Cold.", "Bye.", "Other."]
    async with ModelServer(_each(replies)) as model:
        async with serving(model.url, state={"url": url}) as api:
            first = (await api.create(input="Weather?", tools=[TOOL], stream=True)).response
            output = {"type": "function_call_output", "call_id": "call_1", "output": "-5"}
            second = (
                await api.create(previous_response_id=first["id"], input=[output], tools=[TOOL])
            ).json
        async with serving(model.url, state={"url": url}) as api:
            third = (await api.create(previous_response_id=second["id"], input="Thanks")).json
            assert text_of(third) == "Bye."
            roles = [message["role"] for message in model.chats[2].messages]
            assert roles == ["user", "assistant", "tool", "assistant", "user"]
            assert (await api.send("GET", f"/v1/responses/{second['id']}")).json == second
            assert (await api.send("DELETE", f"/v1/responses/{first['id']}")).status == 200
            assert (await api.send("GET", f"/v1/responses/{first['id']}")).status == 404
            other = (await api.create(previous_response_id=second["id"], input="And?")).json
            assert text_of(other) == "Other."
            assert len(model.chats[3].messages) == 5


def _each(replies: list[Any]) -> Callable[[Any], Any]:
    left = iter(replies)
    return lambda _: next(left)


@pytest.mark.requirement("state:unstorable-id")
@pytest.mark.parametrize("bad", ["a\0b", "é" * 600])
async def test_an_id_that_no_database_holds_is_refused_before_the_turn(url: str, bad: str) -> None:
    item = {"type": "message", "role": "user", "content": "Hi", "id": bad}
    async with ModelServer() as model, serving(model.url, state={"url": url}) as api:
        answer = await api.create(input=[{"role": "user", "content": "Hi"}, item])
        assert (answer.status, answer.error["param"]) == (400, "input[1].id")
        assert answer.error["code"] == "invalid_value"
        assert model.chats == []
        assert (await api.create(input=[item], store=False)).status == 200
        for method in ("GET", "DELETE"):
            answer = await api.send(method, "/v1/responses/resp_%00")
            assert answer.status == 404
        answer = await api.create(previous_response_id=bad)
        assert answer.error["code"] == "previous_response_not_found"
        answer = await api.create(model="m\0m")
        assert (answer.status, answer.error["param"]) == (400, "model")


async def test_a_password_is_nowhere(
    postgres_url: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with ModelServer() as model, serving(model.url, state={"url": postgres_url}) as api:
        assert postgres.PASSWORD not in repr(api.gateway.config)
        postgres.run(postgres_url, "DROP TABLE items, responses CASCADE")
        assert (await api.create()).status == 500
        assert (await api.send("GET", "/v1/responses/resp_1")).status == 500
    said = capfd.readouterr()
    assert "does not exist" in said.out + said.err
    assert postgres.PASSWORD not in said.out + said.err


async def test_a_sealing_key_is_kept_for_postgresql(postgres_url: str, data_home: Path) -> None:
    keys: list[str] = []
    async with ModelServer() as model:
        for _ in range(2):
            async with serving(model.url, state={"url": postgres_url}):
                keys.append((data_home / "bascule" / "sealing.key").read_text())
    assert keys[0] == keys[1]


async def _check_failing(api: Api, stored: dict[str, Any]) -> None:
    """What a client hears while the database cannot be used."""
    answers: list[Answer] = [
        await api.send("GET", f"/v1/responses/{stored['id']}"),
        await api.send("DELETE", f"/v1/responses/{stored['id']}"),
        await api.create(previous_response_id=stored["id"]),
        await api.create(previous_response_id=stored["id"], stream=True),
        await api.create(),
    ]
    for answer in answers:
        assert (answer.status, answer.error["code"]) == (500, "server_error")
    stream = await api.create(stream=True)
    assert stream.status == 200
    assert stream.types[-1] == "failed"
    assert stream.response["error"]["code"] == "server_error"
    # Who stores nothing needs no database.
    assert (await api.create(store=False)).json["status"] == "completed"
    assert (await api.send("GET", "/health")).status == 200
    ready = await api.send("GET", "/ready")
    assert (ready.status, ready.json["missing"]) == (503, ["state"])


async def _check_working(api: Api, stored: dict[str, Any]) -> None:
    assert (await api.send("GET", f"/v1/responses/{stored['id']}")).json == stored
    next_one = await api.create(previous_response_id=stored["id"])
    assert next_one.json["status"] == "completed"
    assert (await api.send("GET", "/ready")).status == 200


@pytest.mark.requirement("state:unreachable")
async def test_a_server_that_goes_and_comes_back() -> None:
    server = postgres.Server()
    try:
        server.start()
        async with ModelServer() as model, serving(model.url, state={"url": server.url}) as api:
            stored = (await api.create()).json
            server.stop()
            await _check_failing(api, stored)
            server.start()
            await _check_working(api, stored)
    finally:
        server.remove()


@pytest.mark.requirement("state:unreachable")
async def test_a_file_that_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = {"url": f"sqlite:///{path}"}
    async with ModelServer() as model, serving(model.url, state=state) as api:
        stored = (await api.create()).json
        path.rename(tmp_path / "away.db")
        await _check_failing(api, stored)
        assert not path.exists()
        (tmp_path / "away.db").rename(path)
        await _check_working(api, stored)


async def test_a_database_that_is_locked(url: str) -> None:
    state = {"url": f"{url}?timeout=0.2"}
    async with ModelServer() as model, serving(model.url, state=state) as api:
        stored = (await api.create()).json
        async with _locked(url):
            answer = await api.create(previous_response_id=stored["id"])
            assert (answer.status, answer.error["code"]) == (500, "server_error")
            assert (await api.create(stream=True)).types[-1] == "failed"
            assert (await api.send("GET", f"/v1/responses/{stored['id']}")).json == stored
        await _check_working(api, stored)


@asynccontextmanager
async def _locked(url: str) -> AsyncGenerator[None]:
    """Somebody else holds the lock of those who write."""
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        file.execute("BEGIN IMMEDIATE")
        yield
        file.close()
    else:
        server = await asyncpg.connect(url)
        await server.execute(f"SELECT pg_advisory_lock({WRITE_LOCK})")
        yield
        await server.close()


@pytest.mark.requirement("state:retention")
async def test_retention_by_the_configuration(url: str) -> None:
    before = _sweepers()  # another test's gateway may be running
    async with ModelServer() as model:
        async with serving(model.url, state={"url": url, "retention_days": 0}) as api:
            assert _sweepers() == before
            old = (await api.create()).json
        async with serving(model.url, state={"url": url, "retention_days": 0.5}) as api:
            assert len(_sweepers() - before) == 1
            later = old["created_at"] + 50_000
            sweeper = Retention(api.engine.store, 0.5, clock=lambda: later)
            assert await sweeper.sweep() == 1
            assert (await api.send("GET", f"/v1/responses/{old['id']}")).status == 404
            unknown = await api.create(previous_response_id=old["id"])
            assert unknown.error["code"] == "previous_response_not_found"
        assert _sweepers() == before


def _sweepers() -> set["asyncio.Task[Any]"]:
    return {task for task in asyncio.all_tasks() if task.get_name() == "retention"}
