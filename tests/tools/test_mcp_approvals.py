"""Calls of MCP tools that have to be approved, with stored state and without."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply
from tests.services.mcp.servers import listening
from tests.serving import serving
from tests.tools.mcp_gateway import (
    CONFIGURED,
    LOCAL,
    in_front_of,
    only,
    outputs,
    query,
    types_of,
)

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.mark.requirement("mcp:approval")
@pytest.mark.parametrize("policy", [None, "always", {"never": {"tool_names": ["insert_paper"]}}])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_approval(policy: Any, stored: bool, stream: bool) -> None:
    async with in_front_of([query(), "Three.", "Welcome."]) as (api, model, tool):
        tool["require_approval"] = policy
        if policy is None:
            del tool["require_approval"]
        first = await api.create(tools=[tool], stream=stream, store=stored)
        request = only(first, "mcp_approval_request")
        response = {
            "type": "mcp_approval_response",
            "approval_request_id": request["id"],
            "approve": True,
        }
        if stored:
            more: Json = {"previous_response_id": first.response["id"], "input": [response]}
        else:
            more = {"input": [*first.response["output"], response], "store": False}
        second = await api.create(tools=[tool], stream=stream, **more)
        said = outputs(model, 1)
        third = None
        if not stored:
            again = {"type": "message", "role": "user", "content": "Thanks."}
            history = [*more["input"], *second.response["output"], again]
            third = await api.create(tools=[tool], store=False, input=history)
    assert first.response["status"] == "completed"
    assert types_of(first) == ["mcp_list_tools", "mcp_approval_request"]
    assert request == {
        "id": request["id"],
        "type": "mcp_approval_request",
        "arguments": '{"topic":"bridges"}',
        "name": "query_papers",
        "server_label": "papers",
    }
    assert types_of(second) == ["mcp_call", "message"]
    call = only(second, "mcp_call")
    assert call["approval_request_id"] == request["id"]
    assert call["output"] == "3 papers about bridges"
    assert said == ["3 papers about bridges"]
    if third is not None:  # it is history now, and does not run again
        assert (third.status, types_of(third)) == (200, ["message"])


@pytest.mark.requirement("mcp:approval:refused")
@pytest.mark.parametrize("stored", [True, False])
async def test_a_refusal_reaches_the_model(stored: bool) -> None:
    async with in_front_of([query(), "Then not."]) as (api, model, tool):
        del tool["require_approval"]
        first = await api.create(tools=[tool], store=stored)
        said: Json = {
            "type": "mcp_approval_response",
            "approval_request_id": only(first, "mcp_approval_request")["id"],
            "approve": False,
            "reason": "Too costly.",
        }
        more: Json = {"previous_response_id": first.response["id"], "input": [said]}
        if not stored:
            more = {"input": [*first.response["output"], said], "store": False}
        second = await api.create(tools=[tool], **more)
        heard = outputs(model, 1)
    assert types_of(second) == ["message"]
    assert heard == ["The user did not approve this call. Too costly."]


@pytest.mark.requirement("mcp:approval:wrong")
async def test_wrong_approvals() -> None:
    async with in_front_of([query(), "Three.", "More."]) as (api, _, tool):
        del tool["require_approval"]
        first = await api.create(tools=[tool])
        id_ = only(first, "mcp_approval_request")["id"]
        before: Json = {"previous_response_id": first.response["id"], "tools": [tool]}
        yes = {"type": "mcp_approval_response", "approval_request_id": id_, "approve": True}
        unknown = {**yes, "approval_request_id": "mcpr_unknown"}
        left_out = await api.create(**before, input="Hello?")
        twice = await api.create(**before, input=[yes, yes])
        strange = await api.create(**before, input=[yes, unknown])
        undeclared = await api.create(previous_response_id=first.response["id"], input=[yes])
        done = await api.create(**before, input=[yes])
        late = await api.create(previous_response_id=done.response["id"], tools=[tool], input=[yes])
        alone = await api.create(tools=[tool], input=[unknown])
    told = [
        (a.status, a.error["param"]) for a in (left_out, twice, strange, undeclared, late, alone)
    ]
    assert told == [
        (400, "input"),
        (400, "input[1]"),
        (400, "input[1].approval_request_id"),
        (400, "tools"),
        (400, "input[0].approval_request_id"),
        (400, "input[0].approval_request_id"),
    ]
    assert (
        left_out.error["message"] == f"No approval response found for the approval request {id_}."
    )
    assert done.status == 200


@pytest.mark.requirement("mcp:approval:restart")
async def test_an_approval_after_a_restart_and_by_another_key(tmp_path: Any) -> None:
    sections: Json = {
        "state": {"url": f"sqlite:///{tmp_path}/state.db"},
        "security": {"keys": ["00" * 32]},
        "server": {"api_keys": ["one", "two"]},
        **LOCAL,
    }
    one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
    async with listening() as (url, _), ModelServer([query(), "Three."]) as model:
        tool = {"type": "mcp", "server_label": "papers", "server_url": url}
        async with serving(model.url, **sections) as api:
            first = await api.create(one, tools=[tool])
        yes: Json = {
            "type": "mcp_approval_response",
            "approval_request_id": only(first, "mcp_approval_request")["id"],
            "approve": True,
        }
        more: Json = {
            "previous_response_id": first.response["id"],
            "tools": [tool],
            "input": [yes],
        }
        async with serving(model.url, **sections) as api:
            other = await api.create(two, **more)
            second = await api.create(one, **more)
    assert (other.status, other.error["code"]) == (400, "previous_response_not_found")
    assert types_of(second) == ["mcp_call", "message"]


@pytest.mark.requirement("mcp:approval")
@pytest.mark.parametrize("stored", [True, False])
async def test_several_approvals_beside_a_message(stored: bool) -> None:
    """Each output follows its call at once, whatever else the input says."""
    both = Reply(*query("a", "call_1").steps, *query("b", "call_2").steps)
    async with in_front_of([both, "One."]) as (api, model, tool):
        del tool["require_approval"]
        first = await api.create(tools=[tool], store=stored)
        asked = [i for i in first.response["output"] if i["type"] == "mcp_approval_request"]
        said: list[Json] = [
            {
                "type": "mcp_approval_response",
                "approval_request_id": request["id"],
                "approve": approve,
            }
            for request, approve in zip(asked, (False, True), strict=True)
        ]
        said.append({"type": "message", "role": "user", "content": "And hurry."})
        more: Json = {"previous_response_id": first.response["id"], "input": said}
        if not stored:
            more = {"input": [*first.response["output"], *said], "store": False}
        second = await api.create(tools=[tool], **more)
        sent = model.chats[1].json["messages"]
    assert types_of(second) == ["mcp_call", "message"]
    assert only(second, "mcp_call")["approval_request_id"] == asked[1]["id"]
    calls = [m for m in sent if m["role"] == "assistant"]
    wanted = [call["id"] for message in calls for call in message["tool_calls"]]
    roles = [message["role"] for message in sent]
    assert roles[-1] == "user"
    assert "user" not in roles[roles.index("assistant") : -1]
    answers = {m["tool_call_id"]: m["content"] for m in sent if m["role"] == "tool"}
    assert list(answers) == wanted
    assert list(answers.values()) == ["The user did not approve this call.", "3 papers about b"]


@pytest.mark.requirement("mcp:approval", "mcp:resources")
@pytest.mark.parametrize("stored", [True, False])
async def test_reading_a_resource_is_approved_like_a_call(stored: bool) -> None:
    reading = Reply(Call("papers__read_resource", {"uri": "papers://index"}, id="call_1"))
    async with in_front_of([reading, "Three."]) as (api, model, tool):
        del tool["require_approval"]
        first = await api.create(tools=[tool], store=stored)
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": only(first, "mcp_approval_request")["id"],
            "approve": True,
        }
        more: Json = {"previous_response_id": first.response["id"], "input": [yes]}
        if not stored:
            more = {"input": [*first.response["output"], yes], "store": False}
        else:
            missing = await api.create(tools=[tool], previous_response_id=first.response["id"])
            assert "No approval response found" in missing.error["message"]
        second = await api.create(tools=[tool], **more)
        said = outputs(model, 1)
    assert types_of(second) == ["mcp_call", "message"]
    assert said == ["[resource papers://index]\none, two, three"]


@pytest.mark.requirement("mcp:approval:wrong")
async def test_an_approval_for_a_server_that_is_not_configured_any_more(tmp_path: Any) -> None:
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    async with ModelServer([query(), "Three."]) as model:
        async with serving(model.url, state=state, mcp_servers=[CONFIGURED]) as api:
            first = await api.create(tools=[{"type": "mcp", "server_label": "papers"}])
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": only(first, "mcp_approval_request")["id"],
            "approve": True,
        }
        async with serving(model.url, state=state) as api:
            answer = await api.create(previous_response_id=first.response["id"], input=[yes])
    assert (answer.status, answer.error["param"]) == (400, "tools")
