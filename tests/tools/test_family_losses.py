"""Where joining names and splitting them again loses something: each case with what must come of it. The
numbers are those of the list that the reference has of such cases."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply, responded
from tests.conformance.asking import CITY, gateway, output_of
from tests.engine.test_responses_upstream import message
from tests.serving import serving
from tests.tools.test_tool_search import (
    SEARCH,
    additional,
    found,
    function,
    group,
    ignored,
    names,
    user,
)
from tests.tools.web_gateway import calls, searched, web

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("family:losses")]

Json = dict[str, Any]


def custom(name: str = "query") -> Json:
    return {"type": "custom", "name": name}


async def called(tools: list[Json], at: int, **fields: Any) -> tuple[list[str], Json, list[Json]]:
    """The names that the model is told, the item of its call of the one at `at`, and the messages of the
    turn after that."""
    told: list[list[str]] = []

    def answer(request: Any) -> Reply:
        told.append(names(request))
        if len(told) > 1:
            return Reply("Done.")
        custom_ = tools_flat[at]["type"] == "custom"
        return Reply(Call(told[0][at], {"input": "x"} if custom_ else {"city": "x"}, id="call_1"))

    tools_flat = [t for tool in tools for t in tool.get("tools", [tool])]
    async with ModelServer(answer) as model, serving(model.url) as api:
        first = await api.create(tools=tools, **fields)
        assert first.status == 200, first.body
        [call] = first.response["output"]
        await api.create(
            tools=tools, previous_response_id=first.response["id"], input=[output_of(call)]
        )
        return told[0], call, model.chats[1].messages


@pytest.mark.parametrize(
    ("tools", "at", "namespace", "name"),
    [
        pytest.param([group("mcp__docs", function())], 0, "mcp__docs", "find", id="1 in a namespace"),
        pytest.param([function("mcp__github__create_issue")], 0, None, "mcp__github__create_issue", id="2 plain"),
        pytest.param([group("ns", function("a__b"))], 0, "ns", "a__b", id="3 delimiter in the name"),
        pytest.param(
            [group("a__b", function("c")), group("a", function("b__c")), function("a__b__c")],
            1, "a", "b__c", id="4 three that join to one",
        ),
        pytest.param([group("one", function("js")), group("two", function("js"))], 1, "two", "js", id="5 the same name twice"),
        pytest.param([group("codex_apps", function("x__"))], 0, "codex_apps", "x__", id="6 a trailing delimiter"),
        pytest.param([group("n" * 33, function("m" * 32))], 0, "n" * 33, "m" * 32, id="7 too long"),
        pytest.param([group("has.dot", function("größe 1"))], 0, "has.dot", "größe 1", id="8 illegal signs"),
        pytest.param([group("a.b", function("c")), group("a", function("b.c"))], 1, "a", "b.c", id="27 dots that join to one"),
        pytest.param([group("crm", {"type": "function", "name": "bare"})], 0, "crm", "bare", id="29 no parameters"),
        pytest.param([group("repl", custom("exec"))], 0, "repl", "exec", id="30 a custom member"),
        pytest.param([group("find", function("find"))], 0, "find", "find", id="33 namespace and name the same"),
        pytest.param(
            [group("a", function("run")), group("b", custom("run"))], 1, "b", "run", id="a leaf of two kinds"
        ),
    ],
)  # fmt: skip
async def test_a_call_comes_back_under_its_own_pair(
    tools: list[Json], at: int, namespace: str | None, name: str
) -> None:
    told, call, messages = await called(tools, at)
    assert (call.get("namespace"), call["name"]) == (namespace, name)
    assert len(set(told)) == len(told)
    assert all((len(wire) <= 64 and wire.replace("-", "_").isidentifier()) or wire for wire in told)
    # 10, 31: the history says the name that the model knows.
    assert messages[1]["tool_calls"][0]["function"]["name"] == told[at]


async def test_28_names_do_not_hang_on_the_order_of_declarations() -> None:
    tools = [group("a__b", function("c")), group("a", function("b__c")), function("a__b__c")]
    forward, *_ = await called(tools, 0)
    backward, *_ = await called(tools[::-1], 0)
    assert sorted(forward) == sorted(backward)
    assert forward[2] == backward[0] == "a__b__c"


async def test_11_12_items_and_tools_of_a_history_are_told() -> None:
    asked = {"type": "tool_search_call", "call_id": "call_1", "arguments": {"goal": "x"}}
    program = {"type": "program", "id": "cm_1", "call_id": "p", "code": "1", "fingerprint": "f"}
    ended = {"type": "program_output", "id": "cmo_1", "call_id": "p", "result": "1"}
    history = [user("Hi"), asked, found(group("crm", function())), program, ended, user("Go on")]
    async with gateway() as (api, model):
        answer = await api.create(input=history)
        assert answer.status == 200, answer.body
    assert names(model.chats[0]) == ["crm__find"]
    assert "These tools can be called now:\n- crm__find" in str(
        [m["content"] for m in model.chats[0].messages]
    ).replace("\\n", "\n")


@pytest.mark.parametrize("name", ["find", "crm.find", "crm__find"])
@pytest.mark.parametrize("kind", ["function", "custom"])
async def test_14_a_choice_of_a_namespaced_tool(name: str, kind: str) -> None:
    member = function() if kind == "function" else custom("find")
    async with gateway(Reply(Call("crm__find", {"city": "x", "input": "x"}, id="c"))) as (
        api,
        model,
    ):
        choice = {"type": kind, "name": name}
        answer = await api.create(tools=[group("crm", member)], tool_choice=choice)
        assert answer.status == 200, answer.body
        assert model.chats[0].json["tool_choice"]["function"]["name"] == "crm__find"
        assert answer.response["tool_choice"] == choice


async def test_15_a_limit_is_not_lifted() -> None:
    tools = [group("crm", function(), function("drop"))]
    script = [Reply(Call("crm__drop", {"city": "x"}, id="c")), "Sorry."]
    async with gateway(script) as (api, model):
        choice = {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "find"}],
        }
        answer = await api.create(tools=tools, tool_choice=choice)
        assert [item["type"] for item in answer.response["output"]] == ["message"]
        assert "may not be called" in model.chats[1].messages[-1]["content"]
        assert answer.response["tool_choice"]["tools"] == choice["tools"]


async def test_16_32_a_choice_without_its_tool_is_refused() -> None:
    alone = function(allowed_callers=["programmatic"])
    tools = [alone, {"type": "programmatic_tool_calling"}]
    async with gateway() as (api, model):
        for choice in (
            {"type": "programmatic_tool_calling"},
            "required",
            {"type": "function", "name": "find"},
        ):
            answer = await api.create(tools=tools, tool_choice=choice)
            assert (answer.status, answer.error["param"]) == (400, "tool_choice")
        assert model.chats == []


async def test_17_to_20_what_belongs_to_the_family_stays_here() -> None:
    more: Json = {
        "defer_loading": True,
        "allowed_callers": ["direct"],
        "output_schema": {"type": "object"},
    }
    tools = [
        group("crm", function(description="Find one", **more), description="Customers."),
        function("alone", allowed_callers=["programmatic"]),
        {"type": "shell", "environment": {"type": "local"}, "allowed_callers": ["direct"]},
        {"type": "apply_patch", "allowed_callers": ["direct"]},
    ]
    async with gateway() as (api, model):
        answer = await api.create(tools=tools)
    sent = model.chats[0].json["tools"]
    assert not any(name in str(sent) for name in more)
    assert names(model.chats[0]) == ["crm__find", "shell", "apply_patch"]
    assert sent[0]["function"]["description"] == "Customers.\n\nFind one"
    assert ignored(answer) == [
        "tools[0].tools[0].defer_loading",
        "tools[0].tools[0].output_schema",
        "tools[1].allowed_callers",
    ]
    # 24: the client reads what it said.
    assert answer.response["tools"][0]["tools"][0]["defer_loading"] is True


async def test_21_22_a_tool_that_comes_again_is_there_once() -> None:
    async with gateway() as (api, model):
        again = additional(function("a"), function("b"))
        await api.create(tools=[function("a")], input=[user("Hi"), again, user("Go on"), again])
    assert names(model.chats[0]) == ["a", "b"]


async def test_23_a_search_of_the_web_among_additional_tools() -> None:
    async with web(searched(query="bridges"), "x") as made:
        items = [additional({"type": "web_search"}), user("Hi")]
        answer = await made.ask(tools=[], input=items)
        assert [call["status"] for call in calls(answer)] == ["completed"]


@pytest.mark.parametrize("written", ["find", "crm.find", "crm__find"])
async def test_26_a_model_that_writes_the_name_in_another_way(written: str) -> None:
    async with gateway(Reply(Call(written, {"city": "x"}, id="c"))) as (api, _):
        answer = await api.create(tools=[group("crm", function())])
    [call] = answer.response["output"]
    assert (call["namespace"], call["name"]) == ("crm", "find")


async def test_a_name_that_nobody_declared_stays_as_it_is() -> None:
    async with gateway(Reply(Call("crm__other", {}, id="c"))) as (api, _):
        answer = await api.create(tools=[group("crm", function())])
    [call] = answer.response["output"]
    assert (call.get("namespace"), call["name"]) == (None, "crm__other")


async def test_35_a_chain_that_moves_to_a_server_which_knows_the_family() -> None:
    """Nothing of the flat form is left in what it is given."""
    tools = [group("crm", function(), custom()), SEARCH]
    flat_script = [Reply(Call("crm__find", {"city": "x"}, id="call_1"))]
    async with (
        ModelServer(flat_script) as flat,
        ModelServer(responded(message("Hi."))) as native,
    ):
        upstreams: list[Json] = [
            {"name": "flat", "base_url": flat.url, "models": ["flat"]},
            {
                "name": "native",
                "base_url": native.url,
                "models": ["native"],
                "protocol": "responses",
                "profile": "openai",
            },
        ]
        async with serving(flat.url, upstreams=upstreams) as api:
            api.model = "flat"
            lite = additional(group("clock", function("sleep")))
            first = await api.create(tools=tools, input=[lite, user("Hi")])
            [call] = first.response["output"]
            api.model = "native"
            second = await api.create(
                tools=tools,
                previous_response_id=first.response["id"],
                input=[output_of(call)],
            )
            assert second.status == 200, second.body
    [sent] = [chat.json for chat in native.chats]
    assert sent["tools"] == tools
    assert [item.get("type") for item in sent["input"]] == [
        *("additional_tools", "message", "function_call", "function_call_output"),
    ]
    made = sent["input"][2]
    assert (made["namespace"], made["name"]) == ("crm", "find")
    assert sent["input"][0]["tools"] == lite["tools"]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "program", "id": "x", "call_id": "p", "code": "s3cret()", "fingerprint": "f"},
        {"type": "tool_search_output", "call_id": "nobody", "tools": [function("s3cret")]},
        {"type": "from_the_future", "text": "s3cret"},
        additional({"type": "s3cret_free", "text": "s3cret"}),
    ],
    ids=lambda item: item["type"],
)
async def test_37_a_refusal_repeats_nothing_of_the_item(item: Json) -> None:
    async with gateway() as (api, _):
        answer = await api.create(input=[user("Hi"), item])
    assert answer.status == 400
    text = answer.error["message"].replace("s3cret_free", "")
    assert "s3cret" not in text


async def test_a_tool_of_a_later_turn_that_would_coincide_with_one_of_the_first() -> None:
    """The first keeps its name, whichever would have had it within one list."""
    script = [Reply(Call("crm__find", {"city": "x"}, id="call_1")), "x"]
    async with gateway(script) as (api, model):
        first = await api.create(tools=[group("crm", function())])
        [call] = first.response["output"]
        await api.create(
            tools=[group("crm", function()), function("crm__find")],
            previous_response_id=first.response["id"],
            input=[output_of(call)],
        )
    told = names(model.chats[1])
    assert told[0] == "crm__find"
    assert told[1] != "crm__find"
    assert model.chats[1].tools[1]["function"]["parameters"] == CITY
