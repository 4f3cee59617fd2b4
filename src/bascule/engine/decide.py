"""What a round means for the turn."""

from enum import Enum

import msgspec

from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.outcome import Call, Failed
from bascule.toolkit.registry import ToolEntry


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


def why_not_run(call: Call, entry: ToolEntry, schemas: ArgumentSchemas) -> Failed | None:
    """The outcome of a complete, gateway-owned call that cannot be run, in words that the model can
    act on; None for one that can."""
    if entry.ownership.binding is None:
        return Failed(message="This server has no executor for the tool.")
    schema = None if entry.lenient else schemas.of(entry.wire)
    fault = schema.fault(call.arguments) if schema is not None else None
    return None if fault is None else Failed(message=fault, code="invalid_arguments")
