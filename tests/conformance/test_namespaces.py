"""Tools in namespaces: one flat name for the model, the pair of names for the client."""

from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, Request, responded
from tests.conformance.asking import CITY, WEATHER, gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

FIND: Json = {"type": "function", "name": "find", "description": "Find one", "parameters": CITY}
QUERY: Json = {"type": "custom", "name": "query", "description": "Ask in SQL"}


def namespace(name: str, *tools: Json, description: str = "") -> Json:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


CRM = namespace("crm", FIND, QUERY, description="Customers.")
SHOP = namespace("shop", FIND)


def names(chat: Any) -> list[str]:
    return [tool["function"]["name"] for tool in chat.tools]


@pytest.mark.requirement("tool:namespace:declared")
async def test_members_are_told_with_what_their_namespace_is_for() -> None:
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[WEATHER, CRM, SHOP]))
        chat = model.chats[0]
    assert names(chat) == ["get_weather", "crm__find", "crm__query", "shop__find"]
    told = [tool["function"].get("description") for tool in chat.tools]
    assert told[1:3] == ["Customers.\n\nFind one", "Customers.\n\nAsk in SQL"]
    assert told[3] == "Find one"


@pytest.mark.requirement("tool:namespace:restored")
@pytest.mark.parametrize("wire", ["crm__find", "crm.find"])
async def test_a_call_has_both_names_from_the_first_event_on(wire: str) -> None:
    async with gateway([Reply(Call(wire, {"city": "Oslo"})), "Done."]) as (api, model):
        answer = await api.create(tools=[CRM, SHOP], stream=True)
        response = check_stream(answer)
        (added,) = answer.of_type("output_item.added")
        (done,) = answer.of_type("output_item.done")
        (call,) = response["output"]
        for item in (added["item"], done["item"], call):
            assert (item["type"], item["namespace"], item["name"]) == (
                "function_call",
                "crm",
                "find",
            )
        await api.create(
            tools=[CRM, SHOP], previous_response_id=response["id"], input=[output_of(call)]
        )
        said = model.chats[1].messages[1]["tool_calls"][0]["function"]
    assert said == {"name": "crm__find", "arguments": '{"city":"Oslo"}'}


@pytest.mark.requirement("tool:namespace:restored")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_custom_member_is_a_custom_call_in_its_namespace(stream: bool) -> None:
    async with gateway(Reply(Call("crm__query", {"input": "select 1"}))) as (api, _):
        answer = await api.create(tools=[CRM], stream=stream)
        response = check_stream(answer) if stream else check_answer(answer)
    (call,) = response["output"]
    assert call["type"] == "custom_tool_call"
    assert (call["namespace"], call["name"], call["input"]) == ("crm", "query", "select 1")


@pytest.mark.requirement("tool:namespace:restored")
async def test_a_stateless_client_sends_the_pair_and_the_model_reads_the_same_name() -> None:
    history = [
        {"role": "user", "content": "Hi"},
        {
            "type": "function_call",
            "call_id": "call_1",
            "namespace": "crm",
            "name": "find",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "found"},
    ]
    async with gateway() as (api, model):
        check_answer(await api.create(tools=[CRM], store=False, input=history))
        check_answer(await api.create(store=False, input=history))
        said = [chat.messages[1]["tool_calls"][0]["function"]["name"] for chat in model.chats]
    assert said == ["crm__find", "crm__find"]


@pytest.mark.requirement("tool:namespace:bare-name")
async def test_a_bare_name_that_is_unique_is_found() -> None:
    only_crm = [namespace("crm", FIND)]
    async with gateway([Reply(Call("find", {})), Reply(Call("find", {}))]) as (api, _):
        unique = check_stream(await api.create(tools=only_crm, stream=True))["output"][0]
        several = check_stream(await api.create(tools=[CRM, SHOP], stream=True))["output"][0]
    assert (unique["namespace"], unique["name"]) == ("crm", "find")
    assert several["name"] == "find"
    assert "namespace" not in several


