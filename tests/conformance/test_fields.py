"""What the fields do that are passed on to the model's server, and the options of a stream."""

from typing import Any

import pytest

from bascule.testing import Call, Chunk, Reply, Text, http_json
from tests.conformance.asking import WEATHER, gateway
from tests.conformance.stream import check_answer, check_stream
from tests.serving import Answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LOGPROBS = "message.output_text.logprobs"
PASSED: Json = {
    "prompt_cache_key": "thread-1",
    "prompt_cache_retention": "24h",
    "safety_identifier": "s" * 128,
    "user": "someone",
    "presence_penalty": -2,
    "frequency_penalty": 2,
}


def ignored(answer: Answer) -> list[str]:
    return [name for name in answer.headers.get("x-bascule-ignored", "").split(",") if name]


# --- passed on, and shown


@pytest.mark.requirement("request:passed:shown")
@pytest.mark.parametrize("stream", [False, True])
async def test_fields_for_the_server_are_passed_on_and_shown(stream: bool) -> None:
    async with gateway() as (api, model):
        answer = await api.create(**PASSED, stream=stream)
        sent = model.chats[0].json
    response = check_stream(answer) if stream else check_answer(answer)
    assert {name: sent[name] for name in PASSED} == PASSED
    assert {name: response[name] for name in PASSED} == PASSED
    assert ignored(answer) == []


@pytest.mark.requirement("request:passed:shown")
async def test_a_server_that_does_not_know_them_is_not_told() -> None:
    names = ["prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"]
    async with gateway(upstream_options={"profile": "vllm"}) as (api, model):
        answer = await api.create(**PASSED, service_tier="flex")
        sent = model.chats[0].json
    response = check_answer(answer)
    assert ignored(answer) == [*names, "service_tier"]
    assert not sent.keys() & {*names, "service_tier"}
    assert {name: response[name] for name in PASSED} == PASSED
    assert response["service_tier"] == "default"


@pytest.mark.requirement("request:passed:shown")
@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("prompt_cache", ["prompt_cache_key", "prompt_cache_retention"]),
        ("end_user", ["safety_identifier", "user"]),
        ("service_tier", ["service_tier"]),
    ],
)
async def test_each_flag_is_about_its_own_fields(flag: str, names: list[str]) -> None:
    async with gateway(upstream_options={"flags": {flag: False}}) as (api, model):
        answer = await api.create(**PASSED, service_tier="flex")
        sent = model.chats[0].json
    assert ignored(answer) == names
    assert {*PASSED, "service_tier"} - sent.keys() == set(names)


@pytest.mark.requirement("request:passed:limits")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("presence_penalty", -2.1, "decimal_below_min_value"),
        ("frequency_penalty", 2.1, "decimal_above_max_value"),
        ("top_logprobs", -1, "integer_below_min_value"),
        ("top_logprobs", 21, "integer_above_max_value"),
        ("top_logprobs", 1.5, "invalid_type"),
        ("prompt_cache_key", "k" * 65, "string_above_max_length"),
        ("safety_identifier", "s" * 129, "string_above_max_length"),
        ("prompt_cache_retention", "forever", "invalid_value"),
        ("service_tier", "best", "invalid_value"),
        ("truncation", "some", "invalid_value"),
        ("user", 7, "invalid_type"),
        ("stream_options", True, "invalid_type"),
        ("input", "x" * 10_485_761, "string_above_max_length"),
        ("input", "é" * 10_485_761, "string_above_max_length"),
    ],
)
async def test_their_limits(field: str, value: Any, code: str) -> None:
    async with gateway() as (api, model):
        answer = await api.create(**{field: value})
        assert model.chats == []
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (field, code)


@pytest.mark.requirement("request:passed:limits")
async def test_the_longest_input_is_taken() -> None:
    async with gateway() as (api, model):
        check_answer(await api.create(input='"' * 10_485_760))
        assert len(model.chats[0].messages[0]["content"]) == 10_485_760


@pytest.mark.requirement("request:upstream-fields:refused")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "field", ["moderation", "image", "access_programs", "prompt_cache_options", "multi_agent"]
)
async def test_what_only_responses_servers_know_is_refused_on_chat(
    field: str, stream: bool
) -> None:
    async with gateway() as (api, model):
        answer = await api.create(**{field: {"model": "m"}}, stream=stream)
        assert model.chats == []
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (field, "unsupported_parameter")


