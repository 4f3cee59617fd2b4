"""Recorded exchanges as answers."""

from typing import Any

from bascule.testing.answer import Answer, Reply, Wire, http_json
from bascule.testing.steps import Chunk, Comment, Data, Eof, Json, Step

_KEPT = ("retry-after", "x-request-id", "request-id")


def recorded(exchange: Json) -> Answer:
    """The answer of a recorded exchange: its `events` as a stream, else its `response` with its `status`.

    The stream ends in `[DONE]` unless `done_marker` is false. An exchange with comments begins with one.
    Headers other than those that a client may act on are the server's own.
    """
    headers: dict[str, Any] = exchange.get("headers") or {}
    kept = {name: str(headers[name]) for name in _KEPT if name in headers}
    if "events" not in exchange:
        return http_json(exchange.get("status") or 200, exchange.get("response"), kept)
    steps: list[Step] = [Comment()] if exchange.get("comments") else []
    steps += [Chunk(event) for event in exchange["events"]]
    if exchange.get("done_marker") is not False:
        steps.append(Data("[DONE]"))
    return Reply(*steps, Eof(), wire=Wire(answer="sse"), headers=kept)
