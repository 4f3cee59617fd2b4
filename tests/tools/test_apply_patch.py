"""`apply_patch` before a server that knows functions only: diffs stream while the model writes JSON."""

from typing import Any

import msgspec
import pytest

from bascule.testing import Call, Finish, Reply
from tests.conformance.asking import gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

PATCH: Json = {"type": "apply_patch"}
DIFF = '@@ def f():\n-    return "a"\n+    return "ä🙂"\n'
UPDATE: Json = {"type": "update_file", "path": "src/a.py", "diff": DIFF}


async def called(
    arguments: Any, *more: Any, stream: bool = True, split: int = 1
) -> tuple[Answer, list[Json]]:
    """The answer to a call, and the later requests that it took."""
    reply = Reply(Call("apply_patch", arguments, id="call_1", split=split), *more)
    async with gateway([reply, "I see."]) as (api, model):
        answer = await api.create(tools=[PATCH], stream=stream)
        return answer, [chat.json for chat in model.chats[1:]]


def operation_of(answer: Answer) -> Json:
    (item,) = check_stream(answer)["output"]
    assert item.pop("id").startswith("apc_")
    operation = item.pop("operation")
    assert item == {"type": "apply_patch_call", "status": "completed", "call_id": "call_1"}
    return operation


def events_of(answer: Answer) -> list[str]:
    """The item's events, repeats collapsed."""
    kinds = [kind for kind in answer.types if kind.startswith(("apply_patch", "output_item"))]
    return [kind for i, kind in enumerate(kinds) if kinds[i - 1 : i] != [kind]]


ORDER = [
    "output_item.added",
    "apply_patch_call_operation_diff.delta",
    "apply_patch_call_operation_diff.done",
    "output_item.done",
]


@pytest.mark.requirement("tool:built-in:declared")
async def test_the_model_is_told_of_a_function() -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(tools=[PATCH]))
        (tool,) = [tool["function"] for tool in model.chats[0].tools]
    assert response["tools"] == [PATCH]
    assert tool["name"] == "apply_patch"
    assert "@@" in tool["description"]
    operation = tool["parameters"]["properties"]["operation"]
    assert operation["required"] == ["type", "path"]
    assert operation["properties"]["type"]["enum"] == ["create_file", "update_file", "delete_file"]


@pytest.mark.requirement("stream:apply-patch:order")
@pytest.mark.parametrize("split", [1, 3, 500])
@pytest.mark.parametrize("members", ["type path diff", "path type diff", "diff path type"])
async def test_a_diff_streams(members: str, split: int) -> None:
    written = {"operation": {name: UPDATE[name] for name in members.split()}}
    answer, _ = await called(msgspec.json.encode(written).decode(), split=split)
    assert operation_of(answer) == UPDATE
    assert events_of(answer) == ORDER
    (added,) = answer.of_type("output_item.added")
    assert added["item"]["operation"] == {**UPDATE, "diff": ""}
    (done,) = answer.of_type("apply_patch_call_operation_diff.done")
    assert done["diff"] == DIFF
    deltas = [event["delta"] for event in answer.of_type("apply_patch_call_operation_diff.delta")]
    assert "".join(deltas) == DIFF
    if split == 500 and members.endswith("diff"):
        assert len(deltas) > 20


@pytest.mark.requirement("stream:apply-patch:order")
async def test_a_deletion_has_no_diff() -> None:
    operation = {"type": "delete_file", "path": "a.py"}
    answer, _ = await called({"operation": {**operation, "diff": "-a"}}, split=5)
    assert operation_of(answer) == operation
    assert events_of(answer) == ["output_item.added", "output_item.done"]


@pytest.mark.requirement("stream:apply-patch:order")
async def test_a_patch_whose_json_came_whole() -> None:
    answer, _ = await called({"operation": {**UPDATE, "type": "create_file"}}, stream=False)
    (item,) = check_answer(answer)["output"]
    assert item["operation"] == {**UPDATE, "type": "create_file"}


@pytest.mark.requirement("tool:built-in:round-trip")
@pytest.mark.parametrize("stored", [False, True])
async def test_a_patch_and_its_result(stored: bool) -> None:
    first = Reply(Call("apply_patch", {"operation": UPDATE}, id="call_1"))
    async with gateway([first, "Done."]) as (api, model):
        response = check_answer(await api.create(tools=[PATCH], store=stored))
        (call,) = response["output"]
        said = {**output_of(call, "no such file"), "status": "failed"}
        fields: Json = {"previous_response_id": response["id"], "input": [said]}
        if not stored:
            fields = {"input": [{"role": "user", "content": "Hello"}, call, said]}
        follow = await api.create(tools=[PATCH], store=stored, **fields)
        assert text_of(check_answer(follow)) == "Done."
        _, asked, told = model.chats[1].messages
    function = asked["tool_calls"][0]["function"]
    assert msgspec.json.decode(function["arguments"]) == {"operation": UPDATE}
    assert told["content"] == "failed: no such file"


