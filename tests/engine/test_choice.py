"""Tool choices that a weak server does not enforce."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from bascule.testing import Call, Finish, Gate, ModelServer, Reasoning, Reply, Text, Usage, weak
from bascule.testing.answer import http_error
from bascule.testing.script import Script
from tests.conformance.asking import RUN, TIME, WEATHER, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import Answer, Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOLS = [WEATHER, TIME]
NAMED = {"type": "function", "name": "get_weather"}
OSLO = Call("get_weather", {"city": "Oslo"})
CLOCK = Call("get_time", {"city": "Oslo"})


@asynccontextmanager
async def weakly(
    script: Script, profile: str = "ollama", **options: Any
) -> AsyncGenerator[tuple[Api, ModelServer]]:
    """A gateway before a server that enforces nothing."""
    upstream = {"profile": profile, **options.pop("upstream", {})}
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=upstream, **options) as api,
    ):
        yield api, model


async def turn(
    script: Script, *, stream: bool = True, **options: Any
) -> tuple[Json, Answer, list[Json]]:
    """Response, answer and the Chat requests of one turn."""
    fields: Json = {"tools": TOOLS, **options.pop("fields", {})}
    async with weakly(script, **options) as (api, model):
        answer = await api.create(stream=stream, **fields)
        if TOOL in fields["tools"]:
            response = answer.response  # the schema knows no lookup
        else:
            response = check_stream(answer) if stream else check_answer(answer)
        return response, answer, [chat.json for chat in model.chats]


def calls_of(response: Json) -> list[str]:
    return [item["name"] for item in response["output"] if item["type"] == "function_call"]


# --- required


@pytest.mark.requirement("choice:weak:required")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("first", "told"),
    [
        (weak.required_ignored("Let me think."), "You wrote text"),
        (weak.required_to_the_limit(), "length limit"),
        (Reply(""), "called no tool"),
        (Reply(Reasoning("Hm."), "I would rather not."), "You wrote text"),
    ],
    ids=["text", "limit", "nothing", "reasoning"],
)
async def test_an_answer_without_a_call_is_asked_again(
    first: Reply, told: str, stream: bool
) -> None:
    fields: Json = {"tool_choice": "required"}
    response, answer, sent = await turn([first, Reply(OSLO)], stream=stream, fields=fields)
    assert [item["type"] for item in response["output"]] == ["function_call"]
    assert response["status"] == "completed"
    assert response["tool_choice"] == "required"
    for word in (b"think", b"problem", b"rather", b"Hm."):
        assert word not in answer.body
    assert [chat["tool_choice"] for chat in sent] == ["required", "required"]
    assert sent[1]["messages"][: len(sent[0]["messages"])] == sent[0]["messages"]
    last = sent[1]["messages"][-1]
    assert last["role"] == "user"
    assert told in last["content"]
    assert "`get_weather`" in last["content"]


@pytest.mark.requirement("choice:weak:required")
async def test_text_before_a_required_call_is_no_fault() -> None:
    reply = Reply("Let me look.", OSLO)
    response, _, sent = await turn(reply, fields={"tool_choice": "required"})
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    assert len(sent) == 1


@pytest.mark.requirement("choice:weak:required")
async def test_an_invented_tool_does_not_fulfil_required() -> None:
    replies = [weak.undeclared_call(), Reply(OSLO)]
    response, _, sent = await turn(replies, fields={"tool_choice": "required"})
    assert calls_of(response) == ["get_weather"]
    assert sent[1]["messages"][-1]["role"] == "tool"


@pytest.mark.requirement("choice:weak:required")
async def test_a_call_that_the_limit_cut_is_incomplete() -> None:
    reply = Reply(Call("get_weather", '{"city": "Os'), Finish("length"))
    response, _, sent = await turn(reply, fields={"tool_choice": "required"})
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert len(sent) == 1


@pytest.mark.requirement("choice:weak:required")
async def test_a_filtered_answer_is_not_asked_again() -> None:
    reply = Reply("I can", Finish("content_filter"))
    response, _, sent = await turn(reply, fields={"tool_choice": "required"})
    assert response["incomplete_details"] == {"reason": "content_filter"}
    assert len(sent) == 1


@pytest.mark.requirement("choice:weak:required")
async def test_a_failing_round_ends_in_failed() -> None:
    fields: Json = {"tool_choice": "required"}
    async with weakly(weak.unparsable_output()) as (api, model):
        answer = await api.create(stream=True, tools=TOOLS, **fields)
        assert len(model.chats) == 1
    assert answer.types[-2:] == ["error", "failed"]


# --- a named choice


@pytest.mark.requirement("choice:weak:named")
@pytest.mark.parametrize("stream", [False, True])
async def test_another_tool_than_the_named_one_never_reaches_the_client(stream: bool) -> None:
    replies = [Reply(CLOCK), Reply(OSLO)]
    response, answer, sent = await turn(replies, stream=stream, fields={"tool_choice": NAMED})
    assert calls_of(response) == ["get_weather"]
    frames = [part for part in answer.body.split(b"\n\n") if b"output_item" in part]
    assert b"get_time" not in b"".join(frames)
    call, result = sent[1]["messages"][-2:]
    assert call["tool_calls"][0]["function"]["name"] == "get_time"
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert "`get_weather`" in result["content"]


@pytest.mark.requirement("choice:weak:named")
async def test_a_wrong_call_beside_the_named_one_is_dropped() -> None:
    response, _, sent = await turn(Reply(CLOCK, OSLO), fields={"tool_choice": NAMED})
    assert calls_of(response) == ["get_weather"]
    assert len(sent) == 1


@pytest.mark.requirement("choice:weak:named")
async def test_a_wrong_call_with_broken_arguments_is_not_shown_to_the_server_again() -> None:
    replies = [Reply(Call("get_time", '{"city"')), Reply(OSLO)]
    response, _, sent = await turn(replies, fields={"tool_choice": NAMED})
    assert calls_of(response) == ["get_weather"]
    assert [m["role"] for m in sent[1]["messages"]] == ["user", "user"]


@pytest.mark.requirement("choice:weak:named")
async def test_a_named_custom_tool() -> None:
    fields: Json = {"tools": [WEATHER, RUN], "tool_choice": {"type": "custom", "name": "run"}}
    replies = [Reply(OSLO), Reply(Call("run", {"input": "1"}))]
    response, _, _ = await turn(replies, fields=fields)
    assert [item["type"] for item in response["output"]] == ["custom_tool_call"]
    assert response["output"][0]["input"] == "1"


@pytest.mark.requirement("choice:weak:named")
@pytest.mark.requirement("choice:enforced:nothing-held")
async def test_a_named_choice_that_ends_in_stop() -> None:
    """vLLM obeys, and says `stop`."""
    reply = weak.stop_with_calls("get_weather", {"city": "Oslo"})
    response, _, sent = await turn(reply, profile="vllm", fields={"tool_choice": NAMED})
    assert calls_of(response) == ["get_weather"]
    assert len(sent) == 1


# --- allowed tools


def allowed(*tools: Json, mode: str = "required") -> Json:
    refs = [{"type": tool["type"], "name": tool["name"]} for tool in tools]
    return {"type": "allowed_tools", "mode": mode, "tools": refs}


@pytest.mark.requirement("choice:weak:allowed-required")
@pytest.mark.parametrize("profile", ["vllm", "ollama"])
@pytest.mark.parametrize("first", [Reply(CLOCK), Reply("No.")])
async def test_a_call_of_an_allowed_tool_has_to_come(first: Reply, profile: str) -> None:
    fields: Json = {"tool_choice": allowed(WEATHER)}
    response, answer, sent = await turn([first, Reply(OSLO)], profile=profile, fields=fields)
    assert calls_of(response) == ["get_weather"]
    assert b"No." not in answer.body
    assert len(sent) == 2
    assert "`get_weather`" in sent[1]["messages"][-1]["content"]


@pytest.mark.requirement("choice:weak:allowed-required")
async def test_a_forbidden_call_beside_an_allowed_one_stays_hidden() -> None:
    fields: Json = {"tool_choice": allowed(WEATHER)}
    response, _, sent = await turn(Reply(CLOCK, OSLO), fields=fields)
    assert calls_of(response) == ["get_weather"]
    assert len(sent) == 1


# --- none


@pytest.mark.requirement("choice:weak:none")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_in_spite_of_none_never_reaches_the_client(stream: bool) -> None:
    replies = [Reply(Reasoning("Hm."), OSLO), "Fine."]
    response, answer, sent = await turn(replies, stream=stream, fields={"tool_choice": "none"})
    assert [item["type"] for item in response["output"]] == ["message"]
    assert text_of(response) == "Fine."
    assert b"Hm." not in answer.body
    assert sent[0]["tool_choice"] == "none"
    assert "tools" not in sent[1]
    assert "answer in text" in sent[1]["messages"][-1]["content"]


@pytest.mark.requirement("choice:weak:none")
async def test_text_beside_a_call_in_spite_of_none_is_the_answer() -> None:
    response, _, sent = await turn(Reply("Sunny.", OSLO), fields={"tool_choice": "none"})
    assert [item["type"] for item in response["output"]] == ["message"]
    assert len(sent) == 1


@pytest.mark.requirement("choice:weak:none")
async def test_a_call_written_as_text_in_spite_of_none_stays_text() -> None:
    reply = weak.none_as_json_text("get_weather", {"city": "Oslo"})
    upstream = {"flags": {"text_tool_calls": True}}
    response, _, _ = await turn(reply, upstream=upstream, fields={"tool_choice": "none"})
    assert text_of(response) == weak.written_call("get_weather", {"city": "Oslo"})


@pytest.mark.requirement("choice:weak:none")
async def test_text_under_none_is_not_held() -> None:
    reply = Reply("Sun", Gate("more"), "ny.")
    async with weakly(reply) as (api, model), api.open(tools=TOOLS, tool_choice="none") as pieces:
        seen = b""
        async for piece in pieces:
            seen += piece
            if b'"Sun"' in seen:
                model.open("more")
    assert b"response.completed" in seen


# --- one call at a time


@pytest.mark.requirement("choice:weak:parallel")
@pytest.mark.parametrize("stream", [False, True])
async def test_the_first_of_several_calls_stays(stream: bool) -> None:
    fields: Json = {"parallel_tool_calls": False}
    replies = [Reply("Both.", OSLO, CLOCK), Reply(CLOCK)]
    async with weakly(replies) as (api, model):
        answer = await api.create(stream=stream, tools=TOOLS, **fields)
        response = check_stream(answer) if stream else check_answer(answer)
        (call,) = response["output"][1:]
        assert call["name"] == "get_weather"
        frames = [part for part in answer.body.split(b"\n\n") if b"output_item" in part]
        assert b"get_time" not in b"".join(frames)
        assert "parallel" not in answer.headers["x-bascule-ignored"]
        follow = await api.create(
            tools=TOOLS, previous_response_id=response["id"], input=[output_of(call)], **fields
        )
        assert calls_of(check_answer(follow)) == ["get_time"]
        said = model.chats[1].messages[1]
    assert [c["function"]["name"] for c in said["tool_calls"]] == ["get_weather"]


@pytest.mark.requirement("choice:weak:parallel")
async def test_a_dropped_call_of_the_gateways_does_not_run() -> None:
    executor = LookupExecutor(found)
    reply = Reply(OSLO, Call("lookup", {"query": "x"}))
    fields: Json = {"parallel_tool_calls": False, "tools": [WEATHER, TOOL]}
    response, _, _ = await turn(reply, fields=fields, adjust=install(executor))
    assert [item["type"] for item in response["output"]] == ["function_call"]
    assert executor.calls == []


@pytest.mark.requirement("choice:weak:parallel")
async def test_a_forbidden_call_does_not_take_the_place_of_an_allowed_one() -> None:
    fields: Json = {"parallel_tool_calls": False, "tool_choice": allowed(WEATHER, mode="auto")}
    response, _, _ = await turn(Reply(CLOCK, OSLO), fields=fields)
    assert calls_of(response) == ["get_weather"]


@pytest.mark.requirement("choice:weak:parallel")
async def test_one_call_at_a_time_holds_nothing() -> None:
    reply = Reply(Call("get_weather", ['{"city"', ':"Oslo"}']), Gate("more"), CLOCK)
    fields: Json = {"tools": TOOLS, "parallel_tool_calls": False}
    async with weakly(reply) as (api, model), api.open(**fields) as pieces:
        seen = b""
        async for piece in pieces:
            seen += piece
            if b'"{\\"city\\""' in seen:
                model.open("more")
    assert b"response.completed" in seen


@pytest.mark.requirement("choice:weak:parallel")
async def test_one_required_call_is_a_declared_one() -> None:
    fields: Json = {"parallel_tool_calls": False, "tool_choice": "required"}
    reply = Reply(Call("translate", {}), OSLO, CLOCK)
    response, _, _ = await turn(reply, fields=fields)
    assert calls_of(response) == ["get_weather"]


# --- how often, and what then


@pytest.mark.requirement("choice:weak:bounded")
@pytest.mark.parametrize("reasks", [0, 1, 3])
async def test_the_model_is_asked_again_max_reasks_times(reasks: int) -> None:
    asked = [Reply("A secret.", Usage(10, 5)) for _ in range(reasks + 1)]
    replies = [*asked, Reply('{"city":"Oslo"}', Usage(20, 6))]
    with structlog.testing.capture_logs() as logs:
        response, _, sent = await turn(
            replies, tools={"max_reasks": reasks}, fields={"tool_choice": NAMED}
        )
    assert calls_of(response) == ["get_weather"]
    assert len(sent) == reasks + 2
    assert response["usage"]["input_tokens"] == 10 * (reasks + 1) + 20
    assert response["usage"]["output_tokens"] == 5 * (reasks + 1) + 6
    again = [line for line in logs if line["event"] == "asked again"]
    assert [(line["fault"], line["times"]) for line in again] == [
        ("text", n + 1) for n in range(reasks)
    ]
    (forced,) = [line for line in logs if line["event"] == "call forced"]
    assert (forced["reasks"], forced["model"]) == (reasks, "mock-model")
    assert "secret" not in str(logs)


@pytest.mark.requirement("choice:weak:forced")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_named_call_is_forced_through_its_own_schema(stream: bool) -> None:
    replies = ["No.", "No.", "No.", Reply(Reasoning("Hm."), Text('{"city":"Oslo"}', chunks=4))]
    response, answer, sent = await turn(replies, stream=stream, fields={"tool_choice": NAMED})
    assert [item["type"] for item in response["output"]] == ["reasoning", "function_call"]
    call = response["output"][1]
    assert (call["name"], call["arguments"]) == ("get_weather", '{"city":"Oslo"}')
    assert call["call_id"].startswith("call_")
    assert b"No." not in answer.body
    last = sent[-1]
    assert "tools" not in last
    assert "tool_choice" not in last
    form = last["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == WEATHER["parameters"]
    assert "get_weather" in last["messages"][-1]["content"]


@pytest.mark.requirement("choice:weak:forced")
async def test_one_of_several_calls_is_forced_by_name_and_arguments() -> None:
    refers = {
        "type": "function",
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"from": {"$ref": "#/$defs/Place"}},
            "$defs": {"Place": {"type": "string"}},
        },
    }
    forced = '{"name":"book","arguments":{"from":"Oslo"}}'
    fields: Json = {
        "tool_choice": "required",
        "tools": [WEATHER, refers, {**TIME, "parameters": None}],
    }
    response, _, sent = await turn(["No.", "No.", "No.", forced], fields=fields)
    (call,) = response["output"]
    assert (call["name"], call["arguments"]) == ("book", '{"from":"Oslo"}')
    schema = sent[-1]["response_format"]["json_schema"]["schema"]
    weather, book, time = (option["properties"] for option in schema["anyOf"])
    assert weather["name"]["enum"] == ["get_weather"]
    assert weather["arguments"] == WEATHER["parameters"]
    assert book["arguments"] == {"$ref": "#/$defs/tool_1"}
    moved = schema["$defs"]["tool_1"]
    assert moved["properties"]["from"] == {"$ref": "#/$defs/tool_1/$defs/Place"}
    assert time["arguments"]["type"] == "object"


@pytest.mark.requirement("choice:weak:forced")
async def test_a_forced_answer_that_is_cut_is_incomplete() -> None:
    cut = Reply('{"city":"Os', Finish("length"))
    response, _, _ = await turn(["No."] * 3 + [cut], fields={"tool_choice": NAMED})
    assert response["status"] == "incomplete"
    assert response["output"] == []


@pytest.mark.requirement("choice:weak:forced")
async def test_a_server_that_fails_to_be_asked_again_is_forced() -> None:
    replies = ["No.", http_error(400, "roles must alternate"), '{"city":"Oslo"}']
    response, _, _ = await turn(replies, tools={"max_reasks": 1}, fields={"tool_choice": NAMED})
    assert calls_of(response) == ["get_weather"]


@pytest.mark.requirement("choice:weak:failed")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("last", "flags"),
    [
        ("I will not.", {}),
        ('{"town":1}', {}),
        ('{"name":"translate","arguments":{}}', {}),
        (http_error(400, "response_format is not supported"), {}),
        (None, {"structured_output": False}),
    ],
    ids=["text", "unfit", "other", "refused", "unable"],
)
async def test_what_nothing_helps_is_failed(last: Any, flags: Json, stream: bool) -> None:
    replies = ["No.", "No.", "No.", *([] if last is None else [last])]
    fields: Json = {"tools": TOOLS, "tool_choice": NAMED}
    async with weakly(replies, upstream={"flags": flags}) as (api, model):
        answer = await api.create(stream=stream, **fields)
        assert len(model.chats) == len(replies)
    if stream:
        assert answer.types[-2:] == ["error", "failed"]
        error = answer.response["error"]
        assert answer.response["output"] == []
        assert answer.response["usage"]["input_tokens"] >= 36
    else:
        assert answer.status == 502
        error = answer.error
        assert error["param"] == "tool_choice"
    assert error["code"] == "tool_choice_not_followed"
    assert "get_weather" in error["message"]


@pytest.mark.requirement("choice:weak:failed")
async def test_none_that_is_never_followed_is_failed() -> None:
    async with weakly([Reply(OSLO)] * 3) as (api, model):
        answer = await api.create(tools=TOOLS, tool_choice="none")
        assert len(model.chats) == 3
    assert answer.error["code"] == "tool_choice_not_followed"


@pytest.mark.requirement("choice:weak:failed")
async def test_a_limit_of_requests_is_told_as_it_is() -> None:
    replies = ["No.", http_error(429, "slow down")]
    async with weakly(replies) as (api, model):
        answer = await api.create(tools=TOOLS, tool_choice=NAMED)
        assert len(model.chats) >= 2
    assert answer.status == 429
    assert answer.error["message"] == "slow down"


@pytest.mark.requirement("choice:weak:first-round-only")
async def test_an_enforced_choice_is_auto_in_the_next_round() -> None:
    executor = LookupExecutor(found)
    replies = ["No.", Reply(Call("lookup", {"query": "x"})), "It is y."]
    fields: Json = {"tools": [TOOL], "tool_choice": "required"}
    response, _, sent = await turn(replies, fields=fields, adjust=install(executor))
    assert [item["type"] for item in response["output"]] == ["lookup_call", "message"]
    assert [chat.get("tool_choice", "auto") for chat in sent] == ["required", "required", "auto"]
    assert len(executor.calls) == 1
    assert [m["role"] for m in sent[2]["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.requirement("choice:enforced:nothing-held")
@pytest.mark.parametrize("choice", ["required", "auto"])
async def test_where_the_server_enforces_nothing_is_held(choice: str) -> None:
    reply = Reply("Look", Gate("more"), "ing.", OSLO)
    fields: Json = {"tools": TOOLS, "tool_choice": choice}
    async with weakly(reply, "vllm") as (api, model), api.open(**fields) as pieces:
        seen = b""
        async for piece in pieces:
            seen += piece
            if b'"Look"' in seen:
                model.open("more")
    assert b"response.completed" in seen
