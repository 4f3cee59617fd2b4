"""Tool loops as programs write them with the SDK."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import FunctionToolParam, ResponseInputItemParam

from bascule.testing import Call, Reply
from tests.sdk.conftest import Model

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def _run(output: list[Any]) -> list[Any]:
    """The outputs of a response's function calls."""
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": f"sunny in {json.loads(item.arguments)['city']}",
        }
        for item in output
        if item.type == "function_call"
    ]


def test_a_function_loop_with_the_demo_model(client: OpenAI, model: Model) -> None:
    first = client.responses.create(
        model="bascule-demo", input="What is the weather in Paris and Tokyo?", tools=[WEATHER]
    )
    outputs = _run(first.output)
    assert len(outputs) == 2
    second = client.responses.create(
        model="bascule-demo", input=outputs, previous_response_id=first.id, tools=[WEATHER]
    )
    assert "sunny in Paris" in second.output_text
    assert "sunny in Tokyo" in second.output_text


def test_a_function_loop_without_stored_state(client: OpenAI, model: Model) -> None:
    history: list[ResponseInputItemParam] = [{"role": "user", "content": "Weather in Oslo?"}]
    first = client.responses.create(
        model="bascule-demo", input=history, tools=[WEATHER], store=False
    )
    history += [item.to_dict() for item in first.output]  # type: ignore[misc]
    history += _run(first.output)
    second = client.responses.create(
        model="bascule-demo", input=history, tools=[WEATHER], store=False
    )
    assert "sunny in Oslo" in second.output_text


def test_a_streamed_function_loop(client: OpenAI, model: Model) -> None:
    model.play(Reply(Call("get_weather", {"city": "Rome"}, id="call_1", split=4)), Reply("Sunny."))
    with client.responses.stream(model="scripted", input="Rome?", tools=[WEATHER]) as stream:
        pieces = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        first = stream.get_final_response()
    call = first.output[0]
    assert call.type == "function_call"
    assert "".join(pieces) == call.arguments == '{"city":"Rome"}'
    assert call.parsed_arguments == {"city": "Rome"}
    with client.responses.stream(
        model="scripted", input=_run(first.output), previous_response_id=first.id, tools=[WEATHER]
    ) as stream:
        assert stream.get_final_response().output_text == "Sunny."
    assert model.last.messages[-1] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "sunny in Rome",
    }


def test_a_custom_tool(client: OpenAI, model: Model) -> None:
    model.play(Reply(Call("run", {"input": "print(1)\n"}, id="call_9", split=3)), Reply("It is 1."))
    tool: Any = {"type": "custom", "name": "run", "description": "Runs Python"}
    with client.responses.stream(model="scripted", input="Run", tools=[tool]) as stream:
        pieces = [e.delta for e in stream if e.type == "response.custom_tool_call_input.delta"]
        first = stream.get_final_response()
    call = first.output[0]
    assert call.type == "custom_tool_call"
    assert "".join(pieces) == call.input == "print(1)\n"
    second = client.responses.create(
        model="scripted",
        input=[{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "1"}],
        previous_response_id=first.id,
        tools=[tool],
    )
    assert second.output_text == "It is 1."


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("none", "none"),
        ("required", "required"),
        (
            {"type": "function", "name": "get_weather"},
            {"type": "function", "function": {"name": "get_weather"}},
        ),
    ],
)
def test_tool_choice(client: OpenAI, model: Model, choice: Any, sent: Any) -> None:
    model.play(Reply("ok"))
    response = client.responses.create(
        model="scripted", input="x", tools=[WEATHER], tool_choice=choice
    )
    assert model.last.json["tool_choice"] == sent
    shown = response.tool_choice
    assert (shown if isinstance(shown, str) else shown.to_dict()) == choice


@pytest.mark.anyio
async def test_an_async_function_loop(async_client: AsyncOpenAI, model: Model) -> None:
    first = await async_client.responses.create(
        model="bascule-demo", input="What is the weather in Oslo?", tools=[WEATHER]
    )
    second = await async_client.responses.create(
        model="bascule-demo",
        input=_run(first.output),
        previous_response_id=first.id,
        tools=[WEATHER],
    )
    assert "sunny in Oslo" in second.output_text
