"""Markers in answers of servers that speak Responses, which have annotations of their own."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bascule.engine.citing import Citer
from bascule.protocols.responses import door
from bascule.protocols.responses.decoder import ResponsesDecoder
from bascule.protocols.responses.events import Event
from bascule.testing import (
    Data,
    Eof,
    ModelServer,
    Reply,
    Wire,
    responded,
    responses_events,
)
from bascule.toolkit.citations import Citations
from tests.engine.citing_tool import citation, install_sources
from tests.engine.lookup_tool import TOOL
from tests.engine.test_citing import check, texts
from tests.engine.test_responses_upstream import call, in_turn, message
from tests.recordings.files import Recording, recordings
from tests.serving import serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

RESPONSES = {"protocol": "responses", "flags": {"hosted_tools": []}}
LOOKUP = call("lookup", '{"sites":["a.org","b.org"]}')
STREAM = pytest.mark.parametrize("stream", [True, False])
ADDED = "response.output_text.annotation.added"


def text_parts(value: Any) -> Iterator[Json]:
    """All text parts of an answer of whatever form."""
    if isinstance(value, list):
        for member in value:
            yield from text_parts(member)
    elif isinstance(value, dict):
        if value.get("type") == "output_text" and value.get("annotations"):
            yield value
        for member in value.values():
            yield from text_parts(member)


def placed(recording: Recording) -> list[tuple[str, Json]]:
    """Each annotation with a place, and its text."""
    body = recording.decoded_events if recording.streamed else recording.body
    return [
        (part["text"], annotation)
        for part in text_parts(body)
        for annotation in part["annotations"]
        if annotation.get("end_index") and annotation["type"] == "url_citation"
    ]


OPENAI = [
    recording
    for recording in recordings("responses")
    if (recording.streamed or bytes(recording.response))
    and recording.provider in ("openai", "azure")
    and placed(recording)
]
STREAMED = [recording for recording in OPENAI if recording.streamed]


@pytest.mark.requirement("citations:offsets:claim")
def test_openai_counts_code_points() -> None:
    """What its annotations name is a link in brackets: no other unit cuts it out."""
    wider = 0
    for recording in OPENAI:
        for text, annotation in placed(recording):
            start, end = annotation["start_index"], annotation["end_index"]
            named = text[start:end]
            assert named[0] in "([", recording.name
            assert named[-1] == ")", recording.name
            wider += len(text[:start].encode()) > start
    assert wider > 10


def decoded(events: list[Json]) -> list[Any]:
    decoder = ResponsesDecoder()
    stream = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
        for event in events
    )
    return decoder.feed(stream)


def shown(events: Any) -> list[Json]:
    """The events as a client gets them; consecutive deltas are one."""
    frames = door.encode([event for event in events if isinstance(event, Event)]).split(b"\n\n")
    all_: list[Json] = [msgspec.json.decode(f.split(b"data: ", 1)[1]) for f in frames if f]
    joined: list[Json] = []
    for event in all_:
        if joined and event["type"] == joined[-1]["type"] == "response.output_text.delta":
            joined[-1]["delta"] += event["delta"]
        else:
            joined.append(event)
    return joined


def sources() -> Citations:
    citations = Citations()
    citations.cite("https://a.org/", "a.org")
    return citations


def without_place(events: list[Json]) -> list[Json]:
    """Where an annotation comes among the deltas may differ by what is held."""
    deltas = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    kept = [e for e in events if e["type"] not in ("response.output_text.delta", ADDED)]
    return [*kept, *(e for e in events if e["type"] == ADDED), {"delta": deltas}]


@pytest.mark.requirement("citations:rewriting:servers")
@pytest.mark.parametrize("recording", STREAMED, ids=str)
def test_a_recorded_stream_without_markers_passes(recording: Recording) -> None:
    events = recording.decoded_events
    ours = shown(Citer(sources()).feed(decoded(events)))
    assert without_place(ours) == without_place(shown(decoded(events)))


def with_marker(value: Any, at: int, marker: str) -> Any:
    """A recording in which the model has written `marker` at the place `at` of its text."""
    if isinstance(value, list):
        return [with_marker(member, at, marker) for member in value]
    if not isinstance(value, dict):
        return value
    changed = {name: with_marker(member, at, marker) for name, member in value.items()}
    kind = value.get("type")
    if kind in ("output_text", "response.output_text.done") and value["text"]:
        changed["text"] = value["text"][:at] + marker + value["text"][at:]
    if kind == "url_citation":
        for name in ("start_index", "end_index"):
            changed[name] += len(marker) if value[name] > at else 0
    return changed


@pytest.mark.requirement("citations:rewriting:servers")
@pytest.mark.parametrize("marker", [" [cite:1]", "[cite: 1, 1]", " ([cite:1])"])
@pytest.mark.parametrize("recording", STREAMED, ids=str)
def test_recorded_annotations_move_with_their_text(recording: Recording, marker: str) -> None:
    events = recording.decoded_events
    (text,) = {part["text"] for part in text_parts(events)}
    at = text.index(".")
    passed = 0
    marked: list[Json] = with_marker(events, at, marker)
    for event in marked:
        if event["type"] == "response.output_text.delta":
            size = len(event["delta"])
            if passed <= at < passed + size:
                cut = at - passed
                event["delta"] = event["delta"][:cut] + marker + event["delta"][cut:]
            passed += size
    citer = Citer(sources())
    out = [piece for event in decoded(marked) for piece in citer.feed([event])]
    ours = shown(out)
    assert "[cite" not in msgspec.json.encode(ours).decode()
    own = [
        e["annotation"] for e in ours if e["type"] == ADDED and "a.org" in e["annotation"]["url"]
    ]
    assert [annotation["title"] for annotation in own] == ["a.org"]
    assert text[own[0]["start_index"] : own[0]["end_index"]] == text[own[0]["start_index"] : at]
    # But for that one the answer is what was recorded.
    for event in ours:
        if event["type"] == ADDED:
            event["annotation_index"] = 0
    theirs = shown(decoded(events))
    for event in theirs:
        if event["type"] == ADDED:
            event["annotation_index"] = 0
    bare = [e for e in without_own(ours, own[0]) if e.get("annotation") != own[0]]
    assert without_place(bare) == without_place(theirs)


def without_own(value: Any, own: Json) -> Any:
    if isinstance(value, list):
        return [without_own(member, own) for member in value if member != own]
    if isinstance(value, dict):
        return {name: without_own(member, own) for name, member in value.items()}
    return value


@pytest.mark.requirement("citations:rewriting:servers", "citations:history:raw")
@STREAM
async def test_markers_and_annotations_of_one_answer(stream: bool) -> None:
    theirs = {
        "type": "url_citation",
        "url": "https://s.org/",
        "title": "S",
        "start_index": 23,
        "end_index": 27,
        "surprise": [1],
    }
    text = "Paris is old [cite:1]. Rome too [cite:2]."
    part = {"type": "output_text", "text": text, "annotations": [theirs], "logprobs": [], "new": 1}
    said = {**message(""), "content": [part], "phase": "final_answer", "surprise": True}
    asking = in_turn(responded(LOOKUP), responded(said), responded(message("More [cite:2].")))
    async with (
        ModelServer(asking) as model,
        serving(model.url, adjust=install_sources(), upstream_options=RESPONSES) as api,
    ):
        first = await api.create(tools=[TOOL], stream=stream)
        second = await api.create(
            input="Sure?", previous_response_id=first.response["id"], stream=stream
        )
    assert b"[cite" not in first.body
    if stream:
        check_stream(first.frames)
    (shown_part,) = texts(first)
    assert shown_part["text"] == "Paris is old. Rome too."
    moved = {**theirs, "start_index": 14, "end_index": 18}
    own = [citation("a.org", 0, 12), citation("b.org", 14, 22)]
    assert shown_part["annotations"] == [*own, moved]
    assert shown_part["new"] == 1
    item = first.response["output"][-1]
    assert (item["phase"], item["surprise"]) == ("final_answer", True)
    # The model reads what it wrote, under no id of ours.
    (again,) = [i for i in model.chats[2].json["input"] if i.get("role") == "assistant"]
    assert again["content"] == [{"type": "output_text", "text": text}]
    assert again["phase"] == "final_answer"
    assert "id" not in again
    assert texts(second)[0]["annotations"] == [citation("b.org", 0, 4)]


def streamed(*events: Json) -> Any:
    steps = [Data(msgspec.json.encode(e).decode(), e["type"]) for e in events]
    return lambda _: Reply(*steps, Eof(), wire=Wire(answer="sse"))


@pytest.mark.requirement("citations:rewriting:servers", "citations:logprobs")
async def test_events_with_members_of_their_own() -> None:
    """Deltas with log probabilities and with members that nobody knows, annotations before the text
    around them is sure, and such as make no sense."""
    words = ["Old", " [cite:", "1", "]", ".", " New ", "[cite:2]"]
    tokens = [{"token": word, "logprob": -0.5, "bytes": [], "top_logprobs": []} for word in words]
    said = message("".join(words))
    part: Json = said["content"][0]
    place = {"start_index": 0, "end_index": len("Old [cite:1]. New ")}
    own = [{"type": "url_citation", **place}, {"type": "file_path", "file_id": "f"}, "odd", None]
    part["annotations"], part["logprobs"] = own, tokens
    kept: list[Json] = []
    for event in responses_events(said):
        kind = event["type"].removeprefix("response.")
        if kind == "output_text.delta":
            continue
        if kind == "output_text.done":
            about = {name: event[name] for name in ("item_id", "output_index", "content_index")}
            for i, (word, token) in enumerate(zip(words, tokens, strict=True)):
                delta = {"type": "response.output_text.delta", **about, "delta": word}
                kept.append({**delta, "logprobs": [token], **({"new": i} if i % 2 else {})})
                if i == 5:
                    for at, annotation in enumerate(own):
                        added = {"type": ADDED, **about, "annotation_index": at}
                        kept.append({**added, "annotation": annotation, "more": True})
            event["logprobs"] = tokens
        if kind == "content_part.added":
            event["part"] |= {"annotations": [], "logprobs": []}
        kept.append(event)
    script = in_turn(responded(LOOKUP), streamed(*kept))
    async with (
        ModelServer(script) as model,
        serving(model.url, adjust=install_sources(), upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(
            tools=[TOOL], stream=True, include=["message.output_text.logprobs"]
        )
    check(answer)
    (shown_part,) = texts(answer)
    assert shown_part["text"] == "Old. New"
    left = ["Old", ".", " New "]
    assert [token["token"] for token in shown_part["logprobs"]] == left
    deltas = answer.of_type("output_text.delta")
    # The last of them is sure when no text is left for a delta.
    assert [t["token"] for event in deltas for t in event["logprobs"]] == left[:-1]
    assert [event["new"] for event in deltas if "new" in event]
    added = answer.of_type("output_text.annotation.added")
    assert [event["annotation_index"] for event in added] == list(range(6))
    assert [event.get("more") for event in added].count(True) == 4
    assert {"type": "url_citation", "start_index": 0, "end_index": 8} in shown_part["annotations"]
    assert [a for a in shown_part["annotations"] if a in own] == own[1:]


@pytest.mark.requirement("citations:logprobs")
async def test_a_whole_answer_with_log_probabilities() -> None:
    words = ["Old", " ", "[", "cite:1", "]", "."]
    said = message("".join(words))
    said["content"][0]["logprobs"] = [
        {"token": word, "logprob": -0.5, "bytes": [], "top_logprobs": []} for word in words
    ]
    async with (
        ModelServer(in_turn(responded(LOOKUP), responded(said))) as model,
        serving(model.url, adjust=install_sources(), upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(tools=[TOOL], include=["message.output_text.logprobs"])
    (part,) = texts(answer)
    assert part["text"] == "Old."
    assert [token["token"] for token in part["logprobs"]] == ["Old", " ", "."]
