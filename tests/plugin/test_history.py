"""Items of plugins' calls after their turn: stored, listed, continued, sent back by the client."""

from typing import Any

import msgspec
import pytest

from bascule.testing import ModelServer, Reply, Text, responded
from tests.plugin.calling import CALLED, call, declared, with_tools

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
ADD = declared("acme:add")
REPLIES = [Reply(call("acme:add", {"a": 2, "b": 3})), Reply("It is 5."), Reply("Yes.")]


def pair(call_id: str, output: str, arguments: str = CALLED["arguments"]) -> list[Json]:
    """What a Chat server reads of a call."""
    function = {"name": "acme__add", "arguments": arguments}
    made = {"id": call_id, "function": function, "type": "function"}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "content": output, "tool_call_id": call_id},
    ]


def bare(messages: list[Json]) -> list[Json]:
    """Servers are told of a message without text with null or without the member."""
    return [{"content": None, **message} for message in messages]


@pytest.mark.requirement("tools:plugin:history")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_stored_turn_goes_on_from_the_pair(stream: bool) -> None:
    async with ModelServer(REPLIES) as model, with_tools(model.url) as api:
        first = (await api.create(tools=ADD, stream=stream)).response
        stored = (await api.send("GET", f"/v1/responses/{first['id']}")).json
        second = await api.create(previous_response_id=first["id"], input="Sure?", stream=stream)
        listed = await api.send("GET", f"/v1/responses/{second.response['id']}/input_items")
        before, after = [chat.json["messages"] for chat in model.chats[1:]]
    assert stored["output"] == first["output"]
    assert first["output"][0]["type"] == "acme:add_call"
    assert after[: len(before)] == before
    assert bare(after[1:3]) == pair("call_1", "5")
    assert first["output"][0] in listed.json["data"]


@pytest.mark.requirement("tools:plugin:history")
@pytest.mark.parametrize("declares", [True, False])
async def test_a_client_without_state_sends_the_items_back(declares: bool) -> None:
    async with ModelServer(REPLIES) as model, with_tools(model.url) as api:
        first = (await api.create(tools=ADD, store=False)).response
        user: Json = {"role": "user", "content": "Hello"}
        again = [user, *first["output"], {"role": "user", "content": "Sure?"}]
        second = await api.create(input=again, store=False, tools=ADD if declares else [])
        sent = model.chats[2].json["messages"]
    assert second.status == 200, second.body
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert bare(sent[1:3]) == pair(first["output"][0]["id"], "5")


@pytest.mark.requirement("tools:plugin:history")
@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"output": [{"type": "input_text", "text": "five"}]}, "five"),
        (
            {"status": "failed", "output": None, "error": {"code": "x", "message": "No."}},
            '{"error":"No."}',
        ),
        (
            {"status": "in_progress", "output": None},
            "What the call gave is not a part of this history: its status is in_progress.",
        ),
    ],
)
async def test_what_the_model_reads_of_an_item(changes: Json, output: str) -> None:
    item = {**CALLED, **changes}
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        answer = await api.create(input=[item, {"role": "user", "content": "Go on"}])
        assert answer.status == 200, answer.body
        messages = model.chats[0].messages[:-1]
    (text,) = [m["content"] for m in messages if m["role"] == "tool"]
    assert text == output or text[0]["text"] == output
    assert bare(messages)[0] == pair("ext_1", output)[0]


@pytest.mark.requirement("tools:plugin:history")
async def test_half_a_call_says_nothing() -> None:
    item = {**CALLED, "status": "incomplete", "arguments": '{"a"', "output": None}
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        await api.create(input=[item, {"role": "user", "content": "Go on"}])
        assert [m["role"] for m in model.chats[0].messages] == ["user"]


@pytest.mark.requirement("tools:plugin:history")
async def test_an_item_without_an_id_has_a_call_id_all_the_same() -> None:
    item = {key: value for key, value in CALLED.items() if key != "id"}
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        await api.create(input=[item, {"role": "user", "content": "Go on"}])
        asked, answered = model.chats[0].messages[:2]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert asked["tool_calls"][0]["id"].startswith("call_")


