"""langchain-openai in its Responses mode, one tool loop through a gateway process."""

import asyncio

import httpx2
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from bascule.testing import Call, Reply
from tests.process import Running
from tests.sdk.conftest import Model


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_tool_loop(served: Running, model: Model, streaming: bool) -> None:
    model.play(Reply(Call("get_weather", {"city": "Oslo"})), "It rains in Oslo.")
    http, async_http = httpx2.Client(), httpx2.AsyncClient()
    chat = ChatOpenAI(
        model="scripted",
        base_url=f"{served.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        use_responses_api=True,
        streaming=streaming,
        max_retries=0,
        timeout=20,
        http_client=http,
        http_async_client=async_http,
    ).bind_tools([get_weather])
    history: list[BaseMessage] = [HumanMessage("Weather in Oslo?")]
    first = chat.invoke(history)
    assert isinstance(first, AIMessage)
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    history += [first, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    second = chat.invoke(history)
    assert second.text == "It rains in Oslo."
    assert [m["role"] for m in model.last.messages] == ["user", "assistant", "tool"]
    assert model.last.messages[2]["content"] == "Rain in Oslo"
    http.close()
    asyncio.run(async_http.aclose())
