"""A server that cuts a prompt without saying so."""

import base64
from typing import Any

import pytest
import structlog

from bascule.engine.observe import PROMPT_CUT, looks_cut
from bascule.protocols.responses.response import Usage as Tokens
from bascule.testing import ModelServer, Reply, Usage
from tests.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("weak:prompt-cut")]

LONG = "The quick brown fox jumps over the lazy dog. " * 2000
"""About 20,000 tokens."""


async def told(usage: Usage, *, stream: bool = False, **fields: Any) -> tuple[str, list[Any]]:
    """The warning header, and the log's lines about cut prompts."""
    async with ModelServer(Reply("Fine.", usage)) as model, serving(model.url) as api:
        with structlog.testing.capture_logs() as logs:
            answer = await api.create(stream=stream, **fields)
    assert answer.response["status"] == "completed"
    lines = [line for line in logs if line["event"] == "prompt cut"]
    return answer.headers.get("x-bascule-warnings", ""), lines


async def test_a_cut_prompt_is_told_to_operator_and_client() -> None:
    warning, (line,) = await told(Usage(4096, 5), input=LONG)
    assert warning == PROMPT_CUT
    assert (line["upstream"], line["model"]) == ("mock", "mock-model")
    assert "fox" not in str(line)


async def test_the_log_says_it_of_streams_too() -> None:
    warning, lines = await told(Usage(4096, 5), stream=True, input=LONG)
    assert len(lines) == 1
    assert warning == ""


async def test_a_prompt_that_was_read_raises_no_alarm() -> None:
    assert await told(Usage(19_000, 5), input=LONG) == ("", [])


async def test_a_short_prompt_raises_no_alarm() -> None:
    assert await told(Usage(1, 5), input="Hello " * 2000) == ("", [])


async def test_images_do_not_count() -> None:
    data = base64.b64encode(bytes(range(256)) * 800).decode()
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    text = {"type": "input_text", "text": "What is this?"}
    message = {"role": "user", "content": [text, image]}
    assert await told(Usage(300, 5), input=[message]) == ("", [])


async def test_cached_tokens_count() -> None:
    """Some servers count them apart from the input."""
    usage = Usage(40, 5, extra={"prompt_cache_hit_tokens": 19_000})
    assert await told(usage, input=LONG) == ("", [])


async def test_the_next_rounds_of_a_chain_count_their_history() -> None:
    replies = [Reply("Fine.", Usage(20_000, 5)), Reply("Fine.", Usage(2048, 5))]
    async with ModelServer(replies) as model, serving(model.url) as api:
        first = await api.create(input=LONG)
        second = await api.create(previous_response_id=first.response["id"])
    assert "x-bascule-warnings" not in first.headers
    assert second.headers["x-bascule-warnings"] == PROMPT_CUT


@pytest.mark.parametrize("usage", [None, Tokens(), Tokens(output_tokens=5)])
def test_a_server_that_does_not_count_raises_no_alarm(usage: Tokens | None) -> None:
    assert not looks_cut(LONG.encode(), usage)
