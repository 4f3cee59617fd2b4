"""`computer` and `computer_use_preview` before a server that knows functions only."""

from typing import Any

import pytest

from bascule.testing import Call, Finish, Reply
from tests.conformance.asking import gateway, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer
from tests.tools.history_samples import SHOT, image_after

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

COMPUTER: Json = {"type": "computer"}
PREVIEW: Json = {
    "type": "computer_use_preview",
    "display_width": 1024,
    "display_height": 768,
    "environment": "browser",
}
ACTIONS: list[Json] = [
    {"type": "click", "x": 1, "y": 2, "button": "left"},
    {"type": "click", "x": 1, "y": 2, "button": "back", "keys": ["SHIFT"]},
    {"type": "double_click", "x": 1, "y": 2, "keys": None},
    {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    {"type": "keypress", "keys": ["CTRL", "c"]},
    {"type": "move", "x": 1, "y": 2},
    {"type": "screenshot"},
    {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": -100},
    {"type": "type", "text": "Hello"},
    {"type": "wait"},
]


async def called(
    arguments: Any, tool: Json = COMPUTER, *more: Any, stream: bool = True
) -> tuple[Answer, list[Json]]:
    reply = Reply(Call("computer", arguments, id="call_1", split=5), *more)
    async with gateway([reply, "I see."]) as (api, model):
        answer = await api.create(tools=[tool], stream=stream)
        return answer, [chat.json for chat in model.chats[1:]]


@pytest.mark.requirement("tool:built-in:declared")
async def test_the_model_is_told_of_functions() -> None:
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[COMPUTER]))
        check_answer(await api.create(tools=[PREVIEW]))
        several, one = [chat.tools[0]["function"] for chat in model.chats]
    assert several["name"] == one["name"] == "computer"
    assert "1024 by 768" in one["description"]
    assert "browser" in one["description"]
    items = several["parameters"]["properties"]["actions"]["items"]
    assert one["parameters"]["properties"]["action"] == items
    kinds = [kind["properties"]["type"]["enum"][0] for kind in items["anyOf"]]
    assert kinds == list(dict.fromkeys(action["type"] for action in ACTIONS))


@pytest.mark.requirement("stream:computer:order")
@pytest.mark.parametrize("stream", [False, True])
async def test_all_actions(stream: bool) -> None:
    answer, _ = await called({"actions": ACTIONS}, stream=stream)
    response = check_stream(answer) if stream else check_answer(answer)
    assert response["tools"] == [COMPUTER]
    (item,) = response["output"]
    assert item.pop("id").startswith("cu_")
    assert item == {
        "type": "computer_call",
        "status": "completed",
        "call_id": "call_1",
        "actions": ACTIONS,
        "pending_safety_checks": [],
    }
    if stream:
        kinds = [kind for kind in answer.types if "item" in kind]
        assert kinds == ["output_item.added", "output_item.done"]


@pytest.mark.requirement("stream:computer:order")
@pytest.mark.parametrize("action", ACTIONS)
async def test_the_preview_makes_one_action(action: Json) -> None:
    answer, _ = await called({"action": action}, PREVIEW)
    (item,) = check_stream(answer)["output"]
    assert item["action"] == action
    assert "actions" not in item


@pytest.mark.requirement("tool:built-in:understood")
@pytest.mark.parametrize(
    ("arguments", "actions"),
    [
        ({"action": {"type": "wait"}}, [{"type": "wait"}]),
        ({"actions": {"type": "wait"}}, [{"type": "wait"}]),
        ({"type": "move", "x": 1.0, "y": "2"}, [{"type": "move", "x": 1, "y": 2}]),
        ('{"actions":[{"type":"wait"}]}{"actions":[{"type":"screenshot"}]}', None),
    ],
)
async def test_what_can_mean_one_thing(arguments: Any, actions: list[Json] | None) -> None:
    answer, _ = await called(arguments)
    (item,) = check_stream(answer)["output"]
    assert item["actions"] == (actions or [{"type": "wait"}, {"type": "screenshot"}])


@pytest.mark.requirement("tool:built-in:understood")
async def test_a_list_of_one_is_the_previews_action() -> None:
    answer, _ = await called({"actions": [{"type": "wait"}]}, PREVIEW)
    assert check_stream(answer)["output"][0]["action"] == {"type": "wait"}


@pytest.mark.requirement("tool:built-in:asked-again")
@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        (COMPUTER, "{}", "There is no action."),
        (COMPUTER, {"actions": [{"type": "fly"}]}, "Invalid value 'fly'"),
        (COMPUTER, {"actions": [{"type": "click", "x": 1, "y": 2}]}, "`button`"),
        (COMPUTER, {"actions": [{"type": "move", "x": "left", "y": 2}]}, "Expected `int`"),
        (PREVIEW, {"actions": [{"type": "wait"}, {"type": "wait"}]}, "one action"),
        (PREVIEW, '{"action":{"type":"wait"}}{"action":{"type":"wait"}}', "one JSON object"),
        (PREVIEW, '{"action":', "not valid JSON"),
    ],
)
async def test_the_model_is_told_what_makes_no_sense(
    tool: Json, arguments: Any, fault: str
) -> None:
    answer, later = await called(arguments, tool)
    assert text_of(check_stream(answer)) == "I see."
    assert b"computer_call" not in answer.body
    assert fault in later[0]["messages"][-1]["content"]


@pytest.mark.requirement("stream:truncated:built-in")
@pytest.mark.parametrize("tool", [COMPUTER, PREVIEW])
async def test_a_cut_call_is_incomplete(tool: Json) -> None:
    answer, _ = await called('{"actions":[{"type":"wait"},', tool, Finish("length"))
    response = check_stream(answer)
    assert response["status"] == "incomplete"
    (item,) = response["output"]
    assert item["status"] == "incomplete"
    assert item.get("actions", []) == []
    assert "action" not in item


@pytest.mark.requirement("tool:built-in:round-trip")
@pytest.mark.parametrize("tool", [COMPUTER, PREVIEW])
async def test_a_screenshot_reaches_the_model(tool: Json) -> None:
    action = {"type": "click", "x": 1, "y": 2, "button": "left"}
    arguments = {"actions": [action]} if tool is COMPUTER else {"action": action}
    first = Reply(Call("computer", arguments, id="call_1"))
    async with gateway([first, "Done."]) as (api, model):
        response = check_answer(await api.create(tools=[tool]))
        said = {
            "type": "computer_call_output",
            "call_id": "call_1",
            "output": {"type": "computer_screenshot", "image_url": SHOT},
            "acknowledged_safety_checks": [],
        }
        follow = await api.create(tools=[tool], input=[said], previous_response_id=response["id"])
        assert text_of(check_answer(follow)) == "Done."
        messages = model.chats[1].messages
    function = messages[1]["tool_calls"][0]["function"]
    assert function["name"] == "computer"
    assert messages[2]["tool_call_id"] == "call_1"
    assert messages[3] == image_after("call_1", SHOT)
