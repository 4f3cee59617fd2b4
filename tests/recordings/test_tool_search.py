"""Recorded turns of the tool_search family: as requests to a server that knows it, which must get what was
recorded, and in front of a Chat server that makes the same calls."""

from typing import Any

import msgspec
import pytest

from bascule.testing import Answer as Scripted
from bascule.testing import Call, Finish, ModelServer, Reply, Request, Step
from tests.recordings import tally
from tests.recordings.convert import expected, output_of, request
from tests.recordings.convert import steps as steps_of
from tests.recordings.files import Recording, recordings
from tests.recordings.keys import event_keys, item_keys
from tests.recordings.order import comparable, orders
from tests.recordings.test_upstream import ANSWERS
from tests.recordings.test_upstream import _answer as as_recorded
from tests.serving import serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

NATIVE = (
    *("additional_tools", "namespace", "tool_search.client", "tool_search.hosted"),
    *("programmatic_tool_calling", "custom_tool", "custom_tool.grammar"),
)
FLAT = ("additional_tools", "namespace", "tool_search.client")
OWN_NAMESPACE = "OpenAI says a found function under a namespace of its own name"

ASKED = [
    r
    for r in recordings("responses")
    if r.family in NATIVE and r.request is not None and r.name in ANSWERS
]
TOLD = [r for r in recordings("responses") if r.family in FLAT and r.name in ANSWERS]


@pytest.mark.requirement("family:native:requests")
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("recording", ASKED, ids=str)
async def test_a_server_that_knows_it_is_asked_as_recorded(
    recording: Recording, store: bool
) -> None:
    """By the engine, which keeps state, and by the relay."""
    asked: Json = {**recording.request, "model": recording.name, "store": store}
    if asked.pop("previous_response_id", None) is not None:
        asked["input"] = _with_searches(asked["input"])
    sent: list[Json] = []

    def answer(request_: Request) -> Scripted:
        sent.append(request_.json)
        return as_recorded(request_)

    options = {"protocol": "responses", "profile": "openai"}
    async with ModelServer(answer) as model, serving(model.url, upstream_options=options) as api:
        answered = await api.create(**asked)
    assert answered.status == 200, answered.body
    for name in ("tools", "tool_choice"):
        if asked.get(name) not in (None, "auto", []):
            assert sent[0][name] == asked[name]
    theirs = asked["input"] if isinstance(asked["input"], list) else [_user(asked["input"])]
    ours = sent[0]["input"] if isinstance(sent[0]["input"], list) else [_user(sent[0]["input"])]
    assert [_typed(item) for item in ours] == [_typed(item) for item in theirs]


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _typed(item: Json) -> Json:
    return {"type": "message", **item}


def _with_searches(items: list[Json]) -> list[Json]:
    """The calls that the response before it held, which is not here."""
    made = {i.get("call_id") for i in items if str(i.get("type")).endswith("_call")}
    whole: list[Json] = []
    for item in items:
        if str(item.get("type")).endswith("_output") and item.get("call_id") not in made:
            whole.append(
                {
                    "type": "function_call",
                    "name": "f",
                    "arguments": "{}",
                    "call_id": item["call_id"],
                }
            )
        whole.append(item)
    return whole


# --- in front of a Chat server


def steps(item: Json) -> list[Step]:
    if item["type"] == "tool_search_call":
        arguments = msgspec.json.encode(item["arguments"]).decode()
        return [Call("tool_search", arguments, id=item["call_id"], split=3)]
    if item["type"] == "function_call" and item.get("namespace") == item["name"]:
        return [Call(item["name"], item["arguments"], id=item["call_id"], split=3)]
    return steps_of(item)


def declarations(recording: Recording) -> list[Json]:
    """Of a recording without a request: what its answer shows, found functions under their own names."""
    response, _ = output_of(recording)
    tools: dict[tuple[str, str | None], Json] = {}
    for tool in response["tools"]:
        own = tool["type"] == "namespace" and [t["name"] for t in tool["tools"]] == [tool["name"]]
        for one in tool["tools"] if own else [tool]:
            kept = {k: v for k, v in one.items() if k != "defer_loading"} if own else one
            tools[one["type"], one.get("name")] = kept
    return list(tools.values())


@pytest.mark.requirement("recordings:responses:items", "recordings:responses:order")
@pytest.mark.parametrize("recording", TOLD, ids=str)
async def test_a_chat_server_makes_the_same_calls(recording: Recording) -> None:
    recorded, items = output_of(recording)
    wanted = expected(items)
    made = [step for item in items for step in steps(item)]
    calls = any(isinstance(step, Call) for step in made)
    reply = Reply(*made, Finish("tool_calls" if calls else "stop"))
    fields = request(recording)
    if recording.request is None:
        fields["tools"] = declarations(recording)
    fields["tools"] = fields.get("tools") or []
    async with ModelServer(reply) as model, serving(model.url) as api:
        answer = await api.create(**fields)
        assert answer.status == 200, answer.body
        offered = [tool["function"]["name"] for tool in model.chats[0].tools]
    if recording.streamed:
        check_stream(answer.frames)
    response = answer.response
    assert response["status"] == recorded["status"]
    assert [item["type"] for item in response["output"]] == wanted.types
    for theirs, mine in zip(wanted.items, response["output"], strict=True):
        if theirs["type"] == "function_call":
            assert mine["name"] in offered
            if theirs.get("namespace") == theirs["name"]:
                theirs = {k: v for k, v in theirs.items() if k != "namespace"}
                tally.adapted(OWN_NAMESPACE)
        assert item_keys(theirs, mine) == []
        for key in ("arguments", "name", "namespace", "call_id", "execution", "status"):
            assert mine.get(key) == theirs.get(key), key
    if recording.streamed:
        assert event_keys(recording.decoded_events, answer.events) == []
        theirs_, ours = orders(recording.decoded_events), orders(answer.events)
        shown = [i for i, item in enumerate(items) if item in wanted.items]
        for mine, at in zip(ours.values(), shown, strict=True):
            assert comparable(mine, items[at])[0] == comparable(theirs_[at], items[at])[0]
    for note in wanted.notes:
        tally.adapted(note)
    tally.replayed("responses", recording.family, recording.name)