@pytest.mark.requirement("request:unknown:tolerated")
async def test_unknown_members_of_known_fields_are_named() -> None:
    async with gateway() as (api, _):
        answer = await api.create(
            text={"shape": 1},
            reasoning={"depth": 1, "context": "all_turns", "mode": "standard"},
            stream=True,
            stream_options={"include_usage": True},
        )
    response = check_stream(answer)
    assert ignored(answer) == [
        "text.shape",
        "reasoning.depth",
        "stream_options.include_usage",
        "reasoning.context",
    ]
    shown = {"effort": None, "summary": None, "context": "all_turns", "mode": "standard"}
    assert response["reasoning"] == shown


# --- the tier


def _tier(*used: Any) -> Reply:
    delta = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}
    return Reply(*(Chunk({"service_tier": tier, "choices": [delta]}) for tier in used))


@pytest.mark.requirement("response:service-tier")
@pytest.mark.parametrize(
    ("used", "shown"),
    [
        ("flex", "flex"),
        ("fast", "priority"),
        ("default", "default"),
        (None, "default"),
        ("", "default"),
        (7, "default"),
    ],
)
async def test_the_tier_is_the_one_that_the_server_used(used: Any, shown: str) -> None:
    async with gateway(_tier(used)) as (api, model):
        answer = await api.create(stream=True, service_tier="fast")
        assert model.chats[0].json["service_tier"] == "fast"
        response = check_stream(answer)
        stored = await api.send("GET", f"/v1/responses/{response['id']}")
    assert response["service_tier"] == shown
    assert answer.events[0]["response"]["service_tier"] == "default"
    assert stored.json["service_tier"] == shown


@pytest.mark.requirement("response:service-tier")
async def test_the_first_tier_that_is_said_counts() -> None:
    async with gateway(_tier(None, "flex", "scale", None)) as (api, _):
        response = check_stream(await api.create(stream=True))
    assert response["service_tier"] == "flex"


@pytest.mark.requirement("response:service-tier")
async def test_the_tier_of_a_whole_answer() -> None:
    message = {
        "index": 0,
        "message": {"role": "assistant", "content": "Hi"},
        "finish_reason": "stop",
    }
    body = {"id": "c", "object": "chat.completion", "choices": [message], "service_tier": "flex"}
    async with gateway(http_json(200, body)) as (api, _):
        response = check_answer(await api.create())
    assert response["service_tier"] == "flex"


# --- log probabilities


def token(text: str, **changes: Any) -> Json:
    entry: Json = {"token": text, "logprob": -0.25, "bytes": list(text.encode())}
    return {**entry, "top_logprobs": [entry], **changes}


@pytest.mark.requirement("response:logprobs")
@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_of_the_text(stream: bool) -> None:
    reply = Reply(Text(["Hel", "lo"], logprobs=True))
    async with gateway(reply) as (api, model):
        answer = await api.create(stream=stream, top_logprobs=3, include=[LOGPROBS])
        sent = model.chats[0].json
    response = check_stream(answer) if stream else check_answer(answer)
    expected = [token("Hel"), token("lo")]
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 3)
    assert response["top_logprobs"] == 3
    assert response["output"][0]["content"][0]["logprobs"] == expected
    if stream:
        deltas = answer.of_type("output_text.delta")
        assert [event["logprobs"] for event in deltas] == [[entry] for entry in expected]
        assert answer.of_type("output_text.done")[0]["logprobs"] == expected
        assert answer.of_type("content_part.done")[0]["part"]["logprobs"] == expected


def _choice(delta: Json, *tokens: Json) -> Chunk:
    logprobs = {"content": list(tokens)} if tokens else None
    return Chunk({"choices": [{"index": 0, "delta": delta, "logprobs": logprobs}]})


