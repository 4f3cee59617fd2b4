"""Whose a round's calls are, and what is told of those that the gateway does not run."""

from collections.abc import Sequence

from bascule.engine.accumulator import RoundCall
from bascule.telemetry.observe import TurnObserver
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
