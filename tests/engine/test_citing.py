"""Markers of sources become annotations, and reach no client."""

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bascule.testing import (
    Call,
    Cut,
    Delta,
    Finish,
    ModelServer,
    Reasoning,
    Refusal,
    Reply,
    Text,
)
from tests.engine.citing_tool import SourceExecutor, citation, install_sources, sources
from tests.engine.lookup_tool import TOOL, install
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

STREAM = pytest.mark.parametrize("stream", [True, False])
OLD = "Paris is old [cite:1]."


def messages(answer: Answer) -> list[Json]:
    return [item for item in answer.response["output"] if item["type"] == "message"]


def texts(answer: Answer) -> list[Json]:
    """The text parts of the last message."""
    return [part for part in messages(answer)[-1]["content"] if part["type"] == "output_text"]


def check(answer: Answer) -> None:
    """What holds for every answer: a stream keeps the rules, and says the annotations that are there."""
    assert b"[cite" not in answer.body
    if "text/event-stream" not in answer.headers["content-type"]:
        return
    check_stream(answer.frames)
    said: dict[tuple[int, int], list[Json]] = {}
    for event in answer.of_type("output_text.annotation.added"):
        place = said.setdefault((event["output_index"], event["content_index"]), [])
        assert event["annotation_index"] == len(place)
        place.append(event["annotation"])
    for index, item in enumerate(answer.response["output"]):
        for at, part in enumerate(item.get("content") or ()):
            assert part.get("annotations", []) == said.get((index, at), [])


def told(model: ModelServer, number: int) -> list[str]:
    """What the model had said, as it read it in that request."""
    said = model.chats[number].json["messages"]
    return [m["content"] for m in said if m["role"] == "assistant" and m.get("content")]


