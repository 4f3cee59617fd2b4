"""Chat answers as events: what must hold for every answer, however it is written and cut."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.protocols.chat.decoder import ChatDecoder
from bascule.protocols.responses.events import Event, RoundEnd, RoundEvent, RoundFailed
from tests.stream_rules import check_items

Answer = tuple[list[Any], RoundEnd | RoundFailed]


def data(*chunks: Any, done: bool = True) -> bytes:
    lines = [msgspec.json.encode(chunk) for chunk in chunks] + [b"[DONE]"] * done
    return b"".join(b"data: %b\n\n" % line for line in lines)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = 0, id_: str | None = None, name: str | None = None, args: str | None = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": args}
    entry = {
        "index": index,
        "id": id_,
        "function": {k: v for k, v in function.items() if v is not None},
    }
    return chunk(tool_calls=[{k: v for k, v in entry.items() if v is not None}])


def decode(*pieces: bytes, summarise: bool = False) -> list[RoundEvent]:
    decoder = ChatDecoder(summarise=summarise)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.end()


def checked(events: list[RoundEvent]) -> Answer:
    """The items of an answer that keeps all rules, and how it ended."""
    ends = [event for event in events if isinstance(event, RoundEnd | RoundFailed)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    public = [msgspec.to_builtins(e) for e in events if isinstance(e, Event)]
    for event in public:
        event["type"] = event.get("type", "")
    items = check_items(public)
    end = ends[0]
    if isinstance(end, RoundEnd) and end.incomplete_reason is None:
        assert all(item.get("status") != "incomplete" for item in items)
    return items, end


def answer(*chunks: Any, done: bool = True) -> Answer:
    return checked(decode(data(*chunks, done=done)))


# --- generated answers

_text = st.text('ab {}":\\é🙂', max_size=6)
_arguments = st.sampled_from(["", "{}", '{"a"', ":1}", "{", "}", '{"a":1}', "null", " "])
_call = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 2),
        "id": st.none() | st.sampled_from(["", "a", "b"]),
        "function": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.none() | st.sampled_from(["", "f", "get_", "get_x", "x"]),
                "arguments": st.none() | _arguments | st.just({"a": 1}),
            },
        ),
    },
)
_details = st.lists(
    st.fixed_dictionaries({"type": _text}, optional={"text": _text, "summary": _text | st.none()}),
    max_size=2,
)
_delta = st.fixed_dictionaries(
    {},
    optional={
        "content": st.none()
        | _text
        | st.lists(
            st.fixed_dictionaries({"type": st.just("text"), "text": _text | st.none()})
            | st.fixed_dictionaries(
                {"type": st.just("thinking"), "thinking": _text | st.integers() | _details}
            ),
            max_size=2,
        ),
        "reasoning_content": st.none() | _text,
        "reasoning": st.none() | _text,
        "reasoning_details": st.none() | _details,
        "refusal": st.none() | _text,
        "tool_calls": st.none() | st.lists(_call, max_size=2),
        "annotations": st.none() | st.lists(st.just({"type": "url_citation", "url": "x"})),
    },
)
_usage = st.none() | st.fixed_dictionaries(
    {}, optional={"prompt_tokens": st.none() | st.integers(), "completion_tokens": st.integers()}
)
_chunk = st.fixed_dictionaries(
    {
        "choices": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {"delta": st.none() | _delta},
                optional={
                    "index": st.none() | st.integers(0, 1),
                    "finish_reason": st.none()
                    | st.sampled_from(["stop", "length", "tool_calls", "content_filter", "error"]),
                },
            ),
            max_size=2,
        )
    },
    optional={"usage": _usage, "error": st.none() | st.just({"message": "no", "code": 500})},
)


@given(st.lists(_chunk, max_size=8), st.booleans(), st.booleans(), st.lists(st.integers(0)))
def test_every_answer_keeps_the_rules_however_it_is_cut(
    chunks: list[Any], done: bool, summarise: bool, places: list[int]
) -> None:
    whole = data(*chunks, done=done)
    borders = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(borders)]
    one = checked(decode(whole, summarise=summarise))
    many = checked(decode(*pieces, summarise=summarise))
    assert msgspec.to_builtins(without_ids(one[0])) == msgspec.to_builtins(without_ids(many[0]))
    assert repr(one[1]) == repr(many[1])


def without_ids(items: list[Any]) -> list[Any]:
    """Minted call ids differ from one reading to the next."""
    return [{**i, "call_id": ""} if len(i.get("call_id", "")) > 20 else i for i in items]


_pieces = st.binary(max_size=40) | st.sampled_from(
    [
        b"data: ",
        b"\n\n",
        b"event: error\n",
        b'{"choices":[{"delta":{"content":"x"}}]}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"error":',
        b"[" * 2000,
        b"[DONE]",
        b"null",
        b"1" * 5000,
    ]
)


@given(st.lists(_pieces, max_size=8))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    checked(decode(*pieces))
    checked(ChatDecoder().whole(b"".join(pieces)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "content",
                        "tool_calls",
                        "function",
                        "name",
                        "arguments",
                        "error",
                        "usage",
                        "message",
                        "type",
                        "thinking",
                        "reasoning_details",
                        "text",
                        "index",
                        "id",
                        "finish_reason",
                        "annotations",
                        "code",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_raises(value: Any) -> None:
    checked(decode(data(value)))
    checked(ChatDecoder().whole(msgspec.json.encode(value)))


# --- rows


def test_what_was_open_is_closed_before_any_failure() -> None:
    begun = chunk(content="Once")
    for broken in (
        b"data: {bad\n\n",
        b'data: {"error":{"message":"no"}}\n\n',
        b"event: error\ndata: oh\n\n",
        data(call(args="{}")),
        data(chunk("error"), done=False),
        b"data: " + b"[" * 3000 + b"\n\n",
        b"",
    ):
        items, end = checked(decode(data(begun, done=False) + broken))
        assert isinstance(end, RoundFailed), broken
        assert items[0]["status"] == "incomplete"
        assert items[0]["content"][0]["text"] == "Once"


def test_a_chunk_without_data_says_nothing() -> None:
    items, end = checked(decode(b"data:\n\ndata: \n\n" + data(chunk("stop", content="Hi"))))
    assert isinstance(end, RoundEnd)
    assert items[0]["content"][0]["text"] == "Hi"


def test_the_calls_of_a_cut_answer_are_completed_only_where_they_are_whole() -> None:
    chunks = [
        call(0, "a", "f", '{"x":1}'),
        call(1, "b", "f", '{"x":'),
        call(2, "c", "f", '{"x'),
    ]
    items, end = answer(*chunks, chunk("length"))
    assert isinstance(end, RoundEnd)
    assert end.incomplete_reason == "max_output_tokens"
    assert [item["status"] for item in items] == ["completed", "incomplete", "incomplete"]


def test_a_call_that_was_left_half_written_for_text_is_incomplete_in_a_cut_answer() -> None:
    items, _ = answer(call(0, "a", "f", '{"x":'), chunk("length", content="Hm"))
    assert [item["status"] for item in items] == ["incomplete", "incomplete"]


def test_calls_keep_the_models_order_also_when_one_has_no_arguments() -> None:
    items, _ = answer(call(0, "a", "f"), call(1, "b", "g", '{"x":1}'), chunk("tool_calls"))
    assert [(item["name"], item["arguments"]) for item in items] == [
        ("f", "{}"),
        ("g", '{"x":1}'),
    ]


def test_two_calls_under_one_id_are_two() -> None:
    """The engine, which knows the turn's other ids too, tells them apart."""
    items, _ = answer(call(0, "a", "f", "{}"), call(1, "a", "g", "{}"), chunk("tool_calls"))
    assert [(item["call_id"], item["name"]) for item in items] == [("a", "f"), ("a", "g")]


