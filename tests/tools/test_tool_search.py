"""The tool_search family in front of servers that know functions only."""

from typing import Any

import pytest

from bascule.testing import Call, Finish, ModelServer, Reply, responded
from tests.conformance.asking import CITY, WEATHER, gateway, output_of, text_of
from tests.engine.test_responses_upstream import message
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

STREAM = pytest.mark.parametrize("stream", [True, False])
GOAL: Json = {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}
SEARCH: Json = {
    "type": "tool_search",
    "execution": "client",
    "description": "Find tools.",
    "parameters": GOAL,
}
ASK = Call("tool_search", {"goal": "find a customer"}, id="call_1", split=3)


def function(name: str = "find", **more: Any) -> Json:
    return {"type": "function", "name": name, "parameters": CITY, **more}


def group(name: str, *tools: Json, description: str = "") -> Json:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


CRM = group("crm", function(defer_loading=True, description="Find one"), description="Customers.")


def found(*tools: Json, call_id: str = "call_1") -> Json:
    return {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": call_id,
        "status": "completed",
        "tools": list(tools),
    }


def additional(*tools: Json, **more: Any) -> Json:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools), **more}


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


def names(chat: Any) -> list[str]:
    return [tool["function"]["name"] for tool in chat.tools]


def ignored(answer: Answer) -> list[str]:
    return [name for name in answer.headers.get("x-bascule-ignored", "").split(",") if name]


# --- a search that the client executes


@STREAM
@pytest.mark.requirement("family:search:bridged")
async def test_a_search_found_tool_and_its_call(stream: bool) -> None:
    script = [Reply(ASK), Reply(Call("crm__find", {"city": "Oslo"}, id="call_2")), "Done.", "More."]
    async with gateway(script) as (api, model):
        first = await api.create(tools=[SEARCH, WEATHER], stream=stream)
        [call] = first.response["output"]
        assert call == {
            "id": call["id"],
            "type": "tool_search_call",
            "status": "completed",
            "arguments": {"goal": "find a customer"},
            "call_id": "call_1",
            "execution": "client",
        }
        assert call["id"].startswith("tsc_")
        assert first.response["status"] == "completed"
        if stream:
            check_stream(first.frames)
            order = [e["type"] for e in first.events if e.get("output_index") == 0]
            assert order == ["response.output_item.added", "response.output_item.done"]
        told = model.chats[0].tools[0]["function"]
        assert (told["name"], told["description"]) == ("tool_search", "Find tools.")
        assert told["parameters"] == GOAL

        # Without a list of tools in the request: what was found is in the history.
        second = await api.create(
            previous_response_id=first.response["id"], input=[found(CRM)], stream=stream
        )
        [call] = second.response["output"]
        assert (call["type"], call["namespace"], call["name"]) == ("function_call", "crm", "find")
        chat = model.chats[1]
        assert names(chat) == ["crm__find"]
        assert chat.messages[1]["tool_calls"][0]["function"]["name"] == "tool_search"
        result = chat.messages[2]
        assert result["tool_call_id"] == "call_1"
        assert result["content"] == "These tools can be called now:\n- crm__find: Find one"

        third = await api.create(
            previous_response_id=second.response["id"], input=[output_of(call)], stream=stream
        )
        assert text_of(third.response) == "Done."
        assert names(model.chats[2]) == ["crm__find"]
        assert model.chats[2].messages[: len(chat.messages)] == chat.messages


@pytest.mark.requirement("family:search:bridged")
async def test_a_client_that_keeps_its_history_itself() -> None:
    asked = {
        "type": "tool_search_call",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "arguments": {"goal": "x"},
    }
    history = [user("Hi"), asked, found(function("ping"), function("pong", description="Back"))]
    async with gateway(Reply(Call("pong", {}, id="call_2"))) as (api, model):
        answer = await api.create(tools=[SEARCH], input=history, store=False)
    [call] = answer.response["output"]
    assert (call["name"], call.get("namespace")) == ("pong", None)
    assert names(model.chats[0]) == ["tool_search", "ping", "pong"]
    assert model.chats[0].messages[2]["content"].endswith("- ping\n- pong: Back")


