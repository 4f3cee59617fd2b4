"""GET /v1/models/{id}, Codex's catalog, and what a model's limits do to a turn."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from bascule.testing import ModelServer
from tests.serving import serving
from tests.upstreams.json_server import json_server, listing

pytestmark = pytest.mark.anyio

ODD = "my model/v1 (q4) ü"
MODELS: list[dict[str, Any]] = [
    {"name": "house", "upstream": "mock", "model": "mock-model", "aliases": ["h", "claude-*"]},
    {"name": ODD, "upstream": "mock", "model": "mock-model", "max_output_tokens": 100},
]


@pytest.mark.requirement("models:get")
@pytest.mark.parametrize(
    ("path", "id_", "owner"),
    [
        ("house", "house", "mock"),
        ("h", "h", "mock"),
        ("claude-opus-9", "claude-opus-9", "mock"),
        ("mock-model", "mock-model", "bascule"),
        ("mock/mock-model", "mock/mock-model", "bascule"),
        ("mock%2Fmock-model", "mock/mock-model", "bascule"),
        (quote(ODD), ODD, "mock"),
        (quote(ODD, safe=""), ODD, "mock"),
    ],
)
async def test_a_model_by_any_name_that_reaches_it(path: str, id_: str, owner: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url, models=MODELS) as api:
        answer = await api.send("GET", f"/v1/models/{path}")
        assert answer.status == 200
        shown = answer.json
        assert (shown["id"], shown["object"], shown["owned_by"]) == (id_, "model", owner)
        assert isinstance(shown["created"], int)
        assert shown.get("max_output_tokens") == (100 if id_ == ODD else None)
        created = await api.create(model=id_)
        assert created.response["model"] == id_


@pytest.mark.requirement("models:get")
@pytest.mark.parametrize("path", ["nothing", "mock/nothing", "mock/", "/", "a%00b", "..%2Fhouse"])
async def test_a_model_that_is_not_there(path: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url, models=MODELS) as api:
        answer = await api.send("GET", f"/v1/models/{path}")
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert answer.error["param"] == "model"


@pytest.mark.requirement("models:get")
async def test_a_model_needs_a_key_like_the_list() -> None:
    server = {"api_keys": ["sk-1"]}
    async with ModelServer("Hi") as model, serving(model.url, server=server) as api:
        assert (await api.send("GET", "/v1/models/mock-model")).status == 401
        assert model.requests == []


CODEX_NEEDS = {
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "base_instructions",
    "support_verbosity",
    "truncation_policy",
    "experimental_supported_tools",
    "supports_reasoning_summaries",
    "supports_parallel_tool_calls",
}


@pytest.mark.requirement("models:codex")
async def test_codex_gets_its_catalog() -> None:
    paths: Any = {"v1__models": listing({"id": "q", "max_model_len": 32768}, {"id": "p"})}
    async with json_server(**paths) as server:
        options = {"profile": "vllm", "flags": {"verbosity": False}}
        flags = {"reasoning_effort": "none", "parallel_tool_calls": False}
        models = [{"name": "plain", "upstream": "mock", "input": ["text"], "flags": flags}]
        async with serving(server.url, upstream_options=options, models=models) as api:
            answer = await api.send("GET", "/v1/models?client_version=0.171.0")
            usual = await api.send("GET", "/v1/models")
    assert usual.json["object"] == "list"
    assert answer.json.keys() == {"models"}
    entries = {entry["slug"]: entry for entry in answer.json["models"]}
    assert list(entries) == ["plain", "q", "p"]
    for entry in entries.values():
        assert entry.keys() >= CODEX_NEEDS
        assert entry["base_instructions"]
    assert entries["q"]["context_window"] == 32768
    assert "context_window" not in entries["p"]
    levels = [level["effort"] for level in entries["q"]["supported_reasoning_levels"]]
    assert levels == ["low", "medium", "high"]
    assert entries["q"]["supports_parallel_tool_calls"] is True
    assert entries["q"]["input_modalities"] == ["text", "image"]
    assert entries["plain"]["supported_reasoning_levels"] == []
    assert entries["plain"]["supports_parallel_tool_calls"] is False
    assert entries["plain"]["input_modalities"] == ["text"]


@pytest.mark.requirement("models:limit:output")
@pytest.mark.parametrize("stream", [True, False])
async def test_more_output_than_the_model_can_give(stream: bool) -> None:
    async with ModelServer("Hi", then="repeat") as model, serving(model.url, models=MODELS) as api:
        refused = await api.create(model=ODD, max_output_tokens=101, stream=stream)
        assert refused.status == 400
        assert refused.error["param"] == "max_output_tokens"
        assert refused.error["code"] == "integer_above_max_value"
        assert model.chats == []
        assert (await api.create(model=ODD, max_output_tokens=100)).status == 200
        assert (await api.create(model=ODD)).status == 200
        assert (await api.create(model="h", max_output_tokens=101)).status == 200


@pytest.mark.requirement("models:details")
async def test_a_turn_does_not_wait_for_what_its_server_tells() -> None:
    async with ModelServer("Hi", then="repeat") as model:
        options = {"profile": "llama_cpp"}
        async with serving(model.url, upstream_options=options) as api:
            assert (await api.create()).status == 200
            async with asyncio.timeout(5):
                while len(model.requests) < 3:
                    await asyncio.sleep(0)
            asked = [request.path for request in model.requests]
    assert asked[0] == "/v1/chat/completions"
    assert set(asked[1:]) == {"/v1/models", "/props"}


@pytest.mark.requirement("models:alias:glob")
async def test_names_of_other_makers_reach_a_local_model() -> None:
    models: list[dict[str, Any]] = [
        {"name": "local", "upstream": "mock", "model": "mock-model", "aliases": ["gpt-*"]},
        {"name": "rest", "upstream": "mock", "model": "mock-2", "default": True},
    ]
    async with ModelServer("Hi", then="repeat") as model:
        options = {"models": ["mock-*"]}
        async with serving(model.url, models=models, upstream_options=options) as api:
            for name in ("gpt-5.2-codex", "claude-sonnet-4-5", "local"):
                answer = await api.create(model=name)
                assert answer.response["model"] == name
    assert [chat.model for chat in model.chats] == ["mock-model", "mock-2", "mock-model"]
