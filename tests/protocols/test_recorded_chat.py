"""Recorded streams of real servers, cut at every byte."""

import itertools
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.protocols.chat.decoder import ChatDecoder
from bascule.protocols.responses.events import Event, RoundEnd, RoundEvent
from tests.stream_rules import check_items

FOLDER = Path(__file__).parent.parent / "data" / "golden" / "chat"
NAMES = [
    "finish_length--vr-text-max_tokens-length-stream",
    "reasoning_content+tools--vai-xai-tool-call-stream",
    "reasoning_details--pyd-test_openrouter_streaming_reasoning",
    "text--pyd-test_snowflake_model_streaming",
    "text--vai-azure-model-router.1-stream",
    "tools.forced--lc-test_streaming_tool_call_v1_v2_parity.01",
    "tools.single--llm-test_tools_streaming_variant_a.01",
    "tools.single--vai-alibaba-tool-call-stream",
]


def recorded(name: str, line_end: bytes = b"\n") -> bytes:
    chunks = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())["events"]
    lines = [msgspec.json.encode(chunk) for chunk in chunks] + [b"[DONE]"]
    return b"".join(b"data: %b%b%b" % (line, line_end, line_end) for line in lines)


def decode(*pieces: bytes) -> list[RoundEvent]:
    decoder = ChatDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.end()


def shown(events: list[RoundEvent]) -> list[Any]:
    assert isinstance(events[-1], RoundEnd)
    return [msgspec.to_builtins(event) for event in events]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_stream_says_the_same_cut_at_every_byte(name: str) -> None:
    whole = recorded(name)
    expected = shown(decode(whole))
    assert check_items([msgspec.to_builtins(e) for e in decode(whole) if isinstance(e, Event)])
    for at in range(0, len(whole) + 1, max(1, len(whole) // 1500)):
        assert shown(decode(whole[:at], whole[at:])) == expected
    assert shown(decode(*(whole[i : i + 1] for i in range(len(whole))))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_stream_says_the_same_cut_at_random_and_with_any_line_end(name: str) -> None:
    expected = shown(decode(recorded(name)))
    choose = random.Random(name)
    for line_end in (b"\n", b"\r\n", b"\r"):
        whole = recorded(name, line_end)
        for _ in range(20):
            places = sorted(choose.randrange(len(whole)) for _ in range(choose.randrange(30)))
            borders = [0, *places, len(whole)]
            pieces = [whole[a:b] for a, b in itertools.pairwise(borders)]
            assert shown(decode(*pieces)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_stream_that_ends_anywhere_keeps_the_rules(name: str) -> None:
    whole = recorded(name)
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        events = decode(whole[:at])
        items = check_items([msgspec.to_builtins(e) for e in events if isinstance(e, Event)])
        end = events[-1]
        if isinstance(end, RoundEnd) and end.incomplete_reason is None:
            assert all(item.get("status") != "incomplete" for item in items)
