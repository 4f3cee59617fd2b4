"""The public item of a plugin's calls, `slug:name_call`, and its events.

Open Responses R34 and R45: types of items and events that are not the standard's are `slug:name`;
such an event has `type` and `sequence_number`, and here `item_id` and `output_index` as well.
"""

from typing import ClassVar, Literal

import msgspec

from bascule.protocols.responses.events import OtherItemEvent
from bascule.protocols.responses.items import ItemStatus, Part
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.projection import ItemWriter, Projection


class CallError(msgspec.Struct):
    code: str
    message: str


class CallItem(msgspec.Struct, kw_only=True):
    """As the client sees it. `arguments` is the JSON text of the model."""

    type: str
    id: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    arguments: str = ""
    output: str | list[Part] | None = None
    error: CallError | None = None


class CallView(msgspec.Struct):
    """View of such an item in a history."""

    arguments: str
    status: str | None = None
    output: str | list[Part] | None = None
    error: CallError | None = None


class CallProjection(Projection):
    """Added, `slug:name_call.in_progress`, `slug:name_call_arguments.delta` as the model writes and
    `.done`, then `slug:name_call.completed` or `.failed`, and done. A call that the model did not
    finish has no end but its item's."""

    id_prefix: ClassVar[str] = "ext"

    def __init__(self, writer: ItemWriter, call: Call, type_: str) -> None:
        super().__init__(writer, call)
        self._type = f"{type_}_call"
        self._arguments = ""

    def begin(self) -> None:
        self.writer.added(self._item("in_progress"))
        self._event(".in_progress")

    def arguments(self, fragment: str) -> None:
        if fragment:
            self._event("_arguments.delta", delta=fragment)

    def complete(self, arguments: str, status: ItemStatus) -> None:
        self._arguments = arguments
        self._event("_arguments.done", arguments=arguments)
        if status == "incomplete":
            self.writer.done(self._item("incomplete"))

    def finish(self, outcome: Outcome) -> None:
        item = self._item("completed")
        if isinstance(outcome, Failed):
            item.status = "failed"
            item.error = CallError(outcome.code, outcome.message)
        elif isinstance(outcome, Output):
            item.output = outcome.output
        self._event(f".{item.status}")
        self.writer.done(item)

    def _event(self, name: str, **fields: str) -> None:
        self.writer.event(OtherItemEvent(-1, "", 0, f"{self._type}{name}", fields))

    def _item(self, status: Literal["in_progress", "completed", "incomplete"]) -> CallItem:
        return CallItem(
            type=self._type, id=self.writer.item_id, status=status, arguments=self._arguments
        )
