"""MCP tools through the gateway: a real server over HTTP or pipes, the scripted model server, and what
the client sees."""

import asyncio
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply, responded
from tests.services.mcp.servers import listening
from tests.serving import serving
from tests.tools.mcp_gateway import (
    CALL_EVENTS,
    CONFIGURED,
    LIST_EVENTS,
    LOCAL,
    MCP,
    in_front_of,
    only,
    outputs,
    pool_of,
    query,
    types_of,
)

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("mcp:list:order")
@pytest.mark.requirement("mcp:call:order")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call(stream: bool) -> None:
    async with in_front_of([Reply("Let me see.", *query().steps), "Three."]) as (api, model, tool):
        answer = await api.create(tools=[tool], stream=stream)
        offered = [t["function"]["name"] for t in model.chats[0].json["tools"]]
        said = outputs(model, 1)
    assert types_of(answer) == ["mcp_list_tools", "message", "mcp_call", "message"]
    assert "papers__query_papers" in offered
    listed = only(answer, "mcp_list_tools")
    assert set(listed) == {"id", "type", "server_label", "tools"}
    first = listed["tools"][0]
    assert first["name"] == "query_papers"
    assert first["annotations"] == {"read_only": True}
    assert only(answer, "mcp_call") == {
        "id": only(answer, "mcp_call")["id"],
        "type": "mcp_call",
        "status": "completed",
        "approval_request_id": None,
        "arguments": '{"topic":"bridges"}',
        "error": None,
        "name": "query_papers",
        "output": "3 papers about bridges",
        "server_label": "papers",
    }
    assert said == ["3 papers about bridges"]
    if stream:
        of = {
            i: [
                t
                for t, e in zip(answer.types, answer.events, strict=True)
                if e.get("output_index") == i
            ]
            for i in (0, 2)
        }
        assert of[0] == LIST_EVENTS
        assert of[2] == CALL_EVENTS
        assert answer.events[2]["item"]["tools"] == []
        assert answer.of_type("mcp_call_arguments.delta")[0]["delta"] == '{"topic":"bridges"}'


@pytest.mark.requirement("mcp:list:once")
@pytest.mark.parametrize("stored", [True, False])
async def test_a_server_is_listed_once_in_a_chain(stored: bool) -> None:
    async with in_front_of([query(), "Three.", query("towers", "call_2"), "Three."]) as (
        api,
        model,
        tool,
    ):
        first = await api.create(tools=[tool])
        if stored:
            more: Json = {"previous_response_id": first.response["id"], "input": "And towers?"}
        else:
            asked = {"type": "message", "role": "user", "content": "And towers?"}
            more = {"input": [*first.response["output"], asked], "store": False}
        second = await api.create(tools=[tool], **more)
        said = outputs(model, 3)
    assert types_of(second) == ["mcp_call", "message"]
    assert said == ["3 papers about bridges", "3 papers about towers"]


@pytest.mark.requirement("mcp:configured")
async def test_a_configured_server_by_its_label() -> None:
    section = {**CONFIGURED, "allowed_tools": {"read_only": True}, "require_approval": "never"}
    async with (
        ModelServer([query(), "Three.", query(), "Ok."]) as model,
        serving(model.url, mcp_servers=[section]) as api,
    ):
        never = {"type": "mcp", "server_label": "papers", "require_approval": "never"}
        answer = await api.create(tools=[never])
        asked = await api.create(tools=[{"type": "mcp", "server_label": "papers"}])
        unknown = await api.create(tools=[{"type": "mcp", "server_label": "other"}])
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": only(asked, "mcp_approval_request")["id"],
            "approve": True,
        }
        # The operator's server needs no declaration.
        went_on = await api.create(previous_response_id=asked.response["id"], input=[yes])
        offered = [t["function"]["name"] for t in model.chats[0].json["tools"]]
        ready = await api.send("GET", "/ready")
        metrics = await api.send("GET", "/metrics")
    [health] = ready.json["tools"]
    assert (health["name"], health["state"], health["failures"]) == ("papers", "connected", 0)
    assert b'bascule_tool_dependency_connected{name="papers",type="mcp"} 1.0' in metrics.body
    assert answer.status == 200, answer.body
    assert types_of(answer) == ["mcp_list_tools", "mcp_call", "message"]
    assert [t["name"] for t in only(answer, "mcp_list_tools")["tools"]] == ["query_papers"]
    assert offered == ["papers__query_papers", "papers__list_resources", "papers__read_resource"]
    assert types_of(asked) == ["mcp_list_tools", "mcp_approval_request"]
    assert types_of(went_on) == ["mcp_call", "message"]
    assert (unknown.status, unknown.error["param"]) == (400, "tools[0].server_url")


