"""How a search is shown to the client."""

from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.events import OtherItemEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools import web_search_actions as actions


class Shown(msgspec.Struct):
    """What a call was found to be, for its item. Readers see the sources of the action and the results
    only if they ask for them."""

    action: Raw
    results: Raw = Raw(b"null")


_shown = json.decoder(Shown)


class SearchProjection(Projection):
    """`web_search_call`: added without its action, in_progress, searching, completed, done, as recorded at
    OpenAI. One that failed is not completed, and has the status `failed`."""

    id_prefix: ClassVar[str] = "ws"

    def __init__(self, writer: ItemWriter, call: Call) -> None:
        super().__init__(writer, call)
        self._action: Any = {"type": "search", "query": "", "queries": []}

    def begin(self) -> None:
        self.writer.added(self._item("in_progress"))
        self._event("in_progress")

    def complete(self, arguments: str, status: ItemStatus) -> None:
        action = actions.read(arguments)
        if not isinstance(action, str):
            self._action = actions.shown(action)
        if status == "incomplete":
            self.writer.done(self._item("incomplete", action=self._action))
        else:
            self._event("searching")

    def finish(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self.writer.done(self._item("failed", action=self._action))
        elif isinstance(outcome, Output):
            self._event("completed")
            self.writer.done(self._item("completed", **self._found(outcome)))

    def _found(self, outcome: Output) -> dict[str, Any]:
        if outcome.public == b"null":  # it was too large
            return {"action": self._action}
        found = _shown(outcome.public)
        if bytes(found.results) == b"null":
            return {"action": found.action}
        return {"action": found.action, "results": found.results}

    def _event(self, name: str) -> None:
        self.writer.event(OtherItemEvent(-1, "", 0, f"response.web_search_call.{name}", {}))

    def _item(self, status: str, **members: Any) -> dict[str, Any]:
        id_ = self.writer.item_id
        return {"id": id_, "type": "web_search_call", "status": status, **members}
