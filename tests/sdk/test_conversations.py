"""The official SDK against a gateway process: conversations, stored items, counts and models."""

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.sdk.conftest import Model

MODEL = "scripted"


def test_a_conversation_from_begin_to_end(client: OpenAI, model: Model) -> None:
    model.play("Hello Ada.", "Your name is Ada.")
    made = client.conversations.create(
        metadata={"topic": "names"},
        items=[{"type": "message", "role": "user", "content": "My name is Ada."}],
    )
    assert (made.object, made.metadata) == ("conversation", {"topic": "names"})
    first = client.responses.create(model=MODEL, conversation=made.id, input="Hello")
    assert first.conversation is not None
    assert first.conversation.id == made.id
    second = client.responses.create(
        model=MODEL, conversation={"id": made.id}, input="What is my name?"
    )
    assert second.output_text == "Your name is Ada."
    assert [m["content"] for m in model.last.messages] == [
        "My name is Ada.",
        "Hello",
        "Hello Ada.",
        "What is my name?",
    ]
    items = list(client.conversations.items.list(made.id, order="asc", limit=2))
    assert [item.type for item in items] == ["message"] * 5, "the SDK reads page after page"
    one = client.conversations.items.retrieve(items[0].id or "", conversation_id=made.id)
    assert one == items[0]
    client.conversations.items.delete(items[0].id or "", conversation_id=made.id)
    assert len(list(client.conversations.items.list(made.id))) == 4
    added = client.conversations.items.create(
        made.id, items=[{"type": "message", "role": "user", "content": "More"}]
    )
    assert len(added.data) == 1
    changed = client.conversations.update(made.id, metadata={"topic": "x"})
    assert client.conversations.retrieve(made.id) == changed
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        client.conversations.retrieve(made.id)
    assert client.responses.retrieve(second.id).output_text == "Your name is Ada."


def test_unknown_conversations_and_bad_cursors(client: OpenAI, model: Model) -> None:
    with pytest.raises(NotFoundError):
        client.responses.create(model=MODEL, conversation="conv_unknown", input="x")
    made = client.conversations.create()
    with pytest.raises(NotFoundError):
        client.conversations.items.list(made.id, after="msg_unknown")
    with pytest.raises(BadRequestError) as caught:
        client.conversations.items.list(made.id, limit=1000)
    assert caught.value.param == "limit"


def test_input_items(client: OpenAI, model: Model) -> None:
    model.play("One.", "Two.")
    first = client.responses.create(model=MODEL, input="a")
    second = client.responses.create(model=MODEL, input="b", previous_response_id=first.id)
    listed = list(client.responses.input_items.list(second.id, order="asc", limit=1))
    assert [item.type for item in listed] == ["message"] * 3
    with pytest.raises(NotFoundError):
        client.responses.input_items.list("resp_unknown")


def test_an_item_reference(client: OpenAI, model: Model) -> None:
    model.play("Remember me.", "I do.")
    said = client.responses.create(model=MODEL, input="a").output[0]
    assert said.id is not None
    client.responses.create(
        model=MODEL,
        input=[{"type": "item_reference", "id": said.id}, {"role": "user", "content": "b"}],
    )
    assert [m["content"] for m in model.last.messages] == ["Remember me.", "b"]


def test_input_tokens(client: OpenAI, model: Model) -> None:
    short = client.responses.input_tokens.count(model=MODEL, input="Hello")
    long = client.responses.input_tokens.count(model=MODEL, input="Hello " * 200)
    assert short.object == "response.input_tokens"
    assert 0 < short.input_tokens < long.input_tokens


def test_models(client: OpenAI, model: Model) -> None:
    names = [m.id for m in client.models.list()]
    assert "scripted" in names
    assert client.models.retrieve("scripted").id == "scripted"
    with pytest.raises(NotFoundError):
        client.models.retrieve("no/such model")
