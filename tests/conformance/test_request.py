"""Fields of the request: ranges, types, what is tolerated and what is refused."""

from typing import Any

import pytest

from tests.conformance.asking import CITY, gateway, text_of
from tests.conformance.stream import check_answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


async def sent(**fields: Any) -> Json:
    """The Chat request that the model server got for a valid request."""
    async with gateway() as (api, model):
        check_answer(await api.create(**fields))
        return model.chats[0].json


async def refused(**fields: Any) -> Json:
    """The error of a request that must not reach the model."""
    async with gateway() as (api, model):
        whole = await api.create(**fields)
        streamed = await api.create(stream=True, **fields)
        assert model.chats == []
    assert whole.status == streamed.status == 400
    assert whole.error == streamed.error
    assert whole.error["type"] == "invalid_request_error"
    return whole.error


async def shown(**fields: Any) -> Json:
    """The response object of a valid request."""
    async with gateway() as (api, _):
        return check_answer(await api.create(**fields))


# --- model and input


@pytest.mark.requirement("request:model:missing")
@pytest.mark.parametrize("body", [b'{"input":"Hi"}', b'{"model":null,"input":"Hi"}'])
async def test_a_missing_model_is_a_400_before_anything_else(body: bytes) -> None:
    async with gateway() as (api, model):
        answer = await api.send("POST", "/v1/responses", body)
        assert model.requests == []
    assert answer.status == 400
    assert answer.error["param"] == "model"
    assert answer.error["code"] == "missing_required_parameter"


@pytest.mark.requirement("request:model:unknown")
async def test_a_model_that_nobody_serves_is_a_404() -> None:
    async with gateway(upstream_options={"models": ["other"]}) as (api, model):
        answer = await api.create()
        assert model.chats == []
    assert answer.status == 404
    assert (answer.error["code"], answer.error["param"]) == ("model_not_found", "model")


@pytest.mark.requirement("request:input:string")
async def test_a_string_is_one_user_message() -> None:
    assert (await sent(input="Hi"))["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.requirement("request:input:missing")
async def test_without_input_and_chain_there_is_nothing_to_answer() -> None:
    error = await refused(input=None)
    assert (error["param"], error["code"]) == ("input", "missing_required_parameter")


@pytest.mark.requirement("request:input:messages")
async def test_messages_of_all_roles_and_forms() -> None:
    request = await sent(
        input=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "input_text", "text": "In English."}]},
            {"type": "message", "role": "user", "content": "Hi"},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "Go on"}]},
        ]
    )
    assert [(m["role"], m["content"]) for m in request["messages"]] == [
        ("system", "Be brief."),
        ("developer", "In English."),
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Go on"),
    ]


@pytest.mark.requirement("request:input:phase")
async def test_the_phase_of_an_assistant_message_is_accepted() -> None:
    said = {"role": "assistant", "content": "Let me see.", "phase": "commentary"}
    request = await sent(
        input=[{"role": "user", "content": "Hi"}, said, {"role": "user", "content": "So?"}]
    )
    assert request["messages"][1]["content"] == "Let me see."


@pytest.mark.requirement("request:input:image")
async def test_user_content_is_multimodal() -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
    ]
    request = await sent(input=[{"role": "user", "content": parts}])
    assert request["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    ]


@pytest.mark.requirement("request:input:refused-with-place")
@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "no_such_item"}, "input[1].type"),
        ({"role": "nobody", "content": "Hi"}, "input[1].role"),
        ({"role": "user"}, "input[1].content"),
        ({"role": "user", "content": [{"type": "no_such_part"}]}, "input[1].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[1].content[0].text"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "input[1].name"),
        ({"type": "function_call_output", "output": "x"}, "input[1].call_id"),
        (7, "input[1]"),
    ],
)
async def test_a_bad_item_is_named(item: Any, param: str) -> None:
    error = await refused(input=[{"role": "user", "content": "Hi"}, item])
    assert error["param"] == param


# --- what is honoured


@pytest.mark.requirement("request:instructions")
async def test_instructions_come_first_and_are_shown() -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(instructions="Be brief."))
        assert model.chats[0].messages[0] == {"role": "system", "content": "Be brief."}
    assert response["instructions"] == "Be brief."


