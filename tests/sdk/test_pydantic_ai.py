"""pydantic-ai's Responses model, one tool loop through a gateway process."""

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
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