@pytest.mark.requirement("family:search:deferred")
async def test_what_is_deferred_waits_until_it_is_found() -> None:
    late = function("late", defer_loading=True)
    async with gateway([Reply(ASK), "x", "x"]) as (api, model):
        first = await api.create(tools=[late, SEARCH, WEATHER])
        assert names(model.chats[0]) == ["tool_search", "get_weather"]
        assert ignored(first) == []
        after = await api.create(
            tools=[late, SEARCH, WEATHER],
            previous_response_id=first.response["id"],
            input=[found(late)],
        )
        # Behind those that the model knows: the list only grows.
        assert names(model.chats[1]) == ["tool_search", "get_weather", "late"]
        tools = [(t["type"], t.get("name")) for t in after.response["tools"]]
        assert tools[:3] == [
            ("function", "late"),
            ("tool_search", None),
            ("function", "get_weather"),
        ]


@pytest.mark.requirement("family:search:deferred")
async def test_what_was_not_found_cannot_be_called() -> None:
    late = function("late", defer_loading=True)
    async with gateway([Reply(Call("late", {"city": "x"}, id="c")), "Sorry."]) as (api, model):
        answer = await api.create(tools=[late, SEARCH])
        assert text_of(answer.response) == "Sorry."
        assert "may not be called" in model.chats[1].messages[-1]["content"]


@pytest.mark.parametrize("tool", [None, {"type": "tool_search"}])
@pytest.mark.requirement("family:search:deferred")
async def test_a_model_without_a_search_is_told_of_all(tool: Json | None) -> None:
    late = function("late", defer_loading=True)
    tools = [late, group("crm", function(defer_loading=True)), *([tool] if tool else [])]
    async with gateway() as (api, model):
        answer = await api.create(tools=tools)
    assert names(model.chats[0]) == ["late", "crm__find"]
    hosted = ["tools[2]"] if tool else []
    assert sorted(ignored(answer)) == [
        "tools[0].defer_loading",
        "tools[1].tools[0].defer_loading",
        *hosted,
    ]


@pytest.mark.requirement("family:search:deferred")
async def test_but_only_of_so_many() -> None:
    late = [function(f"late_{n}", defer_loading=True) for n in range(4)]
    async with (
        ModelServer("x") as model,
        serving(model.url, limits={"max_deferred_tools": 3}) as api,
    ):
        answer = await api.create(tools=late)
        assert (answer.status, answer.error["code"]) == (400, "too_many_deferred_tools")
        assert "at most 3 are offered" in answer.error["message"]
        assert (await api.create(tools=[*late, SEARCH])).status == 200


async def test_a_search_without_parameters_of_its_own() -> None:
    async with gateway(Reply(Call("tool_search", {"query": "x"}, id="c"))) as (api, model):
        tool: Json = {"type": "tool_search", "execution": "client", "parameters": None}
        answer = await api.create(tools=[tool])
    assert answer.response["output"][0]["arguments"] == {"query": "x"}
    assert model.chats[0].tools[0]["function"]["parameters"]["required"] == ["query"]


async def test_a_search_that_was_cut() -> None:
    async with gateway(Reply(ASK, Finish("length"))) as (api, _):
        answer = await api.create(tools=[SEARCH], stream=True)
        check_stream(answer.frames)
    [call] = answer.response["output"]
    assert (call["type"], call["status"], call["arguments"]) == (
        "tool_search_call",
        "incomplete",
        {},
    )


