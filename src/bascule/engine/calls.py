"""Whose a round's calls are, what is told of those that the gateway does not run, and what the model
reads of calls."""

from collections.abc import Sequence

from bascule.engine.accumulator import RoundCall
from bascule.protocols import json
from bascule.protocols.responses.items import FunctionCall, FunctionCallOutput
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.outcome import Failed, Output
from bascule.toolkit.ownership import Owner

UNDECLARED = "undeclared"


def is_client(call: RoundCall) -> bool:
    """Whether a call is handed back to the client."""
    if call.refused or call.status == "incomplete":
        return False
    return call.entry is None or call.entry.ownership.owner is not Owner.GATEWAY


def note_calls(observed: TurnObserver, calls: Sequence[RoundCall]) -> None:
    """Executions tell of themselves; these calls have none."""
    for call in calls:
        kind = UNDECLARED if call.entry is None else call.entry.identity.kind
        if call.refused:
            observed.tool_call(kind, "refused")
        elif call.status == "incomplete":
            observed.tool_call(kind, "incomplete")
        elif is_client(call):
            observed.tool_call(kind, "client")
        elif call.fault is not None:
            observed.tool_call(kind, "failed")


def flat_call(call: RoundCall) -> FunctionCall:
    """The call as the model made it; servers refuse histories in which arguments are no object."""
    arguments = call.call.arguments
    if call.refused and not json.is_object(arguments):
        arguments = json.encode({"arguments": arguments}).decode()
    return FunctionCall(call.call.call_id, call.call.name, arguments)


def flat_output(call: RoundCall, outcome: Output | Failed) -> FunctionCallOutput:
    if isinstance(outcome, Output):
        return FunctionCallOutput(call.call.call_id, outcome.output)
    return FunctionCallOutput(call.call.call_id, json.encode({"error": outcome.message}).decode())
