"""The shapes of hosted tools' declarations: what is wrong is named by its path, what is right is accepted
whoever runs it, and what is secret is never shown."""

from pathlib import Path
from typing import Any

import pytest

from bascule.testing import ModelServer, responded
from tests.conformance.asking import gateway
from tests.conformance.stream import check_answer
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

STORES: Json = {"type": "file_search", "vector_store_ids": ["vs_1"]}
CODE: Json = {"type": "code_interpreter", "container": {"type": "auto"}}
MCP: Json = {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"}
EQ: Json = {"type": "eq", "key": "year", "value": 2026}

BAD: list[tuple[Json, str]] = [
    ({"type": "web_search", "search_context_size": "huge"}, "search_context_size"),
    ({"type": "web_search", "filters": []}, "filters"),
    (
        {"type": "web_search", "filters": {"allowed_domains": "a.example"}},
        "filters.allowed_domains",
    ),
    (
        {"type": "web_search", "filters": {"allowed_domains": ["a.example", 7]}},
        "filters.allowed_domains[1]",
    ),
    ({"type": "web_search", "user_location": {"type": "exact"}}, "user_location.type"),
    ({"type": "web_search", "external_web_access": "no"}, "external_web_access"),
    ({"type": "web_search_2025_08_26", "user_location": "Oslo"}, "user_location"),
    ({"type": "web_search_preview", "search_context_size": 1}, "search_context_size"),
    (
        {"type": "web_search_preview_2025_03_11", "search_content_types": ["text", "smell"]},
        "search_content_types[1]",
    ),
    ({"type": "file_search"}, "vector_store_ids"),
    ({**STORES, "vector_store_ids": []}, "vector_store_ids"),
    ({**STORES, "max_num_results": 0}, "max_num_results"),
    ({**STORES, "max_num_results": 51}, "max_num_results"),
    ({**STORES, "ranking_options": {"score_threshold": 1.5}}, "ranking_options.score_threshold"),
    ({**STORES, "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
    (
        {**STORES, "ranking_options": {"hybrid_search": {"embedding_weight": 1}}},
        "ranking_options.hybrid_search.text_weight",
    ),
    ({**STORES, "filters": {"type": "near", "key": "a", "value": 1}}, "filters.type"),
    ({**STORES, "filters": {**EQ, "value": ["a"]}}, "filters.value"),
    ({**STORES, "filters": {**EQ, "type": "in"}}, "filters.value"),
    ({**STORES, "filters": {"type": "and", "filters": []}}, "filters.filters"),
    (
        {
            **STORES,
            "filters": {
                "type": "or",
                "filters": [EQ, {"type": "and", "filters": [EQ, {"type": "lt", "value": 1}]}],
            },
        },
        "filters.filters[1].filters[1].key",
    ),
    ({"type": "code_interpreter"}, "container"),
    ({**CODE, "container": {"type": "manual"}}, "container.type"),
    ({**CODE, "container": {"type": "auto", "memory_limit": "2g"}}, "container.memory_limit"),
    (
        {**CODE, "container": {"type": "auto", "network_policy": {"type": "allowlist"}}},
        "container.network_policy.allowed_domains",
    ),
    ({**CODE, "allowed_callers": ["anyone"]}, "allowed_callers[0]"),
    ({"type": "mcp", "server_url": "https://docs.example/mcp"}, "server_label"),
    ({**MCP, "server_label": ""}, "server_label"),
    ({**MCP, "connector_id": "connector_gmail"}, "connector_id"),
    ({**MCP, "headers": {"a": 1}}, "headers.a"),
    ({**MCP, "allowed_tools": "all"}, "allowed_tools"),
    ({**MCP, "allowed_tools": {"tool_names": [1]}}, "allowed_tools.tool_names[0]"),
    ({**MCP, "require_approval": "sometimes"}, "require_approval"),
    ({**MCP, "require_approval": {"never": {"read_only": 1}}}, "require_approval.never.read_only"),
    ({**MCP, "defer_loading": "yes"}, "defer_loading"),
    ({"type": "image_generation", "size": "large"}, "size"),
    ({"type": "image_generation", "partial_images": 4}, "partial_images"),
    ({"type": "image_generation", "quality": "best"}, "quality"),
    ({"type": "image_generation", "svg": {"reasoning": {"effort": "all"}}}, "svg.reasoning.effort"),
]

GOOD: list[Json] = [
    {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.example"]},
        "search_context_size": "low",
        "user_location": {"type": "approximate", "country": "NO", "city": None},
        "external_web_access": False,
        "search_content_types": ["text", "image"],
        "index_gated_web_access": True,
        "not_known_yet": {"a": 1},
    },
    {"type": "web_search", "filters": None, "user_location": None},
    {
        **STORES,
        "filters": {"type": "and", "filters": [EQ, {"type": "nin", "key": "x", "value": ["a", 1]}]},
        "max_num_results": 50,
        "ranking_options": {"hybrid_search": {"embedding_weight": 0.3, "text_weight": 0.7}},
    },
    {"type": "code_interpreter", "container": "cntr_1"},
    {**MCP, "allowed_tools": {"read_only": True, "tool_names": ["find"]}},
    {
        **MCP,
        "require_approval": {"always": {"tool_names": ["write"]}, "never": {"read_only": True}},
    },
    {"type": "mcp", "server_label": "configured"},
    {"type": "image_generation", "size": "1536x864", "model": "any", "output_format": "webp"},
]


@pytest.mark.requirement("tool:refused-with-place")
@pytest.mark.parametrize(("tool", "path"), BAD, ids=[f"{t['type']}-{p}" for t, p in BAD])
async def test_a_bad_member_is_named(tool: Json, path: str) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=[{"type": "web_search"}, tool])
        assert model.chats == []
    assert answer.status == 400
    assert answer.error["param"] == f"tools[1].{path}"
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.requirement("tool:hosted:declared")
@pytest.mark.parametrize("tool", GOOD, ids=lambda tool: tool["type"])
async def test_a_good_one_is_accepted_and_shown(tool: Json) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=[tool])
        response = check_answer(answer)
        assert "tools" not in model.chats[0].json
    assert answer.headers["x-bascule-ignored"] == "tools[0]"
    (shown,) = response["tools"]
    assert tool.items() <= shown.items()


@pytest.mark.requirement("response:tools:hosted")
@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        (
            {"type": "web_search"},
            {
                "type": "web_search",
                "filters": None,
                "search_context_size": "medium",
                "user_location": {
                    "type": "approximate",
                    "city": None,
                    "country": "US",
                    "region": None,
                    "timezone": None,
                },
            },
        ),
        (
            STORES,
            {
                **STORES,
                "filters": None,
                "max_num_results": 20,
                "ranking_options": {"ranker": "auto", "score_threshold": 0.0},
            },
        ),
        (CODE, CODE),
        (MCP, {**MCP, "allowed_tools": None, "headers": None, "server_description": None}),
        (
            {"type": "image_generation", "quality": "low"},
            {
                "type": "image_generation",
                "quality": "low",
                "background": "auto",
                "moderation": "auto",
                "n": 1,
                "output_compression": 100,
                "output_format": "png",
                "size": "auto",
            },
        ),
    ],
    ids=lambda value: value["type"],
)
async def test_the_echo_fills_in_defaults(tool: Json, shown: Json) -> None:
    async with gateway() as (api, _):
        assert check_answer(await api.create(tools=[tool]))["tools"] == [shown]


