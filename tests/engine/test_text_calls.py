"""Calls that the model wrote as text, recovered where the operator has switched that on."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.engine.recovery import TextCalls
from bascule.protocols.responses.builder import ItemBuilder
from bascule.protocols.responses.events import (
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    RoundEvent,
)
from bascule.protocols.responses.items import FunctionCallItem, MessageItem, OutputText
from bascule.testing import (
    Call,
    Delta,
    Finish,
    Gate,
    ModelServer,
    Reasoning,
    Refusal,
    Reply,
    Text,
    weak,
)
from tests.conformance.asking import RUN, TIME, WEATHER, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ON = {"profile": "llama_cpp", "flags": {"text_tool_calls": True}}
TOOLS = [WEATHER, TIME, RUN]
FORMS = ["bare", "fenced", "tag", "tool_calls", "python_tag"]
TAG = weak.written_call("get_weather", {"city": "Oslo"}, "tag")


async def turn(reply: Any, *, stream: bool = True, upstream: Json = ON, **fields: Any) -> Json:
    async with ModelServer(reply) as model, serving(model.url, upstream_options=upstream) as api:
        asked: Json = {"tools": TOOLS, **fields}
        answer = await api.create(stream=stream, **asked)
        return check_stream(answer) if stream else check_answer(answer)


def shown(response: Json) -> list[str]:
    """Each item as its text or `name(arguments)`."""
    return [
        f"{item['name']}({item['arguments']})"
        if item["type"] == "function_call"
        else text_of({"output": [item]})
        for item in response["output"]
    ]


@pytest.mark.requirement("weak:text-calls:forms")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("form", FORMS)
async def test_each_form_becomes_a_call(form: Any, stream: bool) -> None:
    reply = weak.call_as_text("get_weather", {"city": "Oslo"}, form)
    response = await turn(reply, stream=stream)
    (call,) = response["output"]
    assert (call["type"], call["name"], call["status"]) == (
        "function_call",
        "get_weather",
        "completed",
    )
    assert call["arguments"] == '{"city":"Oslo"}'
    assert response["status"] == "completed"


@pytest.mark.requirement("weak:text-calls:forms")
async def test_a_recovered_call_is_a_call_in_the_history() -> None:
    reply = weak.call_as_text("get_weather", {"city": "Oslo"}, "tag")
    async with (
        ModelServer([reply, "Sunny."]) as model,
        serving(model.url, upstream_options=ON) as api,
    ):
        first = (await api.create(tools=TOOLS)).response
        (call,) = first["output"]
        await api.create(tools=TOOLS, previous_response_id=first["id"], input=[output_of(call)])
        said = model.chats[1].messages[1]
    assert said["tool_calls"][0]["function"]["name"] == "get_weather"


@pytest.mark.requirement("weak:text-calls:forms")
async def test_a_recovered_custom_call_takes_its_own_shape() -> None:
    response = await turn(weak.call_as_text("run", {"input": "1\n"}, "fenced"))
    (call,) = response["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", "1\n")


@pytest.mark.requirement("weak:text-calls:forms")
async def test_a_recovered_call_of_the_gateways_runs() -> None:
    executor = LookupExecutor(found)
    replies = [weak.call_as_text("lookup", {"query": "x"}, "bare"), "It is y."]
    async with (
        ModelServer(replies) as model,
        serving(model.url, upstream_options=ON, adjust=install(executor)) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=True)
    assert [item["type"] for item in answer.response["output"]] == ["lookup_call", "message"]
    assert executor.calls[0].arguments == '{"query":"x"}'


@pytest.mark.requirement("weak:text-calls:forms")
@pytest.mark.requirement("choice:weak:required")
async def test_a_recovered_call_fulfils_a_choice() -> None:
    response = await turn(Reply(f"Sure. {TAG}"), tool_choice="required")
    assert shown(response) == ["Sure. ", 'get_weather({"city":"Oslo"})']


@pytest.mark.requirement("weak:text-calls:text-around")
@pytest.mark.parametrize("stream", [True, False])
async def test_text_stays_text_in_order(stream: bool) -> None:
    time = weak.written_call("get_time", {"city": "Oslo"}, "fenced")
    reply = Reply(Reasoning("Hm."), Text(f"One. {TAG}\nTwo.\n{time}\n Three.", chunks=9))
    response = await turn(reply, stream=stream)
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "message",
        "function_call",
        "message",
    ]
    assert shown(response)[1:] == [
        "One. ",
        'get_weather({"city":"Oslo"})',
        "\nTwo.\n",
        'get_time({"city":"Oslo"})',
        "\n Three.",
    ]
    ids = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
    assert len(set(ids)) == 2


@pytest.mark.requirement("weak:text-calls:text-around")
async def test_text_and_a_real_call() -> None:
    reply = Reply(TAG, Call("get_time", {"city": "Oslo"}))
    assert shown(await turn(reply)) == [
        'get_weather({"city":"Oslo"})',
        'get_time({"city":"Oslo"})',
    ]


@pytest.mark.requirement("weak:text-calls:text-around")
async def test_refusals_and_annotations_keep_their_place() -> None:
    link = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    reply = Reply("See a.", Delta({"annotations": [link]}), Refusal("No more."))
    response = await turn(reply)
    (message,) = response["output"]
    text, refusal = message["content"]
    assert (text["text"], text["annotations"][0]["url"]) == ("See a.", "http://a")
    assert refusal == {"type": "refusal", "refusal": "No more."}


@pytest.mark.requirement("weak:text-calls:else-text")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "Just text.",
        '<tool_call>{"name": "get_weather", "argum',
        weak.written_call("translate", {"text": "x"}, "tag"),
        '{"name":"get_weather","arguments":{"city":Oslo}}',
    ],
)
async def test_all_else_stays_text(text: str, stream: bool) -> None:
    response = await turn(Reply(Text(text, chunks=5)), stream=stream)
    assert shown(response) == [text]


@pytest.mark.requirement("weak:text-calls:else-text")
async def test_without_the_flag_everything_stays_text() -> None:
    response = await turn(weak.call_as_text("get_weather", {}), upstream={"profile": "llama_cpp"})
    assert shown(response) == ['{"name":"get_weather","arguments":{}}']


@pytest.mark.requirement("weak:text-calls:else-text")
async def test_without_tools_everything_stays_text() -> None:
    assert shown(await turn(Reply(TAG), tools=[])) == [TAG]


@pytest.mark.requirement("weak:text-calls:else-text")
async def test_a_call_that_the_limit_cut_stays_text() -> None:
    response = await turn(Reply(Text(TAG[:40], chunks=4), Finish("length")))
    assert response["status"] == "incomplete"
    assert shown(response) == [TAG[:40]]
    assert response["output"][0]["status"] == "incomplete"


@pytest.mark.requirement("weak:text-calls:else-text")
async def test_an_empty_message_is_shown_as_without_the_flag() -> None:
    on, off = await turn(Reply("")), await turn(Reply(""), upstream={"profile": "llama_cpp"})
    assert shown(on) == shown(off)


@pytest.mark.requirement("weak:text-calls:else-text")
def test_a_message_without_content_passes() -> None:
    out: list[RoundEvent] = []
    empty = MessageItem("", "completed", [])
    events: list[RoundEvent] = [OutputItemAdded(-1, 0, empty), OutputItemDone(-1, 0, empty)]
    TextCalls(frozenset({"f"}), out.extend).feed(events)
    assert [type(event) for event in out] == [OutputItemAdded, OutputItemDone]


@pytest.mark.requirement("weak:text-calls:held-briefly")
async def test_text_leaves_while_the_model_writes() -> None:
    reply = Reply("Hello <b>", Gate("more"), f"you</b>{TAG}")
    async with (
        ModelServer(reply) as model,
        serving(model.url, upstream_options=ON) as api,
        api.open(tools=TOOLS) as pieces,
    ):
        seen = b""
        async for piece in pieces:
            seen += piece
            if b"Hello" in seen:
                model.open("more")
    assert b"response.completed" in seen
    assert b"<tool_call>" not in seen


# --- the stage by itself, cut anywhere


PARTS = st.sampled_from(
    [
        *(weak.written_call("f", {"a": "}\n"}, form) for form in FORMS),  # type: ignore[arg-type]
        weak.written_call("g", {}, "tag"),
        "\n", "Hello", " ", "{", "```", "<tool_call>", "é",
    ]
)  # fmt: skip


def through(pieces: list[str]) -> list[RoundEvent]:
    out: list[RoundEvent] = []
    stage = TextCalls(frozenset({"f"}), out.extend)
    builder = ItemBuilder(summarise=False)
    for piece in [*pieces, None]:
        if piece is None:
            builder.close()
        else:
            builder.text(piece)
        events, builder.out = builder.out, []
        stage.feed(events)
    return out


def items(events: list[RoundEvent]) -> list[Any]:
    found: list[Any] = []
    for event in events:
        if isinstance(event, OutputItemDone):
            item = event.item
            if isinstance(item, MessageItem):
                found.append([part.text for part in item.content if isinstance(part, OutputText)])
            elif isinstance(item, FunctionCallItem):
                found.append((item.name, item.arguments))
    return found


@pytest.mark.requirement("weak:text-calls:cut-anywhere")
@pytest.mark.requirement("weak:text-calls:held-briefly")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(PARTS, min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 300), max_size=10),
)
def test_the_cuts_between_deltas_change_nothing(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    events = through([text[a:b] for a, b in pairwise(at)])
    assert items(events) == items(through([text]))
    deltas: dict[int, str] = {}
    for event in events:
        if isinstance(event, OutputTextDelta):
            deltas[event.output_index] = deltas.get(event.output_index, "") + event.delta
        elif isinstance(event, OutputTextDone):
            assert deltas.get(event.output_index, "") == event.text
