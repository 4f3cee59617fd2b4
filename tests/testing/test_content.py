"""What the model writes: the shape of its chunks, and that the whole answer says the same."""

import re
from typing import Any

import pytest
from dirty_equals import IsPartialDict
from msgspec.structs import replace
from openai import AsyncOpenAI

from bascule.testing import (
    DIALECTS,
    Call,
    Delta,
    Dialect,
    Finish,
    Interleave,
    ModelServer,
    Reasoning,
    Refusal,
    Reply,
    Text,
    Together,
    Usage,
)
from bascule.testing.steps import Step
from tests.testing.fold import fold, of_whole
from tests.testing.http import ask

pytestmark = pytest.mark.anyio

BARE = Dialect(opening=None, nulls=False)
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}

WEATHER = Call("get_weather", {"city": "Oslo"}, id="c1", split=3)
TIME = Call("get_time", '{"zone":"CET"}', id="c2", split=2)

BOTH_WAYS: dict[str, list[Step]] = {
    "text": [Text("Hello there, å!", chunks="words", logprobs=True)],
    "given fragments": [Text(["Hel", "lo"])],
    "more chunks than letters": [Text("ab", chunks=9)],
    "empty text": [Text("")],
    "reasoning_content": [Reasoning("Hm, yes.", chunks=3), Text("Yes.")],
    "reasoning": [Reasoning("Hm.", field="reasoning"), Text("Yes.")],
    "reasoning_text": [Reasoning("Hm.", field="reasoning_text"), Text("Yes.")],
    "both reasoning fields": [Reasoning("Hm.", field="both", chunks=2)],
    "reasoning details": [Reasoning(details=[{"type": "reasoning.text", "text": "Hm."}])],
    "refusal": [Refusal("I cannot do that.", chunks=4)],
    "a call": [WEATHER],
    "parallel calls": [Text("Both."), WEATHER, TIME],
    "interleaved calls": [Interleave([WEATHER, TIME])],
    "text between fragments": [Interleave([WEATHER, Text("abc", chunks=3)])],
    "text and call in one chunk": [Together([Text("ab", chunks=2), WEATHER, TIME])],
    "name fragmented": [Call(["get_", "weather"], {}, layout="joined")],
    "name repeated": [Call("f", '{"a":1}', split=3, later_name="repeated")],
    "later name empty": [Call("f", '{"a":1}', split=3, later_name="empty", later_id="empty")],
    "later name null": [Call("f", '{"a":1}', split=3, later_name="null", later_id="null")],
    "id repeated": [Call("f", '{"a":1}', split=3, later_id="repeated")],
    "arguments first": [Call("f", '{"a":1}', split=3, layout="name_last")],
    "name alone": [Call("f", '{"a":1}', split=3, layout="name_alone")],
    "no id": [Call("f", {}, omit=["id", "type"])],
    "broken arguments": [Call("f", '{"a":')],
    "no arguments": [Call("f", "")],
    "stop with calls": [WEATHER, Finish("stop")],
    "length": [Text("cut"), Finish("length")],
    "no reason": [Text("odd"), Finish(None)],
    "finish in the last chunk": [Text("x"), Finish("stop", alone=False)],
    "usage with details": [Text("x"), Usage(5, 6, cached=1, reasoning=2)],
    "usage with the finish": [Text("x"), Finish(), Usage(extra={"cached_tokens": 3}, place="last")],
    "usage of nulls": [Text("x"), Usage(None, None)],
}


@pytest.mark.parametrize("case", BOTH_WAYS)
@pytest.mark.parametrize("dialect", ["plain", "llama-server", "vllm"])
async def test_both_renderings_say_the_same(case: str, dialect: str) -> None:
    reply = Reply(*BOTH_WAYS[case])
    ids = "numbered" if case != "no id" else "none"
    async with ModelServer(reply, dialect=replace(DIALECTS[dialect], ids=ids)) as server:
        streamed = fold((await ask(server, **WITH_USAGE)).events)
        whole = of_whole((await ask(server)).json)
    assert streamed == whole


@pytest.mark.parametrize("name", DIALECTS)
async def test_the_official_sdk_reads_every_dialect(name: str) -> None:
    reply = Reply(Text("Let me see.", chunks=2), WEATHER, Call("get_time", {"zone": "CET"}))
    async with (
        ModelServer(reply, dialect=DIALECTS[name]) as server,
        AsyncOpenAI(base_url=server.url, api_key="k") as client,
    ):
        whole = await client.chat.completions.create(model="m", messages=[])
        async with client.chat.completions.stream(
            model="m", messages=[], stream_options={"include_usage": True}
        ) as stream:
            streamed = await stream.get_final_completion()
    for answer in (whole, streamed):
        message = answer.choices[0].message
        assert message.content == "Let me see."
        assert [call.function.name for call in message.tool_calls or ()] == [  # type: ignore[union-attr]
            "get_weather",
            "get_time",
        ]
        assert answer.choices[0].finish_reason == "tool_calls"
        assert answer.usage is not None


async def deltas(*steps: Step, dialect: Dialect = BARE) -> list[dict[str, Any]]:
    async with ModelServer(Reply(*steps, omit=["finish", "done"]), dialect=dialect) as server:
        return (await ask(server, stream=True)).deltas


