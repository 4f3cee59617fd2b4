"""The official SDK against a gateway process: creating, reading back, continuing."""

import base64

import pytest
from openai import AsyncOpenAI, NotFoundError, OpenAI
from openai.types.responses import Response, ResponseCompletedEvent
from pydantic import BaseModel

from bascule.testing import Call, Finish, Reasoning, Reply, Text, Usage
from tests.sdk.conftest import Model

MODEL = "scripted"


def test_create(client: OpenAI, model: Model) -> None:
    model.play(Reply("Hello there.", Usage(9, 3)))
    response = client.responses.create(
        model=MODEL, input="Hello", instructions="Be kind.", metadata={"run": "7"}, temperature=0.5
    )
    assert response.output_text == "Hello there."
    assert (response.status, response.model, response.object) == ("completed", MODEL, "response")
    assert response.metadata == {"run": "7"}
    assert response.temperature == 0.5
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (9, 3)
    assert response.usage.total_tokens == 12
    assert model.last.messages[0] == {"role": "system", "content": "Be kind."}


def test_every_answer_is_what_the_sdk_types_say(client: OpenAI, model: Model) -> None:
    # construct() does not validate, so the answer is read again strictly.
    model.play(Reply(Reasoning("Hm."), "Hi.", Call("look", {"at": "x"}), Usage(1, 1)))
    tool = {"type": "function", "name": "look", "parameters": {}, "strict": None}
    raw = client.responses.with_raw_response.create(model=MODEL, input="x", tools=[tool])  # type: ignore[list-item]
    response = Response.model_validate_json(raw.text, strict=False)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]


def test_stream(client: OpenAI, model: Model) -> None:
    model.play(Reply(Text("One two three", chunks="words")))
    with client.responses.create(model=MODEL, input="Count", stream=True) as stream:
        events = list(stream)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "One two three"
    assert len(deltas) == 3
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent)
    assert last.response.output_text == "One two three"


def test_the_stream_helper_accumulates_what_the_response_says(client: OpenAI, model: Model) -> None:
    model.play(Reply(Reasoning("Let me see."), Text("Four.", chunks=2), Call("add", {"a": 1})))
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
    with client.responses.stream(model=MODEL, input="2+2", tools=[tool]) as stream:  # type: ignore[list-item]
        snapshots = [
            event.snapshot for event in stream if event.type == "response.output_text.delta"
        ]
        final = stream.get_final_response()
    assert snapshots[-1] == "Four."
    assert final.output_text == "Four."
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    stored = client.responses.retrieve(final.id)
    ids = [item.to_dict()["id"] for item in final.output]
    assert [item.to_dict()["id"] for item in stored.output] == ids
    assert stored.output_text == final.output_text
    assert stored.usage == final.usage


class City(BaseModel):
    name: str
    population: int


def test_parse(client: OpenAI, model: Model) -> None:
    model.play(Reply('{"name": "Oslo", "population": 717710}'))
    response = client.responses.parse(model=MODEL, input="A city", text_format=City)
    assert response.output_parsed == City(name="Oslo", population=717710)
    sent = model.last.json["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["required"] == ["name", "population"]


def test_parse_while_it_streams(client: OpenAI, model: Model) -> None:
    model.play(Reply(Text('{"name": "Rome", "population": 1}', chunks=4)))
    with client.responses.stream(model=MODEL, input="A city", text_format=City) as stream:
        final = stream.get_final_response()
    assert final.output_parsed == City(name="Rome", population=1)


def test_retrieve_and_delete(client: OpenAI, model: Model) -> None:
    model.play(Reply("Kept."))
    made = client.responses.create(model=MODEL, input="Keep this")
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    client.responses.delete(made.id)
    with pytest.raises(NotFoundError) as gone:
        client.responses.retrieve(made.id)
    assert gone.value.status_code == 404


def test_what_is_not_stored_cannot_be_retrieved(client: OpenAI, model: Model) -> None:
    model.play(Reply("Forgotten."))
    made = client.responses.create(model=MODEL, input="x", store=False)
    assert made.to_dict()["store"] is False
    with pytest.raises(NotFoundError):
        client.responses.retrieve(made.id)


def test_a_chain_of_responses(client: OpenAI, model: Model) -> None:
    model.play(Reply("Noted."), Reply("Blue."), Reply("As I said."))
    first = client.responses.create(model=MODEL, input="I like blue.", instructions="Be brief.")
    second = client.responses.create(
        model=MODEL, input="What do I like?", previous_response_id=first.id
    )
    third = client.responses.create(model=MODEL, input="Sure?", previous_response_id=second.id)
    assert third.previous_response_id == second.id
    assert [message["content"] for message in model.last.messages] == [
        "I like blue.",
        "Noted.",
        "What do I like?",
        "Blue.",
        "Sure?",
    ]


def test_an_image_reaches_the_model(client: OpenAI, model: Model) -> None:
    pixel = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    url = f"data:image/png;base64,{pixel}"
    model.play(Reply("A dot."))
    client.responses.create(
        model=MODEL,
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": url, "detail": "low"},
                ],
            }
        ],
    )
    assert model.last.messages[-1]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]


def test_an_answer_that_was_cut(client: OpenAI, model: Model) -> None:
    model.play(Reply("Once upon", Finish("length")))
    response = client.responses.create(model=MODEL, input="A tale", max_output_tokens=16)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_encrypted_reasoning_comes_back_to_the_model(client: OpenAI, model: Model) -> None:
    model.play(Reply(Reasoning("It is 4."), "4"), Reply("Yes."))
    first = client.responses.create(
        model=MODEL, input="2+2", store=False, include=["reasoning.encrypted_content"]
    )
    assert first.output[0].type == "reasoning"
    assert first.output[0].encrypted_content
    again = [item.to_dict() for item in first.output]
    client.responses.create(
        model=MODEL,
        input=[{"role": "user", "content": "2+2"}, *again, {"role": "user", "content": "Sure?"}],  # type: ignore[list-item]
        store=False,
    )
    assert [message["role"] for message in model.last.messages] == ["user", "assistant", "user"]


def test_models(client: OpenAI) -> None:
    assert {m.id for m in client.models.list()} == {"bascule-demo", "scripted"}


@pytest.mark.anyio
async def test_async_create_and_stream(async_client: AsyncOpenAI, model: Model) -> None:
    model.play(Reply("Hello."), Reply(Text("One two", chunks=2)))
    response = await async_client.responses.create(model=MODEL, input="Hello")
    assert response.output_text == "Hello."
    async with await async_client.responses.create(model=MODEL, input="x", stream=True) as stream:
        types = [event.type async for event in stream]
    assert types[-1] == "response.completed"


@pytest.mark.anyio
async def test_async_stream_helper_and_parse(async_client: AsyncOpenAI, model: Model) -> None:
    model.play(Reply("Hi."), Reply('{"name": "Bern", "population": 2}'))
    async with async_client.responses.stream(model=MODEL, input="x") as stream:
        assert (await stream.get_final_response()).output_text == "Hi."
    parsed = await async_client.responses.parse(model=MODEL, input="x", text_format=City)
    assert parsed.output_parsed == City(name="Bern", population=2)


@pytest.mark.anyio
async def test_async_retrieve_and_delete(async_client: AsyncOpenAI, model: Model) -> None:
    made = await async_client.responses.create(model="bascule-demo", input="Hello")
    assert (await async_client.responses.retrieve(made.id)).output_text == made.output_text
    await async_client.responses.delete(made.id)
    with pytest.raises(NotFoundError):
        await async_client.responses.retrieve(made.id)
