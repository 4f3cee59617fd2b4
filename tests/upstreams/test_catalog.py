"""Which models there are, and what their servers tell of them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from tests.upstreams.json_server import SILENCE, JsonServer, json_server, listing

from bascule.config import convert
from bascule.testing import ModelServer
from bascule.upstreams.catalog import Catalog
from bascule.upstreams.details import ModelDetails, listed
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.routing import Router

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _catalog(
    upstreams: list[dict[str, Any]], models: Any = (), patience: float = 5
) -> AsyncGenerator[tuple[Catalog, Router]]:
    client = Http1Client()
    router = Router(convert({"upstreams": upstreams, "models": list(models)}, {}), client)
    catalog = Catalog(router, patience)
    async with asyncio.timeout(20):
        yield catalog, router
        await catalog.aclose()
        await client.aclose()


async def test_configured_names_come_first_and_then_what_globs_let_through() -> None:
    async with ModelServer(models=["qwen3", "llama", "house"]) as server:
        upstream = {"name": "local", "base_url": server.url, "models": ["qwen*", "house"]}
        models = [{"name": "house", "upstream": "local", "aliases": ["h", "claude-*"]}]
        async with _catalog([upstream], models) as (catalog, _):
            found = await catalog.models(None)
    assert [model.id for model in found] == ["house", "h", "qwen3"]
    assert found[0].owned_by == "local"
    shown = [model.shown() for model in found]
    assert {model["object"] for model in shown} == {"model"}
    assert all(isinstance(model["created"], int) for model in shown)


@pytest.mark.requirement("models:unreachable")
async def test_an_upstream_that_is_not_there_breaks_nothing_and_is_told_of_once() -> None:
    async with ModelServer(models=["m"]) as server:
        upstreams = [
            {"name": "dead", "base_url": "http://127.0.0.1:9"},
            {"name": "live", "base_url": server.url},
        ]
        with structlog.testing.capture_logs() as logs:
            async with _catalog(upstreams) as (catalog, router):
                assert [model.id for model in await catalog.models(None)] == ["m"]
                assert await catalog.reachable()
                await catalog.models(None)
                assert len(server.requests) == 1  # remembered
                assert router.resolve("m").upstream == "live"
    told = [log for log in logs if log["event"].startswith("an upstream does not list")]
    assert [log["upstream"] for log in told] == ["dead"]


@pytest.mark.requirement("models:unreachable")
async def test_an_upstream_that_is_silent_delays_nobody() -> None:
    async with json_server(v1__models=SILENCE) as mute, ModelServer(models=["m"]) as server:
        upstreams = [
            {"name": "mute", "base_url": mute.url},
            {"name": "live", "base_url": server.url},
        ]
        loop = asyncio.get_running_loop()
        async with _catalog(upstreams, patience=0.2) as (catalog, _):
            began = loop.time()
            for _ in range(20):
                assert [model.id for model in await catalog.models(None)] == ["m"]
            assert loop.time() - began < 2  # the first one waited, for 0.2 s
            assert mute.times("/v1/models") == 1


LLAMA = listing({"id": "q.gguf", "meta": {"n_ctx_train": 131072, "n_params": 7}})
PROPS = {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}
LMSTUDIO = {
    "data": [
        {"id": "q", "type": "llm", "max_context_length": 32768, "loaded_context_length": 4096},
        {"id": "v", "type": "vlm", "max_context_length": 16384},
    ]
}
SHOW = {
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    "capabilities": ["completion", "vision"],
}


@pytest.mark.requirement("models:details")
@pytest.mark.parametrize(
    ("profile", "model", "paths", "length", "reads"),
    [
        ("vllm", "m", {"v1__models": listing({"id": "m", "max_model_len": 2048})}, 2048, None),
        ("sglang", "m", {"v1__models": listing({"id": "m", "max_model_len": 2048})}, 2048, None),
        ("custom", "m", {"v1__models": listing({"id": "m", "context_length": 65536})}, 65536, None),
        ("llama_cpp", "q.gguf", {"v1__models": LLAMA}, 131072, None),
        ("llama_cpp", "q.gguf", {"v1__models": LLAMA, "props": PROPS}, 8192, ("text", "image")),
        ("lmstudio", "q", {"api__v0__models": LMSTUDIO}, 4096, ("text",)),
        ("lmstudio", "v", {"api__v0__models": LMSTUDIO}, 16384, ("text", "image")),
        ("lmstudio", "x", {"api__v0__models": LMSTUDIO}, None, None),
        ("ollama", "q:4b", {"api__show": SHOW}, 40960, ("text", "image")),
        (
            "ollama",
            "q:4b",
            {"api__show": {**SHOW, "parameters": "stop x\nnum_ctx      2048"}},
            2048,
            ("text", "image"),
        ),
        (
            "ollama",
            "q:4b",
            {
                "api__show": {**SHOW, "capabilities": ["completion"]},
                "api__ps": {"models": [{"name": "q:4b", "context_length": 4096}]},
            },
            4096,
            ("text",),
        ),
        ("openai", "m", {}, None, None),
        ("ollama", "m", {"api__show": {"model_info": "nonsense", "capabilities": 7}}, None, None),
        ("lmstudio", "m", {"api__v0__models": {"data": {"no": "list"}}}, None, None),
        ("llama_cpp", "m", {"props": [1, 2]}, None, None),
    ],
)
async def test_what_each_kind_tells(
    profile: str, model: str, paths: Any, length: int | None, reads: Any
) -> None:
    paths.setdefault("v1__models", listing({"id": model}))
    async with json_server(**paths) as server:
        upstream = {"name": "u", "base_url": server.url, "profile": profile}
        async with _catalog([upstream]) as (catalog, router):
            found = await catalog.model(model, None)
            assert found is not None
            assert (found.details.context_length, found.details.input) == (length, reads)
            assert router.resolve(model).context_length == length
            asked = len(server.asked)
            await catalog.model(model, None)
            assert len(server.asked) == asked  # remembered


@pytest.mark.requirement("models:details")
async def test_ollama_is_asked_by_the_models_name() -> None:
    paths: Any = {"v1__models": listing({"id": "q:4b"}), "api__show": SHOW}
    async with json_server(**paths) as server:
        upstream = {"name": "u", "base_url": server.url, "profile": "ollama"}
        async with _catalog([upstream]) as (catalog, _):
            await catalog.model("u/q:4b", None)
    assert ("/api/show", {"model": "q:4b"}) in server.asked


@pytest.mark.requirement("models:details")
async def test_the_configuration_wins() -> None:
    paths: Any = {"v1__models": listing({"id": "m", "max_model_len": 2048})}
    async with json_server(**paths) as server:
        upstream = {"name": "u", "base_url": server.url, "profile": "vllm"}
        own = {"context_length": 1000, "max_output_tokens": 100, "input": ["text"]}
        models = [{"name": "mine", "upstream": "u", "model": "m", **own}]
        async with _catalog([upstream], models) as (catalog, router):
            found = {model.id: model.details for model in await catalog.models(None)}
            target = router.resolve("mine")
    assert found["mine"] == ModelDetails(
        context_length=1000, max_output_tokens=100, input=("text",)
    )
    assert found["m"].context_length == 2048
    assert (target.context_length, target.max_output_tokens) == (1000, 100)


async def _until(server: JsonServer, path: str) -> None:
    async with asyncio.timeout(5):
        while not server.times(path):
            await asyncio.sleep(0)


@pytest.mark.requirement("models:details")
async def test_a_wish_is_fulfilled_in_the_background_and_bounded() -> None:
    paths: Any = {"v1__models": listing({"id": "m"}), "props": SILENCE}
    async with json_server(**paths) as server:
        upstream = {"name": "u", "base_url": server.url, "profile": "llama_cpp"}
        async with _catalog([upstream]) as (catalog, router):
            for number in range(100):
                catalog.wish(router.resolve(f"made-up-{number}"))
            await _until(server, "/props")
            assert server.times("/v1/models") == 1
            assert server.times("/props") <= 8


@pytest.mark.parametrize(
    ("entry", "length"),
    [
        ({"max_model_len": "2048"}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": -1, "context_window": 10}, 10),
        ({"meta": []}, None),
        ({"meta": {"n_ctx": 5, "n_ctx_train": 9}}, 5),
    ],
)
async def test_nonsense_in_a_list_is_left_out(entry: Any, length: int | None) -> None:
    assert listed(entry).context_length == length
