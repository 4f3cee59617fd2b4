"""Stored responses, and turns that continue them."""

from itertools import pairwise
from typing import Any

import pytest

from bascule.testing import Call, Finish, Reasoning, Reply, StreamError
from tests.conformance.asking import RUN, TIME, WEATHER, gateway, output_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer, Api

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOLS = [WEATHER, TIME, RUN]


async def continued(api: Api, response: Json, **fields: Any) -> Json:
    return check_answer(await api.create(previous_response_id=response["id"], **fields))


def check_unknown(answer: Answer) -> None:
    """What a request that continues an unknown response gets."""
    assert answer.status == 400
    assert answer.error["code"] == "previous_response_not_found"
    assert answer.error["param"] == "previous_response_id"


# --- chains


@pytest.mark.requirement("state:chain:whole")
async def test_the_whole_chain_comes_before_the_new_input() -> None:
    async with gateway(["One.", "Two.", "Three."]) as (api, model):
        first = check_answer(await api.create(input="1"))
        second = await continued(api, first, input="2")
        third = await continued(api, second, input=[{"role": "user", "content": "3"}])
        messages = model.chats[2].messages
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "1"),
        ("assistant", "One."),
        ("user", "2"),
        ("assistant", "Two."),
        ("user", "3"),
    ]
    assert third["previous_response_id"] == second["id"]


@pytest.mark.requirement("state:chain:whole")
async def test_a_response_can_be_continued_twice() -> None:
    async with gateway(["One.", "Two.", "Three."]) as (api, model):
        first = check_answer(await api.create(input="1"))
        await continued(api, first, input="2")
        await continued(api, first, input="3")
        messages = model.chats[2].messages
    assert [m["content"] for m in messages] == ["1", "One.", "3"]


@pytest.mark.requirement("state:chain:stable-prefix")
async def test_the_prompt_begins_with_what_went_out_before() -> None:
    replies = [
        Reply(Reasoning("Hm."), "Look.", Call("get_weather", {"city": "Oslo"}, id="call_1")),
        Reply(Call("run", {"input": "x"}, id="call_2")),
        "Done.",
    ]
    async with gateway(replies) as (api, model):
        response = check_answer(await api.create(tools=TOOLS, instructions="Be brief."))
        for _ in range(2):
            response = await continued(
                api,
                response,
                tools=TOOLS,
                instructions="Be brief.",
                input=[output_of(response["output"][-1])],
            )
        prompts = [chat.messages for chat in model.chats]
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before


@pytest.mark.requirement("state:instructions:not-carried")
async def test_instructions_are_those_of_the_new_request() -> None:
    async with gateway() as (api, model):
        first = check_answer(await api.create(instructions="Be brief."))
        second = await continued(api, first)
        third = await continued(api, second, instructions="Be long.")
        systems = [
            [m["content"] for m in chat.messages if m["role"] == "system"] for chat in model.chats
        ]
    assert systems == [["Be brief."], [], ["Be long."]]
    assert (second["instructions"], third["instructions"]) == (None, "Be long.")


@pytest.mark.requirement("state:settings:from-request")
async def test_tools_and_sampling_are_those_of_the_new_request() -> None:
    async with gateway() as (api, model):
        first = check_answer(await api.create(tools=TOOLS, temperature=0.5, metadata={"a": "b"}))
        second = await continued(api, first)
        assert "tools" not in model.chats[1].json
        assert "temperature" not in model.chats[1].json
    assert (second["tools"], second["temperature"], second["metadata"]) == ([], 1, {})


@pytest.mark.requirement("state:incomplete:continued")
async def test_an_incomplete_response_can_be_continued() -> None:
    replies = [Reply("Once", Call("get_weather", '{"ci'), Finish("length")), "upon"]
    async with gateway(replies) as (api, model):
        first = check_answer(await api.create(tools=TOOLS))
        assert first["status"] == "incomplete"
        await continued(api, first, tools=TOOLS, input="Go on")
        messages = model.chats[1].messages
    assert [(m["role"], m["content"]) for m in messages[1:]] == [
        ("assistant", "Once"),
        ("user", "Go on"),
    ]


# --- pending calls