@pytest.mark.requirement("tools:plugin:history")
@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "acme:add_call", "id": "x"}, "input[0].arguments"),
        ({**CALLED, "output": 5}, "input[0].output"),
        ({**CALLED, "output": [{"type": "video"}]}, "input[0].output[0].type"),
        ({**CALLED, "type": "acme:nothing_call"}, "input[0].type"),
    ],
)
async def test_a_malformed_item_is_a_400_with_its_path(item: Json, param: str) -> None:
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        answer = await api.create(input=[item, {"role": "user", "content": "Go on"}])
        assert model.chats == []
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.requirement("tools:plugin:history")
async def test_a_failed_call_is_stored_and_continued() -> None:
    replies = [Reply(call("acme:fail", {"how": "told"})), Reply("Sorry."), Reply("No.")]
    async with ModelServer(replies) as model, with_tools(model.url) as api:
        first = (await api.create(tools=declared("acme:fail"))).response
        await api.create(previous_response_id=first["id"], input="Again?")
        messages = model.chats[2].json["messages"]
    assert first["output"][0]["status"] == "failed"
    assert msgspec.json.decode(messages[2]["content"]) == {"error": "There is no such city."}


@pytest.mark.requirement("tools:plugin:history")
async def test_in_a_conversation() -> None:
    async with ModelServer(REPLIES) as model, with_tools(model.url) as api:
        body = msgspec.json.encode({"items": [{"role": "user", "content": "Hi"}]})
        conversation = (await api.send("POST", "/v1/conversations", body)).json["id"]
        first = await api.create(conversation=conversation, tools=ADD)
        listed = await api.send("GET", f"/v1/conversations/{conversation}/items")
        await api.create(conversation=conversation, input="Sure?")
        messages = model.chats[2].json["messages"]
    types = [item["type"] for item in listed.json["data"]]
    assert types == ["message", "acme:add_call", "message", "message"]
    assert first.response["output"][0] in listed.json["data"]
    assert bare(messages[2:4]) == pair("call_1", "5")


@pytest.mark.requirement("tools:plugin:history", "tools:plugin:responses-upstream")
async def test_a_server_that_speaks_responses_reads_the_pair_too() -> None:
    options = {"protocol": "responses", "flags": {"hosted_tools": "all"}}
    said = {"id": "msg_up", "type": "message", "status": "completed", "role": "assistant"}
    part = {"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []}
    async with (
        ModelServer(responded({**said, "content": [part]})) as model,
        with_tools(model.url, upstream_options=options) as api,
    ):
        answer = await api.create(input=[CALLED, {"role": "user", "content": "Sure?"}], store=False)
        sent = model.chats[0].json["input"]
    assert answer.status == 200, answer.body
    made, output = sent[:2]
    assert (made["type"], made["name"], made["arguments"]) == (
        "function_call",
        "acme__add",
        CALLED["arguments"],
    )
    assert output == {"type": "function_call_output", "call_id": made["call_id"], "output": "5"}


@pytest.mark.requirement("tools:plugin:history")
async def test_a_name_that_was_sent_stays() -> None:
    own = {"type": "function", "name": "acme__add", "parameters": {"type": "object"}}
    async with ModelServer(REPLIES) as model, with_tools(model.url) as api:
        first = (await api.create(tools=ADD)).response
        await api.create(previous_response_id=first["id"], input="Sure?", tools=[own, *ADD])
        names = [tool["function"]["name"] for tool in model.chats[2].json["tools"]]
    assert names[1] == "acme__add"
    assert names[0].startswith("acme__add_")


@pytest.mark.requirement("tools:plugin:item")
async def test_a_mixed_round_runs_ours_and_hands_back_the_clients() -> None:
    weather = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    both = Reply(Text("Hm."), call("acme:add", {"a": 1}, "call_1"), call("weather", {}, "call_2"))
    async with ModelServer([both, Reply("2, sun.")]) as model, with_tools(model.url) as api:
        first = (await api.create(tools=[*ADD, weather])).response
        types = [item["type"] for item in first["output"]]
        assert types == ["message", "acme:add_call", "function_call"]
        output = {"type": "function_call_output", "call_id": "call_2", "output": "sun"}
        await api.create(previous_response_id=first["id"], input=[output], tools=[*ADD, weather])
        messages = model.chats[1].json["messages"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["2", "sun"]
