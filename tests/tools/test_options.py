"""Options of functions: what becomes of each at servers of both kinds."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply, responded
from tests.conformance.asking import CITY, TIME, WEATHER, gateway, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import serving
from tests.tools.history_samples import SHOT, image_after

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

SAID: Json = {
    "id": "msg_up",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
}
FUNCTION: Json = {"type": "function", "name": "find", "parameters": CITY}
OPTIONS: Json = {
    "strict": True,
    "output_schema": {"type": "object"},
    "defer_loading": True,
    "allowed_callers": ["programmatic"],
    "async": True,
}


def ignored(answer: Any) -> str:
    return answer.headers.get("x-bascule-ignored", "")


# --- no place for it on Chat


@pytest.mark.requirement("tool:options:ignored")
@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("output_schema", {"type": "object"}, True),
        ("output_schema", None, False),
        ("defer_loading", True, True),
        ("defer_loading", False, False),
        ("allowed_callers", ["direct", "programmatic"], False),
        ("allowed_callers", None, False),
        ("async", True, False),
        ("async", False, False),
    ],
)
async def test_an_option_without_effect_is_named_and_the_function_offered(
    option: str, value: Any, named: bool
) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=[TIME, {**FUNCTION, option: value}])
        names = [tool["function"]["name"] for tool in model.chats[0].tools]
    assert check_answer(answer)["tools"][1][option] == value
    assert names == ["get_time", "find"]
    assert ignored(answer) == (f"tools[1].{option}" if named else "")


@pytest.mark.requirement("tool:options:ignored")
async def test_options_in_a_namespace_are_named_with_their_path() -> None:
    member = {**FUNCTION, "defer_loading": True, "output_schema": {}, "strict": True}
    group = {"type": "namespace", "name": "crm", "description": "", "tools": [TIME, member]}
    flags = {"flags": {"strict_tools": False}}
    async with gateway(upstream_options=flags) as (api, _):
        answer = await api.create(tools=[group])
    paths = [f"tools[0].tools[1].{name}" for name in ("defer_loading", "output_schema", "strict")]
    assert ignored(answer).split(",") == paths


@pytest.mark.requirement("tool:options:strict")
@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize("understood", [True, False])
@pytest.mark.parametrize("strict", [True, False, None])
async def test_strict_is_named_where_it_is_not_understood(
    strict: bool | None, understood: bool, protocol: str
) -> None:
    options: Json = {"protocol": protocol, "flags": {"strict_tools": understood}}
    script = "Hi" if protocol == "chat" else responded(SAID)
    async with gateway(script, upstream_options=options) as (api, model):
        answer = await api.create(tools=[{**FUNCTION, "strict": strict}])
        (tool,) = model.chats[0].json["tools"]
    assert answer.status == 200, answer.body
    told = tool["function"] if protocol == "chat" else tool
    assert told.get("strict") == (strict if understood else None)
    assert ignored(answer) == ("tools[0].strict" if strict and not understood else "")


# --- callers


@pytest.mark.requirement("tool:options:callers")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "tool",
    [
        {**FUNCTION, "allowed_callers": ["programmatic"]},
        {**FUNCTION, "allowed_callers": []},
        {"type": "custom", "name": "run", "allowed_callers": ["programmatic"]},
        {"type": "shell", "allowed_callers": ["programmatic"]},
        {"type": "apply_patch", "allowed_callers": ["programmatic"]},
    ],
)
async def test_a_tool_for_programs_never_becomes_callable(tool: Json, stream: bool) -> None:
    name = tool.get("name", tool["type"])
    replies = [Reply(Call(name, {"city": "Oslo"}, id="call_1")), "I see."]
    async with gateway(replies) as (api, model):
        answer = await api.create(tools=[tool, TIME], stream=stream)
        sent = [chat.json for chat in model.chats]
        choice = {"type": tool["type"]} | ({"name": name} if "name" in tool else {})
        forced = await api.create(tools=[tool], tool_choice=choice)
    response = check_stream(answer) if stream else check_answer(answer)
    assert [item["type"] for item in response["output"]] == ["message"]
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == ["get_time"]
    assert ignored(answer) == "tools[0].allowed_callers"
    told = sent[1]["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_1")
    assert "may not be called" in told["content"]
    assert (forced.status, forced.error["param"]) == (400, "tool_choice")


# --- a server that speaks Responses


@pytest.mark.requirement("tool:options:passed")
async def test_a_server_that_speaks_responses_is_told_all_of_them() -> None:
    tool = {**FUNCTION, **OPTIONS}
    group = {"type": "namespace", "name": "crm", "description": "", "tools": [tool]}
    flags: Json = {"hosted_tools": [], "strict_tools": True}
    async with gateway(
        responded(SAID), upstream_options={"protocol": "responses", "flags": flags}
    ) as (
        api,
        model,
    ):
        answer = await api.create(tools=[tool, group])
        sent = model.chats[0].json["tools"]
    assert answer.status == 200
    assert sent == [tool, group]
    assert ignored(answer) == ""


@pytest.mark.requirement("family:flat:responses")
async def test_a_server_without_the_family_is_not_relayed_its_members() -> None:
    tool = {**FUNCTION, "allowed_callers": ["direct"], "defer_loading": False}
    options = {"protocol": "responses", "flags": {"flatten_tool_search_family": True}}
    async with gateway(responded(SAID), upstream_options=options) as (api, model):
        answer = await api.create(tools=[tool], store=False)
        assert answer.status == 200
        assert model.chats[0].json["tools"] == [FUNCTION]


@pytest.mark.requirement("family:flat:responses")
async def test_a_server_without_the_family_is_told_of_functions_alone() -> None:
    both = {**OPTIONS, "allowed_callers": ["direct", "programmatic"]}
    tool = {**FUNCTION, **both}
    group = {"type": "namespace", "name": "crm", "description": "", "tools": [tool]}
    alone = {**FUNCTION, "name": "alone", "allowed_callers": ["programmatic"]}
    flags: Json = {"flatten_tool_search_family": True, "strict_tools": True}
    options = {"protocol": "responses", "flags": flags}
    async with gateway(responded(SAID), upstream_options=options) as (api, model):
        answer = await api.create(tools=[tool, group, alone])
        sent = model.chats[0].json["tools"]
    kept = {**FUNCTION, "strict": True, "async": True}
    assert sent == [kept, {**kept, "name": "crm__find"}]
    assert ignored(answer).split(",") == [
        *("tools[0].defer_loading", "tools[0].output_schema"),
        *("tools[1].tools[0].defer_loading", "tools[1].tools[0].output_schema"),
        "tools[2].allowed_callers",
    ]


# --- asynchronous functions

ASYNC: Json = {**WEATHER, "async": True}
CALL = Call("get_weather", {"city": "Oslo"}, id="call_1")


@pytest.mark.requirement("tool:async:shown")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_says_that_it_is_asynchronous(stream: bool) -> None:
    reply = Reply(CALL, Call("get_time", {"city": "Oslo"}, id="call_2"))
    async with gateway(reply) as (api, _):
        answer = await api.create(tools=[ASYNC, TIME], stream=stream)
    response = answer.response
    first, second = response["output"]
    assert first["async"] is True
    assert "async" not in second
    assert response["tools"][0]["async"] is True
    if stream:
        assert answer.of_type("output_item.added")[0]["item"]["async"] is True


def roles(messages: list[Json]) -> list[tuple[str, Any]]:
    """Role, and what the message holds: ids of calls, or an id and a text."""
    told: list[tuple[str, Any]] = []
    for message in messages:
        if calls := message.get("tool_calls"):
            told.append((message["role"], [call["id"] for call in calls]))
        elif message["role"] == "tool":
            told.append(("tool", message["tool_call_id"]))
        else:
            told.append((message["role"], message["content"]))
    return told


@pytest.mark.requirement("tool:async:continued")
@pytest.mark.parametrize("stored", [False, True])
async def test_an_unanswered_call_is_continued_and_answered_late(stored: bool) -> None:
    async with gateway([Reply(CALL), "A small one.", "Sunny."]) as (api, model):
        asked: Json = {"tools": [ASYNC], "store": stored}
        history: list[Json] = [{"role": "user", "content": "Weather?"}]
        previous: str | None = None
        for said in (
            None,
            {"role": "user", "content": "Umbrella?"},
            {"type": "function_call_output", "call_id": "call_1", "output": "22 C"},
        ):
            history += [said] if said else []
            fields: Json = {"input": history}
            if stored and said is not None:
                fields = {"input": [said], "previous_response_id": previous}
            answer = await api.create(**asked, **fields)
            assert answer.status == 200, answer.body
            previous = answer.response["id"]
            history += answer.response["output"]
        assert text_of(answer.response) == "Sunny."
        sent = [chat.messages for chat in model.chats]
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][: len(sent[1])] == sent[1]
    assert roles(sent[2]) == [
        ("user", "Weather?"),
        ("assistant", ["call_1"]),
        ("tool", "call_1"),
        ("user", "Umbrella?"),
        ("assistant", "A small one."),
        ("assistant", ["call_1_2"]),
        ("tool", "call_1_2"),
    ]
    call, late = sent[2][-2:]
    assert call["tool_calls"][0]["function"] == sent[2][1]["tool_calls"][0]["function"]
    assert late["content"] == "22 C"
    assert "later" in sent[2][2]["content"]


def called(call_id: str, **more: Any) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def said(call_id: str, output: Any = "done") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


USER: Json = {"role": "user", "content": "Hm?"}
LATE: Json = {"async": True}


@pytest.mark.requirement("tool:async:continued")
@pytest.mark.parametrize(
    ("items", "told"),
    [
        pytest.param(
            [called("a", **LATE), said("a"), USER],
            [("assistant", ["a"]), ("tool", "a"), ("user", "Hm?")],
            id="answered at once",
        ),
        pytest.param(
            [called("a", **LATE), called("b"), said("b"), USER, said("a")],
            [
                *(("assistant", ["a", "b"]), ("tool", "b"), ("tool", "a"), ("user", "Hm?")),
                *(("assistant", ["a_2"]), ("tool", "a_2")),
            ],
            id="beside one that is not",
        ),
        pytest.param(
            [called("a", **LATE), called("b"), USER, said("b"), said("a")],
            [
                *(("assistant", ["a", "b"]), ("tool", "b"), ("tool", "a"), ("user", "Hm?")),
                *(("assistant", ["a_2"]), ("tool", "a_2")),
            ],
            id="the user spoke first",
        ),
        pytest.param(
            [called("a", **LATE), USER, called("b"), said("a"), said("b")],
            [
                *(("assistant", ["a"]), ("tool", "a"), ("user", "Hm?")),
                *(("assistant", ["b"]), ("tool", "b"), ("assistant", ["a_2"]), ("tool", "a_2")),
            ],
            id="while another waits",
        ),
        pytest.param(
            [called("a", **LATE), called("b"), said("b"), called("c"), said("c")],
            [
                *(("assistant", ["a", "b"]), ("tool", "b"), ("tool", "a")),
                *(("assistant", ["c"]), ("tool", "c")),
            ],
            id="the model went on",
        ),
        pytest.param(
            [called("a", **LATE), said("a"), said("a")],
            [("assistant", ["a"]), ("tool", "a"), ("assistant", ["a_2"]), ("tool", "a_2")],
            id="answered twice",
        ),
        pytest.param(
            [called("a", **LATE)],
            [("assistant", ["a"]), ("tool", "a")],
            id="not at all",
        ),
    ],
)
async def test_servers_find_a_result_behind_every_call(
    items: list[Json], told: list[tuple[str, Any]]
) -> None:
    async with gateway() as (api, model):
        answer = await api.create(input=items)
        assert answer.status == 200, answer.body
        assert roles(model.chats[0].messages) == told


@pytest.mark.requirement("tool:async:shown", "tool:async:continued")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_asynchronous_custom_tool(stream: bool) -> None:
    tool = {"type": "custom", "name": "run", "async": True, "defer_loading": True}
    reply = Reply(Call("run", {"input": "1"}, id="call_1"))
    async with gateway([reply, "Later."]) as (api, model):
        answer = await api.create(tools=[tool], stream=stream)
        (call,) = answer.response["output"]
        assert (call["type"], call["async"]) == ("custom_tool_call", True)
        assert ignored(answer) == "tools[0].defer_loading"
        follow = await api.create(
            tools=[tool], previous_response_id=answer.response["id"], input=[USER]
        )
        assert follow.status == 200, follow.body
        assert roles(model.chats[1].messages)[1:] == [
            *(("assistant", ["call_1"]), ("tool", "call_1"), ("user", "Hm?")),
        ]


@pytest.mark.requirement("tool:async:continued")
async def test_a_late_image() -> None:
    parts = [{"type": "input_image", "image_url": SHOT}]
    async with gateway() as (api, model):
        answer = await api.create(input=[called("a", **LATE), USER, said("a", parts)])
        assert answer.status == 200, answer.body
        messages = model.chats[0].messages
    assert messages[-2]["tool_call_id"] == "a_2"
    assert messages[-1] == image_after("a", SHOT)


@pytest.mark.requirement("tool:async:continued")
@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([called("a"), USER], "No tool output found for function call a."),
        ([called("b", **LATE), called("a"), USER], "No tool output found for function call a."),
        ([called("a", **{"async": False})], "No tool output found for function call a."),
    ],
)
async def test_other_calls_still_need_their_outputs(
    items: list[Json], message: str, protocol: str
) -> None:
    async with (
        ModelServer("Hi") as model,
        serving(model.url, upstream_options={"protocol": protocol}) as api,
    ):
        answer = await api.create(input=items, store=True)
        assert model.chats == []
    assert (answer.status, answer.error["param"]) == (400, "input")
    assert answer.error["message"] == message


@pytest.mark.requirement("tool:async:continued")
async def test_an_output_of_a_call_that_nobody_made_is_a_400() -> None:
    async with gateway() as (api, _):
        answer = await api.create(input=[called("a", **LATE), USER, said("b")])
    assert (answer.status, answer.error["param"]) == (400, "input")
    assert "call_id b" in answer.error["message"]
