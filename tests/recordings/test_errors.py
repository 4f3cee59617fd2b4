"""Recorded failures: the same bad request sent to the gateway where the fault is the gateway's to find,
else the recorded answer as the upstream's."""

from typing import Any

import pytest

from bascule.testing import Call, HttpAnswer, ModelServer, Reply, StreamError
from tests.conformance.stream import check_stream
from tests.recordings import tally
from tests.recordings.files import recordings
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FAILED = {
    r.name: r for r in recordings("responses") if r.family == "error" and (r.status or 400) >= 400
}

FROM_UPSTREAM = [
    "error--pyd-test_multimodal_tool_return_matrix-direct-url_force_download-audio-openai_responses.02",
    "error--vai-reasoning-model-temperature-error",
    "error--vr-gptoss20b-responses-function-required-501",
    "error--vr-qwen35a3b-responses-followup-tool-result-only-400",
    "error--vr-qwen35a3b-responses-followup-tool-result-only-stream-400",
]
"""What the model's server finds; it says so in the same words on Chat."""

SENT = {
    "error--pyd-test_multimodal_tool_return_matrix-direct-url-audio-openai_responses.02": (
        "input[3].output[0]"
    ),
}
"""Bad requests, and the place that the gateway names: a Chat server takes no files
by their URL, where OpenAI refuses these files only."""

LIMITS = {
    r.name: r for r in recordings("responses") if r.family == "max_tool_calls" and r.status == 400
}

TOOL_CHOICE = "error--vr-tool-function-tool_loop-step2-tool_choice-without-tools-400"

EXCLUDED = {
    "error--pyd-test_deepseek_responses_rejects_interleaved_function_calls": (
        "a limit of DeepSeek's; the order of items is put right for the server instead"
    ),
    "error--vr-missing_required_parameter": "a hosted tool",
}


@pytest.mark.requirement("error:upstream:status")
@pytest.mark.parametrize("name", FROM_UPSTREAM)
async def test_the_upstreams_refusal_keeps_its_status_and_words(name: str) -> None:
    recording = FAILED[name]
    status = recording.status or 400
    refusal = HttpAnswer(status, bytes(recording.response))
    stream = bool((recording.request or {}).get("stream"))
    async with ModelServer(refusal) as model, serving(model.url) as api:
        answer = await api.create(stream=stream)
    assert answer.status == status
    recorded, error = recording.body["error"], answer.error
    assert error["message"] == recorded["message"]
    assert error["param"] == recorded["param"]
    # vLLM writes the HTTP status and a Python class where OpenAI has a code and a type.
    code, type_ = recorded["code"], recorded["type"]
    assert error["code"] == (code if isinstance(code, str) else None)
    ours = "invalid_request_error" if status < 500 else "server_error"
    assert error["type"] == (type_ if type_.endswith("_error") else ours)
    tally.replayed("responses", "error", recording.name)


@pytest.mark.requirement("error:body:shape")
@pytest.mark.parametrize("name", SENT)
async def test_the_same_bad_request_is_refused(name: str) -> None:
    recording = FAILED[name]
    async with ModelServer("unused") as model, serving(model.url) as api:
        answer = await api.create(**(recording.request or {}))
        assert model.chats == []
    recorded, error = recording.body["error"], answer.error
    assert answer.status == recording.status
    assert error["type"] == recorded["type"]
    assert error["param"] == SENT[name]
    assert error["param"].startswith(recorded["param"].partition("[")[0])
    tally.replayed("responses", "error", recording.name)


@pytest.mark.requirement("request:max-tool-calls")
@pytest.mark.parametrize("name", LIMITS)
async def test_a_bad_maximum_of_calls_is_refused_as_recorded(name: str) -> None:
    recording = LIMITS[name]
    async with ModelServer("unused") as model, serving(model.url) as api:
        answer = await api.create(**(recording.request or {}))
        assert model.chats == []
    recorded = recording.body["error"]
    assert answer.status == recording.status
    for key in ("code", "param", "type"):
        assert answer.error[key] == recorded[key]
    tally.replayed("responses", recording.family, recording.name)


@pytest.mark.requirement("choice:undeclared:refused")
async def test_a_choice_of_a_tool_that_only_the_chain_declared_is_refused() -> None:
    recording = FAILED[TOOL_CHOICE]
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    request: Json = recording.request or {}
    call_id = request["input"][0]["call_id"]
    first = Reply(Call("get_weather", {}, id=call_id))
    async with ModelServer([first]) as model, serving(model.url) as api:
        before = await api.create(tools=[tool])
        answer = await api.create(**{**request, "previous_response_id": before.response["id"]})
    assert answer.status == recording.status
    assert answer.error == recording.body["error"]
    tally.replayed("responses", "error", recording.name)


@pytest.mark.requirement("stream:failure:order", "stream:failure:nested-error")
async def test_a_recorded_failure_within_a_stream() -> None:
    (recording,) = [r for r in recordings("responses") if r.family == "error.stream"]
    recorded = recording.decoded_events
    failure = recorded[-2]["error"]
    said = StreamError(failure["message"], code=failure["code"], type=failure["type"])
    async with ModelServer([Reply(said)]) as model, serving(model.url) as api:
        answer = await api.create(stream=True)
    response = check_stream(answer, fails=True)
    assert [e["type"] for e in answer.events] == [e["type"] for e in recorded]
    error = answer.events[-2]
    assert error.keys() == recorded[-2].keys()
    assert error["error"] == failure
    assert response["error"] == recorded[-1]["response"]["error"]
    tally.replayed("responses", "error.stream", recording.name)


def test_every_failure_is_used_or_excluded() -> None:
    used = {*FROM_UPSTREAM, *SENT, TOOL_CHOICE}
    assert used | EXCLUDED.keys() == FAILED.keys()
    assert not used & EXCLUDED.keys()
    assert len(LIMITS) == 5
    for name, reason in EXCLUDED.items():
        tally.excluded("responses", FAILED[name].family, reason)
