"""Recorded exchanges are answered as they were."""

from typing import Any

import pytest

from bascule.testing import ModelServer, recorded
from tests.testing.http import ask

pytestmark = pytest.mark.anyio

EVENTS: list[dict[str, Any]] = [
    {"id": "1", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]},
    {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


async def test_a_recorded_stream() -> None:
    script = [
        recorded({"status": 200, "events": EVENTS, "comments": {": X": 1}}),
        recorded({"events": EVENTS, "done_marker": False}),
    ]
    async with ModelServer(script) as server:
        with_done = await ask(server, stream=True)
        without = await ask(server, stream=True)
    assert with_done.events == without.events == EVENTS
    assert (with_done.done, without.done) == (True, False)
    assert with_done.body.startswith(b":")


async def test_a_recorded_body() -> None:
    exchange = {
        "status": 429,
        "headers": {"retry-after": "3", "content-length": "999", "date": "x"},
        "response": {"error": {"message": "slow down"}},
    }
    async with ModelServer(recorded(exchange)) as server:
        answer = await ask(server)
    assert (answer.status, answer.json) == (429, exchange["response"])
    assert answer.headers["retry-after"] == "3"
    assert "date" not in answer.headers