@pytest.mark.requirement("response:logprobs")
async def test_tokens_without_text_of_their_own_join_the_text() -> None:
    half = {"token": "\\xf0", "logprob": -1, "bytes": [240]}
    reply = Reply(
        _choice({"reasoning_content": "Hm"}, token("Hm")),
        _choice({"content": ""}, half),
        _choice({"content": "🙂"}, {"token": "🙂", "logprob": -2}),
        _choice({"content": ""}, half),
        Call("get_weather", {"city": "Oslo"}),
    )
    async with gateway(reply) as (api, _):
        answer = await api.create(stream=True, include=[LOGPROBS], tools=[WEATHER])
    message = next(i for i in check_stream(answer)["output"] if i["type"] == "message")
    empty: Json = {**half, "top_logprobs": []}
    full = {"token": "🙂", "logprob": -2, "bytes": list("🙂".encode()), "top_logprobs": []}
    assert message["content"][0]["logprobs"] == [empty, full, empty]
    assert answer.of_type("output_text.delta")[0]["logprobs"] == [empty, full]


@pytest.mark.requirement("response:logprobs:gated")
@pytest.mark.parametrize("stream", [False, True])
async def test_without_include_there_are_none(stream: bool) -> None:
    async with gateway(Reply(Text("Hi", logprobs=True))) as (api, model):
        answer = await api.create(stream=stream, top_logprobs=3)
        assert not model.chats[0].json.keys() & {"logprobs", "top_logprobs"}
    response = check_stream(answer) if stream else check_answer(answer)
    assert response["output"][0]["content"][0]["logprobs"] == []
    assert ignored(answer) == ["top_logprobs"]


@pytest.mark.requirement("response:logprobs:gated")
async def test_a_server_without_logprobs_is_not_asked() -> None:
    async with gateway(upstream_options={"flags": {"logprobs": False}}) as (api, model):
        answer = await api.create(include=["reasoning.encrypted_content", LOGPROBS], top_logprobs=1)
        assert not model.chats[0].json.keys() & {"logprobs", "top_logprobs"}
    assert ignored(answer) == ["include[1]", "top_logprobs"]


# --- obfuscation

ALL_DELTAS = Reply("Hello", Call("get_weather", {"city": "Oslo"}), Call("run", {"input": "1"}))


@pytest.mark.requirement("stream:obfuscation")
async def test_deltas_are_padded_when_it_is_asked_for() -> None:
    words = " ".join("a" * (i % 7 + 1) for i in range(60))
    options = {"include_obfuscation": True}
    async with gateway(Reply(Text(words, chunks="words"))) as (api, _):
        answer = await api.create(stream=True, stream_options=options)
    check_stream(answer)
    deltas = answer.of_type("output_text.delta")
    assert "".join(event["delta"] for event in deltas) == words
    assert all(isinstance(event["obfuscation"], str) for event in deltas)
    assert len({event["obfuscation"] for event in deltas}) > 30
    frames = [block for block in answer.body.split(b"\n\n") if b"output_text.delta" in block]
    assert {(len(frame) + 2) % 32 for frame in frames} == {0}
    others = [event for event in answer.events if not event["type"].endswith(".delta")]
    assert not [event for event in others if "obfuscation" in event]


@pytest.mark.requirement("stream:obfuscation")
async def test_every_kind_of_delta_is_padded() -> None:
    tools = [WEATHER, {"type": "custom", "name": "run"}]
    async with gateway(ALL_DELTAS) as (api, _):
        answer = await api.create(
            stream=True, tools=tools, stream_options={"include_obfuscation": True}
        )
    check_stream(answer)
    deltas = [event for event in answer.events if event["type"].endswith(".delta")]
    assert len({event["type"] for event in deltas}) == 3
    assert [event for event in deltas if "obfuscation" not in event] == []


@pytest.mark.requirement("stream:obfuscation")
@pytest.mark.parametrize("options", [None, {}, {"include_obfuscation": False}])
async def test_no_padding_unless_it_is_asked_for(options: Json | None) -> None:
    async with gateway(ALL_DELTAS) as (api, _):
        answer = await api.create(stream=True, stream_options=options, tools=[WEATHER])
    assert b"obfuscation" not in answer.body


@pytest.mark.requirement("request:stream-options")
@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream": None}])
async def test_stream_options_without_a_stream_are_a_400(fields: Json) -> None:
    async with gateway() as (api, model):
        answer = await api.create(stream_options={"include_obfuscation": True}, **fields)
        assert model.chats == []
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == ("stream_options", "invalid_value")
