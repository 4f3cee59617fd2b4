"""The response object and its items: which keys they have, and what is in them."""

from typing import Any

import pytest

from bascule.testing import Call, Finish, Reasoning, Reply, StreamError, Usage
from tests.conformance.asking import RUN, TIME, WEATHER, gateway
from tests.conformance.items import PREFIXES, check_keys
from tests.conformance.stream import check_answer, check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

KEYS = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "background",
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "output",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "frequency_penalty",
    "presence_penalty",
    "usage",
    "user",
    "metadata",
]
NON_NULL = [
    "id",
    "created_at",
    "status",
    "model",
    "output",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "temperature",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "store",
    "background",
    "service_tier",
]

EVERYTHING = Reply(
    Reasoning("Hm."),
    "Look.",
    Call("get_weather", {"city": "Oslo"}, id="call_1"),
    Call("run", {"input": "1"}, id="call_2"),
    Usage(12, 7, cached=3, reasoning=2),
)


async def everywhere(reply: Reply, fails: bool = False, **fields: Any) -> list[Json]:
    """Every response object that a client sees of a reply: in all events, whole, and stored."""
    async with gateway(reply) as (api, _):
        streamed = await api.create(stream=True, **fields)
        check_stream(streamed, fails=fails)
        found = [event["response"] for event in streamed.events if "response" in event]
        stored = await api.send("GET", f"/v1/responses/{found[0]['id']}")
        found.append(check_answer(stored))
        whole = await api.create(**fields)
        if whole.status == 200:
            found.append(check_answer(whole))
    return found


@pytest.mark.requirement("response:keys:all", "response:schema", "response:non-null")
@pytest.mark.parametrize(
    ("status", "reply"),
    [
        ("completed", EVERYTHING),
        ("incomplete", Reply("Once", Finish("length"))),
        ("failed", Reply("Once", StreamError())),
    ],
)
async def test_all_keys_are_there_everywhere(status: str, reply: Reply) -> None:
    fails = status == "failed"
    for response in await everywhere(reply, fails, tools=[WEATHER, RUN]):
        assert response["status"] in ("in_progress", status)
        assert response.keys() == set(KEYS)
        assert [name for name in NON_NULL if response[name] is None] == []
        assert response["object"] == "response"


@pytest.mark.requirement("response:times")
async def test_times_are_whole_seconds() -> None:
    for response in await everywhere(Reply("Hi")):
        assert isinstance(response["created_at"], int)
        if response["status"] == "completed":
            assert response["completed_at"] >= response["created_at"]
        else:
            assert response["completed_at"] is None


@pytest.mark.requirement("response:defaults")
async def test_defaults_are_filled_in() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create())
    assert {
        "model": "mock-model",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": 1,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1,
        "truncation": "disabled",
    }.items() <= response.items()


@pytest.mark.requirement("response:usage:details")
async def test_usage_has_both_details() -> None:
    for response in await everywhere(EVERYTHING, tools=[WEATHER, RUN]):
        if response["status"] == "completed":
            assert response["usage"] == {
                "input_tokens": 12,
                "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 19,
            }
        else:
            assert response["usage"] is None


@pytest.mark.requirement("response:usage:details")
async def test_usage_is_null_where_the_upstream_says_nothing() -> None:
    async with gateway(Reply("Hi", omit=["usage"])) as (api, _):
        response = check_answer(await api.create())
    assert response["usage"] is None


@pytest.mark.requirement("response:tools:echo")
async def test_declared_functions_are_shown_with_explicit_nulls() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create(tools=[WEATHER, TIME, RUN]))
    run = {**RUN, "format": {"type": "text"}}
    weather = {**WEATHER, "output_schema": None}
    time = {**TIME, "description": None, "strict": None, "output_schema": None}
    assert response["tools"] == [weather, time, run]


@pytest.mark.requirement("response:status:client-calls")
async def test_a_turn_that_hands_calls_to_the_client_is_completed() -> None:
    async with gateway(EVERYTHING) as (api, _):
        response = check_answer(await api.create(tools=[WEATHER, RUN]))
    assert response["status"] == "completed"
    assert {item.get("status", "completed") for item in response["output"]} == {"completed"}


@pytest.mark.requirement("response:stream-and-whole")
async def test_streamed_whole_and_stored_answers_agree() -> None:
    async with gateway(EVERYTHING) as (api, _):
        streamed = check_stream(await api.create(stream=True, tools=[WEATHER, RUN]))
        whole = check_answer(await api.create(tools=[WEATHER, RUN]))
        stored = check_answer(await api.send("GET", f"/v1/responses/{streamed['id']}"))
    assert stored == streamed
    for response in (streamed, whole):
        for item in response["output"]:
            del item["id"]
        for name in ("id", "created_at", "completed_at"):
            del response[name]
    assert streamed == whole


@pytest.mark.requirement("response:model")
async def test_the_model_is_shown_as_it_was_asked_for() -> None:
    async with gateway(Reply("Hi", model="model-2026-01-01")) as (api, model):
        response = check_answer(await api.create(model="mock/other"))
        assert model.chats[0].model == "other"
    assert response["model"] == "mock/other"


# --- items


@pytest.mark.requirement(
    "item:message:keys",
    "item:reasoning:keys",
    "item:function-call:keys",
    "item:custom-call:keys",
    "item:nulls",
    "item:status",
)
async def test_items_have_their_keys_and_no_nulls() -> None:
    async with gateway(EVERYTHING) as (api, _):
        response = check_answer(await api.create(tools=[WEATHER, RUN]))
    reasoning, message, function, custom = response["output"]
    for item in response["output"]:
        check_keys(item)
    assert reasoning.keys() == {"id", "type", "summary", "content"}
    assert message.keys() == {"id", "type", "status", "role", "content"}
    assert function.keys() == {"id", "type", "status", "call_id", "name", "arguments"}
    assert custom.keys() == {"id", "type", "status", "call_id", "name", "input"}
    assert message["role"] == "assistant"


@pytest.mark.requirement("item:ids")
async def test_ids_are_the_gateways_own_and_unique() -> None:
    async with gateway(EVERYTHING) as (api, _):
        first = check_answer(await api.create(tools=[WEATHER, RUN]))
        second = check_answer(await api.create(tools=[WEATHER, RUN]))
    assert first["id"].startswith("resp_")
    items = [*first["output"], *second["output"]]
    for item in items:
        assert item["id"].startswith(PREFIXES[item["type"]])
    ids = {first["id"], second["id"], *(item["id"] for item in items)}
    assert len(ids) == 2 + len(items)


@pytest.mark.requirement("item:encrypted:asked-for")
@pytest.mark.parametrize("summary", [None, "auto"])
async def test_encrypted_reasoning_is_given_to_whom_asks(summary: str | None) -> None:
    fields: Json = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": summary}}
    async with gateway(Reply(Reasoning("My secret thought"), "Yes.")) as (api, _):
        asked = check_stream(await api.create(stream=True, **fields))
        plain = check_stream(await api.create(stream=True))
    blob = asked["output"][0]["encrypted_content"]
    assert isinstance(blob, str)
    assert "secret" not in blob
    assert "encrypted_content" not in plain["output"][0]


@pytest.mark.requirement("response:tools:custom")
async def test_a_custom_tool_is_shown_with_its_defaults() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create(tools=[{"type": "custom", "name": "run"}]))
    (tool,) = response["tools"]
    assert tool["format"] == {"type": "text"}
    assert tool["description"] is None
