"""Recorded answers of Chat servers, replayed byte for byte as the upstream."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bascule.testing import HttpAnswer, ModelServer, Request
from tests.conformance.stream import check_answer, check_stream
from tests.recordings import tally
from tests.recordings.chat_content import Said, read
from tests.recordings.files import Recording, recordings
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ALL = {recording.name: recording for recording in recordings("chat")}
ANSWERS = [r for r in ALL.values() if (r.status or 400) == 200]
_ANY: Json = {"type": "object", "properties": {}}
ERRORS = [r for r in ALL.values() if (r.status or 400) != 200]


def _upstream(request: Request) -> HttpAnswer:
    recording = ALL[request.model]
    if not recording.streamed:
        return HttpAnswer(recording.status or 400, bytes(recording.response))
    frames = [f"{text}\n\n".encode() * count for text, count in recording.comments.items()]
    frames += [b"data: " + bytes(event) + b"\n\n" for event in recording.events or ()]
    if recording.done_marker:
        frames.append(b"data: [DONE]\n\n")
    return HttpAnswer(200, b"".join(frames), "text/event-stream; charset=utf-8")


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Api]:
    async with ModelServer(_upstream) as model, serving(model.url) as api:
        yield api


def _declared(recording: Recording, said: Said) -> list[Json]:
    """The functions that the recorded request declared; else those that were called."""
    tools = (recording.request or {}).get("tools") or []
    declared = [
        {"type": "function", **tool["function"]}
        for tool in tools
        if tool.get("type", "function") == "function" and "function" in tool
    ]
    known = {tool["name"] for tool in declared}
    called = dict.fromkeys(name for name, _ in said.calls if name not in known)
    return declared + [{"type": "function", "name": name, "parameters": _ANY} for name in called]


@pytest.mark.requirement("upstream:chat:recorded")
@pytest.mark.parametrize("recording", ANSWERS, ids=str)
async def test_a_recorded_answer_becomes_a_valid_response(api: Api, recording: Recording) -> None:
    said = read(recording)
    tools = _declared(recording, said)
    answer = await api.create(model=recording.name, stream=recording.streamed, tools=tools)
    response = check_stream(answer) if recording.streamed else check_answer(answer)
    output = response["output"]
    assert _parts(output, "output_text", "text") == said.text
    assert _parts(output, "refusal", "refusal") == said.refusal
    assert _reasoning(output) == said.reasoning
    calls = [item for item in output if item["type"] == "function_call"]
    expected = [(name, arguments or "{}") for name, arguments in said.calls]
    assert [(item["name"], item["arguments"]) for item in calls] == expected
    for item, id_ in zip(calls, said.call_ids, strict=True):
        assert not id_ or item["call_id"] == id_
    _check_end(response, said)
    tally.replayed("chat", recording.family, recording.name)


def _check_end(response: Json, said: Said) -> None:
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(said.finish or "")
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    annotations = [
        note
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
        for note in part.get("annotations", ())
    ]
    assert len(annotations) == said.annotations
    if said.usage is not None:
        assert response["usage"]["input_tokens"] == said.usage["prompt_tokens"]
        assert response["usage"]["output_tokens"] == said.usage["completion_tokens"]


def _parts(output: list[Json], type_: str, key: str) -> str:
    return "".join(
        part[key]
        for item in output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == type_
    )


def _reasoning(output: list[Json]) -> str:
    return "".join(
        part["text"]
        for item in output
        if item["type"] == "reasoning"
        for part in item.get("content", ())
    )


@pytest.mark.requirement("error:upstream:status")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("recording", ERRORS, ids=str)
async def test_a_recorded_error_keeps_its_status_and_words(
    api: Api, recording: Recording, stream: bool
) -> None:
    answer = await api.create(model=recording.name, stream=stream)
    recorded = recording.body["error"]
    assert answer.status == (recording.status or 400)
    assert answer.headers["content-type"] == "application/json"
    error = answer.error
    assert error["message"] == recorded["message"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["param"] == recorded.get("param")
    if isinstance(recorded.get("code"), str):
        assert error["code"] == recorded["code"]
    if str(recorded.get("type")).endswith("_error"):
        assert error["type"] == recorded["type"]
    tally.replayed("chat", recording.family, recording.name)


def test_every_recording_is_used() -> None:
    assert len(ANSWERS) + len(ERRORS) == len(ALL) == 155
