"""Tools that the client executes, and the choice among them."""

from typing import Any

import pytest

from bascule.testing import Call, Reply
from tests.conformance.asking import CITY, RUN, TIME, WEATHER, gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOLS = [WEATHER, TIME, RUN]


async def asked(
    choice: Any, tools: list[Json] = TOOLS, reply: Reply | str = "Fine.", **options: Any
) -> tuple[Json, Json]:
    """The response and the Chat request of a turn with this `tool_choice`."""
    async with gateway(reply, **options) as (api, model):
        response = check_answer(await api.create(tools=tools, tool_choice=choice))
        return response, model.chats[0].json


async def refused(**fields: Any) -> Json:
    async with gateway() as (api, model):
        answer = await api.create(**fields)
        assert model.chats == []
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    return answer.error


# --- declarations


@pytest.mark.requirement("tool:function:declared")
async def test_functions_reach_the_model_as_they_were_declared() -> None:
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[WEATHER, TIME]))
        tools = model.chats[0].tools
    assert tools == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather of a city",
                "parameters": CITY,
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "get_time", "parameters": CITY}},
    ]


@pytest.mark.requirement("tool:function:optional")
@pytest.mark.parametrize("more", [{}, {"parameters": None, "strict": None, "description": None}])
async def test_a_function_needs_a_name_only(more: Json) -> None:
    async with gateway(Reply(Call("ping", ""))) as (api, model):
        response = check_answer(
            await api.create(tools=[{"type": "function", "name": "ping", **more}])
        )
        (tool,) = model.chats[0].tools
    assert tool["function"]["name"] == "ping"
    assert response["output"][0]["name"] == "ping"


@pytest.mark.requirement("tool:custom:declared")
async def test_a_custom_tool_reaches_the_model_as_a_function_of_one_text() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[RUN, {**RUN, "name": "spell", "format": grammar}]))
        run, spell = [tool["function"] for tool in model.chats[0].tools]
    assert run["name"] == "run"
    assert run["description"] == "Run code"
    assert run["parameters"]["required"] == ["input"]
    assert run["parameters"]["properties"] == {"input": {"type": "string"}}
    assert 'start: "a"' in spell["description"]


@pytest.mark.requirement("tool:refused-with-place")
@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "no_such_tool"}, "tools[1].type"),
        ({"name": "f"}, "tools[1].type"),
        ({"type": "function"}, "tools[1].name"),
        ({"type": "function", "name": ""}, "tools[1].name"),
        ({"type": "function", "name": "f", "parameters": []}, "tools[1].parameters"),
        ({"type": "custom"}, "tools[1].name"),
        ({"type": "custom", "name": "c", "format": {"type": "xml"}}, "tools[1].format.type"),
        (
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}},
            "tools[1].format.definition",
        ),
    ],
)
async def test_a_bad_declaration_is_named(tool: Json, param: str) -> None:
    assert (await refused(tools=[WEATHER, tool]))["param"] == param


@pytest.mark.requirement("tool:duplicate:refused")
async def test_the_same_tool_twice_is_named() -> None:
    error = await refused(tools=[WEATHER, TIME, WEATHER])
    assert error["param"] == "tools[2]"


# --- calls and their outputs


@pytest.mark.requirement("tool:call:round-trip")
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_go_to_the_client_and_outputs_to_the_model(stream: bool) -> None:
    first = Reply(
        Call("get_weather", {"city": "Oslo"}, id="call_1"),
        Call("run", {"input": "1\n"}, id="call_2"),
    )
    async with gateway([first, "Done."]) as (api, model):
        answer = await api.create(tools=TOOLS, stream=stream)
        response = check_stream(answer) if stream else check_answer(answer)
        function, custom = response["output"]
        assert function["arguments"] == '{"city":"Oslo"}'
        assert custom["input"] == "1\n"
        parts = [{"type": "input_text", "text": "sunny"}]
        outputs = [output_of(custom, "ok"), output_of(function, parts)]
        answer = await api.create(
            tools=TOOLS, previous_response_id=response["id"], input=outputs, stream=stream
        )
        second = check_stream(answer) if stream else check_answer(answer)
        messages = model.chats[1].messages
    assert text_of(second) == "Done."
    said = messages[1]["tool_calls"]
    assert [(c["id"], c["function"]["name"]) for c in said] == [
        ("call_1", "get_weather"),
        ("call_2", "run"),
    ]
    assert said[1]["function"]["arguments"] == '{"input":"1\\n"}'
    assert {m["tool_call_id"]: m["content"] for m in messages[2:]} == {
        "call_1": "sunny",
        "call_2": "ok",
    }


@pytest.mark.requirement("tool:call:round-trip")
async def test_a_client_without_stored_state_sends_calls_and_outputs() -> None:
    async with gateway([Reply(Call("get_weather", {}, id="call_1")), "Done."]) as (api, model):
        first = check_answer(await api.create(tools=TOOLS, store=False))
        (call,) = first["output"]
        items = [{"role": "user", "content": "Hello"}, call, output_of(call, "sunny")]
        check_answer(await api.create(tools=TOOLS, store=False, input=items))
        roles = [message["role"] for message in model.chats[1].messages]
    assert roles == ["user", "assistant", "tool"]


@pytest.mark.requirement("tool:call:invented")
async def test_a_name_that_the_model_invents_comes_back_as_it_was_called() -> None:
    async with gateway(Reply(Call("no_such_tool", {"a": 1}))) as (api, _):
        response = check_stream(await api.create(stream=True, tools=TOOLS))
    (call,) = response["output"]
    assert (call["type"], call["name"]) == ("function_call", "no_such_tool")
    assert call["arguments"] == '{"a":1}'