async def test_nothing_was_found() -> None:
    async with gateway([Reply(ASK), "x"]) as (api, model):
        first = await api.create(tools=[SEARCH])
        await api.create(previous_response_id=first.response["id"], input=[found()])
    assert model.chats[1].messages[-1]["content"] == "No tools were found."
    assert model.chats[1].tools == []


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([found(function(), call_id="call_9")], "input"),
        ([found({"type": "function"})], "input[0].tools[0].name"),
        ([found({"type": "tool_from_mars"})], "input[0].tools[0].type"),
        ([{"type": "tool_search_output", "call_id": "call_1", "tools": 5}], "input[0].tools"),
        ([additional(function(), role="user")], "input[0].role"),
        ([additional({"type": "function", "name": ""})], "input[0].tools[0].name"),
        ([{"type": "additional_tools", "role": "developer"}], "input[0]"),
        ([additional(group("a", group("b")))], "input[0].tools[0].tools[0].type"),
    ],
)
@pytest.mark.requirement("family:bad-input")
async def test_wrong_items(items: list[Json], param: str) -> None:
    asked = {"type": "tool_search_call", "call_id": "call_1", "arguments": {}}
    output = items[0]["type"] == "tool_search_output" and items[0]["call_id"] == "call_1"
    history = [*items, user("Hi")]
    if output:
        history = [*items, asked, user("Hi")]
    async with gateway() as (api, model):
        answer = await api.create(input=history)
        assert model.chats == []
    assert answer.status == 400, answer.body
    assert answer.error["param"].startswith(param), answer.error


# --- declarations in the middle of a history


@STREAM
@pytest.mark.requirement("family:additional:hoisted")
async def test_additional_tools_hold_from_their_place_on(stream: bool) -> None:
    lite = additional(
        group("functions", {"type": "custom", "name": "exec"}, function("wait")),
        group("clock", function("sleep")),
        id="at_1",
    )
    script = [
        Reply(Call("exec", {"input": "ls"}, id="call_1")),
        Reply(Call("clock__sleep", {"city": "x"}, id="call_2")),
        "x",
    ]
    async with gateway(script) as (api, model):
        first = await api.create(input=[lite, user("Hi")], tools=[WEATHER], stream=stream)
        [call] = first.response["output"]
        assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "exec", "ls")
        assert names(model.chats[0]) == ["get_weather", "exec", "wait", "clock__sleep"]
        shown = [tool.get("name") for tool in first.response["tools"]]
        assert shown == ["get_weather", "functions", "clock"]
        more = additional(function("late"))
        done = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "a.txt"}
        second = await api.create(
            # Clients send the same again: it is there already.
            input=[lite, done, more],
            tools=[WEATHER],
            previous_response_id=first.response["id"],
            stream=stream,
        )
        [call] = second.response["output"]
        assert (call["namespace"], call["name"]) == ("clock", "sleep")
        assert names(model.chats[1]) == [*names(model.chats[0]), "late"]
        third = await api.create(
            previous_response_id=second.response["id"], input=[output_of(call)], stream=stream
        )
        assert names(model.chats[2]) == ["exec", "wait", "clock__sleep", "late"]
        for answer in (first, second, third):
            path = f"/v1/responses/{answer.response['id']}/input_items?limit=100"
            listed = (await api.send("GET", path)).json["data"]
            assert "additional_tools" not in [item["type"] for item in listed]


@pytest.mark.requirement("family:additional:hoisted")
async def test_a_tool_that_is_declared_again_changes_at_its_place() -> None:
    first, second = (
        additional(function("a"), function("b")),
        additional(function("a", description="New")),
    )
    async with gateway() as (api, model):
        await api.create(input=[first, user("Hi"), second])
    tools = model.chats[0].tools
    assert [t["function"]["name"] for t in tools] == ["a", "b"]
    assert tools[0]["function"]["description"] == "New"


@pytest.mark.requirement("family:additional:native")
async def test_they_stay_at_their_place_for_a_server_that_reads_them_there() -> None:
    lite = additional(group("functions", function("wait")), id="at_1")
    upstream = {"protocol": "responses"}
    async with (
        ModelServer(responded(message("Hi.")), then="repeat") as model,
        serving(model.url, upstream_options=upstream) as api,
    ):
        first = await api.create(input=[user("a"), lite, user("b")])
        before = first.response["id"]
        second = await api.create(input=[lite, user("c")], previous_response_id=before)
        before = second.response["id"]
        third = await api.create(
            input=[additional(function("x")), user("d")], previous_response_id=before
        )
        await api.create(input="e", previous_response_id=third.response["id"])
    kinds = [[i.get("type") for i in chat.json["input"]] for chat in model.chats]
    assert kinds[0] == ["message", "additional_tools", "message"]
    assert kinds[1] == [*kinds[0], "message", "message"]
    assert kinds[2] == [*kinds[1], "message", "additional_tools", "message"]
    assert kinds[3] == [*kinds[2], "message", "message"]
    sent = model.chats[3].json["input"]
    assert sent[1] == lite
    for chat in model.chats:
        assert "tools" not in chat.json


