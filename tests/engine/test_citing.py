"""Markers of sources become annotations, and reach no client."""

from typing import Any

import pytest

from bascule.testing import ModelServer, Reply, Text
from tests.engine.citing_tool import citation, install_sources, sources
from tests.engine.lookup_tool import TOOL
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def parts(answer: Answer) -> list[Json]:
    """The text parts of the last message."""
    message = [item for item in answer.response["output"] if item["type"] == "message"][-1]
    return [part for part in message["content"] if part["type"] == "output_text"]


@pytest.mark.requirement("citations:rewriting:annotations", "citations:rewriting:whole")
@pytest.mark.parametrize("stream", [True, False])
async def test_markers_become_annotations(stream: bool) -> None:
    said = "Paris is old [cite:1]. Rome is older [cite:2,1]."
    replies = [Reply(sources("a.org", "b.org")), Reply(Text(said, chunks=9))]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install_sources()) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
    (part,) = parts(answer)
    assert part["text"] == "Paris is old. Rome is older."
    assert part["annotations"] == [
        citation("a.org", 0, 12),
        citation("b.org", 14, 27),
        citation("a.org", 14, 27),
    ]
    assert b"cite" not in answer.body
    if stream:
        check_stream(answer.frames)
        added = answer.of_type("output_text.annotation.added")
        assert [event["annotation"] for event in added] == part["annotations"]
        assert [event["annotation_index"] for event in added] == [0, 1, 2]
        assert {event["content_index"] for event in added} == {0}
