"""Bytes and headers: what every request and answer has in common."""

import msgspec
import pytest

from bascule.testing import Reply, Text
from tests.conformance.asking import gateway
from tests.conformance.stream import check_answer, check_stream

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("http:request:json")
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"hello"', b"null", b'{"model":"\xff"}'])
async def test_a_body_that_is_no_json_object_is_a_400(body: bytes) -> None:
    async with gateway() as (api, model):
        answer = await api.send("POST", "/v1/responses", body)
        assert model.chats == []
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.requirement("http:reply:json")
async def test_a_whole_answer_is_json() -> None:
    async with gateway() as (api, _):
        answer = await api.create()
    check_answer(answer)
    assert answer.headers["content-length"] == str(len(answer.body))


@pytest.mark.requirement(
    "http:stream:content-type",
    "http:stream:json-data",
    "http:stream:event-line",
    "http:stream:frames",
    "http:stream:one-write",
    "http:stream:done-mark",
)
async def test_a_stream_is_events_of_json() -> None:
    async with gateway(Reply(Text("Hello there, how are you?", chunks="words"))) as (api, _):
        answer = await api.create(stream=True)
    check_stream(answer)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answer.headers
    for block in answer.body.split(b"\n\n")[:-1]:
        event, data = block.split(b"\n")
        decoded = msgspec.json.decode(data.removeprefix(b"data: "))
        assert event == b"event: " + decoded["type"].encode()
    assert b"[DONE]" not in answer.body


@pytest.mark.requirement("http:stream:done-mark")
async def test_a_switch_adds_the_done_mark() -> None:
    async with gateway(server={"sse_done": True}) as (api, _):
        answer = await api.create(stream=True)
        failed = await api.create(stream=True, model="")
    check_stream(answer, done=True)
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")
    assert failed.headers["content-type"] == "application/json"


@pytest.mark.requirement("http:auth:required")
@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}]
)
async def test_a_missing_or_wrong_key_is_a_401(headers: dict[str, str]) -> None:
    async with gateway(server={"api_keys": ["secret"]}) as (api, model):
        answers = [
            await api.create(headers=headers),
            await api.create(headers=headers, stream=True),
            await api.send("GET", "/v1/responses/resp_1", headers=headers),
            await api.send("DELETE", "/v1/responses/resp_1", headers=headers),
            await api.send("GET", "/v1/models", headers=headers),
        ]
        assert model.requests == []
    for answer in answers:
        assert answer.status == 401
        assert answer.error["type"] == "authentication_error"
        assert b"secret" not in answer.body


@pytest.mark.requirement("http:auth:required")
async def test_a_right_key_is_let_in() -> None:
    async with gateway(server={"api_keys": ["other", "secret"]}) as (api, _):
        answer = await api.create(headers={"authorization": "Bearer secret"})
    check_answer(answer)


@pytest.mark.requirement("http:url:unknown")
async def test_unknown_addresses_and_methods_get_the_error_shape() -> None:
    async with gateway() as (api, _):
        unknown = await api.send("GET", "/v1/nothing")
        method = await api.send("PUT", "/v1/responses", b"{}")
    assert (unknown.status, method.status) == (404, 405)
    for answer in (unknown, method):
        assert answer.error.keys() == {"message", "type", "param", "code"}


@pytest.mark.requirement("models:list:shape")
async def test_models_are_listed() -> None:
    async with gateway() as (api, _):
        answer = await api.send("GET", "/v1/models")
    assert answer.status == 200
    assert answer.json["object"] == "list"
    (model,) = answer.json["data"]
    assert model.keys() == {"id", "object", "created", "owned_by"}
    assert (model["id"], model["object"]) == ("mock-model", "model")
    assert isinstance(model["created"], int)


@pytest.mark.requirement("models:list:configured")
async def test_configured_names_and_aliases_are_listed() -> None:
    models = [{"name": "big", "upstream": "mock", "model": "mock-model", "aliases": ["large"]}]
    async with gateway(models=models) as (api, model):
        answer = await api.send("GET", "/v1/models")
        created = await api.create(model="large")
        assert model.chats[0].model == "mock-model"
    assert {entry["id"] for entry in answer.json["data"]} == {"big", "large", "mock-model"}
    assert created.response["model"] == "large"
