"""Reasoning: shown, sealed, and given back to the model it came from."""

from pathlib import Path

import pytest

from bascule.testing import Call, ModelServer, Reasoning, Reply
from tests.serving import serving

pytestmark = pytest.mark.anyio

DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "sig", "id": "r1"}]
INCLUDE = ["reasoning.encrypted_content"]
ASK = {"type": "message", "role": "user", "content": "Go on"}
VLLM = {"profile": "vllm", "flags": {"reasoning_replay": "reasoning_content"}}


async def test_reasoning_text_is_shown_raw_by_default() -> None:
    async with ModelServer([Reply(Reasoning("Hm. So.", chunks=2), "Yes.")]) as model:  # noqa: SIM117
        async with serving(model.url) as api:
            answer = await api.create(stream=True)
    assert answer.types[2:9] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    item = answer.response["output"][0]
    assert item["content"] == [{"type": "reasoning_text", "text": "Hm. So."}]
    assert item["summary"] == []
    assert "encrypted_content" not in item


async def test_reasoning_text_is_a_summary_for_a_client_that_asks_for_one() -> None:
    async with ModelServer([Reply(Reasoning("Hm."), "Yes.")]) as model, serving(model.url) as api:
        answer = await api.create(stream=True, reasoning={"summary": "auto"})
        assert "reasoning" not in model.chats[0].json
    assert answer.types[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    item = answer.response["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert "content" not in item


async def test_sealed_reasoning_returns_to_the_model_without_stored_state() -> None:
    replies = [Reply(Reasoning("Hm."), Call("f", {}, id="call_1")), Reply("Yes.")]
    tools = [{"type": "function", "name": "f"}]
    async with (
        ModelServer(replies) as model,
        serving(model.url, upstream_options=VLLM) as api,
    ):
        first = await api.create(
            store=False, include=INCLUDE, tools=tools, reasoning={"summary": "auto"}
        )
        items = first.response["output"]
        sealed = items[0]["encrypted_content"]
        assert "Hm." not in sealed
        output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
        await api.create(input=[ASK, *items, output], store=False, tools=tools)
        sent = model.chats[1].json["messages"]
    assert sent[1]["reasoning_content"] == "Hm."
    assert sent[1]["tool_calls"][0]["id"] == "call_1"


async def test_an_upstreams_own_records_return_to_the_same_upstream_only() -> None:
    options = {"flags": {"reasoning_replay": "reasoning_details"}}
    reply = Reply(Reasoning("Hm.", details=DETAILS), "Yes.")
    async with (
        ModelServer([reply, Reply("1"), Reply("2")]) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        first = await api.create(store=False, include=INCLUDE)
        items = [ASK, *first.response["output"], ASK]
        await api.create(input=items, store=False)
        await api.create(input=items, store=False, model="another")
        sent = [chat.json["messages"][1] for chat in model.chats[1:]]
    assert sent[0]["reasoning_details"] == DETAILS
    assert "reasoning_details" not in sent[1]


async def test_stored_reasoning_needs_no_seal() -> None:
    options = {"flags": {"reasoning_replay": "reasoning_details"}}
    reply = Reply(Reasoning("Hm.", details=DETAILS), "Yes.")
    async with (
        ModelServer([reply, Reply("1")]) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        first = (await api.create()).response
        await api.create(previous_response_id=first["id"])
        sent = model.chats[1].json["messages"]
    assert sent[1] == {"role": "assistant", "content": "Yes.", "reasoning_details": DETAILS}


@pytest.mark.parametrize("blob", ["gAAAAABp-opaque", "bsc1.AAAA", "bsc1.%%%", ""])
async def test_a_blob_that_does_not_open_is_left_out_with_a_warning(blob: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": blob}
    async with ModelServer(["Yes."]) as model, serving(model.url, upstream_options=VLLM) as api:
        answer = await api.create(input=[ASK, item], store=False)
        raw = model.chats[0].body
    assert answer.status == 200
    assert "encrypted_content" in answer.headers["x-bascule-warnings"]
    assert blob == "" or blob.encode() not in raw


async def test_servers_that_do_not_want_reasoning_back_do_not_get_it() -> None:
    async with (
        ModelServer([Reply(Reasoning("Hm."), "Yes."), Reply("1")]) as model,
        serving(model.url, upstream_options={"profile": "openai"}) as api,
    ):
        first = (await api.create()).response
        await api.create(previous_response_id=first["id"])
        sent = model.chats[1].json["messages"]
    assert sent[1] == {"role": "assistant", "content": "Yes."}


async def test_a_key_is_made_once_and_kept_beside_the_state(tmp_path: Path) -> None:
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    reply = Reply(Reasoning("Hm."), "Yes.")
    async with ModelServer([reply, Reply("1")]) as model:
        async with serving(model.url, state=state, upstream_options=VLLM) as api:
            items = (await api.create(store=False, include=INCLUDE)).response["output"]
        async with serving(model.url, state=state, upstream_options=VLLM) as api:
            answer = await api.create(input=[ASK, *items, ASK], store=False)
        sent = model.chats[1].json["messages"]
    assert "x-bascule-warnings" not in answer.headers
    assert sent[1]["reasoning_content"] == "Hm."
    assert (tmp_path / "sealing.key").stat().st_mode & 0o777 == 0o600


async def test_an_older_key_still_opens_what_a_newer_one_no_longer_seals() -> None:
    old, new = "00" * 32, "11" * 32
    async with ModelServer([Reply(Reasoning("Hm."), "Yes."), Reply("1")]) as model:
        security = {"keys": [old]}
        async with serving(model.url, security=security, upstream_options=VLLM) as api:
            items = (await api.create(store=False, include=INCLUDE)).response["output"]
        security = {"keys": [new, old]}
        async with serving(model.url, security=security, upstream_options=VLLM) as api:
            await api.create(input=[ASK, *items, ASK], store=False)
        sent = model.chats[1].json["messages"]
    assert sent[1]["reasoning_content"] == "Hm."
