"""Input that answers calls which an earlier turn has suspended."""

from collections.abc import Sequence

from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Item
from bascule.toolkit.handler import Handlers
from bascule.toolkit.outcome import SuspendedCall


def claimed(
    inputs: Sequence[Item], suspended: Sequence[SuspendedCall], handlers: Handlers
) -> list[Item]:
    """The input, in which answers to suspended calls say nothing to the model themselves. ApiError
    400 when one is missing."""
    awaited = {key for call in suspended for key in call.awaits}
    if not awaited:
        return list(inputs)
    answered: set[str] = set()
    for item in inputs:
        key = answer_key(item, handlers)
        if key in awaited:
            item.model = []
            answered.add(key)
    missing = sorted(awaited - answered)
    if missing:
        raise invalid(f"No tool output found for function call {missing[0]}.", "input")
    return list(inputs)


def answer_key(item: Item, handlers: Handlers) -> str:
    """What the item answers; empty for one that answers nothing."""
    handler = handlers.for_item(item.type)
    return (handler.answers(item) if handler is not None else None) or ""
