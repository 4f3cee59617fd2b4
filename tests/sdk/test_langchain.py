"""langchain-openai in its Responses mode, tool loops through a gateway process."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import OpenAI

from bascule.testing import Call, Reasoning, Reply, Text
from tests.process import Running
from tests.sdk.conftest import Model


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}"


@pytest.fixture
def chat(served: Running) -> Iterator[ChatOpenAI]:
    http, async_http = httpx2.Client(), httpx2.AsyncClient()
    yield ChatOpenAI(
        model="scripted",
        base_url=f"{served.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        use_responses_api=True,
        max_retries=0,
        timeout=20,
        http_client=http,
        http_async_client=async_http,
    )
    http.close()
    asyncio.run(async_http.aclose())


@pytest.mark.parametrize("streaming", [True, False])
def test_a_tool_loop(chat: ChatOpenAI, model: Model, streaming: bool) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    chat.streaming = streaming
    bound = chat.bind_tools([get_weather])
    history: list[BaseMessage] = [HumanMessage("Weather in Oslo?")]
    first = bound.invoke(history)
    assert isinstance(first, AIMessage)
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    history += [first, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    second = bound.invoke(history)
    assert second.text == "It rains in Oslo."
    assert [m["role"] for m in model.last.messages] == ["user", "assistant", "tool"]
    assert model.last.messages[2]["content"] == "Rain in Oslo"


def test_a_loop_that_is_read_as_it_comes(chat: ChatOpenAI, model: Model) -> None:
    call = Call("get_weather", {"city": "Rome"}, id="call_1", split=4)
    model.play(
        Reply(Reasoning("Ask the tool.", chunks=2), Text("One moment.", chunks=3), call),
        Reply(Text("It rains in Rome.", chunks=4)),
    )
    bound = chat.bind_tools([get_weather])
    history: list[BaseMessage] = [HumanMessage("Rome?")]
    first, _ = _gather(bound.stream(history))
    assert first.text == "One moment."
    (made,) = first.tool_calls
    assert (made["args"], made["id"]) == ({"city": "Rome"}, "call_1")
    history += [first, get_weather.invoke(made)]
    second, pieces = _gather(bound.stream(history))
    assert (second.text, pieces) == ("It rains in Rome.", 4)
    assert model.last.messages[-1]["content"] == "Rain in Rome"


def test_a_loop_that_keeps_its_state_at_the_gateway(
    chat: ChatOpenAI, model: Model, client: OpenAI
) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    chat.use_previous_response_id = True
    bound = chat.bind_tools([get_weather])
    history: list[BaseMessage] = [HumanMessage("Weather in Oslo?")]
    first = bound.invoke(history)
    second = bound.invoke([*history, first, get_weather.invoke(first.tool_calls[0])])
    stored = client.responses.retrieve(second.response_metadata["id"])
    assert stored.previous_response_id == first.response_metadata["id"]
    assert [m["role"] for m in model.last.messages] == ["user", "assistant", "tool"]


def _gather(chunks: Iterable[Any]) -> tuple[AIMessageChunk, int]:
    """The message that the chunks add up to, and how many of them carried text."""
    first, *others = list(chunks)
    whole: AIMessageChunk = first
    for chunk in others:
        whole += chunk
    return whole, sum(bool(chunk.text) for chunk in (first, *others))
