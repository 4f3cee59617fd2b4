"""Recorded answers with MCP servers: scripted servers list and answer what was recorded, a Chat server
makes the same calls, and the gateway must show the same items with their events in the same order."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from starlette.responses import Response

from bascule.testing import Call, Finish, ModelServer, Reply, Request, Step
from tests.recordings import tally
from tests.recordings.convert import expected, output_of, reasoning_text
from tests.recordings.convert import steps as steps_of
from tests.recordings.files import Recording, recordings
from tests.recordings.keys import event_keys, item_keys
from tests.recordings.order import comparable, orders
from tests.services.mcp.scripted import Scripted, scripted
from tests.serving import serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FAMILIES = ("mcp.list", "mcp.call", "mcp.approval", "mcp.error")
ALL = [r for r in recordings("responses") if r.family in FAMILIES and r.status == 200]
OTHER_ORDER = {
    "mcp.call--vai-openai-mcp-tool-approval.4-stream": "an approved call is in progress twice",
    "mcp.list--pyd-test_openai_responses_model_mcp_list_tools_stream_backfills_missing_results": (
        "two lists are never done"
    ),
}
"""Recordings whose order of events is not that of the others."""
CALLS = ("mcp_call", "mcp_approval_request")


def history_of(recording: Recording) -> list[Json]:
    """What the request had said before: the SDK of some recordings sent it along; of others only the
    approval is known, which is made up from the call that it led to."""
    given = (recording.request or {}).get("input")
    if isinstance(given, list):
        return given
    _, items = output_of(recording)
    asked: list[Json] = []
    for item in items:
        id_ = item.get("approval_request_id")
        if item["type"] == "mcp_call" and id_ is not None:
            members = {k: item[k] for k in ("arguments", "name", "server_label")}
            asked.append({"type": "mcp_approval_request", "id": id_, **members})
            asked.append(
                {"type": "mcp_approval_response", "approval_request_id": id_, "approve": True}
            )
    return [*asked, {"type": "message", "role": "user", "content": "Hello"}]


def declared(recording: Recording, urls: dict[str, str]) -> list[Json]:
    response, _ = output_of(recording)
    tools = (recording.request or {}).get("tools") or response["tools"]
    shown = ("type", "server_label", "allowed_tools", "require_approval", "server_description")
    return [
        {k: tool[k] for k in shown if tool.get(k) is not None}
        | {"server_url": urls[tool["server_label"]]}
        for tool in tools
        if tool["type"] == "mcp"
    ]


def servers_of(recording: Recording) -> dict[str, Scripted]:
    """A server for each label, with the recorded tools and outcomes in order."""
    response, items = output_of(recording)
    outcomes: dict[str, list[Json]] = {}
    tools: dict[str, list[Json]] = {}
    for item in [*history_of(recording), *items]:
        if item.get("type") == "mcp_list_tools":
            tools[item["server_label"]] = item["tools"]
    for item in items:
        if item["type"] == "mcp_call":
            outcomes.setdefault(item["server_label"], []).append(item)
    labels = {t["server_label"] for t in response["tools"] if t["type"] == "mcp"}
    return {label: _server(tools.get(label), outcomes.get(label, [])) for label in sorted(labels)}


def _server(tools: list[Json] | None, outcomes: list[Json]) -> Scripted:
    listed = [
        {
            "name": tool["name"],
            "description": tool["description"],
            "inputSchema": tool["input_schema"],
            "annotations": {"readOnlyHint": tool["annotations"]["read_only"]},
        }
        for tool in tools or [_unlisted(outcome) for outcome in outcomes[:1]]
    ]

    def call(_: Json) -> Json | Response:
        outcome = outcomes.pop(0)
        if outcome["error"] is not None:
            return Response(status_code=outcome["error"]["code"])
        return {"content": [{"type": "text", "text": outcome["output"]}]}

    return Scripted(*listed, tools_call=call)


def _unlisted(call: Json) -> Json:
    """Of a recording that does not have the list."""
    return {
        "name": call["name"],
        "description": "",
        "input_schema": {"type": "object"},
        "annotations": {"read_only": False},
    }


def rounds_of(recording: Recording, items: list[Json]) -> list[Reply]:
    """What the model says: an answer for each row of calls, and the last one."""
    replies: list[Reply] = []
    steps: list[Step] = []
    calling = False
    for number, item in enumerate(items):
        if item["type"] == "mcp_list_tools" or item.get("approval_request_id") is not None:
            continue
        if calling and item["type"] not in CALLS:
            replies.append(Reply(*steps, Finish("tool_calls")))
            steps, calling = [], False
        if item["type"] in CALLS:
            name = f"{item['server_label']}__{item['name']}"
            steps.append(Call(name, item["arguments"], id=f"call_{number}", split=3))
            calling = True
        else:
            steps += steps_of(item)
    finish = "tool_calls" if calling else "stop"
    return [*replies, Reply(*steps, Finish(finish))]


@asynccontextmanager
async def running(recording: Recording) -> AsyncGenerator[dict[str, str]]:
    async with AsyncExitStack() as stack:
        servers = servers_of(recording)
        for server in servers.values():
            await stack.enter_async_context(scripted(server))
        yield {label: server.url for label, server in servers.items()}


@pytest.mark.requirement("recordings:responses:items", "recordings:responses:order")
@pytest.mark.parametrize("recording", ALL, ids=str)
async def test_the_gateway_answers_as_recorded(recording: Recording) -> None:
    recorded, items = output_of(recording)
    replies = rounds_of(recording, items)
    wanted = expected(items)

    def answers(request: Request) -> Reply:
        return replies[request.number - 1]

    async with (
        running(recording) as urls,
        ModelServer(answers) as model,
        serving(model.url, tools={"mcp": {"allow_hosts": ["127.0.0.1"]}}) as api,
    ):
        answer = await api.create(
            input=history_of(recording),
            tools=declared(recording, urls),
            stream=recording.streamed,
            stream_options={"include_obfuscation": True} if recording.streamed else None,
            store=False,
        )
    if recording.streamed:  # by the rules of every stream: the Open Responses document has no MCP
        check_stream(answer.frames)
    response = answer.response
    assert response["status"] == recorded["status"]
    output = [
        item for item in response["output"] if item["type"] != "reasoning" or reasoning_text(item)
    ]
    listed = [item for item in wanted.items if item["type"] != "mcp_list_tools"]
    shown = [item for item in output if item["type"] != "mcp_list_tools"]
    assert [item["type"] for item in shown] == [item["type"] for item in listed]
    lists = [item for item in wanted.items if item["type"] == "mcp_list_tools"]
    ours = {item["server_label"]: item for item in output if item["type"] == "mcp_list_tools"}
    for theirs in lists:
        mine = ours[theirs["server_label"]]
        assert mine["tools"] == theirs["tools"]
        assert item_keys(theirs, mine) == []
    for theirs, mine in zip(listed, shown, strict=True):
        for key in ("name", "arguments", "server_label", "output", "status"):
            assert mine.get(key) == theirs.get(key)
        if theirs.get("error") is not None:
            assert mine["error"].keys() == theirs["error"].keys()
            assert mine["error"]["code"] == theirs["error"]["code"]
        assert item_keys(theirs, mine) == []
    if recording.streamed:
        assert event_keys(recording.decoded_events, answer.events) == []
        theirs, ours = _orders(recording, answer.events, items, response["output"])
        if recording.name in OTHER_ORDER:
            assert ours != theirs, "the recording is not an exception any more"
            tally.adapted(f"the order of events was not compared: {OTHER_ORDER[recording.name]}")
        else:
            assert ours == theirs
    for note in wanted.notes:
        tally.adapted(note)
    tally.replayed("responses", recording.family, recording.name)


def _orders(
    recording: Recording, events: list[Json], items: list[Json], output: list[Json]
) -> tuple[list[list[str]], list[list[str]]]:
    """Of the items of MCP, as recorded and as they came."""
    kinds = ("mcp_list_tools", *CALLS)
    theirs, ours = orders(recording.decoded_events), orders(events)
    recorded = [comparable(theirs[i], x)[0] for i, x in enumerate(items) if x["type"] in kinds]
    mine = [ours[i] for i, x in enumerate(output) if x["type"] in kinds]
    if len(mine) < len(recorded):  # the list that another request of the chain has shown
        del recorded[0]
    return recorded, mine
