"""A request as the server has logged it."""

from functools import cached_property
from typing import Any

import msgspec

from bascule.testing.steps import Json


class Request(msgspec.Struct, kw_only=True, dict=True):
    """A request. Header names are lower case; `time` is the event loop's clock, in seconds.

    `number` counts the chat requests from 1; it is 0 for all others.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    time: float
    keep_alive: bool = True
    number: int = 0

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @cached_property
    def json(self) -> Json:
        """The body as a JSON object. Raises `ValueError` if it is something else."""
        return msgspec.json.decode(self.body, type=dict[str, Any])

    @property
    def stream(self) -> bool:
        return self.json.get("stream") is True

    @property
    def model(self) -> str:
        return str(self.json.get("model", ""))

    @property
    def messages(self) -> list[Json]:
        return self.json.get("messages") or []

    @property
    def tools(self) -> list[Json]:
        return self.json.get("tools") or []
