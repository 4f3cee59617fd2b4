"""Everything recorded at Responses servers, played to the gateway by a server that speaks Responses:
what comes out is what was recorded, under ids of the gateway, or byte for byte where it is relayed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bascule.testing import Answer as Scripted
from bascule.testing import ModelServer, Request, recorded
from tests.recordings import tally
from tests.recordings.files import Recording, recordings
from tests.serving import Api, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")

OTHER_ITEMS = {
    "function.auto--vr-qwen35a3b-responses-function-stream-auto": (
        "vLLM streams a message that its final output does not have"
    ),
    "function.forced--vr-qwen35a3b-responses-function-named-choice-stream": (
        "vLLM streams as text what is a call in its final output"
    ),
    "shell--vai-openai-shell-container.1-stream": "its deltas were cut by hand, its items were not",
}
"""Recordings whose stream and final output disagree: the stream is what clients have read."""

OTHER_STATUS = {
    "programmatic_tool_calling--vai-programmatic-tool-calling.3-stream": "added as completed",
    "shell--vai-openai-shell-container.1-stream": "added as completed",
    "shell--vai-openai-shell-skills.1-stream": "added as completed",
    "web_search--vai-azure-web-search-preview-tool.1-stream": "done while searching",
    "web_search--vai-xai-web-search-tool.1-stream": "added as completed",
}
"""Hosted items whose recorded status is not that of their event; it passes as it is."""


def _response(recording: Recording) -> Json | None:
    """The response that was recorded in the end."""
    if recording.streamed:
        events = recording.decoded_events
        return next((e["response"] for e in events if e["type"] in _TERMINAL), None)
    body = recording.body if bytes(recording.response) else None
    return body if body and body.get("object") == "response" else None


def _is_answer(recording: Recording) -> bool:
    response = _response(recording)
    ended = response is not None and response["status"] in ("completed", "incomplete", "failed")
    return recording.status in (200, None) and ended


ANSWERS = {r.name: r for r in recordings("responses") if _is_answer(r)}


def _answer(asked: Request) -> Scripted:
    recording = ANSWERS[asked.model]
    if recording.streamed:
        events = recording.decoded_events
        return recorded({"events": events, "done_marker": recording.done_marker})
    return recorded({"response": recording.body})


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Api]:
    options = {"protocol": "responses", "profile": "openai"}
    async with ModelServer(_answer) as model, serving(model.url, upstream_options=options) as api:
        yield api


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def _bare(item: Json) -> Json:
    """Without what is the gateway's own, and lists that it adds where they were left out."""
    bare = {k: v for k, v in item.items() if k not in ("id", "encrypted_content", "status")}
    if item["type"] == "message":
        bare["content"] = [
            {k: v for k, v in part.items() if k != "logprobs" or v} for part in item["content"]
        ]
    return bare


@pytest.mark.requirement("upstream:responses:recorded")
@pytest.mark.parametrize("recording", ANSWERS.values(), ids=str)
async def test_the_gateway_passes_on_what_was_recorded(api: Api, recording: Recording) -> None:
    recorded_response = _response(recording)
    assert recorded_response is not None
    answer = await api.create(model=recording.name, stream=recording.streamed)
    if recorded_response["status"] == "failed" and not recording.streamed:
        assert answer.status >= 400
        return
    assert answer.status == 200, answer.body
    response = answer.response
    assert response["status"] == recorded_response["status"]
    if recording.streamed and recording.name not in OTHER_STATUS:
        check_stream(answer.frames)
    theirs = [_bare(item) for item in recorded_response["output"]]
    ours = [_bare(item) for item in response["output"]]
    if recording.name in OTHER_ITEMS:
        assert ours != theirs, "the recording is not an exception any more"
    elif recorded_response["status"] != "failed":
        assert ours == theirs
    upstream_ids = {item.get("id") for item in recorded_response["output"]}
    assert not upstream_ids & {item["id"] for item in response["output"]}
    tally.replayed("upstream", recording.family, recording.name)


@pytest.mark.requirement("relay:bytes")
@pytest.mark.parametrize("recording", ANSWERS.values(), ids=str)
async def test_the_relay_changes_no_byte(recording: Recording) -> None:
    sent: list[bytes] = []

    def answer(asked: Request) -> Scripted:
        sent.append(asked.body)
        return _answer(asked)

    options = {"protocol": "responses", "profile": "openai"}
    body: Json = {"model": recording.name, "input": "x", "store": False}
    body["stream"] = recording.streamed
    async with (
        ModelServer(answer, then="repeat") as model,
        serving(model.url, upstream_options=options) as api,
    ):
        ours = await api.create(**body)
        direct = await Api(model.origin, api.gateway, api.client).create(**body)
    assert ours.body == direct.body
    assert sent[0] == sent[1]
