"""The agents SDK: its own loop, with the gateway as its model."""

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

from tests.sdk.conftest import Model

pytestmark = pytest.mark.anyio

NO_TRACE = RunConfig(tracing_disabled=True)
QUESTION = "What is the weather in Paris and Tokyo?"


def _agent(client: AsyncOpenAI, asked: list[str]) -> Agent[None]:
    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"sunny in {city}"

    model = OpenAIResponsesModel(model="bascule-demo", openai_client=client)
    return Agent(name="Guide", instructions="Help.", model=model, tools=[get_weather])


async def test_a_run(async_client: AsyncOpenAI, model: Model) -> None:
    asked: list[str] = []
    result = await Runner.run(_agent(async_client, asked), QUESTION, run_config=NO_TRACE)
    assert sorted(asked) == ["Paris", "Tokyo"]
    assert "sunny in Paris" in result.final_output
    assert "sunny in Tokyo" in result.final_output


async def test_a_streamed_run(async_client: AsyncOpenAI, model: Model) -> None:
    asked: list[str] = []
    result = Runner.run_streamed(_agent(async_client, asked), QUESTION, run_config=NO_TRACE)
    kinds = [e.name async for e in result.stream_events() if e.type == "run_item_stream_event"]
    assert kinds.count("tool_called") == 2
    assert kinds.count("tool_output") == 2
    assert kinds[-1] == "message_output_created"
    assert sorted(asked) == ["Paris", "Tokyo"]
    assert "sunny in Paris" in result.final_output


async def test_a_run_that_keeps_its_state_at_the_gateway(
    async_client: AsyncOpenAI, model: Model
) -> None:
    asked: list[str] = []
    result = await Runner.run(
        _agent(async_client, asked), QUESTION, run_config=NO_TRACE, auto_previous_response_id=True
    )
    assert "sunny in Tokyo" in result.final_output
    assert [m["role"] for m in model.last.messages][-3:] == ["assistant", "tool", "tool"]