@pytest.mark.requirement("request:sampling:range")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("temperature", -0.1, "decimal_below_min_value"),
        ("temperature", 2.1, "decimal_above_max_value"),
        ("top_p", -1, "decimal_below_min_value"),
        ("top_p", 1.01, "decimal_above_max_value"),
        ("max_output_tokens", 15, "integer_below_min_value"),
        ("max_output_tokens", 0, "integer_below_min_value"),
    ],
)
async def test_values_out_of_range_are_named(field: str, value: float, code: str) -> None:
    error = await refused(**{field: value})
    assert (error["param"], error["code"]) == (field, code)


@pytest.mark.requirement("request:sampling:passed-on")
async def test_sampling_fields_reach_the_model_and_are_shown() -> None:
    fields: Json = {"temperature": 0, "top_p": 1, "max_output_tokens": 16}
    async with gateway() as (api, model):
        response = check_answer(await api.create(**fields))
        request = model.chats[0].json
    assert (request["temperature"], request["top_p"]) == (0, 1)
    assert request["max_completion_tokens"] == 16
    assert {name: response[name] for name in fields} == fields


@pytest.mark.requirement("request:types")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 7),
        ("input", 7),
        ("instructions", ["x"]),
        ("previous_response_id", 7),
        ("store", "yes"),
        ("stream", "yes"),
        ("include", "reasoning.encrypted_content"),
        ("tools", {}),
        ("tool_choice", 7),
        ("parallel_tool_calls", "yes"),
        ("max_output_tokens", "16"),
        ("max_output_tokens", 16.5),
        ("temperature", "1"),
        ("top_p", True),
        ("text", "json"),
        ("reasoning", "high"),
        ("metadata", []),
    ],
)
async def test_a_wrong_type_is_named(field: str, value: Any) -> None:
    async with gateway() as (api, model):
        answer = await api.create(**{field: value})
        assert model.chats == []
    assert answer.status == 400
    assert answer.error["param"] == field
    assert answer.error["code"] == "invalid_type"


@pytest.mark.requirement("request:null")
async def test_null_is_the_same_as_absent() -> None:
    names = [
        "instructions",
        "previous_response_id",
        "store",
        "stream",
        "include",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "max_output_tokens",
        "text",
        "reasoning",
        "metadata",
        "truncation",
        "service_tier",
        "prompt_cache_key",
        "safety_identifier",
        "user",
        "max_tool_calls",
        "background",
        "conversation",
    ]
    response = await shown(**dict.fromkeys(names))
    plain = await shown()
    for name in ("id", "created_at", "completed_at", "output"):
        del response[name], plain[name]
    assert response == plain


@pytest.mark.requirement("request:text:format")
async def test_a_json_schema_is_passed_on_and_shown() -> None:
    form = {"type": "json_schema", "name": "place", "schema": CITY, "strict": True}
    async with gateway('{"city":"Oslo"}') as (api, model):
        response = check_answer(await api.create(text={"format": form}))
        asked = model.chats[0].json["response_format"]
    assert asked == {
        "type": "json_schema",
        "json_schema": {"name": "place", "schema": CITY, "strict": True},
    }
    assert response["text"] == {
        "format": {**form, "description": None},
        "verbosity": "medium",
    }
    assert text_of(response) == '{"city":"Oslo"}'


@pytest.mark.requirement("request:text:format")
async def test_json_mode_and_plain_text() -> None:
    assert (await sent(text={"format": {"type": "json_object"}}))["response_format"] == {
        "type": "json_object"
    }
    assert "response_format" not in await sent(text={"format": {"type": "text"}})


@pytest.mark.requirement("request:text:refused")
@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"type": "json_schema", "schema": {}}, "text.format.name"),
        ({"type": "json_schema", "name": "x"}, "text.format.schema"),
        ({"type": "json_schema", "name": "x", "schema": []}, "text.format.schema"),
        ({"type": "xml"}, "text.format.type"),
    ],
)
async def test_a_bad_format_is_named(form: Json, param: str) -> None:
    assert (await refused(text={"format": form}))["param"] == param


@pytest.mark.requirement("request:text:verbosity")
async def test_verbosity_is_passed_on_and_shown() -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(text={"verbosity": "low"}))
        assert model.chats[0].json["verbosity"] == "low"
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}


