"""The one gate before an execution: may this call run, must somebody be asked, or never?

The policy stands behind a port. A gateway's tools bring a rule with their binding; the client's own
runtime has the user's policy.
"""

from typing import Protocol, TypeVar

import msgspec


class Allow(msgspec.Struct, frozen=True):
    """The call runs."""


class Ask(msgspec.Struct, frozen=True):
    """Somebody has to say yes first; `why` is for them."""

    why: str | None = None


class Forbid(msgspec.Struct, frozen=True):
    """The call does not run; the reason is for the model."""

    reason: str


Verdict = Allow | Ask | Forbid
A_contra = TypeVar("A_contra", contravariant=True)

ALLOW = Allow()
ASK = Ask()


class Policy(Protocol[A_contra]):
    """What actions of some kind need."""

    def verdict(self, action: A_contra, /) -> Verdict: ...


Rule = Policy[str]
"""What a tool's calls need; an action is a complete call's arguments, as JSON."""


class Always(msgspec.Struct, frozen=True):
    """A rule that says the same of each call."""

    said: Verdict

    def verdict(self, arguments: str) -> Verdict:
        return self.said


class Question(msgspec.Struct, frozen=True):
    """What a client is asked: an item as it is shown, with its type and id, and the key of the item
    that answers it."""

    item: bytes
    key: str


class Answer(msgspec.Struct, frozen=True):
    """What somebody said to a question."""

    approved: bool
    reason: str | None = None

    def refusal(self) -> str:
        """What the model is told of a call that may not run."""
        said = "The user did not approve this call."
        return f"{said} {self.reason}" if self.reason else said
