"""Requests that are wrong: a 4xx in the API's shape that names the field, and nothing stored or sent."""

import gzip
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.protocols import capabilities, json
from bascule.protocols.errors import ApiError
from bascule.protocols.responses import door
from bascule.testing import ModelServer
from tests.gateway.leaks import commits_of, nothing_left
from tests.gateway.raw import connected, request
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def is_an_error(answer: Answer, status: int | None = None) -> dict[str, Any]:
    assert status is None or answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = answer.error
    assert set(answer.json) == {"error"}
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in error["message"]
    return error


def refusal(decode: Callable[[bytes], object], body: bytes) -> ApiError | None:
    try:
        decode(body)
    except ApiError as e:
        return e
    return None


# --- the envelope, as a function of bytes


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0d8ef "x1', max_size=40).map(str.encode))
def test_any_bytes_are_fields_or_a_400(body: bytes) -> None:
    for decode in (json.envelope, door.decode):
        refused = refusal(decode, body)
        assert refused is None or refused.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b'{"model":"m","input":"x"}{}',
        b'{"model":"m","input":"\\ud800"}',
        b'{"model":"m","input":"x","metadata":{"\\udc00":"x"}}',
        b'{"model":"m\xff","input":"x"}',
        b'{"model":"m","input":"x\n"}',
        b'{"model":"m","input":"\\x"}',
        b'{"model":"m","input":[],"tools":[{"type":"function","name":"f","parameters":{"x":"\\q"}}]}',
        b'{"model":"m","input":"x","temperature":1e999}',
        b'{"model":"m","input":"x","temperature":NaN}',
        b'{"model":"m","input":"x","max_output_tokens":' + b"9" * 5000 + b"}",
        b'{"model":"m","input":' + b"[" * 100_000,
        b'{"model":"m","input":"x","y":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"model":"m","input":[' + b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"]}",
    ],
    ids=lambda body: repr(body[:60]),
)
def test_bodies_that_are_no_request(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        door.decode(body)
    assert caught.value.status == 400


def test_the_last_of_two_keys_counts() -> None:
    assert door.decode(b'{"model":"a","model":"b","input":"x"}').model == "b"


# --- fields of every wrong type

_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "name", "id", "format", "effort", "mode", "tools"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
_FIELDS = [*capabilities.FIELDS, "client_metadata"]


@given(st.dictionaries(st.sampled_from(_FIELDS), _anything, max_size=5))
def test_any_fields_are_a_turn_or_a_400_that_names_one_of_them(fields: dict[str, Any]) -> None:
    body = {"model": "m", "input": "x", **fields}
    refused = refusal(door.decode, msgspec.json.encode(body))
    if refused is not None:
        assert refused.status == 400
        assert refused.message
        assert refused.param is not None
        assert refused.param.split(".")[0].split("[")[0] in body


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "model type": ({"model": 5}, "model"),
    "model empty": ({"model": ""}, "model"),
    "model null": ({"model": None}, "model"),
    "input type": ({"input": 5}, "input"),
    "input item": ({"input": [5]}, "input[0]"),
    "item without type": ({"input": [{"x": 1}]}, "input[0].type"),
    "unknown item": ({"input": [{"type": "nonsense"}]}, "input[0].type"),
    "role": ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    "no content": ({"input": [{"role": "user"}]}, "input[0].content"),
    "content type": ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
    "part": ({"input": [{"role": "user", "content": [{}]}]}, "input[0].content[0].type"),
    "part type": (
        {"input": [{"role": "user", "content": [{"type": "input_video"}]}]},
        "input[0].content[0].type",
    ),
    "part text": (
        {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
        "input[0].content[0].text",
    ),
    "image by file id": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input[0].content[0].file_id",
    ),
    "file": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input[0].content[0].file_id",
    ),
    "call without id": ({"input": [{"type": "function_call"}]}, "input[0].call_id"),
    "orphan output": (
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
        "input",
    ),
    "result of a file": (
        {
            "input": [
                {"type": "function_call_output", "call_id": "x", "output": [{"type": "input_file"}]}
            ]
        },
        "input[0].output[0].file_data",
    ),
    "result of an image by file id": (
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "x",
                    "output": [{"type": "input_image", "file_id": "f"}],
                }
            ]
        },
        "input[0].output[0].file_id",
    ),
    "result of an image without a place": (
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "x",
                    "output": [{"type": "input_image"}],
                }
            ]
        },
        "input[0].output[0].image_url",
    ),
    "unanswered call": (
        {"input": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}]},
        "input",
    ),
    "unknown previous": ({"previous_response_id": "resp_none"}, "previous_response_id"),
    "previous type": ({"previous_response_id": 5}, "previous_response_id"),
    "tools type": ({"tools": {}}, "tools"),
    "tool": ({"tools": [5]}, "tools[0]"),
    "tool without type": ({"tools": [{"name": "f"}]}, "tools[0].type"),
    "unknown tool": ({"tools": [{"type": "teleport"}]}, "tools[0].type"),
    "tool without name": ({"tools": [{"type": "function"}]}, "tools[0].name"),
    "tool with empty name": ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name"),
    "tool parameters": (
        {"tools": [{"type": "function", "name": "f", "parameters": []}]},
        "tools[0].parameters",
    ),
    "tool twice": ({"tools": [WEATHER, WEATHER]}, "tools[1]"),
    "grammar": (
        {"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar"}}]},
        "tools[0].format.syntax",
    ),
    "choice word": ({"tool_choice": "maybe"}, "tool_choice"),
    "choice of nothing": ({"tool_choice": {"type": "function", "name": "x"}}, "tool_choice"),
    "required without tools": ({"tool_choice": "required"}, "tool_choice"),
    "allowed mode": (
        {"tool_choice": {"type": "allowed_tools", "mode": "x", "tools": [WEATHER]}},
        "tool_choice.mode",
    ),
    "max_output_tokens": ({"max_output_tokens": 1}, "max_output_tokens"),
    "max_output_tokens float": ({"max_output_tokens": 16.5}, "max_output_tokens"),
    "temperature": ({"temperature": 2.1}, "temperature"),
    "top_p": ({"top_p": "1"}, "top_p"),
    "stream": ({"stream": "yes"}, "stream"),
    "store": ({"store": 1}, "store"),
    "effort": ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    "format": ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    "schema missing": (
        {"text": {"format": {"type": "json_schema", "name": "x"}}},
        "text.format.schema",
    ),
    "schema type": (
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": 1}}},
        "text.format.schema",
    ),
    "metadata": ({"metadata": {"a": 1}}, "metadata.a"),
    "include": ({"include": ["everything"]}, "include[0]"),
}