@pytest.mark.requirement("mcp:soft-failure")
@pytest.mark.parametrize("stream", [True, False])
async def test_an_unreachable_server_leaves_the_turn_alone(stream: bool) -> None:
    dead = {"type": "mcp", "server_label": "dead", "server_url": "http://127.0.0.1:1/mcp"}
    private = {"type": "mcp", "server_label": "private", "server_url": "http://10.0.0.1/mcp"}
    async with in_front_of(["Hi."]) as (api, _, tool):
        answer = await api.create(tools=[dead, tool, private], stream=stream)
    assert types_of(answer) == [*["mcp_list_tools"] * 3, "message"]
    listed = answer.response["output"]
    assert listed[0]["tools"] == []
    assert listed[0]["error"]["message"] == "The MCP server cannot be reached."
    assert listed[2]["error"]["message"] == "This server may not connect to '10.0.0.1'."
    assert "error" not in listed[1]
    if stream:
        assert len(answer.of_type("mcp_list_tools.failed")) == 2


@pytest.mark.requirement("mcp:call:failed")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_that_fails(stream: bool) -> None:
    failing = Reply(Call("papers__fail", {"why": "no paper left"}, id="call_1"))
    async with in_front_of([failing, "Sorry."]) as (api, model, tool):
        answer = await api.create(tools=[tool], stream=stream)
        said = outputs(model, 1)
    call = only(answer, "mcp_call")
    assert (call["status"], call["output"]) == ("failed", None)
    assert call["error"]["type"] == "tool_execution_error"
    assert "no paper left" in call["error"]["message"]
    assert "no paper left" in said[0]
    assert answer.response["status"] == "completed"
    if stream:
        assert answer.of_type("mcp_call.failed")


@pytest.mark.requirement("mcp:results:images")
@pytest.mark.parametrize("looks", [True, False])
async def test_a_picture(looks: bool) -> None:
    looking = Reply(Call("papers__picture", {}, id="call_1"))
    async with in_front_of([looking, "A dot."]) as (api, model, tool):
        if not looks:
            flags = {"image_input": False}
            async with serving(model.url, upstream_options={"flags": flags}, **LOCAL) as blind:
                answer = await blind.create(tools=[tool])
        else:
            answer = await api.create(tools=[tool])
        messages = msgspec.json.encode(model.chats[1].json["messages"]).decode()
    call = only(answer, "mcp_call")
    [block] = msgspec.json.decode(call["output"])
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert (block["data"] in messages) == looks
    assert ("not shown" in messages) != looks


@pytest.mark.requirement("mcp:resources")
async def test_resources() -> None:
    listing = Call("papers__list_resources", {}, id="call_1")
    reading = Call("papers__read_resource", {"uri": "papers://index"}, id="call_2")
    async with in_front_of([Reply(listing, reading), "Three."]) as (api, model, tool):
        answer = await api.create(tools=[tool])
        said = outputs(model, 1)
    names = [tool["name"] for tool in only(answer, "mcp_list_tools")["tools"]]
    assert "read_resource" not in names
    assert said[0].startswith("[resource papers://index: index")
    assert said[1] == "[resource papers://index]\none, two, three"
    calls = [item for item in answer.response["output"] if item["type"] == "mcp_call"]
    assert [(c["name"], c["status"]) for c in calls] == [
        ("list_resources", "completed"),
        ("read_resource", "completed"),
    ]


@pytest.mark.requirement("mcp:choice")
@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ({"type": "mcp", "server_label": "papers", "name": "query_papers"}, True),
        ({"type": "function", "name": "query_papers"}, True),
        ({"type": "mcp", "server_label": "papers"}, False),
    ],
)
async def test_a_forced_choice(choice: Json, forced: bool) -> None:
    async with in_front_of([query(), "Three."]) as (api, model, tool):
        answer = await api.create(tools=[tool], tool_choice=choice)
        sent = [chat.json.get("tool_choice") for chat in model.chats]
        missing = await api.create(
            tools=[tool], tool_choice={"type": "mcp", "server_label": "papers", "name": "nothing"}
        )
    assert answer.status == 200, answer.body
    assert types_of(answer) == ["mcp_list_tools", "mcp_call", "message"]
    if forced:
        assert sent[0] == {"type": "function", "function": {"name": "papers__query_papers"}}
        assert sent[1] in (None, "auto")
    else:
        assert [asked and asked["allowed_tools"]["mode"] for asked in sent] == ["required", "auto"]
    assert (missing.status, missing.error["param"]) == (400, "tool_choice")