SECRET = "sk-very-secret-value"
_POLICY: Json = {
    "type": "allowlist",
    "allowed_domains": ["a.example"],
    "domain_secrets": [{"domain": "a.example", "name": "KEY", "value": SECRET}],
}
SECRETS: list[Json] = [
    {**MCP, "authorization": SECRET},
    {**MCP, "headers": {"x-key": SECRET}},
    {"type": "code_interpreter", "container": {"type": "auto", "network_policy": _POLICY}},
]


@pytest.mark.requirement("tool:secrets")
@pytest.mark.parametrize("tool", SECRETS, ids=["authorization", "headers", "domain_secrets"])
@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_what_is_secret_is_neither_shown_nor_stored(
    tool: Json, protocol: str, tmp_path: Path
) -> None:
    message = {
        "id": "msg_up",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
    }
    path = tmp_path / "state.db"
    async with (
        ModelServer("Hi." if protocol == "chat" else responded(message)) as model,
        serving(
            model.url,
            upstream_options={"protocol": protocol},
            state={"url": f"sqlite:///{path}"},
        ) as api,
    ):
        answer = await api.create(tools=[tool], stream=True)
        assert answer.response["status"] == "completed"
        stored = await api.send("GET", f"/v1/responses/{answer.response['id']}")
        sent = model.chats[0].body
    assert SECRET.encode() not in answer.body
    assert SECRET.encode() not in stored.body
    assert (SECRET.encode() in sent) == (protocol == "responses")
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file
