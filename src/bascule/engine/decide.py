"""What a round means for the turn."""

from enum import Enum

import msgspec


class Step(Enum):
    """How the loop goes on. The public status of `CLIENT_ACTION` is `completed`."""

    CONTINUE = "continue"
    DONE = "done"
    CLIENT_ACTION = "client_action"
    INCOMPLETE = "incomplete"


class LoopDecision(msgspec.Struct, frozen=True):
    step: Step
    reason: str | None = None
    """Of INCOMPLETE: a value of `incomplete_details.reason`."""


def classify_round(
    *,
    client_calls: int,
    gateway_calls: int,
    suspended: int,
    incomplete_reason: str | None,
    rounds_left: int,
) -> LoopDecision:
    """By precedence: a cut answer, then what waits for the client, then the gateway's own calls.

    Gateway-owned calls of the round have run when this is asked.
    """
    if incomplete_reason is not None:
        return LoopDecision(Step.INCOMPLETE, incomplete_reason)
    if client_calls or suspended:
        return LoopDecision(Step.CLIENT_ACTION)
    if not gateway_calls:
        return LoopDecision(Step.DONE)
    if rounds_left <= 0:
        return LoopDecision(Step.INCOMPLETE, "max_messages")
    return LoopDecision(Step.CONTINUE)
