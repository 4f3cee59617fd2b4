"""What weak models and servers do with tools of every kind: a turn ends in the right result or in a
clear error, never in a hang or a false success."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, Request, Script, weak
from tests.conformance.asking import TIME, output_of, text_of
from tests.engine.lookup_tool import LookupExecutor, found, install
from tests.gateway.leaks import nothing_left
from tests.gateway.tool_kinds import KINDS, Kind
from tests.serving import Answer, Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("weak:tools")]

Json = dict[str, Any]

SERVERS: Final = {"llama_cpp": weak.llama_server, "vllm": weak.vllm}
SAID: Final = "Done."


# --- the behaviours, each with what becomes of it for each kind of tool

Profile = Literal["llama_cpp", "vllm"]


@dataclass(frozen=True)
class Row:
    """`plays` are functions of weak.py that are played; a `script` goes on with SAID for ever."""

    profile: Profile
    plays: str
    script: Callable[[Kind], Script]
    expected: tuple[str, str, str, str]
    """For each of KINDS: what the client sees, as `seen` tells it."""
    fields: Callable[[Kind], Json] = field(default=lambda _: {})
    flags: Json = field(default_factory=dict[str, Any])
    model: str = "mock-model"
    server: Callable[[Script], ModelServer] | None = None
    """In place of the profile's."""


def same(expected: str) -> tuple[str, str, str, str]:
    return (expected, expected, expected, expected)


def chosen(kind: Kind) -> Json:
    return {"tool_choice": kind.choice}


def required(_: Kind) -> Json:
    return {"tool_choice": "required"}


def never(_: Kind) -> Json:
    return {"tool_choice": "none"}


def ignored_first(times: int) -> Callable[[Kind], Script]:
    """A named choice is ignored so many times, and then followed."""

    def script(kind: Kind) -> Script:
        def rule(request: Request) -> Any:
            if request.number <= times:
                return weak.named_choice_ignored(request)
            return Reply(kind.call()) if request.number == times + 1 else SAID

        return rule

    return script


CALL: Final = f"call, '{SAID}', completed"

ROWS: Final[dict[str, Row]] = {
    "required, text first": Row(
        "llama_cpp",
        "required_ignored",
        lambda kind: [weak.required_ignored(), Reply(kind.call())],
        same(CALL),
        required,
    ),
    "required, text to the limit": Row(
        "llama_cpp",
        "required_to_the_limit",
        lambda kind: [weak.required_to_the_limit(), Reply(kind.call())],
        same(CALL),
        required,
    ),
    "required, text always": Row(
        "llama_cpp",
        "required_ignored",
        lambda _: weak.required_ignored(),
        same("tool_choice_not_followed"),
        required,
    ),
    "required, forced at last": Row(
        "llama_cpp",
        "required_ignored",
        lambda kind: [
            *[weak.required_ignored()] * 3,
            msgspec.json.encode({"name": kind.wire, "arguments": kind.arguments}).decode(),
        ],
        same(CALL),
        required,
    ),
    "named, another called": Row(
        "llama_cpp", "named_choice_ignored", ignored_first(1), same(CALL), chosen
    ),
    "named, another called always": Row(
        "llama_cpp",
        "named_choice_ignored",
        lambda _: weak.named_choice_ignored,
        same("tool_choice_not_followed"),
        chosen,
    ),
    "stop with calls": Row(
        "vllm",
        "stop_with_calls",
        lambda kind: [weak.stop_with_calls(kind.wire, kind.arguments)],
        same(CALL),
        chosen,
    ),
    "none, JSON text": Row(
        "llama_cpp",
        "none_as_json_text",
        lambda kind: [weak.none_as_json_text(kind.wire, kind.arguments)],
        same("written call, completed"),
        never,
    ),
    "written, not recovered": Row(
        "vllm",
        "call_as_text",
        lambda kind: [weak.call_as_text(kind.wire, kind.arguments)],
        same("written call, completed"),
        flags={"text_tool_calls": False},
    ),
    **{
        f"written as {form}, recovered": Row(
            "vllm",
            "call_as_text",
            lambda kind, form=form: [weak.call_as_text(kind.wire, kind.arguments, form)],
            same(CALL),
            flags={"text_tool_calls": True},
        )
        for form in ("bare", "fenced", "tag", "tool_calls", "python_tag")
    },
    "unparsable, an error": Row(
        "llama_cpp", "unparsable_output", lambda _: weak.unparsable_output(), same("server_error")
    ),
    "unparsable, as text": Row(
        "vllm",
        "unparsable_as_text",
        lambda _: [weak.unparsable_as_text()],
        same("text, completed"),
    ),
    "undeclared": Row(
        "llama_cpp",
        "undeclared_call",
        lambda _: [weak.undeclared_call()],
        same(f"undeclared call, '{SAID}', completed"),
    ),
    "undeclared beside declared": Row(
        "llama_cpp",
        "undeclared_call",
        lambda kind: [Reply(kind.call(), *weak.undeclared_call().steps)],
        same(f"call, undeclared call, '{SAID}', completed"),
    ),
    "parallel, an error": Row(
        "llama_cpp",
        "parallel_calls_fail",
        lambda _: weak.parallel_calls_fail(),
        same("server_error"),
    ),
    "parallel, one comes": Row(
        "vllm",
        "one_of_several",
        lambda kind: [weak.one_of_several(kind.call(), Call("get_time", {"city": "Oslo"}))],
        same(CALL),
    ),
    "repeated ids": Row(
        "llama_cpp",
        "repeated_ids",
        lambda kind: [Reply(kind.call(id="0"), *weak.repeated_ids("get_time").steps)],
        same(f"call, other call, '{SAID}', completed"),
    ),
    "repeated ids of earlier answers": Row(
        "llama_cpp",
        "repeated_ids",
        lambda kind: [Reply(kind.call(id="0")), Reply(kind.call(id="0"))],
        same(f"call, call, '{SAID}', completed"),
    ),
    "called again": Row(
        "llama_cpp",
        "calls_again",
        lambda kind: weak.calls_again(kind.wire, kind.arguments),
        same("call, call, 'Here is what the tool said.', completed"),
    ),
    "unknown model served": Row(
        "llama_cpp", "llama_server", lambda kind: [Reply(kind.call())], same(CALL), model="other"
    ),
    "unknown model refused": Row(
        "vllm", "vllm", lambda kind: [Reply(kind.call())], same("not_found_error"), model="other"
    ),
    "still loading": Row(
        "llama_cpp",
        "slow_start",
        lambda kind: [Reply(kind.call())],
        same("unavailable_error"),
        server=weak.slow_start,
    ),
    "integer code": Row(
        "llama_cpp", "integer_code", lambda _: weak.integer_code(), same("invalid_request_error")
    ),
    "an error under 200": Row(
        "vllm",
        "error_as_200",
        lambda _: weak.error_as_200(b'{"error":{"message":"it broke","code":500}}'),
        same("server_error"),
    ),
    **{
        f"fragments, {layout}": Row(
            "vllm",
            "vllm",
            lambda kind, layout=layout: [Reply(kind.call(layout=layout, split=6))],
            same(CALL),
        )
        for layout in ("joined", "name_first", "name_alone", "name_last")
    },
}

