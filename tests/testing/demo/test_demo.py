"""The demo model through the official SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from openai import AsyncOpenAI, BadRequestError

from bascule.testing.demo import MODEL, demo_server

pytestmark = pytest.mark.anyio

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather at a place",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def user(text: Any) -> Any:
    return {"role": "user", "content": text}


@pytest.fixture
async def client() -> AsyncIterator[AsyncOpenAI]:
    async with (
        demo_server() as server,
        AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as sdk,
    ):
        yield sdk


async def ask(client: AsyncOpenAI, *messages: Any, **fields: Any) -> Any:
    return await client.chat.completions.create(model=MODEL, messages=list(messages), **fields)


async def text_of(client: AsyncOpenAI, *messages: Any, **fields: Any) -> str:
    return (await ask(client, *messages, **fields)).choices[0].message.content


async def test_the_model_is_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL]


async def test_it_streams_word_by_word_and_says_that_it_is_a_demo(client: AsyncOpenAI) -> None:
    stream = await ask(client, user("Hi!"), stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    pieces = [
        c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content
    ]
    text = "".join(pieces)
    assert "demo" in text
    assert len(pieces) == len(text.split())
    assert chunks[-1].usage.completion_tokens == len(pieces)
    assert text == await text_of(client, user("Hi!"))


async def test_no_usage_in_a_stream_that_did_not_ask(client: AsyncOpenAI) -> None:
    stream = await ask(client, user("Hi!"), stream=True)
    assert [chunk.usage async for chunk in stream if chunk.usage] == []


async def test_a_whole_tool_conversation(client: AsyncOpenAI) -> None:
    request = user("What is the weather in Paris and Tokyo?")
    first = await ask(client, request, tools=[WEATHER])
    assert first.choices[0].finish_reason == "tool_calls"
    message = first.choices[0].message
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [
        {"city": "Paris"},
        {"city": "Tokyo"},
    ]
    async with client.chat.completions.stream(
        model=MODEL, messages=[request], tools=[WEATHER]
    ) as stream:
        streamed = (await stream.get_final_completion()).choices[0].message
    assert [call.function.arguments for call in streamed.tool_calls or ()] == [
        call.function.arguments for call in message.tool_calls
    ]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"{20 + n} degrees"}
        for n, call in enumerate(message.tool_calls)
    ]
    said = message.model_dump(exclude_none=True)
    second = await ask(client, request, said, *results, tools=[WEATHER])
    assert second.choices[0].finish_reason == "stop"
    assert "city: Paris" in second.choices[0].message.content
    assert "21 degrees" in second.choices[0].message.content


async def test_an_undeclared_choice_is_refused(client: AsyncOpenAI) -> None:
    choice = {"type": "function", "function": {"name": "nope"}}
    with pytest.raises(BadRequestError, match="`nope`"):
        await ask(client, user("hi"), tools=[WEATHER], tool_choice=choice)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_limits_cut_the_text(client: AsyncOpenAI, field: str) -> None:
    for streamed in (False, True):
        if streamed:
            stream = await ask(client, user("Hello"), stream=True, **{field: 3})
            choices = [chunk.choices[0] async for chunk in stream]
            text = "".join(choice.delta.content or "" for choice in choices)
            reason = choices[-1].finish_reason
        else:
            choice = (await ask(client, user("Hello"), **{field: 3})).choices[0]
            text, reason = choice.message.content, choice.finish_reason
        assert len(text.split()) == 3
        assert reason == "length"
    whole = await ask(client, user("Hello"), **{field: 1000})
    assert whole.choices[0].finish_reason == "stop"


async def test_structured_output(client: AsyncOpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer", "minimum": 1},
            "class": {"type": "string", "enum": ["first", "second"]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        },
        "required": ["city", "nights", "class", "tags"],
        "additionalProperties": False,
    }
    form = {
        "type": "json_schema",
        "json_schema": {"name": "trip", "schema": schema, "strict": True},
    }
    text = await text_of(client, user("Book 3 nights in Rome, second class"), response_format=form)
    value = json.loads(text)
    jsonschema.validate(value, schema)
    assert (value["city"], value["nights"], value["class"]) == ("Rome", 3, "second")
    text = await text_of(client, user("Hello"), response_format={"type": "json_object"})
    assert "demo" in json.loads(text)["answer"]
    asked = await ask(client, user("weather in Rome"), response_format=form, tools=[WEATHER])
    assert asked.choices[0].message.tool_calls


async def test_images_are_acknowledged(client: AsyncOpenAI) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    text = await text_of(client, user([{"type": "text", "text": "What is this?"}, image]))
    assert "I have received an image" in text
    assert "2 images" in await text_of(client, user([image, image]))


async def test_reasoning_comes_only_if_asked_for(client: AsyncOpenAI) -> None:
    for effort, expected in (("low", True), ("none", False), (None, False)):
        fields = {} if effort is None else {"reasoning_effort": effort}
        answer = await ask(client, user("weather in Rome"), tools=[WEATHER], **fields)
        reasoning = getattr(answer.choices[0].message, "reasoning_content", None)
        assert bool(reasoning) == expected
        if expected:
            assert "get_weather" in str(reasoning)
            assert answer.usage.completion_tokens_details.reasoning_tokens > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there", "Hello!"),
        ("who are you?", "bascule-demo"),
        ("What tools do you have?", "get_weather"),
        ("thank you", "welcome"),
        ("bye", "Goodbye"),
        ("My name is Ada", "Ada"),
        ("What is my name?", "have not told me"),
        ("What did I say before?", "first message"),
        ("Why is the sky blue?", 'You said: "Why is the sky blue?"'),
        ("x" * 500, "..."),
    ],
)
async def test_small_talk(client: AsyncOpenAI, text: str, expected: str) -> None:
    said = await text_of(client, user(text), tools=[WEATHER])
    assert expected in said
    assert "demo" in said.lower()


async def test_it_remembers_the_conversation(client: AsyncOpenAI) -> None:
    before = [user("My name is Ada"), {"role": "assistant", "content": "Nice"}]
    assert "Your name is Ada" in await text_of(client, *before, user("What is my name?"))
    assert '"My name is Ada"' in await text_of(client, *before, user("What did I say?"))


async def test_odd_requests_are_answered(client: AsyncOpenAI) -> None:
    custom = {"type": "custom", "custom": {"name": "x"}}
    for messages in ([], [{"role": "system", "content": "Be kind"}], [user("")], [user([])]):
        assert "demo" in await text_of(client, *messages, tools=[custom, WEATHER])
    assert "no tools were declared" in await text_of(client, user("which tools can you use?"))
