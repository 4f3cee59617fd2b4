"""Recorded Responses answers: a Chat server says the same, and the gateway must make of it what was
recorded: the same items, each with its events in the same order and with the same keys."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bascule.testing import ModelServer, Reply, Request
from tests.conformance.stream import check_answer, check_stream
from tests.recordings import tally
from tests.recordings.convert import Expected, expected, output_of, reply, request
from tests.recordings.files import Recording, recordings
from tests.recordings.keys import event_keys, item_keys, response_keys
from tests.recordings.order import comparable, orders
from tests.serving import Answer, Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FAMILIES = [
    "text",
    "reasoning.encrypted",
    "reasoning.plain",
    "reasoning.raw_text",
    "reasoning.summary",
    "function.allowed_tools",
    "function.auto",
    "function.forced",
    "function.none",
    "function.parallel",
    "function.required",
    "custom_tool",
    "custom_tool.grammar",
    "namespace",
    "shell",
    "shell.local_shell",
    "apply_patch",
    "structured_output",
    "incomplete",
    "error",
    "phase",
    "multimodal_input",
    "max_tool_calls",
]

_EXPLICIT = "prompt_cache_options, which a Chat server has no place for"
EXCLUDED = {
    "text--vai-azure-deepseek-reasoning.1": "its body is a Chat answer",
    "phase--pyd-test_openai_responses_prompt_cache_e2e.01": _EXPLICIT,
    "phase--pyd-test_openai_responses_prompt_cache_e2e.02": _EXPLICIT,
    **dict.fromkeys(
        (
            "max_tool_calls--aga-max-tool-calls-validation-openai-reference-gpt-5.6-nonstreaming.01",
            "max_tool_calls--aga-max-tool-calls-validation-openai-reference-gpt-5.6-nonstreaming.03",
            "max_tool_calls--vr-max-tool-calls-code-interpreter-stream-v1",
            "max_tool_calls--vr-max-tool-calls-code-interpreter-stream-v3-two",
            "max_tool_calls--vr-max-tool-calls-web-search-v1",
        ),
        "a hosted tool, which cannot be declared yet",
    ),
    **dict.fromkeys(
        (
            "shell--vai-openai-shell-container-multiturn.1",
            "shell--vai-openai-shell-container-multiturn.1-stream",
            "shell--vai-openai-shell-container.1-stream",
            "shell--vai-openai-shell-skills.1-stream",
        ),
        "a shell in a container, for which there is no executor",
    ),
}
"""Recordings that are not replayed; the failed ones of `error` are in test_errors.py."""

OTHER_ORDER = {
    "custom_tool.grammar--vai-openai-custom-tool.1-stream": "made by hand, without the input's end",
    "function.auto--vr-qwen35a3b-responses-function-stream-auto": (
        "vLLM streams a message that its final output does not have"
    ),
    "function.forced--vr-qwen35a3b-responses-function-named-choice-stream": (
        "vLLM streams a call as text and never ends it"
    ),
    "function.required--vai-lmstudio-tool-call.2-stream": (
        "LM Studio sends arguments whole, without a delta"
    ),
}
"""Recordings whose order of events is not the protocol's."""

ALL = {
    r.name: r
    for r in recordings("responses")
    if r.family in FAMILIES and r.status == 200 and r.name not in EXCLUDED
}


def _upstream(asked: Request) -> Reply:
    return reply(ALL[asked.model])


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Api]:
    async with ModelServer(_upstream) as model, serving(model.url) as api:
        yield api


@pytest.mark.requirement("recordings:responses:items", "recordings:responses:keys")
@pytest.mark.parametrize("recording", ALL.values(), ids=str)
async def test_the_gateway_answers_as_recorded(api: Api, recording: Recording) -> None:
    recorded, items = output_of(recording)
    wanted = expected(items)
    answer = await api.create(**request(recording))
    response = check_stream(answer) if recording.streamed else check_answer(answer)
    assert response["status"] == recorded["status"]
    assert [item["type"] for item in response["output"]] == wanted.types
    _compare_contents(wanted.items, response["output"])
    if recording.provider.startswith(("openai", "azure")):
        _compare_keys(recording, answer, wanted)
    for note in wanted.notes:
        tally.adapted(note)
    tally.replayed("responses", recording.family, recording.name)


def _compare_contents(recorded: list[Json], ours: list[Json]) -> None:
    for theirs, mine in zip(recorded, ours, strict=True):
        for key in ("name", "call_id", "arguments", "input", "action", "operation"):
            assert mine.get(key) == theirs.get(key)
        if mine["type"] != "reasoning":  # OpenAI shows no status on reasoning, some others do
            assert mine["status"] == (theirs["status"] or "completed")


def _compare_keys(recording: Recording, answer: Answer, wanted: Expected) -> None:
    recorded, _ = output_of(recording)
    response = answer.response
    lacking = response_keys(recorded, response)
    for theirs, ours in zip(wanted.items, response["output"], strict=True):
        lacking += item_keys(theirs, ours)
    if recording.streamed:
        lacking += event_keys(recording.decoded_events, answer.events)
    assert lacking == []


@pytest.mark.requirement("recordings:responses:order")
@pytest.mark.parametrize("recording", [r for r in ALL.values() if r.streamed], ids=str)
async def test_events_come_in_the_recorded_order(api: Api, recording: Recording) -> None:
    _, items = output_of(recording)
    wanted = expected(items)
    answer = await api.create(**request(recording))
    theirs, ours = _orders(recording, answer, items, wanted)
    if recording.name in OTHER_ORDER:
        assert ours != theirs, "the recording is not an exception any more"
        tally.adapted(f"the order of events was not compared: {OTHER_ORDER[recording.name]}")
    else:
        assert ours == theirs


def _orders(
    recording: Recording, answer: Answer, items: list[Json], wanted: Expected
) -> tuple[list[list[str]], list[list[str]]]:
    """The recorded order of each item's events, and ours."""
    recorded, mine = orders(recording.decoded_events), orders(answer.events)
    places = [i for i, item in enumerate(items) if any(item is w for w in wanted.items)]
    theirs: list[list[str]] = []
    ours: list[list[str]] = []
    for index, (place, item) in enumerate(zip(places, wanted.items, strict=True)):
        order, reasons = comparable(recorded[place], item)
        theirs.append(order)
        ours.append(comparable(mine[index], item)[0])
        for reason in reasons:
            tally.adapted(reason)
    return theirs, ours


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "max_tool_calls"])
def test_each_family_has_a_recording(family: str) -> None:
    assert any(r.family == family for r in ALL.values())


def test_exceptions_name_recordings() -> None:
    names = {r.name for r in recordings("responses")}
    assert EXCLUDED.keys() <= names
    assert OTHER_ORDER.keys() <= ALL.keys()
    for recording in recordings("responses"):
        if recording.name in EXCLUDED:
            tally.excluded("responses", recording.family, EXCLUDED[recording.name])
