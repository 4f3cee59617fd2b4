"""`update_plan`: the steps of the work, for the user to see."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.events import PlanStatus, PlanUpdated, Step
from bascule.agent.handler import (
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)

_STATUSES: Final[Sequence[PlanStatus]] = ("pending", "in_progress", "completed")


class PlanStep(msgspec.Struct, forbid_unknown_fields=True):
    step: Annotated[str, Meta(min_length=1)]
    status: PlanStatus


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    plan: list[PlanStep]
    explanation: str | None = None


class UpdatePlan(LocalHandler):
    name = ToolName(None, "update_plan")

    def spec(self) -> ToolSpec:
        step = schema(
            ["step", "status"],
            step={"type": "string"},
            status={"type": "string", "enum": list(_STATUSES)},
        )
        return function(
            "update_plan",
            "Shows the user the plan of a longer work, and how far it is. At most one step is "
            "in_progress.",
            schema(
                ["plan"],
                explanation={"type": "string", "description": "Why the plan has changed."},
                plan={"type": "array", "items": step, "description": "All steps, in order."},
            ),
        )

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, Arguments)
        if sum(step.status == "in_progress" for step in asked.plan) > 1:
            raise ToolFault("failed to parse function arguments: more than one step is in_progress")
        steps = tuple(Step(step.step, step.status) for step in asked.plan)
        invocation.turn.emit(PlanUpdated(asked.explanation, steps))
        return ToolOutput(content="Plan updated")
