"""Each observed behaviour of model servers, played."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, weak
from tests.testing.fold import fold, of_whole
from tests.testing.http import Received, ask, get

pytestmark = pytest.mark.anyio

FORMS = {
    "bare": '{"name":"f","arguments":{"a":1}}',
    "fenced": '```json\n{"name":"f","arguments":{"a":1}}\n```',
    "tag": '<tool_call>\n{"name":"f","arguments":{"a":1}}\n</tool_call>',
    "tool_calls": '[TOOL_CALLS][{"name":"f","arguments":{"a":1}}]',
    "python_tag": '<|python_tag|>{"name":"f","parameters":{"a":1}}',
}


async def both(script: Any, **fields: Any) -> tuple[Received, Received]:
    async with ModelServer(script) as server:
        return await ask(server, stream=True, **fields), await ask(server, **fields)


async def message_of(script: Any, **fields: Any) -> tuple[dict[str, Any], str | None]:
    """Message and finish reason, the same in both renderings."""
    streamed, whole = await both(script, **fields)
    ours, theirs = fold(streamed.events), of_whole(whole.json)
    assert {**ours["message"], "tool_calls": None} == {**theirs["message"], "tool_calls": None}
    assert ours["finish"] == theirs["finish"]
    return theirs["message"], theirs["finish"]


async def test_required_is_not_enforced() -> None:
    message, finish = await message_of(weak.required_ignored(), tool_choice="required")
    assert "tool_calls" not in message
    assert finish == "stop"
    _, finish = await message_of(weak.required_to_the_limit(), tool_choice="required")
    assert finish == "length"


def tools(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


async def test_a_named_choice_is_ignored() -> None:
    choice = {"type": "function", "function": {"name": "a"}}
    message, _ = await message_of(
        weak.named_choice_ignored, tools=tools("a", "b"), tool_choice=choice
    )
    assert [call["name"] for call in message["tool_calls"]] == ["b"]
    message, _ = await message_of(weak.named_choice_ignored, tools=tools("a"), tool_choice=choice)
    assert "tool_calls" not in message


async def test_a_named_choice_obeyed_with_stop() -> None:
    message, finish = await message_of(weak.stop_with_calls("f", {"a": 1}))
    assert message["tool_calls"][0]["arguments"] == '{"a":1}'
    assert finish == "stop"


@pytest.mark.parametrize("form", FORMS)
async def test_calls_as_text(form: Any) -> None:
    message, finish = await message_of(weak.call_as_text("f", {"a": 1}, form))
    assert message == {"content": FORMS[form]}
    assert finish == "stop"


async def test_none_answered_by_json_text() -> None:
    message, _ = await message_of(weak.none_as_json_text("f", {"a": 1}), tool_choice="none")
    assert message == {"content": FORMS["bare"]}


async def test_unparsable_output() -> None:
    streamed, whole = await both(weak.unparsable_output())
    assert streamed.status == 200
    assert streamed.deltas[-1]["content"]
    assert streamed.events[-1]["error"]["code"] == 500
    assert not streamed.done
    assert (whole.status, whole.json["error"]["code"]) == (500, 500)
    message, finish = await message_of(weak.unparsable_as_text())
    assert message["content"].startswith("<tool_call>")
    assert finish == "stop"


async def test_an_undeclared_tool() -> None:
    message, _ = await message_of(weak.undeclared_call())
    assert message["tool_calls"][0]["name"] == "translate"


async def test_parallel_calls() -> None:
    streamed, whole = await both(weak.parallel_calls_fail())
    assert streamed.status == whole.status == 500
    message, _ = await message_of(weak.one_of_several(Call("a"), Call("b")))
    assert [call["name"] for call in message["tool_calls"]] == ["a"]


async def test_unknown_models() -> None:
    async with weak.llama_server("hi") as server:
        assert (await ask(server, model="unknown")).status == 200
    async with weak.vllm("hi", models=["known"]) as server:
        refused = await ask(server, model="unknown")
        assert (refused.status, refused.json["error"]["code"]) == (404, 404)
        assert (await ask(server, model="known")).status == 200


async def test_an_integer_code() -> None:
    answer, _ = await both(weak.integer_code())
    assert answer.json["error"]["code"] == 400


async def test_ids_and_fragments_of_the_two_servers() -> None:
    async with weak.llama_server(weak.undeclared_call()) as server:
        opening, call, _ = (await ask(server, stream=True)).deltas
        assert opening == {"role": "assistant", "content": None}
        assert call["tool_calls"][0]["function"].keys() == {"name", "arguments"}
        assert len(call["tool_calls"][0]["id"]) == 32
    async with weak.vllm(weak.undeclared_call(), models=["m"]) as server:
        _, named, _, _ = (await ask(server, stream=True)).deltas
        assert named["tool_calls"][0]["function"].keys() == {"name"}
        assert named["tool_calls"][0]["id"].startswith("chatcmpl-tool-")


async def test_a_tool_is_called_again_after_its_result() -> None:
    rule = weak.calls_again("f", times=2)
    history: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(3):
        message, _ = await message_of(rule, messages=history)
        assert message["tool_calls"][0]["name"] == "f"
        history.append({"role": "tool", "tool_call_id": "x", "content": "1"})
    message, _ = await message_of(rule, messages=history)
    assert "tool_calls" not in message


async def test_a_slow_start() -> None:
    async with weak.slow_start("hi", checks=2) as server:
        assert (await ask(server)).status == 503
        statuses = [(await get(server, "/health")).status for _ in range(3)]
        assert statuses == [503, 503, 200]
        assert (await ask(server)).status == 200
