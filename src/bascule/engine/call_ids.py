"""Ids of calls, which outputs name to say which call they answer."""

from collections.abc import Iterable, Sequence

from bascule.protocols.ids import mint
from bascule.protocols.responses.items import Flat, FunctionCall, FunctionCallOutput, Passed


class CallIds:
    """Those of one turn: the ones of its history are taken."""

    def __init__(self, history: Sequence[Flat]) -> None:
        self._taken = _call_ids(history)

    def unique(self, call_id: str) -> str:
        """The server's id of a call, or one of ours where an earlier call has it: weak servers begin
        anew with each answer."""
        if call_id in self._taken:
            call_id = mint("call")
        self._taken.add(call_id)
        return call_id


def _call_ids(history: Iterable[Flat]) -> set[str]:
    """Those that calls and outputs of a history have."""
    ids: set[str] = set()
    for item in history:
        if isinstance(item, (FunctionCall, FunctionCallOutput)):
            ids.add(item.call_id)
        elif isinstance(item, Passed):
            ids.update(id_ for id_ in (item.call_id, item.answers) if id_ is not None)
    return ids
