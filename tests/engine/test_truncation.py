"""`truncation: auto`."""

from typing import Any

import pytest

from bascule.engine.truncation import fit
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Part,
    Thought,
)
from bascule.testing import Call, ModelServer, Reply
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from tests.engine.context import context_of
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
LONG = 3000
"""Characters, of which two messages do not fit into 2048 tokens with an answer."""


def user(text: str, length: int = LONG) -> Message:
    return Message("user", text * length)


def said(text: str, length: int = LONG) -> Message:
    return Message("assistant", text * length)


def call(id_: str) -> FunctionCall:
    return FunctionCall(id_, "f", "{}")


def output(id_: str, length: int = LONG) -> FunctionCallOutput:
    return FunctionCallOutput(id_, "o" * length)


def kept(*items: Flat, tokens: int = 2048) -> list[int]:
    """The places of the items that stay."""
    left, gone = fit(items, tokens, fixed=0, answer=None)
    places = [i for i, item in enumerate(items) if any(item is other for other in left)]
    assert len(places) == len(left) == len(items) - gone
    assert [items[i] for i in places] == left
    return places


@pytest.mark.requirement("request:truncation")
def test_a_history_that_fits_is_left_alone() -> None:
    assert kept(user("a", 5), said("b", 5), user("c", 5)) == [0, 1, 2]


@pytest.mark.requirement("request:truncation")
def test_the_oldest_go_first() -> None:
    assert kept(user("a"), said("b", 5), user("c", 5), said("d", 5), user("e", 5)) == [2, 3, 4]


@pytest.mark.requirement("request:truncation")
def test_what_is_left_begins_with_the_user() -> None:
    assert kept(user("a"), said("b", 5), said("c", 5), user("d", 5), said("e", 5), user("f", 5)) == [
        3, 4, 5,
    ]  # fmt: skip


@pytest.mark.requirement("request:truncation")
def test_system_and_developer_messages_stay() -> None:
    system, developer = Message("system", "s" * 300), Message("developer", "d" * 300)
    assert kept(system, user("a"), developer, said("b"), user("c", 5)) == [0, 2, 4]


@pytest.mark.requirement("request:truncation")
def test_the_most_recent_turn_stays_whatever_its_size() -> None:
    assert kept(user("a", 5), said("b", 5), user("c", 9000), call("1"), output("1")) == [2, 3, 4]


@pytest.mark.requirement("request:truncation")
def test_a_call_goes_with_its_output_and_its_reasoning() -> None:
    items = [
        user("a", 5),
        Thought("t" * LONG),
        call("1"),
        call("2"),
        output("2"),
        output("1"),
        said("b", 5),
        user("c", 5),
    ]
    assert kept(*items) == [7]
    assert kept(*items, tokens=3500) == [7]


@pytest.mark.requirement("request:truncation")
def test_a_call_that_is_answered_in_the_last_turn_stays() -> None:
    items = [user("a"), call("1"), user("b", 5), output("1", 5)]
    assert kept(*items) == [1, 2, 3]


@pytest.mark.requirement("request:truncation")
def test_an_image_does_not_count_by_its_base64() -> None:
    image = Message(
        "user", [Part("input_image", image_url="data:image/png;base64," + "A" * 90_000)]
    )
    assert kept(image, said("a", 5), user("b", 5), tokens=4096) == [0, 1, 2]


def _input(*texts: str) -> list[Json]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


@pytest.mark.requirement("request:truncation")
@pytest.mark.parametrize("stream", [False, True])
async def test_the_model_reads_the_rest_and_the_client_is_told(stream: bool) -> None:
    async with ModelServer("Hi") as model, serving(model.url, adjust=context_of(2048)) as api:
        answer = await api.create(
            truncation="auto",
            instructions="Be brief.",
            input=_input("a" * LONG, "b", "c"),
            stream=stream,
        )
        sent = model.chats[0].messages
    assert [m["content"] for m in sent] == ["Be brief.", "c"]
    assert (
        answer.headers["x-bascule-warnings"]
        == "2 of the oldest items were left out to fit the model"
    )
    assert answer.response["truncation"] == "auto"


@pytest.mark.requirement("request:truncation")
async def test_the_room_for_the_answer_counts() -> None:
    async with (
        ModelServer("Hi", then="repeat") as model,
        serving(model.url, adjust=context_of(2048)) as api,
    ):
        for room in (16, 1500):
            await api.create(
                truncation="auto", input=_input("a" * LONG, "b", "c"), max_output_tokens=room
            )
        sent = [len(chat.messages) for chat in model.chats]
    assert sent == [3, 1]


@pytest.mark.requirement("request:truncation")
async def test_nothing_that_is_stored_goes() -> None:
    async with (
        ModelServer("Hi", then="repeat") as model,
        serving(model.url, adjust=context_of(2048)) as api,
    ):
        first = await api.create(input=_input("a" * LONG, "b", "c"))
        second = await api.create(
            truncation="auto", previous_response_id=first.response["id"], input="d"
        )
        third = await api.create(previous_response_id=second.response["id"], input="e")
        sent = [[m["content"][:1] for m in chat.messages] for chat in model.chats]
    assert third.status == 200
    assert sent[1] == ["c", "H", "d"]
    assert sent[2] == ["a", "b", "c", "H", "d", "H", "e"]


@pytest.mark.requirement("request:truncation")
async def test_later_rounds_fit_too() -> None:
    async def much(call: ToolCall) -> Outcome:
        return Output(output="o" * LONG)

    executor = LookupExecutor(much)

    def adjust(gateway: Any) -> None:
        install(executor)(gateway)
        context_of(2048)(gateway)

    replies = [Reply(Call("lookup", {}, id="c1")), "Done."]
    async with ModelServer(replies) as model, serving(model.url, adjust=adjust) as api:
        answer = await api.create(
            truncation="auto", tools=[TOOL], input=_input("a" * 1000, "b", "c")
        )
        sent = [[m["role"] for m in chat.messages] for chat in model.chats]
    assert answer.response["status"] == "completed"
    assert sent == [["user", "assistant", "user"], ["user", "assistant", "tool"]]


@pytest.mark.requirement("request:truncation")
async def test_disabled_leaves_everything() -> None:
    async with ModelServer("Hi") as model, serving(model.url, adjust=context_of(100)) as api:
        answer: Answer = await api.create(input=_input("a" * LONG, "b", "c"))
        assert len(model.chats[0].messages) == 3
    assert "x-bascule-warnings" not in answer.headers


@pytest.mark.requirement("request:truncation:unknown")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_of_unknown_length_gets_everything(stream: bool) -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.create(
            truncation="auto", input=_input("a" * LONG, "b", "c"), stream=stream
        )
        assert len(model.chats[0].messages) == 3
    assert answer.headers["x-bascule-ignored"] == "truncation"
    assert answer.response["truncation"] == "auto"
