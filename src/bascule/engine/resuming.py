"""Calls that an earlier turn has suspended, and the input that answers them."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.items import FunctionCallOutput, Item
from bascule.toolkit.discovery import Discovery
from bascule.toolkit.handler import Handlers
from bascule.toolkit.names import Ledger
from bascule.toolkit.outcome import SuspendedCall
from bascule.toolkit.plan import ToolPlan
from bascule.toolkit.prepare import recalled
from bascule.toolkit.registry import ToolEntry


class _Declared(msgspec.Struct):
    type: str = ""


_declared = json.decoder(_Declared)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A call that goes on in round zero, under which tool, and with what it waited for."""

    suspended: SuspendedCall
    entry: ToolEntry
    answers: Sequence[Item]


def claim(
    inputs: Sequence[Item], suspended: Sequence[SuspendedCall], handlers: Handlers
) -> list[tuple[SuspendedCall, list[Item]]]:
    """The calls that go on, with their answers, which say nothing to the model themselves; an answer
    that refuses is all that the model hears of its call. Raises ApiError 400 when one is missing, or
    there twice."""
    awaited = {key: call for call in suspended for key in call.awaits}
    if not awaited:
        return []
    answers: dict[str, Item] = {}
    refused: set[str] = set()
    for i, item in enumerate(inputs):
        key = answer_key(item, handlers)
        call = awaited.get(key)
        if call is None:
            continue
        if key in answers:
            raise invalid(f"'{key}' is answered twice.", f"input[{i}]", "duplicate_answer")
        answers[key] = item
        item.model = []
        handler = handlers.for_item(item.type)
        if call.approval and handler is not None:
            said = handler.approval(item, f"input[{i}]")
            if not said.approved:
                item.model = [FunctionCallOutput(call.call.call_id, said.refusal())]
                refused.add(key)
    for key, call in awaited.items():
        if key not in answers:
            raise invalid(_unanswered(key, call, handlers), "input")
    return [
        (call, [answers[key] for key in call.awaits])
        for call in suspended
        if refused.isdisjoint(call.awaits)
    ]


def _unanswered(key: str, call: SuspendedCall, handlers: Handlers) -> str:
    type_ = "" if call.tool == b"null" else _declared(call.tool).type
    handler = handlers.for_type(type_)
    if handler is None:
        return f"No tool output found for function call {key}."
    return handler.unanswered(key)


async def resume(
    claimed: Sequence[tuple[SuspendedCall, Sequence[Item]]],
    plan: ToolPlan,
    handlers: Handlers,
    names: Ledger,
    discovery: Discovery,
) -> list[Resumed]:
    """Each call with its tool: this turn's, or the one that it was made under if the request does not
    declare it. Raises ApiError 400 where that is not enough."""
    return [
        Resumed(call, await _entry(call, plan, handlers, names, discovery), answers)
        for call, answers in claimed
    ]


async def _entry(
    suspended: SuspendedCall,
    plan: ToolPlan,
    handlers: Handlers,
    names: Ledger,
    discovery: Discovery,
) -> ToolEntry:
    wire = suspended.call.name
    found = plan.registry.lookup(wire)
    if (found is None or found.wire != wire) and suspended.tool != b"null":
        fixed = Ledger(names.limit, names.table())
        try:
            recall = await recalled(Raw(suspended.tool), handlers, fixed, discovery)
        except (
            ApiError
        ) as e:  # the stored declaration is at fault, and stands nowhere in this request
            raise invalid(e.message, "tools", e.code) from e
        found = recall.registry.lookup(wire)
    if found is None or found.wire != wire or found.ownership.binding is None:
        raise invalid(
            f"A call of '{wire}' goes on in this turn, and its tool is not declared.", "tools"
        )
    return found


def answer_key(item: Item, handlers: Handlers) -> str:
    """What the item answers; empty for one that answers nothing."""
    handler = handlers.for_item(item.type)
    return (handler.answers(item) if handler is not None else None) or ""
