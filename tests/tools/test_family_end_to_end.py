"""The whole family at once: what a flat server gets, what comes back, and what a server that knows it gets;
and ten turns in which tools are found and added."""

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, responded
from bascule.testing import Request as Asked
from tests.engine.test_responses_upstream import message
from tests.serving import Api, serving
from tests.tools.test_tool_search import SEARCH, additional, found, function, group, user

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

PROGRAM: Json = {
    "type": "program",
    "id": "cm_1",
    "call_id": "p1",
    "code": "1",
    "fingerprint": "opaque",
}
FULL: Json = {
    "tools": [
        function("plain", output_schema={"type": "object"}),
        group(
            "crm",
            function("find", defer_loading=True, allowed_callers=["direct", "programmatic"]),
            {"type": "custom", "name": "query", "format": {"type": "text"}},
            description="Customers.",
        ),
        SEARCH,
        {"type": "programmatic_tool_calling"},
        function("price", allowed_callers=["programmatic"]),
    ],
    "input": [
        additional(group("functions", {"type": "custom", "name": "exec"}), id="at_1"),
        user("Hi"),
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "execution": "client",
            "call_id": "s1",
            "status": "completed",
            "arguments": {"goal": "customers"},
        },
        found(
            group("crm", function("find", defer_loading=True)),
            group("shop", function("buy", defer_loading=True)),
            call_id="s1",
        ),
        {
            "type": "function_call",
            "call_id": "c1",
            "namespace": "crm",
            "name": "find",
            "arguments": "{}",
            "caller": {"type": "direct"},
        },
        {"type": "function_call_output", "call_id": "c1", "output": "Ada"},
        {
            "type": "custom_tool_call",
            "call_id": "c2",
            "namespace": "crm",
            "name": "query",
            "input": "x",
        },
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
        PROGRAM,
        {
            "type": "function_call",
            "call_id": "c3",
            "name": "price",
            "arguments": "{}",
            "caller": {"type": "program", "caller_id": "p1"},
        },
        {
            "type": "function_call_output",
            "call_id": "c3",
            "output": "3",
            "caller": {"type": "program", "caller_id": "p1"},
        },
        {
            "type": "program_output",
            "id": "cmo_1",
            "call_id": "p1",
            "result": "3",
            "status": "completed",
        },
        user("Buy it."),
    ],
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.requirement("family:whole")
async def test_a_flat_server_and_what_comes_back(stream: bool) -> None:
    reply = Reply(
        Call("shop__buy", {"city": "x"}, id="n1"),
        Call("exec", {"input": "ls"}, id="n2"),
        Call("crm__query", {"input": "select"}, id="n3"),
    )
    async with ModelServer(reply) as model, serving(model.url) as api:
        answer = await api.create(**FULL, stream=stream)
        assert answer.status == 200, answer.body
    sent = model.chats[0].json
    told = [tool["function"]["name"] for tool in sent["tools"]]
    assert told == ["plain", "crm__query", "tool_search", "exec", "crm__find", "shop__buy"]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in told)
    text = msgspec.json.encode(sent).decode()
    for member in ("defer_loading", "allowed_callers", "output_schema", "caller", "fingerprint"):
        assert f'"{member}"' not in text
    said = [c["function"]["name"] for m in sent["messages"] for c in m.get("tool_calls") or ()]
    assert said == ["tool_search", "crm__find", "crm__query", "price"]
    shown = [(i["type"], i.get("namespace"), i["name"]) for i in answer.response["output"]]
    assert shown == [
        ("function_call", "shop", "buy"),
        ("custom_tool_call", "functions", "exec"),
        ("custom_tool_call", "crm", "query"),
    ]
    if stream:
        added = [event["item"] for event in answer.of_type("output_item.added")]
        assert [(i.get("namespace"), i["name"]) for i in added] == [s[1:] for s in shown]
    declared = [tool.get("name") for tool in answer.response["tools"]]
    assert declared[:5] == [tool.get("name") for tool in FULL["tools"]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.requirement("family:whole", "family:flat:responses", "family:steps")
async def test_a_flat_server_that_speaks_responses(stream: bool, store: bool) -> None:
    """Flattened before a developer's words become the system's: what is hoisted is no message then."""
    flags = {"flatten_tool_search_family": True, "developer_role": False}
    options = {"protocol": "responses", "profile": "vllm", "flags": flags}
    call = {
        "id": "fc_up",
        "type": "function_call",
        "status": "completed",
        "call_id": "n1",
        "name": "shop__buy",
        "arguments": "{}",
    }
    run = {
        **call,
        "id": "fc_up2",
        "call_id": "n2",
        "name": "crm__query",
        "arguments": '{"input":"x"}',
    }
    fields: Json = {
        **FULL,
        "input": [{"role": "developer", "content": "Be brief."}, *FULL["input"]],
    }
    async with (
        ModelServer(responded(call, run)) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        answer = await api.create(**fields, stream=stream, store=store)
        assert answer.status == 200, answer.body
    [sent] = [chat.json for chat in model.chats]
    assert [tool["name"] for tool in sent["tools"]] == [
        *("plain", "crm__query", "tool_search", "exec", "crm__find", "shop__buy"),
    ]
    assert {tool["type"] for tool in sent["tools"]} == {"function"}
    text = msgspec.json.encode(sent).decode()
    for member in ("namespace", "defer_loading", "allowed_callers", "output_schema", "caller"):
        assert f'"{member}"' not in text
    kinds = [item.get("type", "message") for item in sent["input"]]
    pair = ["function_call", "function_call_output"]
    assert kinds == [
        *("message", "message", *pair, *pair, *pair, "message", *pair, "message", "message"),
    ]
    assert [i.get("role") for i in sent["input"] if i.get("type", "message") == "message"] == [
        *("system", "user", "assistant", "assistant", "user"),
    ]
    shown = [(i["type"], i.get("namespace"), i["name"]) for i in answer.response["output"]]
    assert shown == [("function_call", "shop", "buy"), ("custom_tool_call", "crm", "query")]
    if stream:  # restored with the id that it keeps
        for index, item in enumerate(answer.response["output"]):
            of = [e for e in answer.events if e.get("output_index") == index]
            ids = {e["item"]["id"] if "item" in e else e["item_id"] for e in of}
            assert ids == {item["id"]}
            assert {e["item"]["name"] for e in of if "item" in e} == {item["name"]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.requirement("family:whole")
async def test_a_server_that_knows_it_gets_every_byte(stream: bool, store: bool) -> None:
    bodies: list[Asked] = []

    def answer(request: Asked) -> Any:
        bodies.append(request)
        return responded(
            {**PROGRAM, "id": "cm_up", "future": {"a": 1}},
            {"id": "zz_up", "type": "tool_search_future", "status": "completed", "x": [1.50]},
            message("Hi."),
        )(request)

    options = {"protocol": "responses", "profile": "openai"}
    future = {"type": "tool_search_2027", "depth": 3, "tools": [function("x")]}
    fields: Json = {**FULL, "tools": [*FULL["tools"], future]}
    async with ModelServer(answer) as model, serving(model.url, upstream_options=options) as api:
        got = await api.create(**fields, stream=stream, store=store)
        assert got.status == 200, got.body
        sent = bodies[0].json
        assert sent["tools"] == fields["tools"]
        assert sent["input"] == fields["input"]
        if not store:  # relayed
            asked = {"model": api.model, "input": "", **fields, "stream": stream, "store": False}
            assert bodies[0].body == msgspec.json.encode(asked)
        output = got.response["output"]
        assert output[0]["fingerprint"] == "opaque"
        assert output[0]["future"] == {"a": 1}
        assert output[1]["x"] == [1.50]
        if store:
            id_ = got.response["id"]
            kept = (await api.send("GET", f"/v1/responses/{id_}")).json["output"]
            assert kept == output
            again = await api.create(input="More", tools=fields["tools"], previous_response_id=id_)
            assert again.status == 200, again.body
            replayed = bodies[1].json["input"]
            assert replayed[: len(fields["input"])] == [
                {**theirs, **({"id": ours["id"]} if "id" in ours else {})}
                for theirs, ours in zip(fields["input"], replayed, strict=False)
            ]


@pytest.mark.requirement("family:prefix")
@pytest.mark.parametrize("store", [True, False])
async def test_ten_turns_in_which_tools_are_found_and_added(store: bool) -> None:
    """Each request begins with the bytes of the one before, tools and messages."""
    bodies: list[bytes] = []

    def answer(request: Asked) -> Reply:
        bodies.append(request.body)
        turn = len(bodies) - 1
        if turn % 3 == 0:
            return Reply(Call("tool_search", {"goal": f"turn {turn}"}, id=f"call_{turn}"))
        return Reply(f"Turn {turn} is done.")

    async def next_turn(api: Api) -> None:
        nonlocal previous
        chain: Json = {"previous_response_id": previous} if store and previous else {}
        answered = await api.create(
            tools=tools, input=new if store else history, store=store, **chain
        )
        assert answered.status == 200, answered.body
        previous = answered.response["id"]
        history.extend(answered.response["output"])

    late = [function(f"late_{n}", defer_loading=True) for n in range(4)]
    tools = [SEARCH, function("plain"), *late[:2], group("crm", late[2])]
    previous: str | None = None
    new: list[Json] = [user("Hi")]
    history: list[Json] = list(new)
    async with ModelServer(answer) as model, serving(model.url) as api:
        for turn in range(10):
            await next_turn(api)
            last = history[-1]
            new = [user(f"Go on {turn}")]
            if last["type"] == "tool_search_call":
                hits = [late[turn // 3 % 2], group(f"ns_{turn}", function("x"))]
                new = [found(*hits, call_id=last["call_id"]), *new]
            elif turn % 2:
                new = [
                    additional(function(f"extra_{turn}"), group("crm", function(f"f{turn}"))),
                    *new,
                ]
            history.extend(new)
    assert len(bodies) == 10
    for before, after in pairwise(bodies):
        for name in (b'"tools":[', b'"messages":['):
            old, new_ = (_list(body, name) for body in (before, after))
            assert new_.startswith(old)
    assert (
        len(msgspec.json.decode(bodies[-1])["tools"])
        > len(msgspec.json.decode(bodies[0])["tools"]) + 6
    )


def _list(body: bytes, name: bytes) -> bytes:
    """The bytes of a list of a body, without what closes it."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return bytes(members[name.decode().split('"')[1]])[:-1]
