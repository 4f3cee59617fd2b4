"""Custom tools with a grammar: an input that does not match never reaches the client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from bascule.testing import (
    Call,
    Finish,
    Gate,
    ModelServer,
    Reasoning,
    Reply,
    StreamError,
    Text,
    Usage,
    responded,
)
from bascule.testing.answer import http_error
from bascule.testing.script import Script
from bascule.toolkit.outcome import Output
from tests.conformance.asking import RUN, WEATHER, gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.serving import Answer, Api, serving
from tests.stream_rules import check_stream as check_frames
from tests.tools.grammars import BAD_PATCH, GOOD_PATCH, PATCH

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def custom(syntax: str, definition: str, name: str = "run") -> Json:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {**RUN, "name": name, "format": form}


LETTERS = custom("regex", "[a-z]+")
DIGITS = custom("regex", "[0-9]+", "count")
PATCHES = custom("lark", PATCH, "patch")
OSLO = Call("get_weather", {"city": "Oslo"})
NAMED = {"type": "custom", "name": "run"}


def run(text: str, **options: Any) -> Call:
    return Call("run", {"input": text}, **options)


@asynccontextmanager
async def weakly(
    script: Script, profile: str = "ollama", **options: Any
) -> AsyncGenerator[tuple[Api, ModelServer]]:
    upstream = {"profile": profile, **options.pop("upstream", {})}
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options=upstream, **options) as api,
    ):
        yield api, model


async def turn(
    script: Script, *, stream: bool = True, fails: bool = False, **options: Any
) -> tuple[Json, Answer, list[Json]]:
    """Response, answer and the Chat requests of one turn."""
    fields: Json = {"tools": [LETTERS], **options.pop("fields", {})}
    async with weakly(script, **options) as (api, model):
        answer = await api.create(stream=stream, **fields)
        response = check_stream(answer, fails=fails) if stream else check_answer(answer)
        return response, answer, [chat.json for chat in model.chats]


def inputs(response: Json) -> list[str]:
    return [item["input"] for item in response["output"] if item["type"] == "custom_tool_call"]


def seen(answer: Answer) -> str:
    """All that left as text or input of an item."""
    return "".join(str(event.get("delta", "")) for event in answer.events)


# --- checked, and asked again


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("tool", "name", "bad", "good", "place"),
    [
        (LETTERS, "run", "abc1", "abc", "line 1, column 4"),
        (LETTERS, "run", "", "abc", "too early"),
        (PATCHES, "patch", BAD_PATCH, GOOD_PATCH, "line 3, column 1"),
        (PATCHES, "patch", GOOD_PATCH[:-14], GOOD_PATCH, "too early"),
    ],
)
async def test_an_input_that_does_not_match_is_asked_for_again(
    tool: Json, name: str, bad: str, good: str, place: str, stream: bool
) -> None:
    script = [
        Reply(Call(name, {"input": bad}, split=5), Usage(10, 5)),
        Reply(Call(name, {"input": good}, split=5), Usage(20, 7)),
    ]
    response, answer, sent = await turn(script, stream=stream, fields={"tools": [tool]})
    assert inputs(response) == [good]
    assert response["status"] == "completed"
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (30, 12)
    if stream:
        assert seen(answer) == good
        assert answer.types.count("output_item.added") == 1
    assert sent[1]["messages"][:-2] == sent[0]["messages"]
    assert sent[1]["tools"] == sent[0]["tools"]
    assert sent[1]["tool_choice"] == {"type": "function", "function": {"name": name}}
    call, told = sent[1]["messages"][-2:]
    assert msgspec.json.decode(call["tool_calls"][0]["function"]["arguments"]) == {"input": bad}
    assert told["role"] == "tool"
    assert told["tool_call_id"] == call["tool_calls"][0]["id"]
    assert place in told["content"]
    assert f"`{name}`" in told["content"]


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_input_that_matches_is_asked_for_once(stream: bool) -> None:
    script = Reply(Call("patch", {"input": GOOD_PATCH}, split=20))
    response, answer, sent = await turn(script, stream=stream, fields={"tools": [PATCHES]})
    assert inputs(response) == [GOOD_PATCH]
    assert len(sent) == 1
    if stream:
        assert answer.types.count("custom_tool_call_input.delta") > 10


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_the_text_counts_and_not_the_json_around_it() -> None:
    """A model that forgets to escape what JSON wants escaped still wrote the right text."""
    script = Reply(Call("patch", '{"input": "' + GOOD_PATCH + '"}'))
    response, _, sent = await turn(script, fields={"tools": [PATCHES]})
    assert inputs(response) == [GOOD_PATCH]
    assert len(sent) == 1


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_what_else_was_answered_stays_and_is_not_asked_for_again() -> None:
    script = [Reply(Text("Let me see."), OSLO, run("1"), Call("get_time", {})), Reply(run("abc"))]
    fields = {"tools": [LETTERS, WEATHER, {"type": "function", "name": "get_time"}]}
    response, answer, sent = await turn(script, fields=fields)
    said = [(item["type"], item.get("name")) for item in response["output"]]
    assert said == [
        ("message", None),
        ("function_call", "get_weather"),
        ("function_call", "get_time"),
        ("custom_tool_call", "run"),
    ]
    assert text_of(response) == "Let me see."
    assert inputs(response) == ["abc"]
    assert "1" not in seen(answer)
    names = [c["function"]["name"] for m in sent[1]["messages"] for c in m.get("tool_calls", [])]
    assert names == ["run"]


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_only_the_call_is_held() -> None:
    script = [
        Reply(Text("Let me see."), run("1", split=3), Gate("more"), OSLO, Gate("end")),
        Reply(run("abc")),
    ]
    async with weakly(script) as (api, model):
        early = b""
        async with api.open(tools=[LETTERS, WEATHER]) as pieces:
            read = b""
            async for piece in pieces:
                read += piece
                if b"Let me see." in read:
                    model.open("more")
                if b"function_call_arguments.delta" in read and not early:
                    early = read
                    model.open("end")
        assert early
        assert b"custom_tool_call" not in early
        assert b"custom_tool_call_input.done" in read
        assert len(model.chats) == 2


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_text_of_a_tool_without_a_grammar_streams_as_it_comes() -> None:
    free = {**RUN, "name": "free", "format": {"type": "text"}}
    script = Reply(Call("free", ['{"input": "ab', 'c1"}']), Gate("end"))
    async with weakly(script) as (api, model):
        async with api.open(tools=[LETTERS, free]) as pieces:
            read = b""
            async for piece in pieces:
                read += piece
                if b'"delta":"ab"' in read:
                    model.open("end")
        assert b'"input":"abc1"' in read
        assert len(model.chats) == 1


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_several_wrong_calls_are_asked_for_one_by_one() -> None:
    bad = Reply(run("1"), Call("count", {"input": "a"}), Usage(10, 5))
    script = [bad, Reply(run("b"), Usage(1, 1)), Reply(Call("count", {"input": "2"}), Usage(1, 1))]
    response, _, sent = await turn(script, fields={"tools": [LETTERS, DIGITS]})
    assert inputs(response) == ["b", "2"]
    assert response["usage"]["total_tokens"] == 19
    choices = [chat.get("tool_choice", {}) for chat in sent]
    assert [c["function"]["name"] for c in choices[1:]] == ["run", "count"]


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize("stream", [False, True])
async def test_of_the_second_answer_the_call_counts_and_the_reasoning_before_it(
    stream: bool,
) -> None:
    second = Reply(
        Reasoning("Letters only."), "Sorry!", Call("get_weather", {}), run("b"), run("c")
    )
    script = [Reply(Reasoning("Hm."), run("1")), second]
    fields = {"tools": [LETTERS, WEATHER]}
    response, answer, _ = await turn(script, stream=stream, fields=fields)
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["reasoning", "reasoning", "custom_tool_call"]
    assert inputs(response) == ["b"]
    assert b"Sorry" not in answer.body


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_the_gateways_own_calls_go_on_beside_a_wrong_one() -> None:
    async def answering(_: Any) -> Output:
        return Output(output="found")

    executor = LookupExecutor(answering)
    script = [Reply(Call("lookup", {"q": "x"}), run("1")), Reply(run("abc"))]
    async with weakly(script, adjust=install(executor)) as (api, model):
        answer = await api.create(stream=True, tools=[LETTERS, TOOL])
        assert len(model.chats) == 2
    kinds = [item["type"] for item in answer.response["output"]]
    assert kinds == ["lookup_call", "custom_tool_call"]
    assert len(executor.calls) == 1


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_the_turn_goes_on_from_the_second_call() -> None:
    async with weakly([Reply(run("1")), Reply(run("abc")), "Done."]) as (api, model):
        first = check_answer(await api.create(tools=[LETTERS]))
        call = first["output"][-1]
        follow = await api.create(
            tools=[LETTERS], previous_response_id=first["id"], input=[output_of(call, "ok")]
        )
        assert text_of(check_answer(follow)) == "Done."
        said = model.chats[2].json["messages"]
    assert [m["role"] for m in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"][0]["function"]["arguments"] == '{"input":"abc"}'


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_an_input_that_the_limit_cut_is_incomplete() -> None:
    script = Reply(Call("run", '{"input": "12'), Finish("length"))
    response, _, sent = await turn(script)
    assert response["status"] == "incomplete"
    assert response["output"][0]["status"] == "incomplete"
    assert len(sent) == 1


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_a_second_input_that_the_limit_cut_makes_the_response_incomplete() -> None:
    script = [Reply(run("1")), Reply(Call("run", '{"input": "ab'), Finish("length"))]
    response, _, _ = await turn(script)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_a_call_that_is_not_allowed_is_not_asked_for_again() -> None:
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    }
    fields = {"tools": [LETTERS, WEATHER], "tool_choice": allowed}
    response, _, sent = await turn([Reply(run("1")), "So be it."], fields=fields)
    assert text_of(response) == "So be it."
    assert sent[1]["messages"][-1]["content"] == "The tool run may not be called in this turn."


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_a_member_of_a_namespace() -> None:
    group = {"type": "namespace", "name": "code", "description": "Code", "tools": [LETTERS]}
    script = [Reply(Call("code__run", {"input": "1"})), Reply(Call("code.run", {"input": "abc"}))]
    async with weakly(script) as (api, model):
        answer = await api.create(stream=True, tools=[group])
        sent = [chat.json for chat in model.chats]
    check_frames(answer.frames)
    (call,) = answer.response["output"]
    assert (call["namespace"], call["name"], call["input"]) == ("code", "run", "abc")
    assert sent[1]["tool_choice"]["function"] == {"name": "code__run"}


def called(name: str, text: str) -> Any:
    arguments = msgspec.json.encode({"input": text}).decode()
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
    return responded({**item, "name": name, "arguments": arguments})


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_speaks_responses_and_knows_no_custom_tools(stream: bool) -> None:
    answers = [called("run", "1"), called("run", "abc")]
    options = {"protocol": "responses", "flags": {"custom_tools": False}}
    async with (
        ModelServer(lambda request: answers[request.number - 1](request)) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        answer = await api.create(tools=[LETTERS], stream=stream)
        first, second = [chat.json for chat in model.chats]
    response = check_stream(answer) if stream else check_answer(answer)
    assert inputs(response) == ["abc"]
    assert [tool["type"] for tool in first["tools"]] == ["function"]
    assert second["tool_choice"] == {"type": "function", "name": "run"}
    assert [item["type"] for item in second["input"][-2:]] == [
        "function_call",
        "function_call_output",
    ]


@pytest.mark.requirement("tool:custom:grammar-checked")
async def test_a_server_that_knows_custom_tools_keeps_its_own_grammars() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "status": "completed"}
    async with (
        ModelServer(responded({**item, "name": "run", "input": "1"})) as model,
        serving(model.url, upstream_options={"protocol": "responses"}) as api,
    ):
        answer = await api.create(tools=[LETTERS], metadata={"a": "b"})
        assert model.chats[0].json["tools"] == [LETTERS]
    assert inputs(answer.response) == ["1"]


# --- nothing helps


@pytest.mark.requirement("tool:custom:grammar-failed")
@pytest.mark.parametrize("second", [Reply(run("2")), Reply("No."), Reply(OSLO)])
async def test_a_second_input_that_does_not_match_fails_the_response(second: Reply) -> None:
    first = Reply(Text("Look: "), run("1"), Usage(10, 5))
    fields = {"tools": [LETTERS, WEATHER]}
    response, answer, sent = await turn([first, second], fails=True, fields=fields)
    assert response["error"]["code"] == "tool_grammar_not_followed"
    assert "'run'" in response["error"]["message"]
    assert [item["type"] for item in response["output"]] == ["message"]
    assert response["usage"]["input_tokens"] == 22
    assert seen(answer) == "Look: "
    assert len(sent) == 2


@pytest.mark.requirement("tool:custom:grammar-failed")
async def test_without_a_stream_it_is_a_502() -> None:
    async with weakly([Reply(run("1")), Reply(run("2"))]) as (api, _):
        answer = await api.create(tools=[LETTERS])
    assert answer.status == 502
    assert answer.error["code"] == "tool_grammar_not_followed"
    assert answer.error["param"] == "tools"


@pytest.mark.requirement("tool:custom:grammar-failed")
@pytest.mark.parametrize(("reasks", "replies"), [(0, 1), (1, 2)])
async def test_re_asks_are_counted_together(reasks: int, replies: int) -> None:
    """Those for the tool choice are the same."""
    script = [Reply("I would rather not.")] * (replies - 1) + [Reply(run("1")), Reply(run("abc"))]
    fields: Json = {"tools": [LETTERS], "tool_choice": "required"}
    options: Json = {"tools": {"max_reasks": reasks}}
    response, _, sent = await turn(script, fails=True, fields=fields, **options)
    assert response["error"]["code"] == "tool_grammar_not_followed"
    assert len(sent) == replies


@pytest.mark.requirement("tool:custom:grammar-failed")
@pytest.mark.parametrize("second", [http_error(429, "Slow down."), Reply(StreamError("Broken."))])
async def test_a_server_that_fails_when_it_is_asked_again(second: Any) -> None:
    response, answer, _ = await turn([Reply(Text("Look: "), run("1")), second], fails=True)
    assert response["error"]["message"] in ("Slow down.", "Broken.")
    assert seen(answer) == "Look: "


@pytest.mark.requirement("tool:custom:grammar-failed")
async def test_an_answer_that_breaks_off_in_a_call() -> None:
    script = Reply(Call("run", '{"input": "12'), StreamError("Broken."))
    response, answer, sent = await turn(script, fails=True)
    assert response["error"]["message"] == "Broken."
    assert len(sent) == 1
    assert all(item["status"] == "incomplete" for item in response["output"])
    assert answer.types.count("custom_tool_call_input.done") == len(response["output"])


# --- held by the server

FORMS = {
    "vllm": {"structured_outputs": {"regex": "[a-z]+"}},
    "llama_cpp": {"grammar": "root ::= [a-z]+\n"},
    "sglang": {"regex": "[a-z]+"},
}


@pytest.mark.requirement("tool:custom:grammar-constrained")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("profile", FORMS)
async def test_the_second_input_is_written_under_the_grammar(profile: str, stream: bool) -> None:
    script = [Reply(run("1"), Usage(10, 5)), Reply(Text("abc", chunks=3), Usage(20, 7))]
    text = {"format": {"type": "json_object"}, "verbosity": "low"}
    response, answer, sent = await turn(
        script, stream=stream, profile=profile, fields={"text": text}
    )
    (call,) = response["output"]
    assert (call["type"], call["input"], call["status"]) == ("custom_tool_call", "abc", "completed")
    assert response["usage"]["total_tokens"] == 42
    assert response["text"] == text
    assert sent[0]["response_format"] == {"type": "json_object"}
    second = sent[1]
    assert {name: second[name] for name in FORMS[profile]} == FORMS[profile]
    assert not {"tools", "tool_choice", "response_format"} & set(second)
    assert second["messages"][-1]["role"] == "user"
    assert "`run`" in second["messages"][-1]["content"]
    assert "[a-z]+" in second["messages"][-1]["content"]
    if stream:
        assert answer.types.count("custom_tool_call_input.delta") == 3


@pytest.mark.requirement("tool:custom:grammar-constrained")
async def test_a_server_that_refuses_the_grammar_is_asked_in_the_ordinary_way() -> None:
    script = [Reply(run("1")), http_error(400, "failed to parse grammar"), Reply(run("abc"))]
    response, _, sent = await turn(script, profile="llama_cpp", tools={"max_reasks": 1})
    assert inputs(response) == ["abc"]
    assert sent[2]["tool_choice"]["function"] == {"name": "run"}


@pytest.mark.requirement("tool:custom:grammar-constrained")
async def test_a_grammar_without_a_form_for_the_server_is_checked() -> None:
    tool = custom("lark", 'start: "a" "b"\n%ignore " "')
    response, _, sent = await turn(
        [Reply(run("a c")), Reply(run("a b"))], profile="llama_cpp", fields={"tools": [tool]}
    )
    assert inputs(response) == ["a b"]
    assert "grammar" not in sent[1]


@pytest.mark.requirement("tool:custom:grammar-constrained")
async def test_a_forced_call_streams_as_the_model_writes_its_text() -> None:
    script = Reply(
        Reasoning("Hm."),
        Text(["*** Begin ", 'Patch\n*** Add File: "é\\"\n+']),
        Gate("x"),
        Text("🙂\n*** End Patch"),
    )
    fields: Json = {"tools": [PATCHES], "tool_choice": {"type": "custom", "name": "patch"}}
    async with weakly(script, "llama_cpp") as (api, model):
        async with api.open(**fields) as pieces:
            read = b""
            async for piece in pieces:
                read += piece
                if b"Add File" in read:
                    model.open("x")
        (sent,) = [chat.json for chat in model.chats]
    answer = Answer(200, {"content-type": "text/event-stream"}, read)
    response = answer.response
    assert [item["type"] for item in response["output"]] == ["reasoning", "custom_tool_call"]
    assert inputs(response) == ['*** Begin Patch\n*** Add File: "é\\"\n+🙂\n*** End Patch']
    assert sent["grammar"].startswith("root ::= ")
    assert response["tool_choice"] == fields["tool_choice"]


@pytest.mark.requirement("tool:custom:grammar-constrained")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("profile", FORMS)
async def test_a_forced_call_is_checked_all_the_same(profile: str, stream: bool) -> None:
    script = Reply(Text(["abc", "d1", "ef"]), Usage(10, 5))
    fields: Json = {"tools": [LETTERS, WEATHER], "tool_choice": NAMED}
    async with weakly(script, profile) as (api, model):
        answer = await api.create(stream=stream, **fields)
        assert len(model.chats) == 1
    if not stream:
        assert (answer.status, answer.error["code"]) == (502, "tool_grammar_not_followed")
        return
    assert answer.response["error"]["code"] == "tool_grammar_not_followed"
    assert answer.response["usage"]["total_tokens"] == 15
    (call,) = check_stream(answer, fails=True)["output"]
    assert (call["input"], call["status"]) == ("abc", "incomplete")
    assert seen(answer) == "abc"


@pytest.mark.requirement("tool:custom:grammar-constrained")
@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (Reply(Text("abc")), "completed", "abc"),
        (Reply(Text("ab"), Finish("length")), "incomplete", "ab"),
        (Reply(""), "completed", ""),
    ],
)
async def test_how_a_forced_call_ends(reply: Reply, status: str, text: str) -> None:
    fields = {"tools": [custom("regex", "[a-z]*")], "tool_choice": NAMED}
    for stream in (False, True):
        response, _, _ = await turn(reply, stream=stream, profile="vllm", fields=fields)
        (call,) = response["output"]
        assert (call["input"], call["status"], response["status"]) == (text, status, status)


@pytest.mark.requirement("tool:custom:grammar-constrained")
async def test_a_forced_call_of_a_server_that_refuses_the_grammar() -> None:
    script = [http_error(400, "unknown member"), Reply(run("abc"))]
    response, _, sent = await turn(script, profile="vllm", fields={"tool_choice": NAMED})
    assert inputs(response) == ["abc"]
    assert sent[1]["tool_choice"]["function"] == {"name": "run"}


@pytest.mark.requirement("tool:custom:grammar-constrained")
async def test_a_forced_call_that_breaks_off() -> None:
    script = Reply(Text("abc"), StreamError("Broken."))
    response, _, _ = await turn(script, profile="vllm", fails=True, fields={"tool_choice": NAMED})
    assert response["error"]["message"] == "Broken."
    assert [item["status"] for item in response["output"]] == ["incomplete"]


# --- declarations


@pytest.mark.requirement("tool:custom:grammar-valid")
@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"type": "grammar", "syntax": "regex", "definition": "[a"}, "definition"),
        ({"type": "grammar", "syntax": "lark", "definition": "start: b"}, "definition"),
        ({"type": "grammar", "syntax": "lark", "definition": ""}, "definition"),
        ({"type": "grammar", "syntax": "lark", "definition": 5}, "definition"),
        ({"type": "grammar", "syntax": "lark"}, "definition"),
        ({"type": "grammar", "syntax": "ebnf", "definition": "a"}, "syntax"),
        ({"type": "grammar", "definition": "a"}, "syntax"),
        ({"type": "json"}, "type"),
        ({}, "type"),
    ],
)
async def test_a_wrong_format_is_named(form: Json, param: str) -> None:
    tool = {**RUN, "format": form}
    group = {"type": "namespace", "name": "code", "description": "", "tools": [WEATHER, tool]}
    async with gateway() as (api, model):
        flat = await api.create(tools=[WEATHER, tool])
        nested = await api.create(tools=[group])
        assert not model.chats
    assert (flat.status, nested.status) == (400, 400)
    assert flat.error["param"] == f"tools[1].format.{param}"
    assert nested.error["param"] == f"tools[0].tools[1].format.{param}"


@pytest.mark.requirement("tool:custom:grammar-valid")
async def test_a_grammar_that_cannot_be_read_here_is_not_checked_and_that_is_said() -> None:
    tool = custom("lark", "start: <|no_such_token|>")
    async with gateway(Reply(run("anything"))) as (api, model):
        answer = await api.create(tools=[WEATHER, tool])
        assert len(model.chats) == 1
    assert inputs(check_answer(answer)) == ["anything"]
    assert "tools[1]" in answer.headers["x-bascule-warnings"]


@pytest.mark.requirement("tool:custom:grammar-valid")
async def test_the_declaration_is_shown_as_it_came() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create(tools=[PATCHES]))
    assert response["tools"] == [PATCHES]