@pytest.mark.requirement(
    "citations:rewriting:annotations", "citations:rewriting:whole", "citations:sources:context"
)
@STREAM
async def test_markers_become_annotations(stream: bool) -> None:
    said = "Paris is old [cite:1]. Rome is older [cite:2,1]."
    replies = [Reply(sources("a.org", "b.org")), Reply(Text(said, chunks=9))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
        read = model.chats[1].json["messages"][-1]["content"]
    check(answer)
    (part,) = texts(answer)
    assert part["text"] == "Paris is old. Rome is older."
    assert part["annotations"] == [
        citation("a.org", 0, 12),
        citation("b.org", 14, 27),
        citation("a.org", 14, 27),
    ]
    assert "[cite:1] a.org\nhttps://a.org/" in read
    if stream:
        # Between the deltas, as soon as the claim is out.
        kinds = [kind for kind in answer.types if kind.startswith("output_text")]
        first = kinds.index("output_text.annotation.added")
        assert "output_text.delta" in kinds[:first]
        assert "output_text.delta" in kinds[first:]


@pytest.mark.requirement("citations:rewriting:chunks")
@pytest.mark.parametrize("chunks", [1, 2, 5, 1000])
async def test_chunks_make_no_difference(chunks: int) -> None:
    said = "Café 😀 [cite:1], (new [CITE: 2]).\n\n- x 【cite：1、2】\n- y"
    replies = [Reply(sources("a.org", "b.org")), Reply(Text(said, chunks=min(chunks, len(said))))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=True)
    check(answer)
    (part,) = texts(answer)
    assert part["text"] == "Café 😀, (new).\n\n- x\n- y"
    claims = [
        (a["title"], part["text"][a["start_index"] : a["end_index"]]) for a in part["annotations"]
    ]
    assert claims == [("a.org", "Café 😀"), ("b.org", "(new"), ("a.org", "x"), ("b.org", "x")]


@pytest.mark.requirement("citations:rewriting:off")
@STREAM
async def test_without_sources_nothing_is_touched(stream: bool) -> None:
    said = "As [cite:1] says  [ci"
    async with (
        ModelServer([Reply(Text(said, chunks=4))]) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
    (part,) = texts(answer)
    assert (part["text"], part["annotations"]) == (said, [])
    if stream:
        assert len(answer.of_type("output_text.delta")) == 4


@pytest.mark.requirement("citations:unknown")
@STREAM
async def test_an_unknown_number_goes_and_is_told_once(stream: bool) -> None:
    said = "A [cite:7] and b [cite:1,8] and c [cite:0]."
    with capture_logs() as logs:
        async with (
            ModelServer([Reply(sources("a.org")), Reply(said)]) as model,
            serving(model.url, adjust=install_sources()) as api,
        ):
            answer = await api.create(tools=[TOOL], stream=stream)
            metrics = await api.send("GET", "/metrics")
    check(answer)
    (part,) = texts(answer)
    assert part["text"] == "A and b and c."
    assert part["annotations"] == [citation("a.org", 2, 7)]
    lines = [line for line in logs if line["event"] == "unknown sources cited"]
    assert [(line["times"], line["model"]) for line in lines] == [(3, "mock-model")]
    counted = 'bascule_unknown_citations_total{model="other",upstream="mock"} 3.0'
    assert counted in metrics.body.decode()


@pytest.mark.requirement("citations:history:raw", "citations:sources:chain")
@STREAM
async def test_the_model_goes_on_citing_in_later_rounds_and_turns(stream: bool) -> None:
    executor = SourceExecutor()
    replies = [
        Reply(sources("a.org", id_="call_1")),
        Reply(OLD, sources("b.org", "a.org", id_="call_2")),
        Reply("Rome is older [cite:2]."),
        Reply("As I said [cite:1]."),
        Reply(sources("c.org", id_="call_3")),
        Reply("New [cite:3]. Old [cite:1]."),
    ]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        first = await api.create(tools=[TOOL], stream=stream)
        second = await api.create(
            input="Sure?", previous_response_id=first.response["id"], stream=stream
        )
        third = await api.create(
            input="New?",
            previous_response_id=second.response["id"],
            tools=[TOOL],
            stream=stream,
        )
    for answer in (first, second, third):
        check(answer)
    assert executor.keys == [1, 2, 1, 3]
    assert [message["content"][0]["text"] for message in messages(first)] == [
        "Paris is old.",
        "Rome is older.",
    ]
    assert texts(second)[0]["annotations"] == [citation("a.org", 0, 9)]
    assert texts(third)[0]["annotations"] == [citation("c.org", 0, 3), citation("a.org", 5, 8)]
    assert told(model, 2) == [OLD]
    assert told(model, 3) == [OLD, "Rome is older [cite:2]."]
    assert told(model, 5) == [OLD, "Rome is older [cite:2].", "As I said [cite:1]."]


@pytest.mark.requirement("citations:sources:chain")
async def test_branches_of_a_chain_number_for_themselves() -> None:
    executor = SourceExecutor()
    replies = [
        Reply(sources("a.org")),
        "First.",
        Reply(sources("b.org", id_="call_2")),
        "B [cite:2].",
        Reply(sources("c.org", id_="call_3")),
        "C [cite:2].",
    ]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        first = (await api.create(tools=[TOOL])).response["id"]
        branches = [await api.create(tools=[TOOL], previous_response_id=first) for _ in range(2)]
    assert executor.keys == [1, 2, 2]
    assert [texts(branch)[0]["annotations"] for branch in branches] == [
        [citation("b.org", 0, 1)],
        [citation("c.org", 0, 1)],
    ]


@pytest.mark.requirement("citations:sources:chain")
async def test_a_conversation_keeps_its_sources() -> None:
    replies = [Reply(sources("a.org")), OLD, "Yes [cite:1]."]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        made = await api.send("POST", "/v1/conversations", b"{}")
        conversation = made.json["id"]
        await api.create(tools=[TOOL], conversation=conversation, store=False)
        answer = await api.create(input="Sure?", conversation=conversation)
        items = await api.send("GET", f"/v1/conversations/{conversation}/items")
    check(answer)
    assert texts(answer)[0]["annotations"] == [citation("a.org", 0, 3)]
    assert told(model, 2) == [OLD]
    assert b"[cite" not in items.body


@pytest.mark.requirement("citations:history:raw")
async def test_what_had_no_marker_is_stored_as_ever() -> None:
    replies = [Reply(sources("a.org")), "Plain.", Reply("More [cite:1].")]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        first = (await api.create(tools=[TOOL])).response
        row = await api.engine.store.response("", first["id"])
        assert row is not None
        rows = await api.engine.store.items("", row.output)
        second = (await api.create(previous_response_id=first["id"])).response
        marked = await api.engine.store.response("", second["id"])
        assert marked is not None
        (kept,) = await api.engine.store.items("", marked.output)
        stored = await api.send("GET", f"/v1/responses/{second['id']}")
    assert [row.type for row in rows if row.origin is None] == ["message"]
    assert kept.origin is not None
    assert msgspec.json.decode(kept.origin)["model"][0]["content"][0]["text"] == "More [cite:1]."
    assert b"[cite" not in kept.data
    assert b"[cite" not in stored.body


@pytest.mark.requirement("citations:markers:open")
@STREAM
@pytest.mark.parametrize(
    ("said", "left", "titles"),
    [("Paris is old [cite:1", "Paris is old", ["a.org"]), ("Old [ci", "Old [ci", [])],
)
async def test_an_answer_that_is_cut_in_a_marker(
    said: str, left: str, titles: list[str], stream: bool
) -> None:
    replies = [Reply(sources("a.org")), Reply(Text(said, chunks=5), Finish("length"))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
    check(answer)
    assert answer.response["status"] == "incomplete"
    assert messages(answer)[0]["status"] == "incomplete"
    (part,) = texts(answer)
    assert part["text"] == left
    assert [annotation["title"] for annotation in part["annotations"]] == titles


@pytest.mark.requirement("citations:markers:open")
async def test_a_stream_that_breaks_in_a_marker() -> None:
    replies = [Reply(sources("a.org")), Reply(Text("Paris is old [cite:1", chunks=5), Cut())]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=True)
    check(answer)
    assert answer.response["status"] == "failed"
    assert texts(answer)[0]["annotations"] == [citation("a.org", 0, 12)]


@pytest.mark.requirement("citations:rewriting:parts")
@STREAM
async def test_parts_and_messages_count_for_themselves(stream: bool) -> None:
    reply = Reply(
        Text("One [cite:1].", chunks=3),
        Refusal("No [cite:1]"),
        Text("Two [cite:2].", chunks=3),
        sources("c.org", id_="call_2"),
        Text("Three [cite:1]", chunks=4),
    )
    replies = [Reply(sources("a.org", "b.org")), reply, "Four [cite:3]"]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
    # A refusal is no text that cites.
    assert answer.body.count(b"[cite") == answer.body.count(b"No [cite:1]")
    if stream:
        check_stream(answer.frames)
    shown = [
        (part["text"], part["annotations"])
        for message in messages(answer)
        for part in message["content"]
        if part["type"] == "output_text"
    ]
    expected = {
        "One.": [citation("a.org", 0, 3)],
        "Two.": [citation("b.org", 0, 3)],
        "Three": [citation("a.org", 0, 5)],
        "Four": [citation("c.org", 0, 4)],
    }
    if not stream:  # a whole Chat answer has its text in one piece
        whole = "One.Two.Three"
        assert [text for text, _ in shown] == [whole, "Four"]
        assert [a["title"] for a in shown[0][1]] == ["a.org", "b.org", "a.org"]
    else:
        assert dict(shown) == expected


@pytest.mark.requirement("citations:rewriting:parts")
async def test_reasoning_and_arguments_are_left_alone() -> None:
    tool = {"type": "function", "name": "write", "parameters": {"type": "object"}}
    write = Call("write", {"text": "See [cite:1]"}, id="call_2")
    replies = [Reply(sources("a.org")), Reply(Reasoning("By [cite:1]"), OLD, write)]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL, tool], stream=True)
    response = check_stream(answer.frames)
    reasoning, message, call = response["output"][1:]
    assert reasoning["content"][0]["text"] == "By [cite:1]"
    assert message["content"][0]["text"] == "Paris is old."
    assert call["arguments"] == '{"text":"See [cite:1]"}'


