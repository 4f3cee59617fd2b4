"""Conversations: their endpoints, turns that belong to them, and what happens when several meet."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, Cut, Gate, ModelServer, Reply
from tests.serving import Answer, Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with ModelServer("Hello!", then="repeat") as model, serving(model.url) as api:
        yield api


async def post(api: Api, path: str, **body: Any) -> Answer:
    return await api.send("POST", path, msgspec.json.encode(body))


async def made(api: Api, *texts: str, **fields: Any) -> str:
    """A conversation of user messages."""
    items = [{"role": "user", "content": text} for text in texts]
    answer = await post(api, "/v1/conversations", items=items, **fields)
    assert answer.status == 200, answer.body
    return answer.json["id"]


async def texts(api: Api, conversation: str, query: str = "?order=asc&limit=100") -> list[str]:
    answer = await api.send("GET", f"/v1/conversations/{conversation}/items{query}")
    assert answer.status == 200, answer.body
    return [item["content"][0]["text"] for item in answer.json["data"]]


# --- the endpoints


@pytest.mark.requirement("conversations:crud")
async def test_a_conversation_is_made_read_changed_and_deleted(api: Api) -> None:
    answer = await post(api, "/v1/conversations", metadata={"topic": "x"})
    shown = answer.json
    path = f"/v1/conversations/{shown['id']}"
    assert shown == {
        "id": shown["id"],
        "object": "conversation",
        "created_at": shown["created_at"],
        "metadata": {"topic": "x"},
    }
    assert shown["id"].startswith("conv_")
    assert (await api.send("GET", path)).json == shown
    changed = await post(api, path, metadata={"topic": "y"})
    assert changed.json == {**shown, "metadata": {"topic": "y"}}
    deleted = await api.send("DELETE", path)
    assert deleted.json == {"id": shown["id"], "object": "conversation.deleted", "deleted": True}
    gone = await api.send("GET", path)
    assert (gone.status, gone.error["param"]) == (404, "conversation_id")
    assert (await api.send("DELETE", path)).status == 404


@pytest.mark.requirement("conversations:items")
async def test_items_are_added_listed_read_and_removed(api: Api) -> None:
    conversation = await made(api, "one")
    path = f"/v1/conversations/{conversation}/items"
    added = await post(api, path, items=[{"role": "user", "content": "two"}])
    (item,) = added.json["data"]
    assert item == {
        "id": item["id"],
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "two"}],
    }
    assert (added.json["first_id"], added.json["has_more"]) == (item["id"], False)
    assert (await api.send("GET", f"{path}/{item['id']}")).json == item
    assert await texts(api, conversation) == ["one", "two"]
    removed = await api.send("DELETE", f"{path}/{item['id']}")
    assert removed.json["object"] == "conversation"
    assert await texts(api, conversation) == ["one"]
    assert (await api.send("GET", f"{path}/{item['id']}")).status == 404
    assert (await api.send("DELETE", f"{path}/{item['id']}")).status == 404


@pytest.mark.requirement("conversations:paging")
async def test_lists_come_in_pages(api: Api) -> None:
    conversation = await made(api, *"abcde")
    path = f"/v1/conversations/{conversation}/items"
    assert await texts(api, conversation, "") == list("edcba")
    seen: list[str] = []
    after = ""
    while True:
        page = (await api.send("GET", f"{path}?limit=2&order=asc{after}")).json
        seen += [item["content"][0]["text"] for item in page["data"]]
        after = f"&after={page['last_id']}"
        if not page["has_more"]:
            break
    assert seen == list("abcde")


@pytest.mark.requirement("conversations:paging")
@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("limit=0", 400, "limit"),
        ("limit=101", 400, "limit"),
        ("limit=x", 400, "limit"),
        ("order=up", 400, "order"),
        ("after=msg_unknown", 404, "after"),
        ("include=nothing", 400, "include[0]"),
        ("include[]=nothing", 400, "include[0]"),
    ],
)
async def test_bad_paging_is_refused_by_name(api: Api, query: str, status: int, param: str) -> None:
    conversation = await made(api, "a")
    response = (await api.create()).response["id"]
    for path in (
        f"/v1/conversations/{conversation}/items",
        f"/v1/responses/{response}/input_items",
    ):
        answer = await api.send("GET", f"{path}?{query}")
        assert (answer.status, answer.error["param"]) == (status, param)


@pytest.mark.requirement("conversations:refused")
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"metadata": {str(i): "v" for i in range(17)}}, "metadata"),
        ({"items": "text"}, "items"),
        ({"items": [{"content": "x"}]}, "items[0].type"),
        (
            {"items": [{"type": "message", "role": "user", "content": "x", "id": "x_1"}]},
            "items[0].id",
        ),
        ({"items": [{"id": "msg_nowhere"}]}, "items[0]"),
    ],
)
async def test_a_bad_body_is_refused_by_name(api: Api, body: Json, param: str) -> None:
    answer = await post(api, "/v1/conversations", **body)
    assert answer.status in (400, 404)
    assert answer.error["param"].startswith(param)


@pytest.mark.requirement("conversations:refused")
async def test_ids_that_cannot_be_or_are_not_there(api: Api) -> None:
    wrong = await api.send("GET", "/v1/conversations/resp_1")
    assert (wrong.status, wrong.error["code"]) == (400, "invalid_value")
    for method, path in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/items"),
        ("GET", "/items/msg_1"),
        ("DELETE", "/items/msg_1"),
    ]:
        answer = await api.send(method, f"/v1/conversations/conv_unknown{path}")
        assert answer.status == 404
    assert (await post(api, "/v1/conversations/conv_unknown/items", items=[])).status == 404
    assert (await post(api, "/v1/conversations/conv_unknown", metadata={})).status == 404


@pytest.mark.requirement("conversations:items:once")
async def test_an_item_is_in_a_conversation_once(api: Api) -> None:
    conversation = await made(api, "a")
    path = f"/v1/conversations/{conversation}/items"
    listed = (await api.send("GET", path)).json["data"]
    again = await post(api, path, items=[{"type": "item_reference", "id": listed[0]["id"]}])
    assert (again.status, again.error["code"]) == (400, "item_already_in_conversation")
    assert await texts(api, conversation) == ["a"]
    other = await made(api)
    copied = await post(api, f"/v1/conversations/{other}/items", items=[{"id": listed[0]["id"]}])
    assert copied.json["data"] == listed


# --- turns


@pytest.mark.requirement("conversations:turn")
@pytest.mark.parametrize("as_object", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_reads_the_conversation_and_adds_to_it(as_object: bool, stream: bool) -> None:
    async with ModelServer("Hello!", then="repeat") as model, serving(model.url) as api:
        id_ = await made(api, "one")
        conversation = {"id": id_} if as_object else id_
        first = await api.create(input="two", conversation=conversation, stream=stream)
        second = await api.create(input="three", conversation=conversation, stream=stream)
        assert first.response["conversation"] == {"id": id_}
        stored = await api.send("GET", f"/v1/responses/{second.response['id']}")
        assert stored.json["conversation"] == {"id": id_}
        said = ["one", "two", "Hello!", "three", "Hello!"]
        assert await texts(api, id_) == said
    sent = [message["content"] for message in model.chats[1].messages]
    assert sent == said[:-1]


@pytest.mark.requirement("conversations:turn:unknown")
async def test_an_unknown_conversation_is_not_made(api: Api) -> None:
    answer = await api.create(conversation="conv_unknown")
    assert (answer.status, answer.error["param"]) == (404, "conversation")
    assert (await api.send("GET", "/v1/conversations/conv_unknown")).status == 404
    both = await api.create(conversation="conv_unknown", previous_response_id="resp_1")
    assert (both.status, both.error["code"]) == (400, "mutually_exclusive_parameters")


@pytest.mark.requirement("conversations:turn:owner")
async def test_another_keys_conversation_is_as_unknown_as_one_that_is_not_there() -> None:
    server = {"api_keys": ["a", "b"]}
    a, b = {"authorization": "Bearer a"}, {"authorization": "Bearer b"}
    async with ModelServer("Hi", then="repeat") as model, serving(model.url, server=server) as api:
        mine = (await api.send("POST", "/v1/conversations", b"{}", a)).json["id"]
        turn = (await api.create(a, conversation=mine)).response
        item = turn["output"][0]["id"]
        for path in (
            f"/v1/conversations/{mine}",
            f"/v1/conversations/{mine}/items",
            f"/v1/conversations/{mine}/items/{item}",
            f"/v1/responses/{turn['id']}/input_items",
        ):
            theirs = await api.send("GET", path, headers=b)
            nobodys = await api.send("GET", path.replace(mine, "conv_none"), headers=a)
            assert theirs.status == 404
            if mine in path:
                assert theirs.body == nobodys.body.replace(b"conv_none", mine.encode())
        assert (await api.create(b, conversation=mine)).status == 404
        refers = [{"type": "item_reference", "id": item}]
        assert (await api.create(b, input=refers)).status == 404
        assert (await api.send("DELETE", f"/v1/conversations/{mine}", headers=b)).status == 404
        assert (await api.send("GET", f"/v1/conversations/{mine}", headers=a)).status == 200


@pytest.mark.requirement("conversations:turn:one-writer")
async def test_a_second_turn_on_a_conversation_is_a_409_and_changes_nothing() -> None:
    script = Reply("Slow", Gate("go"), " answer.")
    async with ModelServer(script, then="repeat") as model, serving(model.url) as api:
        id_ = await made(api)
        path = f"/v1/conversations/{id_}/items"
        first = asyncio.create_task(api.create(conversation=id_, input="one"))
        await model.reached("go")
        second = await api.create(conversation=id_, input="two")
        added = await post(api, path, items=[{"role": "user", "content": "x"}])
        removed = await api.send("DELETE", f"{path}/msg_1")
        for answer in (second, added, removed):
            assert (answer.status, answer.error["code"]) == (409, "conversation_locked")
            assert answer.headers["retry-after"] == "1"
        other = await made(api)
        model.open("go")
        assert (await first).response["status"] == "completed"
        assert (await api.create(conversation=other, input="free")).status == 200
        assert await texts(api, id_) == ["one", "Slow answer."]
        assert (await api.create(conversation=id_, input="three")).status == 200


@pytest.mark.requirement("conversations:turn:one-writer")
async def test_of_two_gateways_on_one_database_the_later_turn_fails(tmp_path: Any) -> None:
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    script = Reply("Slow", Gate("go"), " answer.")
    async with (
        ModelServer(script) as slow,
        ModelServer("Quick.") as quick,
        serving(slow.url, state=state) as one,
        serving(quick.url, state=state) as two,
    ):
        id_ = await made(one)
        losing = asyncio.create_task(one.create(conversation=id_, input="one", stream=True))
        await slow.reached("go")
        won = await two.create(conversation=id_, input="two")
        assert won.response["status"] == "completed"
        slow.open("go")
        lost = await losing
        assert lost.response["status"] == "failed"
        assert lost.response["error"]["code"] == "conversation_locked"
        assert await texts(two, id_) == ["two", "Quick."]
        assert (await two.send("GET", f"/v1/responses/{lost.response['id']}")).status == 404


@pytest.mark.requirement("conversations:turn:deleted")
async def test_a_conversation_that_is_deleted_while_a_turn_runs(api: Api) -> None:
    script = Reply("Slow", Gate("go"), " answer.")
    async with ModelServer(script) as model, serving(model.url) as api:
        id_ = await made(api)
        turn = asyncio.create_task(api.create(conversation=id_, stream=True))
        await model.reached("go")
        assert (await api.send("DELETE", f"/v1/conversations/{id_}")).status == 200
        model.open("go")
        answer = await turn
        assert answer.response["status"] == "failed"
        assert answer.response["error"]["code"] == "conversation_not_found"
        assert (await api.send("GET", f"/v1/conversations/{id_}")).status == 404


@pytest.mark.requirement("conversations:turn:failed")
async def test_a_turn_that_fails_adds_nothing(api: Api) -> None:
    async with ModelServer(Reply("Half", Cut())) as model, serving(model.url) as api:
        id_ = await made(api, "one")
        answer = await api.create(conversation=id_, input="two", stream=True)
        assert answer.response["status"] == "failed"
        assert await texts(api, id_) == ["one"]


@pytest.mark.requirement("conversations:turn:pending")
async def test_a_call_of_a_conversation_must_be_answered(api: Api) -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    script = [Reply(Call("f", {})), Reply("Done.")]
    async with ModelServer(script) as model, serving(model.url) as api:
        id_ = await made(api)
        called = (await api.create(conversation=id_, tools=[tool])).response["output"][0]
        missing = await api.create(conversation=id_, tools=[tool])
        assert missing.status == 400
        assert called["call_id"] in missing.error["message"]
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "x"}
        done = await api.create(conversation=id_, tools=[tool], input=[output])
        assert done.response["output"][0]["content"][0]["text"] == "Done."


@pytest.mark.requirement("conversations:kept-apart")
async def test_conversations_and_responses_are_deleted_apart(api: Api) -> None:
    id_ = await made(api, "one")
    turn = (await api.create(conversation=id_, input="two")).response["id"]
    assert (await api.send("DELETE", f"/v1/responses/{turn}")).status == 200
    assert await texts(api, id_) == ["one", "two", "Hello!"]
    second = (await api.create(conversation=id_, input="three")).response["id"]
    assert (await api.send("DELETE", f"/v1/conversations/{id_}")).status == 200
    assert (await api.send("GET", f"/v1/responses/{second}")).status == 200
    listed = await api.send("GET", f"/v1/responses/{second}/input_items?order=asc")
    assert [i["content"][0]["text"] for i in listed.json["data"]] == [
        "one",
        "two",
        "Hello!",
        "three",
    ]


@pytest.mark.requirement("conversations:turn:not-stored")
async def test_a_turn_that_is_not_stored_adds_to_its_conversation_alone(api: Api) -> None:
    id_ = await made(api)
    turn = (await api.create(conversation=id_, input="one", store=False)).response["id"]
    assert (await api.send("GET", f"/v1/responses/{turn}")).status == 404
    assert await texts(api, id_) == ["one", "Hello!"]


async def test_a_conversation_of_ten_thousand_items(api: Api) -> None:
    id_ = await made(api)
    path = f"/v1/conversations/{id_}/items"
    for start in range(0, 10_000, 5000):
        items = [{"role": "user", "content": f"m{n}"} for n in range(start, start + 5000)]
        assert (await post(api, path, items=items)).status == 200
    page = (await api.send("GET", f"{path}?limit=3")).json
    assert [item["content"][0]["text"] for item in page["data"]] == ["m9999", "m9998", "m9997"]
    assert page["has_more"]
    answer = await api.create(conversation=id_, input="last")
    assert answer.response["status"] == "completed"
    assert (await texts(api, id_, "?limit=2")) == ["Hello!", "last"]


# --- input items and references


@pytest.mark.requirement("state:input-items")
async def test_input_items_are_all_that_the_model_read(api: Api) -> None:
    first = (await api.create(input="one")).response["id"]
    second = (await api.create(input="two", previous_response_id=first)).response["id"]
    path = f"/v1/responses/{second}/input_items"
    listed = (await api.send("GET", path)).json
    said = [item["content"][0]["text"] for item in listed["data"]]
    assert said == ["two", "Hello!", "one"]
    assert listed["object"] == "list"
    assert listed["first_id"] == listed["data"][0]["id"]
    rest = (await api.send("GET", f"{path}?limit=1&after={listed['first_id']}")).json
    assert (rest["data"], rest["has_more"]) == ([listed["data"][1]], True)
    assert (await api.send("GET", "/v1/responses/resp_none/input_items")).status == 404


@pytest.mark.requirement("request:input:reference")
async def test_a_reference_stands_for_a_stored_item() -> None:
    async with ModelServer("Hello!", then="repeat") as model, serving(model.url) as api:
        said = (await api.create(input="one")).response["output"][0]
        for form in ({"type": "item_reference", "id": said["id"]}, {"id": said["id"]}):
            given = [form, {"role": "user", "content": "two"}]
            answer = await api.create(input=given)
            assert answer.status == 200, answer.body
            sent = model.chats[-1].messages
            assert [m["content"] for m in sent] == ["Hello!", "two"]
            path = f"/v1/responses/{answer.response['id']}/input_items?order=asc"
            assert (await api.send("GET", path)).json["data"][0] == said
        unknown = await api.create(input=[{"type": "item_reference", "id": "msg_none"}])
        assert (unknown.status, unknown.error["param"]) == (404, "input[0]")
        gone = (await api.create(input="x")).response
        await api.send("DELETE", f"/v1/responses/{gone['id']}")
        refers = [{"type": "item_reference", "id": gone["output"][0]["id"]}]
        assert (await api.create(input=refers)).status == 404


@pytest.mark.requirement("state:chain:fork")
async def test_two_turns_on_one_response_are_a_fork(api: Api) -> None:
    root = (await api.create(input="root")).response["id"]
    answers = await asyncio.gather(
        *(api.create(input=text, previous_response_id=root) for text in ("left", "right"))
    )
    for answer, text in zip(answers, ("left", "right"), strict=True):
        path = f"/v1/responses/{answer.response['id']}/input_items?order=asc"
        listed = (await api.send("GET", path)).json["data"]
        assert [i["content"][0]["text"] for i in listed] == ["root", "Hello!", text]


@pytest.mark.requirement("state:chain:deleted")
async def test_a_response_that_is_deleted_while_it_is_continued() -> None:
    script = ["First.", Reply("Slow", Gate("go"), " answer.")]
    async with ModelServer(script) as model, serving(model.url) as api:
        root = (await api.create(input="root")).response["id"]
        turn = asyncio.create_task(api.create(previous_response_id=root, stream=True))
        await model.reached("go")
        assert (await api.send("DELETE", f"/v1/responses/{root}")).status == 200
        model.open("go")
        answer = await turn
        assert answer.response["status"] == "failed"
        assert answer.response["error"]["code"] == "previous_response_not_found"


@pytest.mark.requirement("state:chain:long")
async def test_a_chain_of_three_hundred_turns(api: Api) -> None:
    last = (await api.create(input="t0")).response["id"]
    for turn in range(1, 300):
        answer = await api.create(input=f"t{turn}", previous_response_id=last)
        assert answer.status == 200, answer.body
        last = answer.response["id"]
    path = f"/v1/responses/{last}/input_items?limit=1&order=asc"
    assert (await api.send("GET", path)).json["data"][0]["content"][0]["text"] == "t0"