NO_BEHAVIOUR: Final = "written_call"
"""The function of weak.py of which others are made."""


# --- what the client sees


@dataclass
class Turns:
    """The turns that it takes to the end, each call of the client's answered."""

    items: list[Json]
    last: Answer
    results: dict[str, str]
    """What the model was told of each call, by the call's id."""


async def played(api: Api, model: ModelServer, kind: Kind, row: Row, *, stream: bool) -> Turns:
    api.model = row.model
    common: Json = {"stream": stream, "tools": [kind.declaration, TIME]}
    answer = await api.create(**common, **row.fields(kind))
    items: list[Json] = []
    while answer.status == 200 and answer.response["status"] == "completed":
        items += answer.response["output"]
        outputs = [
            output_of(item, "from the client")
            for item in answer.response["output"]
            if item["type"] in ("function_call", "custom_tool_call")
        ]
        if not outputs:
            break
        assert len(items) < 12, items
        previous = answer.response["id"]
        answer = await api.create(**common, input=outputs, previous_response_id=previous)
    sent = model.chats[-1].messages if model.chats else []
    results = {m["tool_call_id"]: str(m["content"]) for m in sent if m["role"] == "tool"}
    return Turns(items, answer, results)


def seen(turns: Turns, kind: Kind, said: str) -> str:
    """What the client saw, in a line."""
    words = [_named(item, kind, said) for item in turns.items]
    answer = turns.last
    if answer.status != 200:
        return ", ".join([*words, answer.error["code"] or answer.error["type"]])
    response = answer.response
    if response["status"] == "failed":
        return ", ".join([*words, response["error"]["code"]])
    return ", ".join([*words, response["status"]])


def _named(item: Json, kind: Kind, written: str) -> str:
    if item["type"] == "message":
        text = text_of({"output": [item]})
        if text == written:
            return "written call"
        return f"'{text}'" if text.startswith(("Done", "Here")) else "text"
    if kind.shown.items() <= item.items():
        return "call"
    return {"translate": "undeclared call", "get_time": "other call"}[item["name"]]


def going_on(script: Script) -> Script:
    return [*script, *[SAID] * 3] if isinstance(script, list) else script


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("behaviour", "name"), list(product(ROWS, KINDS)))
async def test_each_behaviour_with_each_kind(behaviour: str, name: str, stream: bool) -> None:
    row, kind = ROWS[behaviour], KINDS[name]
    expected = dict(zip(KINDS, row.expected, strict=True))[name]
    executor = LookupExecutor(found)
    server = (row.server or SERVERS[row.profile])(going_on(row.script(kind)))
    options: Json = {"profile": row.profile, "flags": row.flags}
    adjust = None if name != "gateway" else install(executor)
    async with (
        server as model,
        serving(model.url, upstream_options=options, adjust=adjust) as api,
    ):
        turns = await played(api, model, kind, row, stream=stream)
        await nothing_left(api)
    written = weak.written_call(kind.wire, kind.arguments)
    assert seen(turns, kind, written) == expected
    calls = [item for item in turns.items if item["type"] != "message"]
    ours = sum(kind.shown.items() <= item.items() for item in calls)
    assert len(executor.calls) == (ours if name == "gateway" else 0)
    if expected.endswith("completed"):
        others = len(calls) - ours
        told = [kind.result] * ours + ["from the client"] * others
        assert sorted(turns.results.values()) == sorted(told)


def test_every_behaviour_of_weak_servers_has_a_row() -> None:
    functions = {
        name
        for name, value in vars(weak).items()
        if callable(value) and getattr(value, "__module__", "") == weak.__name__
    }
    public = {name for name in functions if not name.startswith("_")} - {NO_BEHAVIOUR}
    assert {row.plays for row in ROWS.values()} >= public