@pytest.mark.requirement("mcp:credentials")
async def test_credentials_are_used_and_not_kept() -> None:
    async with in_front_of(["Hi."]) as (api, _, tool):
        tool |= {"authorization": "sesame-token", "headers": {"x-key": "sesame-key"}}
        answer = await api.create(tools=[tool], stream=True)
        stored = await api.send("GET", f"/v1/responses/{answer.response['id']}")
    assert b"sesame" not in answer.body
    assert b"sesame" not in stored.body
    [echoed] = answer.response["tools"]
    assert echoed["headers"] is None
    assert "authorization" not in echoed


@pytest.mark.requirement("mcp:declarations")
@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{}, {}], "tools[1].server_label"),
        ([{"tunnel_id": "t", "server_url": None}], "tools[0].tunnel_id"),
        ([{"connector_id": "connector_x", "server_url": None}], "tools[0].connector_id"),
    ],
)
async def test_a_wrong_declaration(tools: list[Json], param: str) -> None:
    base = {"type": "mcp", "server_label": "a", "server_url": "http://127.0.0.1:1/mcp"}
    declared = [{k: v for k, v in (base | tool).items() if v is not None} for tool in tools]
    async with ModelServer([]) as model, serving(model.url, **LOCAL) as api:
        answer = await api.create(tools=declared)
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.requirement("mcp:connectors")
async def test_a_connector_is_a_url_of_the_operators() -> None:
    async with listening() as (url, _), ModelServer([query(), "Three."]) as model:
        section = {"mcp": {"connectors": {"connector_papers": url}}}
        async with serving(model.url, tools=section) as api:
            tool = {
                "type": "mcp",
                "server_label": "papers",
                "connector_id": "connector_papers",
                "require_approval": "never",
            }
            answer = await api.create(tools=[tool])
    assert types_of(answer) == ["mcp_list_tools", "mcp_call", "message"]


@pytest.mark.requirement("mcp:two-servers")
async def test_two_servers_with_the_same_tools() -> None:
    async with (
        listening() as (url, _),
        ModelServer(
            [
                Reply(
                    Call("a__query_papers", {"topic": "x"}, id="call_1"),
                    Call("b__query_papers", {"topic": "y"}, id="call_2"),
                ),
                "Done.",
            ]
        ) as model,
        serving(model.url, **LOCAL) as api,
    ):
        tools = [
            {
                "type": "mcp",
                "server_label": label,
                "server_url": url,
                "require_approval": "never",
                "allowed_tools": ["query_papers"],
            }
            for label in "ab"
        ]
        answer = await api.create(tools=tools)
    calls = [item for item in answer.response["output"] if item["type"] == "mcp_call"]
    assert [(c["server_label"], c["output"]) for c in calls] == [
        ("a", "3 papers about x"),
        ("b", "3 papers about y"),
    ]


def _said(*items: Json | str) -> Any:
    """A model server that speaks Responses and gives an item an answer."""
    scripts = [responded(_message(i) if isinstance(i, str) else i) for i in items]
    return lambda request: scripts[request.number - 1](request)


