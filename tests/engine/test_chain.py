"""Stored turns and their continuation."""

from itertools import pairwise
from pathlib import Path

import pytest

from bascule.testing import Call, Cut, Finish, ModelServer, Reply, Text
from tests.serving import serving

pytestmark = pytest.mark.anyio


def function(name: str) -> dict[str, object]:
    return {"type": "function", "name": name}


def output(call_id: str, text: str = "ok") -> dict[str, object]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def test_a_chain_is_replayed_whole_and_its_prefix_never_changes() -> None:
    async with ModelServer(lambda request: "Reply") as model, serving(model.url) as api:
        previous = None
        for i in range(5):
            answer = await api.create(input=f"Turn {i}", previous_response_id=previous)
            previous = answer.response["id"]
        sent = [chat.json["messages"] for chat in model.chats]
    assert [m["content"] for m in sent[4]] == [
        text for i in range(4) for text in (f"Turn {i}", "Reply")
    ] + ["Turn 4"]
    for earlier, later in pairwise(sent):
        assert later[: len(earlier)] == earlier


async def test_instructions_do_not_carry_over() -> None:
    async with ModelServer(["1", "2"]) as model, serving(model.url) as api:
        first = await api.create(instructions="Be brief.")
        second = await api.create(previous_response_id=first.response["id"])
        assert model.chats[0].json["messages"][0] == {"role": "system", "content": "Be brief."}
        assert all(m["role"] != "system" for m in model.chats[1].json["messages"])
    assert second.response["instructions"] is None


async def test_every_pending_call_demands_its_output() -> None:
    calls = Reply(Call("f", {}, id="call_1"), Call("f", {}, id="call_2"))
    async with ModelServer([calls, Reply("ok")]) as model, serving(model.url) as api:
        first = (await api.create(tools=[function("f")])).response
        for given in ("Never mind", [output("call_1")], [output("call_1"), output("call_9")]):
            refused = await api.create(previous_response_id=first["id"], input=given)
            assert refused.status == 400
            assert refused.error["param"] == "input"
        twice = [output("call_1"), output("call_1"), output("call_2")]
        assert (await api.create(previous_response_id=first["id"], input=twice)).status == 400
        both = [output("call_2"), output("call_1")]
        assert (await api.create(previous_response_id=first["id"], input=both)).status == 200
        assert len(model.chats) == 2


async def test_an_output_without_its_call_is_refused() -> None:
    async with ModelServer([]) as model, serving(model.url) as api:
        answer = await api.create(input=[output("call_unknown")])
    assert (answer.status, answer.error["param"]) == (400, "input")
    assert "call_unknown" in answer.error["message"]


async def test_store_false_leaves_nothing(tmp_path: Path) -> None:
    async with ModelServer(["1"]) as model, serving(model.url) as api:
        answer = await api.create(store=False)
        response = answer.response
        assert response["store"] is False
        got = await api.send("GET", f"/v1/responses/{response['id']}")
        assert got.status == 404
        continued = await api.create(previous_response_id=response["id"])
    assert continued.status == 400
    assert continued.error["code"] == "previous_response_not_found"
    assert continued.error["param"] == "previous_response_id"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stored_response_is_what_the_client_saw(stream: bool) -> None:
    reply = Reply("Hello", Call("f", {"a": 1}, id="call_1"))
    async with ModelServer([reply]) as model, serving(model.url) as api:
        seen = await api.create(
            stream=stream,
            tools=[function("f")],
            metadata={"a": "b"},
            temperature=0.5,
            instructions="Be kind.",
        )
        got = await api.send("GET", f"/v1/responses/{seen.response['id']}")
    assert got.json == seen.response


async def test_deleting_a_response_does_not_break_its_continuation() -> None:
    async with ModelServer(["1", "2", "3"]) as model, serving(model.url) as api:
        first = (await api.create(input="One")).response["id"]
        second = (await api.create(input="Two", previous_response_id=first)).response["id"]
        deleted = await api.send("DELETE", f"/v1/responses/{first}")
        assert deleted.json == {"id": first, "object": "response", "deleted": True}
        assert (await api.send("GET", f"/v1/responses/{first}")).status == 404
        assert (await api.send("DELETE", f"/v1/responses/{first}")).status == 404
        refused = await api.create(previous_response_id=first)
        assert refused.error["code"] == "previous_response_not_found"
        await api.create(input="Three", previous_response_id=second)
        said = [m["content"] for m in model.chats[2].json["messages"]]
    assert said == ["One", "1", "Two", "2", "Three"]


async def test_a_failed_stream_is_stored_as_failed_with_its_cut_item() -> None:
    async with ModelServer([Reply(Text("Half an ans"), Cut())]) as model, serving(model.url) as api:
        answer = await api.create(stream=True)
        assert answer.types[-2:] == ["error", "failed"]
        got = await api.send("GET", f"/v1/responses/{answer.response['id']}")
    assert got.json == answer.response
    assert got.json["status"] == "failed"
    assert got.json["error"]["code"] == "server_error"
    item = got.json["output"][0]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Half an ans")


async def test_a_call_that_was_cut_is_not_replayed() -> None:
    cut = Reply("Let me", Call("f", '{"a": "b', id="call_1"), Finish("length"))
    async with ModelServer([cut, Reply("ok")]) as model, serving(model.url) as api:
        first = (await api.create(tools=[function("f")])).response
        assert first["status"] == "incomplete"
        assert [item["status"] for item in first["output"]] == ["completed", "incomplete"]
        answer = await api.create(previous_response_id=first["id"], input="Again")
        assert answer.status == 200
        said = [m["role"] for m in model.chats[1].json["messages"]]
    assert said == ["user", "assistant", "user"]


async def test_a_name_that_was_sent_once_stays_in_the_chain() -> None:
    dotted = "files.read"
    async with (
        ModelServer([Reply(Call("files_read_", {}, id="x")), Reply("2")]) as model,
        serving(model.url) as api,
    ):
        first = (await api.create(tools=[function(dotted)])).response
        wire = model.chats[0].json["tools"][0]["function"]["name"]
        assert wire.startswith("files_read_")
        assert first["tools"][0]["name"] == dotted
        # `wire` is now declared as a name of its own: the later identity gives way.
        await api.create(
            previous_response_id=first["id"],
            input=[output("x")],
            tools=[function(wire), function(dotted)],
        )
        names = [t["function"]["name"] for t in model.chats[1].json["tools"]]
    assert names[1] == wire
    assert names[0] != wire


async def test_the_history_survives_a_restart(tmp_path: Path) -> None:
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    async with ModelServer(["1", "2"]) as model:
        async with serving(model.url, state=state) as api:
            first = (await api.create(input="One")).response
        async with serving(model.url, state=state) as api:
            assert (await api.send("GET", f"/v1/responses/{first['id']}")).json == first
            await api.create(input="Two", previous_response_id=first["id"])
        said = [m["content"] for m in model.chats[1].json["messages"]]
    assert said == ["One", "1", "Two"]


async def test_a_pretty_printed_request_does_not_break_the_stream() -> None:
    body = b"""{
        "model": "mock-model", "input": "Hello", "stream": true,
        "metadata": {
            "a": "b\\nc"
        },
        "tools": [
            {"type": "function",
             "name": "f"}
        ]
    }"""
    async with ModelServer(["1"]) as model, serving(model.url) as api:
        answer = await api.send("POST", "/v1/responses", body)
    assert answer.response["metadata"] == {"a": "b\nc"}
    assert answer.types[-1] == "completed"