@pytest.mark.requirement("state:pending:demanded")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("which", [[], [0], [1]])
async def test_every_pending_call_needs_its_output(which: list[int], stream: bool) -> None:
    reply = Reply(Call("get_weather", {}, id="call_1"), Call("run", {"input": ""}, id="call_2"))
    async with gateway([reply, "unused"]) as (api, model):
        first = check_answer(await api.create(tools=TOOLS))
        items = [output_of(first["output"][i]) for i in which]
        answer = await api.create(
            tools=TOOLS,
            previous_response_id=first["id"],
            input=[*items, {"role": "user", "content": "So?"}],
            stream=stream,
        )
        assert len(model.chats) == 1
    missing = "call_2" if which == [0] else "call_1"
    assert answer.status == 400
    assert answer.error == {
        "message": f"No tool output found for function call {missing}.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


@pytest.mark.requirement("state:pending:unknown-call")
async def test_an_output_for_a_call_that_was_not_made_is_refused() -> None:
    async with gateway() as (api, model):
        first = check_answer(await api.create())
        stray = {"type": "function_call_output", "call_id": "call_9", "output": "x"}
        answer = await api.create(previous_response_id=first["id"], input=[stray])
        assert len(model.chats) == 1
    assert answer.status == 400
    assert answer.error["param"] == "input"
    assert "call_9" in answer.error["message"]


# --- ids that lead nowhere


@pytest.mark.requirement("state:unknown:previous")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_previous_response(stream: bool) -> None:
    async with gateway() as (api, model):
        check_unknown(await api.create(previous_response_id="resp_unknown", stream=stream))
        assert model.chats == []


@pytest.mark.requirement("state:unknown:id")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_response_is_a_404(method: str) -> None:
    async with gateway() as (api, _):
        answer = await api.send(method, "/v1/responses/resp_unknown")
    assert answer.status == 404
    assert answer.error.keys() == {"message", "type", "param", "code"}


@pytest.mark.requirement("state:store-false")
@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_not_stored_is_unknown(stream: bool) -> None:
    async with gateway() as (api, _):
        answer = await api.create(store=False, stream=stream)
        response = check_stream(answer) if stream else check_answer(answer)
        assert response["store"] is False
        got = await api.send("GET", f"/v1/responses/{response['id']}")
        assert got.status == 404
        check_unknown(await api.create(previous_response_id=response["id"]))


@pytest.mark.requirement("state:owner")
async def test_a_foreign_response_is_as_an_unknown_one() -> None:
    mine = {"authorization": "Bearer one"}
    theirs = {"authorization": "Bearer two"}
    async with gateway(server={"api_keys": ["one", "two"]}) as (api, _):
        response = check_answer(await api.create(headers=mine))
        path = f"/v1/responses/{response['id']}"
        unknown = await api.send("GET", "/v1/responses/resp_unknown", headers=theirs)
        for method in ("GET", "DELETE"):
            answer = await api.send(method, path, headers=theirs)
            assert answer.status == 404
            same = answer.body.replace(response["id"].encode(), b"resp_unknown")
            assert same == unknown.body
        check_unknown(await api.create(headers=theirs, previous_response_id=response["id"]))
        check_answer(await api.send("GET", path, headers=mine))


# --- get and delete


@pytest.mark.requirement("state:get")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(Reasoning("Hm."), "Look.", Call("get_weather", {}), Call("run", {"input": "1"})),
        Reply("Once", Finish("length")),
    ],
)
async def test_a_stored_response_is_as_it_was_answered(reply: Reply, stream: bool) -> None:
    async with gateway(reply) as (api, _):
        answer = await api.create(tools=TOOLS, stream=stream, metadata={"a": "b"})
        response = check_stream(answer) if stream else check_answer(answer)
        got = check_answer(await api.send("GET", f"/v1/responses/{response['id']}"))
    assert got == response


@pytest.mark.requirement("state:get:failed")
async def test_a_failed_response_is_stored_too() -> None:
    async with gateway(Reply("Once", StreamError("It broke"))) as (api, _):
        response = check_stream(await api.create(stream=True), fails=True)
        got = check_answer(await api.send("GET", f"/v1/responses/{response['id']}"))
    assert got == response
    assert got["status"] == "failed"


@pytest.mark.requirement("state:delete")
async def test_a_deleted_response_is_gone() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create())
        path = f"/v1/responses/{response['id']}"
        answer = await api.send("DELETE", path)
        assert answer.status == 200
        assert answer.json == {"id": response["id"], "object": "response", "deleted": True}
        assert (await api.send("GET", path)).status == 404
        assert (await api.send("DELETE", path)).status == 404
        check_unknown(await api.create(previous_response_id=response["id"]))


# --- reasoning without stored state


@pytest.mark.requirement("state:encrypted:round-trip")
async def test_sealed_reasoning_goes_back_to_the_model() -> None:
    flags = {"reasoning_replay": "reasoning_content"}
    replies = [Reply(Reasoning("Think of 7."), Call("get_weather", {}, id="call_1")), "Done."]
    async with gateway(replies, upstream_options={"flags": flags}) as (api, model):
        fields: Json = {"store": False, "include": ["reasoning.encrypted_content"], "tools": TOOLS}
        first = check_answer(await api.create(reasoning={"summary": "auto"}, **fields))
        reasoning, call = first["output"]
        sealed = {**reasoning, "summary": []}
        items = [{"role": "user", "content": "Hello"}, sealed, call, output_of(call)]
        check_answer(await api.create(input=items, **fields))
        messages = model.chats[1].messages
    assert messages[1]["reasoning_content"] == "Think of 7."
    assert messages[1]["tool_calls"][0]["id"] == "call_1"


@pytest.mark.requirement("state:encrypted:foreign")
async def test_reasoning_that_does_not_open_is_left_out_with_a_warning() -> None:
    foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    items = [{"role": "user", "content": "Hi"}, foreign, {"role": "assistant", "content": "Ho"}]
    async with gateway() as (api, model):
        answer = await api.create(input=[*items, {"role": "user", "content": "So?"}])
        check_answer(answer)
        assert [m["content"] for m in model.chats[0].messages] == ["Hi", "Ho", "So?"]
    assert answer.headers["x-bascule-warnings"]
