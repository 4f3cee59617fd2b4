"""Model servers on this machine are found, and told apart."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.upstreams.answers import answering, listing

from bascule.cli import serve
from bascule.cli.serve import Overrides, with_upstreams
from bascule.config import Config, ConfigError
from bascule.testing import ModelServer
from bascule.upstreams.client import UpstreamClient
from bascule.upstreams.discovery import Found, discover, identify
from bascule.upstreams.http1 import Http1Client

pytestmark = pytest.mark.anyio


@pytest.fixture
def free() -> Generator[int]:
    """A port at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def _discover(ports: dict[int, str]) -> list[Found]:
    client = Http1Client()
    try:
        async with asyncio.timeout(10):
            return await discover(client, ports=ports)
    finally:
        await client.aclose()


async def _identify(url: str) -> str:
    client = Http1Client()
    try:
        async with asyncio.timeout(10):
            return await identify(client, url)
    finally:
        await client.aclose()


async def test_servers_are_found_in_the_order_of_the_ports(free: int) -> None:
    async with (
        ModelServer(models=["a", "b"]) as one,
        ModelServer(models=["c"]) as two,
    ):
        found = await _discover({two.port: "sglang", free: "ollama", one.port: "vllm"})
    assert [(f.section.name, f.section.profile, f.models) for f in found] == [
        ("sglang", "sglang", ["c"]),
        ("vllm", "vllm", ["a", "b"]),
    ]
    assert [f.section.base_url for f in found] == [two.url, one.url]


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llamacpp", "llama_cpp"),
        ("library", "ollama"),
        ("organization_owner", "lmstudio"),
    ],
)
async def test_servers_are_known_by_their_signature(owner: str, kind: str) -> None:
    async with answering({"/v1/models": listing("m", owner=owner)}) as port:
        (found,) = await _discover({port: "custom"})
        assert (found.section.name, found.section.profile) == (kind, kind)
        (found,) = await _discover({port: "vllm"})
        assert found.section.profile == kind
        assert await _identify(f"http://127.0.0.1:{port}/v1") == kind


@pytest.mark.parametrize("owner", [None, "", "someone"])
async def test_a_server_that_does_not_sign_is_what_its_port_says(owner: str | None) -> None:
    async with answering({"/v1/models": listing("m", owner=owner)}) as port:
        (found,) = await _discover({port: "llama_cpp"})
        assert found.section.profile == "llama_cpp"
        assert await _identify(f"http://127.0.0.1:{port}/v1") == "custom"


async def test_ollama_with_models_of_users_is_known_by_its_version() -> None:
    answers = {"/v1/models": listing("m", owner="jane"), "/api/version": {"version": "0.9"}}
    async with answering(answers) as port:
        assert await _identify(f"http://127.0.0.1:{port}/v1") == "ollama"


@pytest.mark.parametrize("data", [None, []])
async def test_a_server_without_models_is_found(data: Any) -> None:
    async with answering({"/v1/models": {"object": "list", "data": data}}) as port:
        (found,) = await _discover({port: "ollama"})
    assert found.models == []


@pytest.mark.parametrize("card", [{"created": None}, {"created": 1.5}, {"owned_by": None, "x": 1}])
async def test_odd_cards_are_read(card: dict[str, Any]) -> None:
    answer = {"object": "list", "data": [{"id": "m", **card}]}
    async with answering({"/v1/models": answer}) as port:
        (found,) = await _discover({port: "ollama"})
    assert found.models == ["m"]


async def test_two_of_a_kind_get_names_of_their_own() -> None:
    models = {"/v1/models": listing("m", owner="vllm")}
    async with answering(models) as one, answering(models) as two, answering(models) as three:
        found = await _discover({one: "custom", two: "custom", three: "vllm"})
    assert [f.section.name for f in found] == ["vllm", "vllm-2", "vllm-3"]


@pytest.mark.parametrize(
    "answer",
    [
        "<!DOCTYPE html><title>It works!</title>",
        {"hello": "world"},
        {"data": []},
        {"data": [{"name": "x"}]},
        {"object": "list", "data": "x"},
        ["m"],
        None,
    ],
)
async def test_something_else_on_the_port_is_no_model_server(answer: Any) -> None:
    async with answering({"/v1/models": answer, "/": answer}) as port:
        assert await _discover({port: "llama_cpp"}) == []


async def test_an_error_is_no_model_server() -> None:
    async with answering({"/v1/models": listing("m")}, status=503) as port:
        assert await _discover({port: "llama_cpp"}) == []


async def test_what_is_no_http_is_no_model_server() -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        assert await _discover({server.sockets[0].getsockname()[1]: "vllm"}) == []


async def test_nothing_there(free: int) -> None:
    assert await _discover({free: "vllm"}) == []
    assert await _identify(f"http://127.0.0.1:{free}/v1") == "custom"


# --- what `serve` makes of it


async def _resolved(
    monkeypatch: pytest.MonkeyPatch, ports: dict[int, str], overrides: Overrides, config: Config
) -> list[tuple[str, str]]:
    async def local(client: UpstreamClient) -> list[Found]:
        return await discover(client, ports=ports)

    monkeypatch.setattr(serve, "discover", local)
    client = Http1Client()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.aclose)
        config = await with_upstreams(config, overrides, client, stack)
        return [(upstream.name, upstream.profile) for upstream in config.upstreams]


async def test_without_any_server_there_is_the_demo_model(
    monkeypatch: pytest.MonkeyPatch, free: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await _resolved(monkeypatch, {free: "vllm"}, Overrides(), Config())
    assert found == [("demo", "custom")]
    captured = capsys.readouterr()
    assert "bascule-demo" in captured.err
    assert captured.out == ""


async def test_what_is_found_is_said_and_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ModelServer(models=["small"]) as server:
        found = await _resolved(monkeypatch, {server.port: "ollama"}, Overrides(), Config())
    assert found == [("ollama", "ollama")]
    assert f"found ollama at {server.url}: small" in capsys.readouterr().err


async def test_a_named_upstream_is_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering({"/v1/models": listing("m", owner="sglang")}) as port:
        named = Overrides(upstream=f"http://127.0.0.1:{port}")
        assert await _resolved(monkeypatch, {}, named, Config()) == [("upstream", "sglang")]
        forced = Overrides(upstream=f"http://127.0.0.1:{port}", profile="vllm")
        assert await _resolved(monkeypatch, {}, forced, Config()) == [("upstream", "vllm")]


@pytest.mark.parametrize("url", ["ftp://h", "127.0.0.1:8000", "http://u:top-secret@h", "http://"])
async def test_a_url_that_is_none(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(ConfigError, match="--upstream") as raised:
        await _resolved(monkeypatch, {}, Overrides(upstream=url), Config())
    assert "top-secret" not in str(raised.value)
