"""`computer`: clicks and keys of the client's, answered with a screenshot."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item, Part
from bascule.protocols.responses.parts import check_part
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import answer, call, given, wire_name


class ComputerCall(msgspec.Struct):
    """View of a `computer_call`: one action, or several in order."""

    call_id: str
    action: dict[str, Any] | None = None
    actions: list[dict[str, Any]] | None = None


class ComputerCallOutput(msgspec.Struct):
    """View of a `computer_call_output`; the output is a screenshot."""

    call_id: str
    output: Part


class ComputerHandler(HostedHandler[None]):
    kind: ClassVar[str] = "computer"
    types: ClassVar[frozenset[str]] = frozenset(
        {"computer", "computer_use", "computer_use_preview"}
    )
    item_types: ClassVar[frozenset[str]] = frozenset({"computer_call", "computer_call_output"})

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "computer_call_output":
            shown = item.view(ComputerCallOutput, param)
            check_part(shown.output, f"{param}.output")
            return [answer(shown.call_id, [shown.output])]
        asked = item.view(ComputerCall, param)
        arguments = given(action=asked.action, actions=asked.actions)
        return [call(asked.call_id, wire_name(names, "computer"), arguments)]

    def answers(self, item: Item) -> str | None:
        if item.type != "computer_call_output":
            return None
        return item.view(ComputerCallOutput).call_id
