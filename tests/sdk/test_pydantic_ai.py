"""pydantic-ai's Responses model, tool loops through a gateway process."""

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from bascule.testing import Call, Reply
from tests.sdk.conftest import Model

pytestmark = pytest.mark.anyio


def _agent(client: AsyncOpenAI) -> "Agent[None, str]":
    provider = OpenAIProvider(openai_client=client)
    agent = Agent(OpenAIResponsesModel("scripted", provider=provider))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"Rain in {city}"

    return agent


async def test_a_tool_loop(async_client: AsyncOpenAI, model: Model) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    result = await _agent(async_client).run("Weather in Oslo?")
    assert result.output == "It rains in Oslo."
    assert [m["role"] for m in model.last.messages] == ["user", "assistant", "tool"]
    assert model.last.messages[2]["content"] == "Rain in Oslo"


async def test_a_streamed_tool_loop(async_client: AsyncOpenAI, model: Model) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    async with _agent(async_client).run_stream("Weather in Oslo?") as result:
        pieces = [piece async for piece in result.stream_text(delta=True)]
    assert "".join(pieces) == "It rains in Oslo."
    assert model.last.stream


async def test_a_loop_that_keeps_its_state_at_the_gateway(
    async_client: AsyncOpenAI, model: Model
) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    settings = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    result = await _agent(async_client).run("Weather in Oslo?", model_settings=settings)
    answers = [m for m in result.all_messages() if isinstance(m, ModelResponse)]
    first, second = (str(m.provider_response_id) for m in answers)
    assert (await async_client.responses.retrieve(second)).previous_response_id == first
    assert [m["role"] for m in model.last.messages] == ["user", "assistant", "tool"]


class Place(BaseModel):
    city: str
    people: int


async def test_an_output_of_a_declared_type(async_client: AsyncOpenAI, model: Model) -> None:
    model.play(Reply(Call("final_result", {"city": "Oslo", "people": 700000}, split=3)))
    provider = OpenAIProvider(openai_client=async_client)
    agent = Agent(OpenAIResponsesModel("scripted", provider=provider), output_type=Place)
    result = await agent.run("Which city?")
    assert result.output == Place(city="Oslo", people=700000)
    assert model.last.json["tool_choice"] == "required"