@pytest.mark.requirement("citations:logprobs")
@STREAM
async def test_tokens_of_markers_have_no_log_probabilities(stream: bool) -> None:
    words = ["Paris", " is", " old", " [", "cite", ":", "1", "]", ".", " Yes"]
    replies = [Reply(sources("a.org")), Reply(Text(words, logprobs=True))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(
            tools=[TOOL],
            stream=stream,
            include=["message.output_text.logprobs"],
            top_logprobs=1,
        )
    check(answer)
    (part,) = texts(answer)
    kept = ["Paris", " is", " old", ".", " Yes"]
    assert part["text"] == "Paris is old. Yes"
    assert [token["token"] for token in part["logprobs"]] == kept
    if stream:
        deltas = answer.of_type("output_text.delta")
        assert [t["token"] for event in deltas for t in event["logprobs"]] == kept
        assert ["".join(t["token"] for t in event["logprobs"]) for event in deltas] == [
            event["delta"] for event in deltas
        ]
        (done,) = answer.of_type("output_text.done")
        assert [token["token"] for token in done["logprobs"]] == kept


@pytest.mark.requirement("citations:logprobs")
async def test_tokens_that_share_characters_with_a_marker_go() -> None:
    words = ["Old ", "[cite:", "1].", " Yes"]
    replies = [Reply(sources("a.org")), Reply(Text(words, logprobs=True))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(
            tools=[TOOL], stream=True, include=["message.output_text.logprobs"]
        )
    check(answer)
    (part,) = texts(answer)
    assert part["text"] == "Old. Yes"
    assert [token["token"] for token in part["logprobs"]] == ["Old ", " Yes"]


@pytest.mark.requirement("citations:rewriting:servers")
@STREAM
async def test_annotations_of_a_chat_server_move_with_their_text(stream: bool) -> None:
    of_server = {"url": "https://s.org/", "title": "S", "start_index": 23, "end_index": 27}
    reply = Reply(
        Text("Paris is old [cite:1]. Rome is [cite:1] too", chunks=6),
        Delta({"annotations": [{"type": "url_citation", "url_citation": of_server}]}),
    )
    async with (
        ModelServer([Reply(sources("a.org")), reply]) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
    check(answer)
    (part,) = texts(answer)
    assert part["text"] == "Paris is old. Rome is too"
    moved = {"type": "url_citation", **of_server, "start_index": 14, "end_index": 18}
    assert part["annotations"] == [citation("a.org", 0, 12), citation("a.org", 14, 21), moved]
    assert part["text"][14:18] == "Rome"


@pytest.mark.requirement("citations:rewriting:held-back")
@STREAM
async def test_a_text_that_was_held_is_rewritten_when_it_leaves(stream: bool) -> None:
    """With a choice that a server does not keep, the answer is held; what is asked again for is gone."""
    tool = {"type": "function", "name": "act", "parameters": {"type": "object"}}
    replies = [
        Reply(sources("a.org")),
        "Old.",
        Reply("Forgotten [cite:1]."),
        Reply(Text(OLD, chunks=4), Call("act", {}, id="call_2")),
    ]
    options = {"flags": {"enforces_named": False}}
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources(), upstream_options=options) as api,
    ):
        first = (await api.create(tools=[TOOL])).response["id"]
        answer = await api.create(
            tools=[TOOL, tool],
            tool_choice={"type": "function", "name": "act"},
            previous_response_id=first,
            stream=stream,
        )
    check(answer)
    assert len(model.chats) == 4
    assert b"Forgotten" not in answer.body
    assert [item["type"] for item in answer.response["output"]] == ["message", "function_call"]
    assert texts(answer)[0]["annotations"] == [citation("a.org", 0, 12)]


@pytest.mark.requirement("citations:rewriting:held-back")
async def test_calls_written_as_text_and_markers_go_together() -> None:
    said = 'Paris is old [cite:1].\n<tool_call>\n{"name": "act", "arguments": {}}\n</tool_call>'
    tool = {"type": "function", "name": "act", "parameters": {"type": "object"}}
    replies = [Reply(sources("a.org")), Reply(Text(said, chunks=11))]
    options = {"flags": {"text_tool_calls": True}}
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources(), upstream_options=options) as api,
    ):
        answer = await api.create(tools=[TOOL, tool], stream=True)
    check(answer)
    assert [item["type"] for item in answer.response["output"][1:]] == ["message", "function_call"]
    assert texts(answer)[0]["text"].strip() == "Paris is old."
    assert texts(answer)[0]["annotations"] == [citation("a.org", 0, 12)]