@pytest.mark.requirement("tool:namespace:functions")
async def test_the_namespace_functions_means_the_top_level() -> None:
    tools = [namespace("functions", FIND), namespace("crm", FIND)]
    replies = [Reply(Call("find", {}, id="call_1")), Reply(Call("functions.find", {}, id="call_2"))]
    async with gateway([*replies, "Done."]) as (api, model):
        first = check_stream(await api.create(tools=tools, stream=True))
        second = check_stream(await api.create(tools=tools, stream=True))
        assert names(model.chats[0]) == ["find", "crm__find"]
        for response in (first, second):
            (call,) = response["output"]
            assert (call["namespace"], call["name"]) == ("functions", "find")
        follow = await api.create(
            tools=tools, previous_response_id=first["id"], input=[output_of(call)]
        )
        assert follow.status == 400  # the other response's call
        (call,) = first["output"]
        await api.create(tools=tools, previous_response_id=first["id"], input=[output_of(call)])
        assert model.chats[-1].messages[1]["tool_calls"][0]["function"]["name"] == "find"


@pytest.mark.requirement("tool:namespace:functions")
async def test_a_top_level_tool_again_in_functions_is_declared_twice() -> None:
    async with gateway() as (api, _):
        answer = await api.create(tools=[FIND, namespace("functions", FIND)])
    assert (answer.status, answer.error["param"]) == (400, "tools[1]")


@pytest.mark.requirement("tool:namespace:coincidence")
async def test_no_name_is_sent_twice() -> None:
    tools = [
        namespace("a__b", {**FIND, "name": "c"}),
        namespace("a", {**FIND, "name": "b__c"}, {**QUERY, "name": "d"}),
        {**FIND, "name": "a__b__c"},
        {**FIND, "name": "a__d"},
    ]
    async with gateway() as (api, model):
        check_answer(await api.create(tools=tools))
        sent = names(model.chats[0])
        turned = check_answer(await api.create(tools=tools[::-1]))
        again = names(model.chats[1])
    assert len(set(sent)) == len(sent) == 5
    assert {"a__b__c", "a__d"} <= set(sent)
    assert set(again) == set(sent)
    assert [tool["name"] for tool in turned["tools"]] == ["a__d", "a__b__c", "a", "a__b"]


@pytest.mark.requirement("tool:namespace:choice")
@pytest.mark.parametrize("name", ["query", "crm.query", "crm__query"])
async def test_a_choice_finds_a_member(name: str) -> None:
    choice = {"type": "custom", "name": name}
    async with gateway() as (api, model):
        response = check_answer(await api.create(tools=[CRM, SHOP], tool_choice=choice))
        told = model.chats[0].json["tool_choice"]
    assert told == {"type": "function", "function": {"name": "crm__query"}}
    assert response["tool_choice"] == choice


@pytest.mark.requirement("tool:namespace:choice")
async def test_a_choice_of_a_name_in_two_namespaces_names_the_candidates() -> None:
    choice = {"type": "function", "name": "find"}
    async with gateway() as (api, _):
        answer = await api.create(tools=[CRM, SHOP], tool_choice=choice)
        top = await api.create(tools=[CRM, SHOP, FIND], tool_choice=choice)
    assert (answer.status, answer.error["param"]) == (400, "tool_choice")
    assert "'crm.find', 'shop.find'" in answer.error["message"]
    assert top.status == 200


@pytest.mark.requirement("tool:namespace:choice")
@pytest.mark.parametrize(
    "ref",
    [
        {"type": "function", "name": "find", "namespace": "crm"},
        {"type": "function", "name": "crm.find"},
        {"type": "namespace", "name": "crm"},
    ],
)
async def test_a_limit_holds_for_members(ref: Json) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [ref]}
    replies = [
        Reply(Call("shop__find", {}, id="call_1")),
        Reply(Call("crm.find", {}, id="call_2")),
    ]
    async with gateway(replies) as (api, _):
        answer = await api.create(tools=[CRM, SHOP], tool_choice=choice, stream=True)
        response = check_stream(answer)
    assert [item["call_id"] for item in response["output"]] == ["call_2"]


@pytest.mark.requirement("tool:namespace:choice")
async def test_a_forced_member_called_by_another_name_follows_the_choice() -> None:
    """On a server that does not hold to choices, the check knows what the model meant."""
    options = {"upstream_options": {"profile": "llama_cpp"}}
    choice = {"type": "function", "name": "find", "namespace": "crm"}
    async with gateway(Reply(Call("crm.find", {})), **options) as (api, model):
        response = check_answer(await api.create(tools=[CRM, SHOP], tool_choice=choice))
        assert len(model.chats) == 1
    assert response["output"][0]["namespace"] == "crm"


