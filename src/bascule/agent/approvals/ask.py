"""A question to the user, and what may be answered."""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from bascule.agent.actions import Action

Choice = Literal["yes", "session", "always", "no", "abort"]
"""Once; for the rest of the session; for all commands of this beginning, from now on; no, go on
without; no, and stop the turn."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    tool: str
    action: Action
    why: str
    choices: tuple[Choice, ...]
    retry: bool = False
    """Whether it was tried already, and the sandbox stopped it."""


class Reply(msgspec.Struct, frozen=True):
    """`reason` is the user's own, for the model."""

    choice: Choice
    reason: str | None = None


Approver = Callable[[Question], Awaitable[Reply]]
"""Asks a person."""
