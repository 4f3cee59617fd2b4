"""What declarations of all types may hold: a wrong member is a 400 with its path, an unknown one is kept,
and the response shows them with their defaults and without secrets."""

from typing import Any

import pytest

from tests.conformance.asking import gateway
from tests.tools.declarations import ACCEPTED, DECLARED, SECRET, WRONG

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("tool:declarations:checked")
@pytest.mark.parametrize(("tool", "place", "code"), WRONG)
async def test_a_wrong_member_is_a_400_with_its_path(tool: Json, place: str, code: str) -> None:
    async with gateway() as (api, model):
        answer = await api.create(
            tools=[DECLARED["custom"], DECLARED["function"] | {"name": "y"}, tool]
        )
        assert model.chats == []
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (f"tools[2]{place}", code)
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.requirement("tool:declarations:checked")
@pytest.mark.parametrize("tool", ACCEPTED)
async def test_all_that_the_documents_tell_of_is_accepted(tool: Json) -> None:
    async with gateway() as (api, _):
        answer = await api.create(tools=[tool])
        assert answer.status == 200, answer.body
        (shown,) = answer.response["tools"]
    assert shown.items() >= tool.items()


@pytest.mark.requirement("tool:declarations:unknown-members")
@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in DECLARED.keys() - {"tool_search", "programmatic_tool_calling"}
        if not DECLARED[name]["type"].startswith("acme:")
    ),
)
async def test_unknown_members_are_kept(name: str) -> None:
    more = {"x_new": {"deep": [1, None]}}
    async with gateway() as (api, _):
        answer = await api.create(tools=[{**DECLARED[name], **more}])
        assert answer.status == 200, answer.body
    assert answer.response["tools"][0]["x_new"] == more["x_new"]


@pytest.mark.requirement("tool:declarations:echo")
@pytest.mark.parametrize(
    ("tool", "defaults"),
    [
        (
            {"type": "web_search"},
            {"filters": None, "search_context_size": "medium", "user_location": None},
        ),
        (
            {"type": "web_search_preview", "search_context_size": "low"},
            {"user_location": None},
        ),
        (
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
            {
                "filters": None,
                "max_num_results": 20,
                "ranking_options": {"ranker": "auto", "score_threshold": 0.0},
            },
        ),
        (
            {"type": "image_generation", "quality": "low"},
            {
                "background": "auto",
                "moderation": "auto",
                "n": 1,
                "output_compression": 100,
                "output_format": "png",
                "size": "auto",
            },
        ),
        (
            {"type": "mcp", "server_label": "a", "server_url": "https://a.example/mcp"},
            {
                "allowed_tools": None,
                "headers": None,
                "require_approval": "always",
                "server_description": None,
            },
        ),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, {}),
        ({"type": "apply_patch"}, {}),
        ({"type": "shell"}, {}),
    ],
)
async def test_defaults_are_shown_as_recorded(tool: Json, defaults: Json) -> None:
    async with gateway() as (api, _):
        answer = await api.create(tools=[tool])
    assert answer.response["tools"] == [{**tool, **defaults}]


@pytest.mark.requirement("tool:declarations:secrets")
@pytest.mark.parametrize("upstream", ["chat", "responses"])
@pytest.mark.parametrize(
    "tool",
    [
        {
            "type": "mcp",
            "server_label": "a",
            "server_url": f"https://me:{SECRET}@a.example/mcp?key={SECRET}",
            "headers": {"X-Custom": SECRET},
            "authorization": SECRET,
        },
        {
            "type": "shell",
            "environment": {
                "type": "container_auto",
                "network_policy": {
                    "type": "allowlist",
                    "allowed_domains": ["a.example"],
                    "domain_secrets": [{"domain": "a.example", "name": "A", "value": SECRET}],
                },
            },
        },
        {
            "type": "code_interpreter",
            "container": {
                "type": "auto",
                "network_policy": {
                    "type": "allowlist",
                    "allowed_domains": ["a.example"],
                    "domain_secrets": [{"domain": "a.example", "name": "A", "value": SECRET}],
                },
            },
        },
    ],
)
async def test_secrets_are_neither_shown_nor_stored(
    tool: Json, upstream: str, tmp_path: Any
) -> None:
    options: Json = {"protocol": upstream}
    if upstream == "responses":
        options["flags"] = {"hosted_tools": "all"}
    traces, url = tmp_path / "traces", f"sqlite:///{tmp_path}/state.db"
    async with gateway(
        "Hello!", upstream_options=options, telemetry={"trace_dir": str(traces)}, state={"url": url}
    ) as (api, model):
        answer = await api.create(tools=[tool, DECLARED["function"]], stream=True)
        assert answer.status == 200, answer.body
        stored = await api.send("GET", f"/v1/responses/{answer.response['id']}")
        sent = [chat.body for chat in model.chats]
    assert SECRET.encode() not in answer.body + stored.body
    assert stored.json["tools"][0]["type"] == tool["type"]
    assert (SECRET.encode() in sent[0]) == (upstream == "responses")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.parent != tmp_path for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.requirement("tool:names:any")
@pytest.mark.parametrize("type_", ["function", "custom", "namespace"])
@pytest.mark.parametrize("name", ["a" * 200, "wétter", "crm.find", "a b", "天気"])
async def test_unusual_names_work(name: str, type_: str) -> None:
    tool: Json = {**DECLARED[type_], "name": name}
    async with gateway() as (api, model):
        answer = await api.create(tools=[tool])
        assert answer.status == 200, answer.body
        (wire,) = [tool["function"]["name"] for tool in model.chats[0].tools]
    assert answer.response["tools"][0]["name"] == name
    assert wire.isascii()
    assert len(wire) <= 64