# --- the choice


@pytest.mark.requirement("choice:auto:default")
async def test_the_default_is_auto() -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(tools=TOOLS))
        assert model.chats[0].json.get("tool_choice", "auto") == "auto"
    assert response["tool_choice"] == "auto"


@pytest.mark.requirement("choice:required")
async def test_a_required_call_is_asked_of_the_model() -> None:
    response, request = await asked("required")
    assert request["tool_choice"] == "required"
    assert response["tool_choice"] == "required"


@pytest.mark.requirement("choice:none")
async def test_no_call_is_asked_of_the_model() -> None:
    response, request = await asked("none")
    assert request.get("tool_choice") == "none" or "tools" not in request
    assert response["tool_choice"] == "none"
    assert [item["type"] for item in response["output"]] == ["message"]


@pytest.mark.requirement("choice:named:function")
async def test_a_named_function_is_asked_of_the_model() -> None:
    choice = {"type": "function", "name": "get_time"}
    response, request = await asked(choice)
    assert request["tool_choice"] == {"type": "function", "function": {"name": "get_time"}}
    assert response["tool_choice"] == choice


@pytest.mark.requirement("choice:named:custom")
async def test_a_named_custom_tool_is_asked_of_the_model() -> None:
    choice = {"type": "custom", "name": "run"}
    response, request = await asked(choice)
    assert request["tool_choice"] == {"type": "function", "function": {"name": "run"}}
    assert response["tool_choice"] == choice


def allowed(*tools: Json, mode: str = "auto") -> Json:
    refs = [{"type": tool["type"], "name": tool["name"]} for tool in tools]
    return {"type": "allowed_tools", "mode": mode, "tools": refs}


@pytest.mark.requirement("choice:allowed:visible")
@pytest.mark.parametrize("understood", [True, False])
@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_all_tools_stay_visible_under_allowed_tools(mode: str, understood: bool) -> None:
    choice = allowed(WEATHER, RUN, mode=mode)
    options = {"flags": {"allowed_tools": understood}}
    reply = Reply(Call("get_weather", {"city": "Oslo"}))
    response, request = await asked(choice, reply=reply, upstream_options=options)
    names = [tool["function"]["name"] for tool in request["tools"]]
    assert names == ["get_weather", "get_time", "run"]
    assert response["tool_choice"] == choice
    if understood:
        assert request["tool_choice"]["allowed_tools"]["mode"] == mode
    else:
        assert request.get("tool_choice", "auto") == mode


@pytest.mark.requirement("choice:allowed:enforced")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_outside_the_allowed_tools_never_reaches_the_client(stream: bool) -> None:
    replies = [
        Reply(Call("get_time", {"city": "Oslo"}, id="call_1")),
        Reply(Call("get_weather", {"city": "Oslo"}, id="call_2")),
    ]
    async with gateway(replies) as (api, model):
        answer = await api.create(tools=TOOLS, tool_choice=allowed(WEATHER), stream=stream)
        response = check_stream(answer) if stream else check_answer(answer)
        told = model.chats[1].messages[-1]
    assert [item["call_id"] for item in response["output"]] == ["call_2"]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_1")
    assert b"get_time" not in b"".join(
        frame for frame in answer.body.split(b"\n\n") if b"output_item" in frame
    )


@pytest.mark.requirement("choice:allowed:enforced")
async def test_an_allowed_call_beside_a_forbidden_one_goes_to_the_client() -> None:
    reply = Reply(Call("get_time", {}, id="call_1"), Call("get_weather", {}, id="call_2"))
    async with gateway([reply, "Done."]) as (api, model):
        response = check_stream(
            await api.create(tools=TOOLS, tool_choice=allowed(WEATHER), stream=True)
        )
        (call,) = response["output"]
        assert call["call_id"] == "call_2"
        assert call["status"] == "completed"
        follow = await api.create(
            tools=TOOLS, previous_response_id=response["id"], input=[output_of(call)]
        )
        assert text_of(check_answer(follow)) == "Done."
        assert len(model.chats) == 2


@pytest.mark.requirement("choice:undeclared:refused")
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "no_such_tool"},
        {"type": "custom", "name": "get_weather"},
        {"type": "function", "name": "run"},
        {"type": "web_search"},
        allowed(WEATHER, {"type": "function", "name": "no_such_tool"}),
    ],
)
async def test_a_choice_of_an_undeclared_tool_is_refused(choice: Json) -> None:
    error = await refused(tools=TOOLS, tool_choice=choice)
    assert (error["param"], error["code"]) == ("tool_choice", None)
    assert "not found in 'tools' parameter." in error["message"]


@pytest.mark.requirement("choice:malformed:refused")
@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        ({"name": "get_weather"}, "tool_choice.type"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.tools"),
        (allowed(WEATHER, mode="none"), "tool_choice.mode"),
        ({"type": "allowed_tools", "tools": [WEATHER]}, "tool_choice.mode"),
    ],
)
async def test_a_malformed_choice_is_named(choice: Any, param: str) -> None:
    assert (await refused(tools=TOOLS, tool_choice=choice))["param"] == param


@pytest.mark.requirement("choice:required:without-tools")
async def test_a_required_call_without_tools_is_refused() -> None:
    assert (await refused(tool_choice="required"))["param"] == "tool_choice"