def test_calls_numbered_alike_are_told_apart_by_id() -> None:
    items, _ = answer(
        call(0, "a", "f", '{"x":'),
        call(0, args="1}"),
        call(0, "b", "f", '{"y":'),
        call(0, args="2}"),
        chunk("tool_calls"),
    )
    assert [(i["call_id"], i["arguments"]) for i in items] == [("a", '{"x":1}'), ("b", '{"y":2}')]


@pytest.mark.parametrize("index", [0, None])
def test_a_name_that_is_repeated_in_each_chunk_is_one_call(index: int | None) -> None:
    items, _ = answer(
        call(index, "a", "get_x", '{"x"'),
        call(index, "a", "get_x", ":1"),
        call(index, "a", "get_x", "}"),
        chunk("tool_calls"),
    )
    assert [(i["name"], i["arguments"]) for i in items] == [("get_x", '{"x":1}')]


def test_a_name_in_pieces() -> None:
    items, _ = answer(
        call(0, "a", "get_"), call(0, name="weather"), call(0, args="{}"), chunk("tool_calls")
    )
    assert items[0]["name"] == "get_weather"


def test_arguments_before_the_name() -> None:
    items, _ = answer(
        call(0, args='{"x":'), call(0, args="1}"), call(0, "a", "f"), chunk("tool_calls")
    )
    assert [(i["call_id"], i["name"], i["arguments"]) for i in items] == [("a", "f", '{"x":1}')]


def test_a_call_that_never_gets_a_name_is_a_failure() -> None:
    _, end = answer(chunk(content="Hi"), call(0, "a", args="{}"), chunk("tool_calls"))
    assert isinstance(end, RoundFailed)
    assert "without a name" in end.error.message


def test_interleaved_calls() -> None:
    items, _ = answer(
        call(0, "a", "f", '{"x"'),
        call(1, "b", "g", '{"y"'),
        call(0, args=":1}"),
        call(1, args=":2}"),
        chunk("tool_calls"),
    )
    assert [(i["name"], i["arguments"]) for i in items] == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_usage_of_an_unknown_form_does_not_break_an_answer() -> None:
    strange = {"choices": [], "usage": {"prompt_tokens": "many"}}
    items, end = answer(chunk("stop", content="Hi"), strange)
    assert isinstance(end, RoundEnd)
    assert end.usage is None
    assert items[0]["status"] == "completed"


def test_text_in_both_reasoning_fields_is_said_once() -> None:
    items, _ = answer(chunk(reasoning="Hm", reasoning_content="Hm"), chunk("stop", content="Hi"))
    assert [item["type"] for item in items] == ["reasoning", "message"]
    assert items[0]["content"][0]["text"] == "Hm"


def test_null_everywhere() -> None:
    nothing = dict.fromkeys(
        ["content", "tool_calls", "reasoning", "refusal", "annotations", "function_call"]
    )
    usage = {"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None}
    items, end = answer(chunk(**nothing), {"choices": None, "usage": usage}, chunk("stop"))
    assert isinstance(end, RoundEnd)
    assert (items, end.usage) == ([], None)


def test_calls_numbered_alike_without_ids_are_told_apart_by_their_names() -> None:
    items, _ = answer(
        call(0, None, "f", '{"a":1}'), call(0, None, "f", '{"b":2}'), chunk("tool_calls")
    )
    assert [(i["name"], i["arguments"]) for i in items] == [("f", '{"a":1}'), ("f", '{"b":2}')]
