"""What goes wrong arrives as the SDK's own error classes, with all that they can tell."""

from collections.abc import Generator
from typing import Any, cast

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseStreamEvent

from bascule.testing import Eof, Reply, Text, http_error
from bascule.testing.demo import MODEL
from tests.process import Running, gateway
from tests.sdk.conftest import Model


def test_a_bad_request_names_the_field(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="scripted", input="x", temperature=7)
    error = raised.value
    assert (error.status_code, error.param) == (400, "temperature")
    assert error.type == "invalid_request_error"
    assert error.code == "decimal_above_max_value"
    assert error.request_id is not None


def test_what_is_not_there_yet_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="scripted", input="x", background=True)
    assert raised.value.param == "background"
    program = {"type": "program", "call_id": "p", "code": "1", "fingerprint": "f", "id": "cm_1"}
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="scripted", input=[cast("Any", program)])
    assert raised.value.param == "input[0]"


def test_a_tool_that_nothing_here_runs_is_named(client: OpenAI) -> None:
    raw = client.responses.with_raw_response.create(
        model="scripted", input="x", tools=[{"type": "web_search"}]
    )
    assert raw.headers["x-bascule-ignored"] == "tools[0]"
    assert raw.parse().tools[0].type == "web_search"


def test_an_unknown_previous_response(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="scripted", input="x", previous_response_id="resp_nothing")
    assert raised.value.code == "previous_response_not_found"
    assert raised.value.param == "previous_response_id"


def test_an_unknown_response_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.responses.retrieve("resp_nothing")
    assert raised.value.param == "response_id"
    with pytest.raises(openai.NotFoundError):
        client.responses.delete("resp_nothing")


def test_a_rate_limit_keeps_its_delay(client: OpenAI, model: Model) -> None:
    model.play(http_error(429, "Slow down", retry_after="7"))
    with pytest.raises(openai.RateLimitError) as raised:
        client.responses.create(model="scripted", input="x", stream=True)
    error = raised.value
    assert error.response.headers["retry-after"] == "7"
    assert "Slow down" in error.message
    assert error.code == "rate_limit_exceeded"


def test_a_server_error(client: OpenAI, model: Model) -> None:
    model.play(*[http_error(500, "Out of order")] * 10)
    with pytest.raises(openai.InternalServerError) as raised:
        client.responses.create(model="scripted", input="x")
    assert "Out of order" in raised.value.message


def test_a_stream_that_breaks_raises_after_what_came(client: OpenAI, model: Model) -> None:
    model.play(Reply(Text("Half an ans", chunks=2), Eof()))
    seen: list[ResponseStreamEvent] = []
    stream = client.responses.create(model="scripted", input="x", stream=True)
    with stream, pytest.raises(openai.APIError):
        seen.extend(stream)
    assert "response.completed" not in [event.type for event in seen]
    said = [event.delta for event in seen if event.type == "response.output_text.delta"]
    assert "".join(said) == "Half an ans"


@pytest.fixture(scope="module")
def locked(_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A gateway with two API keys."""
    keys = {"BASCULE__SERVER__API_KEYS": '["env:KEY_A", "sk-b"]', "KEY_A": "sk-a"}
    arguments = ["--upstream", _model.server.url, "--profile", "openai"]
    with gateway(tmp_path_factory.mktemp("locked"), *arguments, env=keys) as running:
        yield running


def _client(running: Running, key: str) -> OpenAI:
    return OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=0, timeout=20)


def test_authentication(locked: Running, model: Model) -> None:
    with _client(locked, "sk-wrong") as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            client.responses.create(model=MODEL, input="x")
        assert raised.value.code == "invalid_api_key"
        assert "sk-wrong" not in str(raised.value)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        with pytest.raises(openai.AuthenticationError):
            client.responses.retrieve("resp_nothing")


def test_a_key_sees_its_own_responses_only(locked: Running, model: Model) -> None:
    with _client(locked, "sk-a") as mine, _client(locked, "sk-b") as theirs:
        made = mine.responses.create(model=MODEL, input="x")
        assert mine.responses.retrieve(made.id).id == made.id
        with pytest.raises(openai.NotFoundError):
            theirs.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError) as raised:
            theirs.responses.create(model=MODEL, input="x", previous_response_id=made.id)
        assert raised.value.code == "previous_response_not_found"


def test_the_clients_key_does_not_go_upstream(locked: Running, model: Model) -> None:
    with _client(locked, "sk-a") as client:
        client.responses.create(model=MODEL, input="x")
    assert "authorization" not in model.last.headers