def _message(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


@pytest.mark.requirement("mcp:upstream")
@pytest.mark.parametrize("native", [True, False])
async def test_a_server_that_speaks_responses(native: bool) -> None:
    """It is given the declaration where it runs MCP itself, else the functions."""
    flags: Json = {"hosted_tools": "all" if native else []}
    options = {"protocol": "responses", "profile": "custom", "flags": flags}
    called = {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "papers__query_papers",
        "arguments": '{"topic":"bridges"}',
    }
    async with (
        listening() as (url, _),
        ModelServer(_said(called, "Three.") if not native else _said("Hi.")) as model,
        serving(model.url, upstream_options=options, **LOCAL) as api,
    ):
        tool = {
            "type": "mcp",
            "server_label": "papers",
            "server_url": url,
            "require_approval": "never",
        }
        answer = await api.create(tools=[tool])
        [*sent] = [request.json["tools"] for request in model.requests if request.method == "POST"]
    if native:
        assert sent[0] == [tool]
        assert types_of(answer) == ["message"]
    else:
        assert "papers__query_papers" in [tool["name"] for tool in sent[0]]
        assert types_of(answer) == ["mcp_list_tools", "mcp_call", "message"]


@pytest.mark.requirement("mcp:configured")
async def test_a_history_does_not_say_what_the_operators_server_may_do() -> None:
    """The list that came along says that the tool only reads; the server cannot be asked."""
    section = {
        "label": "papers",
        "command": "/no/such/program",
        "require_approval": {"never": {"read_only": True}},
    }
    listed = {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": "papers",
        "tools": [
            {
                "name": "query_papers",
                "description": "",
                "input_schema": {"type": "object"},
                "annotations": {"read_only": True},
            }
        ],
    }
    asked = {"type": "message", "role": "user", "content": "How many?"}
    tool = {"type": "mcp", "server_label": "papers", "require_approval": "never"}
    async with (
        ModelServer([query()]) as model,
        serving(model.url, mcp_servers=[section]) as api,
    ):
        answer = await api.create(tools=[tool], input=[listed, asked], store=False)
    assert types_of(answer) == ["mcp_approval_request"]


@pytest.mark.requirement("mcp:resources")
@pytest.mark.parametrize("stored", [True, False])
async def test_the_next_turn_offers_the_same(stored: bool) -> None:
    """A server's resources are not in its list, and its connection may be gone meanwhile."""
    async with in_front_of(["One.", "Two."], tools={"mcp": MCP | {"idle_seconds": 0.05}}) as (
        api,
        model,
        tool,
    ):
        first = await api.create(tools=[tool])
        async with asyncio.timeout(10):
            while pool_of(api).health():
                await asyncio.sleep(0.01)
        more: Json = {"previous_response_id": first.response["id"]}
        if not stored:
            asked = {"type": "message", "role": "user", "content": "And?"}
            more = {"input": [*first.response["output"], asked], "store": False}
        second = await api.create(tools=[tool], **more)
        offered = [chat.json["tools"] for chat in model.chats]
    assert types_of(second) == ["message"]
    assert offered[0] == offered[1]
    assert "papers__read_resource" in [t["function"]["name"] for t in offered[0]]


@pytest.mark.requirement("mcp:health")
async def test_what_clients_bring_is_not_in_the_health() -> None:
    """Labels, connectors and credentials of requests would be series without end, for all to see."""
    async with listening() as (url, _), ModelServer(lambda _: Reply("Hi.")) as model:
        tools = {"mcp": {"connectors": {"connector_papers": url}}}
        own = {"label": "own", "url": url}
        async with serving(model.url, tools=tools, mcp_servers=[own]) as api:
            for i in range(3):
                for place in ({"connector_id": "connector_papers"}, {}):
                    label = "own" if not place else f"made-up-{i}"
                    tool = {"type": "mcp", "server_label": label, "authorization": f"t{i}", **place}
                    answer = await api.create(tools=[tool])
                    assert answer.status == 200, answer.body
            await api.create(tools=[{"type": "mcp", "server_label": "own"}])
            ready = await api.send("GET", "/ready")
            metrics = await api.send("GET", "/metrics")
    assert [health["name"] for health in ready.json["tools"]] == ["own"]
    assert metrics.body.count(b"bascule_tool_dependency_connected{") == 1
    assert b"made-up" not in metrics.body


@pytest.mark.requirement("family:additional:hoisted")
async def test_a_server_among_additional_tools() -> None:
    """It works as in the list, its credentials are kept nowhere, and declared again it brings new ones."""
    secret = "tok-51fa2"
    async with in_front_of([query(), "Three.", query(), "Three."]) as (api, model, tool):
        lite = {
            "type": "additional_tools",
            "role": "developer",
            "tools": [{**tool, "headers": {"x-token": secret}, "authorization": secret}],
        }
        said = {"role": "user", "content": "Hi"}
        first = await api.create(input=[lite, said])
        assert types_of(first) == ["mcp_list_tools", "mcp_call", "message"]
        id_ = first.response["id"]
        row = await api.engine.store.response("", id_)
        assert row is not None
        assert secret.encode() not in row.state + row.snapshot
        assert b"papers" in row.state
        assert secret.encode() not in first.body
        second = await api.create(input=[lite, said], previous_response_id=id_)
        assert types_of(second) == ["mcp_call", "message"]
        assert len(model.chats) == 4
        # Of the two declarations the one with credentials is asked, and nobody else.
        asked = pool_of(api).health(shared=False)
        assert [health.connects for health in asked] == [1]