@pytest.mark.requirement("tool:built-in:understood")
@pytest.mark.parametrize("split", [1, 4, 200])
@pytest.mark.parametrize(
    ("written", "diff"),
    [
        (UPDATE, DIFF),
        ({"operation": msgspec.json.encode(UPDATE).decode()}, DIFF),
        ({"operation": {**UPDATE, "diff": ["@@", "-a\n", "+b"]}}, "@@\n-a\n+b\n"),
        ({"operation": {**UPDATE, "diff": None}}, ""),
        ({"operation": {"type": "update_file", "path": "src/a.py"}}, ""),
        ({"reason": {"diff": "x", "path": "y"}, "operation": UPDATE}, DIFF),
    ],
)
async def test_what_can_mean_one_thing(written: Json, diff: str, split: int) -> None:
    answer, _ = await called(written, split=split)
    assert operation_of(answer) == {**UPDATE, "diff": diff}
    assert events_of(answer) == [kind for kind in ORDER if diff or not kind.endswith("delta")]


@pytest.mark.requirement("tool:built-in:asked-again")
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("{}", "`operation.type` must be one of create_file, update_file, delete_file."),
        ('{"operation":[]}', "`operation` must be one object."),
        ('{"operation":"later"}', "`operation` must be one object."),
        ('{"operation":{"type":"move_file","path":"a","diff":"b"}}', "`operation.type` must be"),
        ('{"operation":{"type":"update_file","diff":"b"}}', "`operation.path` must be"),
        ('{"operation":{"type":"update_file","path":"","diff":"b"}}', "`operation.path` must be"),
        ('{"operation":{"type":"update_file","path":5,"diff":"b"}}', "`operation.path` must be"),
        ('{"operation":{"diff":"b"', "not valid JSON"),
        ('{"operation":{"type":"update_file"}}{}', "must be one JSON object"),
        ("*** Begin Patch", "not valid JSON"),
    ],
)
async def test_the_model_is_told_what_makes_no_sense(arguments: str, fault: str) -> None:
    answer, later = await called(arguments, split=3)
    assert text_of(check_stream(answer)) == "I see."
    assert b"apply_patch_call" not in answer.body
    assert fault in later[0]["messages"][-1]["content"]


@pytest.mark.requirement("tool:built-in:broken-when-shown")
@pytest.mark.parametrize(
    "rest",
    [
        ',"diff":5}}',
        ',"diff":["a",5]}}',
        ',"diff":"say "no""}}',
        ',"diff":"a","diff":"b"}}',
        ',"path":"b","diff":"a"}}',
        ',"diff":"a"}}{"operation":{}}',
        ',"diff":"a"',
    ],
)
async def test_a_patch_that_breaks_while_it_is_shown_fails_the_turn(rest: str) -> None:
    written = '{"operation":{"type":"create_file","path":"a"' + rest
    answer, later = await called(written, split=6)
    response = check_stream(answer, fails=True)
    (item,) = response["output"]
    assert item["status"] == "incomplete"
    assert response["error"]["code"] == "invalid_tool_call"
    assert later == []


@pytest.mark.requirement("stream:truncated:built-in")
@pytest.mark.parametrize(
    ("arguments", "operation"),
    [
        (
            '{"operation":{"type":"create_file","path":"a","diff":"+b\\n+',
            {"type": "create_file", "path": "a", "diff": "+b\n+"},
        ),
        (
            '{"operation":{"type":"create_file","path":"a","di',
            {"type": "create_file", "path": "a", "diff": ""},
        ),
        (
            '{"operation":{"type":"delete_file","path":"a"',
            {"type": "delete_file", "path": "a"},
        ),
        ('{"operation":{"type":"create_file","diff":"+b","path":"a', None),
        ('{"oper', None),
    ],
)
async def test_a_cut_patch_is_incomplete(arguments: str, operation: Json | None) -> None:
    answer, _ = await called(arguments, Finish("length"), split=4)
    response = check_stream(answer)
    assert response["status"] == "incomplete"
    assert [item["operation"] for item in response["output"]] == ([operation] if operation else [])
    assert all(item["status"] == "incomplete" for item in response["output"])