def _calls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for row in rows for entry in row["tool_calls"]]


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        (Call("f", {}, layout="joined"), [{"name": "f", "arguments": "{}"}]),
        (Call("f", {}, layout="name_first"), [{"name": "f", "arguments": ""}, {"arguments": "{}"}]),
        (Call("f", {}, layout="name_alone"), [{"name": "f"}, {"arguments": "{}"}]),
        (Call("f", {}, layout="name_last"), [{"arguments": "{}"}, {"name": "f"}]),
        (
            Call(["a", "b"], ["{", "}"], layout="joined"),
            [{"name": "a"}, {"name": "b", "arguments": "{"}, {"arguments": "}"}],
        ),
        (
            Call("f", ["{", "}"], layout="joined", later_name="repeated"),
            [{"name": "f", "arguments": "{"}, {"arguments": "}", "name": "f"}],
        ),
        (
            Call("f", ["{", "}"], layout="joined", later_name="empty"),
            [{"name": "f", "arguments": "{"}, {"arguments": "}", "name": ""}],
        ),
    ],
)
async def test_layouts_of_a_call(call: Call, functions: list[dict[str, str]]) -> None:
    assert [entry["function"] for entry in _calls(await deltas(call))] == functions


async def test_id_and_type_come_once_with_the_name() -> None:
    first, last = _calls(await deltas(Call("f", {}, id="x")))
    assert (first["id"], first["type"], first["index"]) == ("x", "function", 0)
    assert set(last) == {"index", "function"}
    fragment, opener = _calls(await deltas(Call("f", {}, id="x", layout="name_last")))
    assert set(fragment) == {"index", "function"}
    assert opener["id"] == "x"


async def test_ids_indexes_and_types_can_be_missing() -> None:
    for entry in _calls(await deltas(Call("f", {}, omit=["id", "index", "type"]))):
        assert set(entry) == {"function"}


async def test_interleaved_calls_alternate() -> None:
    rows = _calls(await deltas(Interleave([WEATHER, TIME])))
    assert [row["index"] for row in rows] == [0, 1, 0, 1, 0, 1, 0]


async def test_a_call_and_text_in_one_delta() -> None:
    (row,) = await deltas(Together([Text("x"), Call("f", {}, layout="joined")]))
    assert set(row) == {"content", "tool_calls"}


async def test_habits_of_a_dialect_are_in_every_delta() -> None:
    dialect = Dialect(
        opening={"role": "assistant"},
        every={"role": "assistant", "tool_calls": None, "content": ""},
        chunk={"system_fingerprint": "fp"},
    )
    async with ModelServer(Reply("x", WEATHER), dialect=dialect) as server:
        streamed = await ask(server, stream=True)
        message = (await ask(server)).json["choices"][0]["message"]
    assert all(delta["role"] == "assistant" for delta in streamed.deltas)
    assert all("tool_calls" in delta and "content" in delta for delta in streamed.deltas)
    assert all(event["system_fingerprint"] == "fp" for event in streamed.events)
    assert message == IsPartialDict(content="x", role="assistant")
    assert len(message["tool_calls"]) == 1


async def test_any_delta_and_what_the_message_has_for_it() -> None:
    reply = Reply(Delta({"reasoning_opaque": "abc"}), Delta({"a": 1}, message={"b": 2}))
    async with ModelServer(reply) as server:
        streamed = await ask(server, stream=True)
        message = (await ask(server)).json["choices"][0]["message"]
    assert streamed.deltas[1:3] == [{"reasoning_opaque": "abc"}, {"a": 1}]
    assert message == IsPartialDict(reasoning_opaque="abc", b=2)
    assert "a" not in message


async def test_usage_is_sent_if_asked_for_or_scripted() -> None:
    async with ModelServer(["x", "x", Reply("x", Usage()), Reply("x", omit=["usage"])]) as server:
        silent = await ask(server, stream=True)
        asked = await ask(server, **WITH_USAGE)
        scripted = await ask(server, stream=True)
        left_out = await ask(server, **WITH_USAGE)
    assert all("usage" not in event for event in [*silent.events, *left_out.events])
    for answer in (asked, scripted):
        assert answer.events[-1]["choices"] == []
        assert answer.events[-1]["usage"]["total_tokens"] == 19
        assert answer.events[-2]["choices"][0]["finish_reason"] == "stop"


async def test_usage_shapes() -> None:
    reply = Reply("x", Usage(None, 3, cached=4, reasoning=5, extra={"cached_tokens": 4}))
    async with ModelServer(reply) as server:
        usage = (await ask(server)).json["usage"]
    assert usage == {
        "prompt_tokens": None,
        "completion_tokens": 3,
        "total_tokens": None,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
        "cached_tokens": 4,
    }


async def test_finish_and_done_can_be_left_out() -> None:
    async with ModelServer(Reply("x", omit=["finish", "done"])) as server:
        streamed = await ask(server, stream=True)
        whole = await ask(server)
    assert not streamed.done
    assert len(streamed.events) == 2
    assert whole.json["choices"][0]["finish_reason"] is None


async def test_finish_can_have_more_fields_and_any_reason() -> None:
    async with ModelServer(Reply("x", Finish("", extra={"stop_reason": 7}))) as server:
        streamed = await ask(server, stream=True)
    assert streamed.events[-1]["choices"][0] == IsPartialDict(finish_reason="", stop_reason=7)


@pytest.mark.parametrize(
    ("style", "pattern"),
    [
        ("openai", r"call_\w{24}"),
        ("llama-server", r"\w{32}"),
        ("vllm", r"chatcmpl-tool-\w{32}"),
        ("kimi", r"functions\.f:[01]"),
        ("mistral", r"\w{9}"),
        ("numbered", r"[01]"),
    ],
)
async def test_id_styles(style: Any, pattern: str) -> None:
    reply = Reply(Call("f"), Call("f"))
    async with ModelServer(reply, dialect=Dialect(ids=style)) as server:
        calls = (await ask(server)).json["choices"][0]["message"]["tool_calls"]
    assert all(re.fullmatch(pattern, call["id"]) for call in calls)
    assert calls[0]["id"] != calls[1]["id"]