@pytest.mark.requirement("response:tools:namespace")
async def test_the_echo_shows_what_was_declared() -> None:
    async with gateway() as (api, _):
        response = check_answer(await api.create(tools=[CRM]))
    (echoed,) = response["tools"]
    assert (echoed["type"], echoed["name"], echoed["description"]) == (
        "namespace",
        "crm",
        "Customers.",
    )
    function, custom = echoed["tools"]
    assert function == {**FIND, "strict": None, "output_schema": None}
    assert custom == {**QUERY, "format": {"type": "text"}}


@pytest.mark.requirement("tool:refused-with-place")
@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "namespace", "description": "", "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": "", "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": "n"}, "tools[0].tools"),
        ({"type": "namespace", "name": "n", "tools": {}}, "tools[0].tools"),
        (namespace("n", {"name": "f"}), "tools[0].tools[0].type"),
        (namespace("n", FIND, {"type": "function"}), "tools[0].tools[1].name"),
        (namespace("n", namespace("m", FIND)), "tools[0].tools[0].type"),
        (namespace("n", {"type": "web_search"}), "tools[0].tools[0].type"),
        (namespace("n", FIND, FIND), "tools[0]"),
    ],
)
async def test_a_bad_namespace_is_named(tool: Json, param: str) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=[tool])
        assert model.chats == []
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.requirement("tool:namespace:declared")
async def test_an_empty_namespace_brings_nothing() -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(tools=[namespace("crm")]))
        assert "tools" not in model.chats[0].json
    assert response["tools"][0]["tools"] == []


@pytest.mark.requirement("tool:namespace:declared")
async def test_a_responses_server_without_namespaces_gets_functions() -> None:
    call = {
        "id": "fc_up",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "crm__find",
        "arguments": "{}",
    }
    said = {
        "id": "msg_up",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    }
    answers = iter([responded(call), responded(said)])
    options = {"protocol": "responses", "profile": "vllm"}

    def by_turn(request: Request) -> Any:
        return next(answers)(request)

    async with (
        ModelServer(by_turn) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        response = check_stream(await api.create(tools=[CRM], stream=True))
        (restored,) = response["output"]
        follow = await api.create(
            tools=[CRM], previous_response_id=response["id"], input=[output_of(restored)]
        )
        sent = [chat.json for chat in model.chats]
    assert (restored["namespace"], restored["name"]) == ("crm", "find")
    assert text_of(follow.response) == "Done."
    assert [tool["name"] for tool in sent[0]["tools"]] == ["crm__find", "crm__query"]
    (again,) = [item for item in sent[1]["input"] if item.get("type") == "function_call"]
    assert again["name"] == "crm__find"
    assert "namespace" not in again
    assert msgspec.json.encode(sent[1]["tools"]) == msgspec.json.encode(sent[0]["tools"])


@pytest.mark.requirement("tool:hosted:name-taken")
async def test_a_function_that_bears_a_hosted_tools_name_keeps_it() -> None:
    mine = {"type": "function", "name": "web_search", "parameters": CITY}
    past = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "Oslo"},
    }
    history = [past, {"role": "user", "content": "Again"}]
    async with gateway(Reply(Call("web_search", {}))) as (api, model):
        answer = await api.create(
            tools=[{"type": "web_search"}, mine], store=False, input=history, stream=True
        )
        (call,) = check_stream(answer)["output"]
        chat = model.chats[0]
    assert (call["type"], call["name"]) == ("function_call", "web_search")
    assert names(chat) == ["web_search"]
    hosted = chat.messages[0]["tool_calls"][0]["function"]["name"]
    assert hosted.startswith("web_search_")


@pytest.mark.requirement("tool:hosted:unavailable")
@pytest.mark.parametrize(
    ("choice", "status"),
    [
        ("auto", 200),
        ("required", 200),
        ({"type": "web_search"}, 400),
        ({"type": "web_search_preview"}, 400),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}, 200),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}, 400),
    ],
)
async def test_a_hosted_tool_that_nothing_here_runs_cannot_be_forced(
    choice: Any, status: int
) -> None:
    tools = [{"type": "web_search"}, {"type": "image_generation"}, WEATHER]
    async with gateway(Reply(Call("get_weather", {}))) as (api, model):
        answer = await api.create(tools=tools, tool_choice=choice)
        assert bool(model.chats) == (status == 200)
    assert answer.status == status
    if status == 400:
        assert (answer.error["param"], answer.error["code"]) == ("tool_choice", "unsupported_value")
    else:
        assert answer.headers["x-bascule-ignored"] == "tools[0],tools[1]"
