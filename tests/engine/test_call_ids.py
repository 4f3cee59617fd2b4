"""Call ids of servers that begin anew with each answer."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply, weak
from tests.conformance.asking import RUN, TIME, WEATHER, gateway, output_of, text_of
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import Answer, serving

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("weak:call-ids")]

Json = dict[str, Any]
TOOLS: list[Json] = [WEATHER, TIME, RUN]

both_ways = pytest.mark.parametrize("stream", [True, False])


def checked(answer: Answer, *, stream: bool) -> Json:
    return check_stream(answer) if stream else check_answer(answer)


def weather(city: str) -> Reply:
    return Reply(Call("get_weather", {"city": city}, id="call_0", split=2))


def paired(messages: list[Json]) -> dict[str, Any]:
    """What each call was answered with; ids are unique and each is answered once."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    results = [(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"]
    assert len(set(ids)) == len(ids)
    assert [id_ for id_, _ in results] == ids
    return dict(results)


@both_ways
@pytest.mark.parametrize("stored", [True, False])
async def test_an_id_of_an_earlier_turn_is_not_given_again(stored: bool, stream: bool) -> None:
    script = [weather("Oslo"), weather("Rome"), "Rain here, sun there."]
    async with gateway(script) as (api, model):
        common: Json = {"stream": stream, "tools": TOOLS, "store": stored}
        history: list[Json] = [{"role": "user", "content": "Oslo? Then Rome?"}]
        body: Json = {"input": history}
        seen: list[str] = []
        for said in ("rain", "sun"):
            response = checked(await api.create(**common, **body), stream=stream)
            (call,) = response["output"]
            seen.append(call["call_id"])
            history += [call, output_of(call, said)]
            body = {"input": history}
            if stored:
                answer = [output_of(call, said)]
                body = {"input": answer, "previous_response_id": response["id"]}
        last = checked(await api.create(**common, **body), stream=stream)
        assert text_of(last) == "Rain here, sun there."
        results = paired(model.chats[-1].messages)
    assert seen[0] == "call_0"
    assert len(set(seen)) == 2
    assert results == dict(zip(seen, ["rain", "sun"], strict=True))


@both_ways
async def test_an_id_of_an_earlier_round_is_not_given_again(stream: bool) -> None:
    executor = LookupExecutor(found)
    rounds = [Reply(Call("lookup", {"query": q}, id="call_0")) for q in ("a", "b", "c")]
    script = [*rounds, Reply(Call("get_weather", {"city": "Oslo"}, id="call_0")), "Done."]
    async with ModelServer(script) as model, serving(model.url, adjust=install(executor)) as api:
        tools: list[Json] = [TOOL, WEATHER]
        # Not by the general check: the item type `lookup_call` is the test's own.
        first = (await api.create(stream=stream, tools=tools)).response
        call = first["output"][-1]
        more: Json = {"previous_response_id": first["id"], "input": [output_of(call, "rain")]}
        assert text_of((await api.create(stream=stream, tools=tools, **more)).response) == "Done."
        results = paired(model.chats[-1].messages)
    assert [c.call_id for c in executor.calls] == list(results)[:3]
    assert list(results.values()) == [
        'found for {"query":"a"}',
        'found for {"query":"b"}',
        'found for {"query":"c"}',
        "rain",
    ]
    assert call["call_id"] == list(results)[3]


@both_ways
async def test_calls_of_all_kinds_in_one_answer(stream: bool) -> None:
    calls = [
        Call("get_weather", {"city": "Oslo"}, id="0"),
        Call("run", {"input": "1 + 1"}, id="0"),
        Call("notes__read", {"city": "x"}, id="0"),
        Call("made_up", {}, id="0"),
    ]
    member = {**TIME, "name": "read"}
    tools = [*TOOLS, {"type": "namespace", "name": "notes", "tools": [member]}]
    async with gateway([Reply(*calls), "Done."]) as (api, model):
        # Not by the general check: Open Responses knows no namespaces.
        first = (await api.create(stream=stream, tools=tools)).response
        outputs = [output_of(call, f"output {i}") for i, call in enumerate(first["output"])]
        more: Json = {"previous_response_id": first["id"], "input": outputs}
        assert text_of((await api.create(stream=stream, tools=tools, **more)).response) == "Done."
        results = paired(model.chats[-1].messages)
    assert [call["type"] for call in first["output"]] == [
        "function_call",
        "custom_tool_call",
        "function_call",
        "function_call",
    ]
    assert list(results.values()) == [f"output {i}" for i in range(4)]


@both_ways
async def test_ids_that_are_unique_stay_the_servers(stream: bool) -> None:
    server = weak.vllm([Reply(Call("get_weather", {"city": "Oslo"}, id="chatcmpl-tool-1"))])
    async with server as model, serving(model.url) as api:
        answer = checked(await api.create(stream=stream, tools=TOOLS), stream=stream)
    assert answer["output"][0]["call_id"] == "chatcmpl-tool-1"