@pytest.mark.parametrize(("fields", "param"), WRONG.values(), ids=WRONG)
async def test_wrong_fields_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    kept: list[Any] = []
    async with (
        ModelServer("Hi") as model,
        serving(model.url, adjust=lambda gateway: kept.append(commits_of(gateway))) as api,
    ):
        for stream in (False, True):
            answer = await api.create(None, **{"stream": stream, **fields})
            error = is_an_error(answer, 400)
            assert error["param"] == param
            assert error["type"] == "invalid_request_error"
        assert model.requests == []
        assert kept == [[]]
        await nothing_left(api)


async def test_nesting_at_every_depth_is_served_or_refused() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for depth in [*range(10, 900, 222), *range(900, 1010, 7)]:
            deep = b"[" * depth + b"]" * depth
            for place in (
                b'"input":[{"role":"user","content":"x","y":%b}]',
                b'"input":"x","client_metadata":%b',
                b'"input":"x","tools":[{"type":"function","name":"f","parameters":{"x":%b}}]',
                b'"input":"x","tools":[{"type":"function","name":"f","parameters":{"x":\r\n%b}}]',
            ):
                body = b'{"model":"mock-model",%b}' % (place % deep)
                answer = await api.send("POST", "/v1/responses", body)
                assert answer.status in (200, 400), (depth, place, answer.body)


async def test_numbers_of_any_size_reach_the_model_or_are_refused() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for number in (2**31, 2**63, 2**64, 10**30):
            body = b'{"model":"mock-model","input":"x","max_output_tokens":%d}' % number
            answer = await api.send("POST", "/v1/responses", body)
            assert answer.status in (200, 400)


# --- routes and methods

PATHS = [
    "/v1/responses",
    "/v1/responses/resp_x",
    "/v1/models",
    "/health",
    "/ready",
    "/",
    "/v1/responses/",
    "/v1/responses/x/y",
    "/v1",
    "/v1/chat/completions",
    "//",
    "/%00/%ff",
    "/%zz",
]


async def test_every_route_and_method_answers_in_the_apis_shape() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for path in PATHS:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
                answer = await api.send(method, path)
                assert answer.headers["x-request-id"]
                if answer.status != 200:
                    is_an_error(answer)
                    assert answer.status in (400, 404, 405, 503), (method, path)
                if answer.status == 405:
                    assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/responses", "/nowhere"])
async def test_head_has_no_body(path: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api, connected(api.url) as client:
        client.write(request("HEAD", path) + request("GET", "/health"))
        status, _, _ = await client.answer(bodiless=True)
        assert status in (200, 404, 405)
        assert (await client.answer())[2] == b'{"status":"ok"}'


async def test_a_host_that_is_none_does_not_matter() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for host in (b"[", b"a b", b"", b"x" * 3000):
            async with connected(api.url) as client:
                client.write(b"GET /nowhere HTTP/1.1\r\nhost: %b\r\n\r\n" % host)
                status, _, body = await client.answer()
                assert status == 404
                assert msgspec.json.decode(body)["error"]["code"] == "unknown_url"


@pytest.mark.parametrize("given_id", ["abc-1.2:3_x", "x" * 129, "a b", "<script>", "ü"])
async def test_a_request_id_is_kept_if_it_is_sane(given_id: str) -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        for path in ("/v1/responses", "/health"):
            answer = await api.send("POST", path, b"{}", {"x-request-id": given_id})
            assert (answer.headers["x-request-id"] == given_id) == (given_id == "abc-1.2:3_x")


async def test_unknown_fields_are_tolerated_and_named() -> None:
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.create(None, client_metadata={"a": 1}, **{"we,ird\nname": 1})
    assert answer.status == 200
    assert answer.headers["x-bascule-ignored"] == "client_metadata,we;ird?name"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
async def test_a_body_of_many_lines_makes_no_event_of_many_lines(newline: str) -> None:
    body = {
        "model": "mock-model",
        "input": [{"role": "user", "content": "a\nb"}],
        "stream": True,
        "tools": [WEATHER, {"type": "custom", "name": "run"}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [WEATHER]},
        "metadata": {"a": "b\nc"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
    }
    written = msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send("POST", "/v1/responses", written.replace("\n", newline).encode())
    assert b"\r" not in answer.body
    response = check_stream(answer.frames)
    assert response["metadata"] == {"a": "b\nc"}
    assert response["tools"][0]["name"] == "get_weather"


async def test_a_body_that_is_compressed_json() -> None:
    body = msgspec.json.encode({"model": "mock-model", "input": "Hello"})
    async with ModelServer("Hi") as model, serving(model.url) as api:
        answer = await api.send(
            "POST", "/v1/responses", gzip.compress(body), {"content-encoding": "gzip"}
        )
    assert answer.status == 200
