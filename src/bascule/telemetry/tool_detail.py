"""What of a tool call may be told, besides its type and how it ended."""

from dataclasses import dataclass, field
from typing import Final

from bascule.telemetry.redact import Redactor

_LIMIT: Final = 4096
_MARGIN: Final = 1024
"""So that a key at the edge is seen whole before it is masked."""


@dataclass(frozen=True, slots=True)
class ToolDetail:
    """By `[telemetry]`: `names` are the tool's name and the call's id, `content` are arguments and
    results. Keys are masked, long texts cut."""

    names: bool = False
    content: bool = False
    redactor: Redactor = field(default_factory=Redactor)
    limit: int = _LIMIT
    """Characters of one text."""

    def of_call(self, name: str, call_id: str, arguments: str) -> dict[str, str]:
        """What may be told of a call, by the names that log lines use."""
        told: dict[str, str] = {}
        if self.names:
            told["tool"] = self.shown(name)
            told["call_id"] = self.shown(call_id)
        if self.content:
            told["arguments"] = self.shown(arguments)
        return told

    def shown(self, text: str) -> str:
        """A text that may be told."""
        beginning = text[: self.limit + _MARGIN]
        masked = self.redactor.text(beginning)
        if len(beginning) == len(text) and len(masked) <= self.limit:
            return masked
        return f"{masked[: self.limit]} [cut: {len(text)} characters]"
