"""What a session tells whoever watches: a display, a log, a program that reads lines."""

from collections.abc import Callable
from typing import Literal

import msgspec

from bascule.agent.actions import Action

PlanStatus = Literal["pending", "in_progress", "completed"]
TurnStatus = Literal["completed", "incomplete", "failed", "interrupted"]


class Usage(msgspec.Struct):
    """Tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def add(self, other: "Usage") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class SessionStarted(msgspec.Struct, frozen=True):
    session_id: str
    model: str
    cwd: str
    sandbox: str
    approval: str
    resumed: bool = False


class TurnStarted(msgspec.Struct, frozen=True):
    turn_id: str
    prompt: str


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer."""

    item_id: str
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of what the model thinks, or of its summary."""

    item_id: str
    text: str


class MessageDone(msgspec.Struct, frozen=True):
    """A whole message of the model's."""

    item_id: str
    text: str


class ReasoningDone(msgspec.Struct, frozen=True):
    item_id: str
    text: str


class ServerItem(msgspec.Struct, frozen=True):
    """An item of the server's own tools, such as a search: its type and its JSON."""

    type: str
    item: bytes


class CallWriting(msgspec.Struct, frozen=True):
    """The model writes what it calls a tool with: the text so far, for display only."""

    call_id: str
    tool: str
    text: str


class ToolBegan(msgspec.Struct, frozen=True):
    """A call runs. `action` says what it is about to do, where that is known."""

    call_id: str
    tool: str
    called_with: str
    action: Action | None = None


class ToolPrinted(msgspec.Struct, frozen=True):
    """Something that a call prints while it runs."""

    call_id: str
    text: str


class ToolEnded(msgspec.Struct, frozen=True):
    """`outcome` is that of the protocol; `exit_code` is of the command, if one has ended."""

    call_id: str
    tool: str
    outcome: Literal["completed", "failed", "aborted"]
    text: str
    seconds: float
    exit_code: int | None = None
    action: Action | None = None


class Decided(msgspec.Struct, frozen=True):
    """Whether a call may run, and who said so."""

    call_id: str
    tool: str
    decision: str
    source: Literal["config", "user"]


class Step(msgspec.Struct, frozen=True):
    step: str
    status: PlanStatus


class PlanUpdated(msgspec.Struct, frozen=True):
    explanation: str | None
    plan: tuple[Step, ...]


class Diff(msgspec.Struct, frozen=True):
    """All that the turn's patches have changed, told at its end."""

    diff: str


class Warned(msgspec.Struct, frozen=True):
    """Something that did not end the turn."""

    message: str


class TurnEnded(msgspec.Struct, frozen=True):
    """`error` says why it failed, or is incomplete."""

    turn_id: str
    status: TurnStatus
    usage: Usage
    seconds: float
    error: str | None = None


Event = (
    SessionStarted
    | TurnStarted
    | TextDelta
    | ReasoningDelta
    | MessageDone
    | ReasoningDone
    | ServerItem
    | CallWriting
    | ToolBegan
    | ToolPrinted
    | ToolEnded
    | Decided
    | PlanUpdated
    | Diff
    | Warned
    | TurnEnded
)
Listener = Callable[[Event], None]
"""Takes events as they happen; it must not block."""