# --- names


@pytest.mark.requirement("family:names:own-namespace")
@STREAM
async def test_a_namespace_of_the_tools_own_name(stream: bool) -> None:
    """As a deferred function comes back elsewhere: the function without it."""
    made = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "find",
        "namespace": "find",
        "arguments": "{}",
    }
    history = [user("Hi"), made, {**output_of(made), "output": "ok"}]
    async with gateway(Reply(Call("find", {"city": "x"}, id="c"))) as (api, model):
        answer = await api.create(input=history, tools=[function()], stream=stream)
        assert model.chats[0].messages[1]["tool_calls"][0]["function"]["name"] == "find"
        [call] = answer.response["output"]
        assert (call["name"], call.get("namespace")) == ("find", None)
    async with gateway(Reply(Call("find__find", {"city": "x"}, id="c"))) as (api, model):
        answer = await api.create(input=history, tools=[group("find", function())], stream=stream)
        assert model.chats[0].messages[1]["tool_calls"][0]["function"]["name"] == "find__find"
        assert answer.response["output"][0]["namespace"] == "find"


# --- programs


@pytest.mark.requirement("family:programs:text")
async def test_programs() -> None:
    program = {
        "type": "program",
        "id": "cm_1",
        "call_id": "p1",
        "code": "text(1)",
        "fingerprint": "f",
    }
    inner = {
        "type": "function_call",
        "call_id": "c1",
        "name": "price",
        "arguments": "{}",
        "caller": {"type": "program", "caller_id": "p1"},
    }
    ended = {
        "type": "program_output",
        "id": "cmo_1",
        "call_id": "p1",
        "result": "3",
        "status": "completed",
    }
    output = {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "3",
        "caller": inner["caller"],
    }
    price = function("price", allowed_callers=["programmatic"])
    tools = [price, {"type": "programmatic_tool_calling"}]
    async with gateway() as (api, model):
        answer = await api.create(input=[user("Hi"), program, inner, output, ended], tools=tools)
        assert answer.status == 200, answer.body
        assert ignored(answer) == ["tools[0].allowed_callers", "tools[1]"]
        assert model.chats[0].tools == []
        said = [m.get("content") for m in model.chats[0].messages]
        assert "I ran this program:\n\ntext(1)" in said
        assert "The program's result:\n\n3" in said
        pending = await api.create(input=[user("Hi"), program, inner, output], tools=tools)
        assert (pending.status, pending.error["param"]) == (400, "input[1]")
        assert "nothing here can run it" in pending.error["message"]
        assert "text(1)" not in pending.error["message"]
        choice = {"type": "programmatic_tool_calling"}
        forced = await api.create(tools=tools, tool_choice=choice)
        assert (forced.status, forced.error["param"]) == (400, "tool_choice")


@pytest.mark.requirement("family:additional:hoisted")
async def test_additional_tools_of_a_conversation() -> None:
    async with gateway(["a", "b"]) as (api, model):
        made = await api.send("POST", "/v1/conversations", b"{}")
        id_ = made.json["id"]
        lite = additional(group("clock", function("sleep")))
        await api.create(input=[lite, user("Hi")], conversation=id_)
        await api.create(input=[lite, user("Go on")], conversation=id_)
        listed = (await api.send("GET", f"/v1/conversations/{id_}/items")).json["data"]
    assert [names(chat) for chat in model.chats] == [["clock__sleep"]] * 2
    assert {item["type"] for item in listed} == {"message"}
