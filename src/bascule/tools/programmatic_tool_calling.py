"""`programmatic_tool_calling`: programs that the model writes, which call tools.

Nothing here runs programs: the declaration is accepted, and tools that only programs may call are not
offered. A program of a history that has ended is told to the model in words; one that has not cannot go
on.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, Item, Message
from bascule.toolkit.names import Ledger
from bascule.toolkit.outcome import SuspendedCall
from bascule.tools.hosted import HostedHandler


class Program(msgspec.Struct):
    """View of a `program`."""

    call_id: str
    code: str


class ProgramOutput(msgspec.Struct):
    """View of a `program_output`."""

    call_id: str
    result: str
    status: str | None = None


class ProgrammaticToolCallingHandler(HostedHandler[None]):
    kind: ClassVar[str] = "programmatic_tool_calling"
    types: ClassVar[frozenset[str]] = frozenset({"programmatic_tool_calling"})
    item_types: ClassVar[frozenset[str]] = frozenset({"program", "program_output"})
    settles: ClassVar[bool] = True

    def parse(self, declaration: Raw, param: str) -> None:
        """It has no options."""

    def settle(self, items: Sequence[tuple[Item, str]], names: Ledger) -> Sequence[SuspendedCall]:
        ended = {
            item.view(ProgramOutput, param).call_id
            for item, param in items
            if item.type == "program_output"
        }
        for item, param in items:
            if item.type == "program" and item.view(Program, param).call_id not in ended:
                raise invalid(
                    "The program has not ended, and nothing here can run it: go on with the server that "
                    "began it, or without the program.",
                    param,
                    "unsupported_value",
                )
        return ()

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "program":
            code = item.view(Program, param).code
            return [Message("assistant", f"I ran this program:\n\n{code}")]
        said = item.view(ProgramOutput, param)
        how = "" if said.status in (None, "completed") else f" (it is {said.status})"
        return [Message("assistant", f"The program's result{how}:\n\n{said.result}")]