@pytest.mark.requirement("request:reasoning:effort")
@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
async def test_an_effort_is_passed_on_and_shown(effort: str) -> None:
    async with gateway() as (api, model):
        response = check_answer(await api.create(reasoning={"effort": effort}))
        assert model.chats[0].json["reasoning_effort"] == effort
    assert response["reasoning"] == {"effort": effort, "summary": None}


@pytest.mark.requirement("request:reasoning:refused")
@pytest.mark.parametrize(
    ("reasoning", "param"),
    [({"effort": "huge"}, "reasoning.effort"), ({"summary": "long"}, "reasoning.summary")],
)
async def test_a_bad_reasoning_option_is_named(reasoning: Json, param: str) -> None:
    assert (await refused(reasoning=reasoning))["param"] == param


@pytest.mark.requirement("request:metadata:shown")
async def test_metadata_is_shown() -> None:
    metadata = {"k" * 64: "v" * 512, "": "empty"}
    assert (await shown(metadata=metadata))["metadata"] == metadata


@pytest.mark.requirement("request:metadata:limits")
@pytest.mark.parametrize(
    "metadata",
    [{str(i): "" for i in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}, {"k": 1}],
)
async def test_metadata_has_limits(metadata: Json) -> None:
    assert (await refused(metadata=metadata))["param"].startswith("metadata")


@pytest.mark.requirement("request:parallel-tool-calls")
async def test_parallel_tool_calls_are_passed_on_and_shown() -> None:
    tool = {"type": "function", "name": "f", "parameters": CITY}
    async with gateway() as (api, model):
        response = check_answer(await api.create(tools=[tool], parallel_tool_calls=False))
        assert model.chats[0].json["parallel_tool_calls"] is False
    assert response["parallel_tool_calls"] is False


@pytest.mark.requirement("request:include:refused")
async def test_data_that_nobody_knows_is_refused() -> None:
    error = await refused(include=["reasoning.encrypted_content", "no_such_thing"])
    assert (error["param"], error["code"]) == ("include[1]", "invalid_value")


# --- what is tolerated and what is refused


@pytest.mark.requirement("request:unknown:tolerated")
async def test_unknown_fields_are_tolerated_and_named() -> None:
    async with gateway() as (api, model):
        answer = await api.create(client_metadata={"a": "b"}, no_such_field=1)
        check_answer(answer)
        assert not {"client_metadata", "no_such_field"} & model.chats[0].json.keys()
        streamed = await api.create(client_metadata={"a": "b"}, stream=True)
    assert answer.headers["x-bascule-ignored"] == "client_metadata,no_such_field"
    assert streamed.headers["x-bascule-ignored"] == "client_metadata"


@pytest.mark.requirement("request:unknown:tolerated")
async def test_what_the_upstream_cannot_be_told_is_named() -> None:
    flags = {"verbosity": False, "reasoning_effort": "none"}
    async with gateway(upstream_options={"flags": flags}) as (api, _):
        answer = await api.create(text={"verbosity": "low"}, reasoning={"effort": "low"})
    assert answer.headers["x-bascule-ignored"] == "text.verbosity,reasoning.effort"


@pytest.mark.requirement("request:unsupported:refused")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("background", True),
        ("background_options", {"completion_window": "2h"}),
        ("prompt", {"id": "pmpt_1"}),
        ("prompt_cache_options", {"mode": "explicit"}),
        ("context_management", [{"type": "compaction"}]),
        ("moderation", {"model": "m"}),
    ],
)
async def test_a_field_that_would_change_the_meaning_is_refused(field: str, value: Any) -> None:
    error = await refused(**{field: value})
    assert (error["param"], error["code"]) == (field, "unsupported_parameter")


@pytest.mark.requirement("request:unsupported:neutral")
async def test_values_that_ask_for_nothing_are_accepted() -> None:
    response = await shown(
        background=False,
        presence_penalty=0,
        frequency_penalty=0.0,
        top_logprobs=0,
        truncation="disabled",
        service_tier="auto",
        context_management=[],
    )
    assert response["truncation"] == "disabled"
    assert response["background"] is False
    assert response["service_tier"] == "default"
