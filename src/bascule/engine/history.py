"""What came before, as the model's server can read it."""

from collections.abc import Iterable, Sequence

from bascule.engine.seal import Sealer
from bascule.engine.state import Origin
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, Item, Message, Part, Reasoning, Thought
from bascule.protocols.responses.parts import TEXT_PARTS, check_part
from bascule.toolkit.handler import Handlers
from bascule.toolkit.names import Ledger


class Flattener:
    """Flattens items for one upstream and model. `warnings` collects what had to be left out."""

    def __init__(
        self, handlers: Handlers, names: Ledger, sealer: Sealer, upstream: str, model: str
    ) -> None:
        self._handlers = handlers
        self._names = names
        self._sealer = sealer
        self._upstream = upstream
        self._model = model
        self.warnings: list[str] = []

    def flatten(self, items: Iterable[Item], param: str = "input") -> list[Flat]:
        """Raises ApiError 400 that names the item which is malformed or unknown."""
        flat: list[Flat] = []
        for i, item in enumerate(items):
            if item.model is not None:
                flat += item.model
            elif item.type == "message":
                message = item.known(Message) or item.view(Message, f"{param}[{i}]")
                if not isinstance(message.content, str):
                    _check_parts(message.content, param, i)
                flat.append(message)
            else:
                flat += self._other(item, f"{param}[{i}]")
        return flat

    def _other(self, item: Item, param: str) -> Sequence[Flat]:
        if item.type == "reasoning":
            return self._reasoning(item.view(Reasoning, param))
        handler = self._handlers.for_item(item.type)
        if handler is None:
            raise invalid(
                f"Invalid value: '{item.type}'. Items of this type are not supported here.",
                f"{param}.type",
                "unsupported_value",
            )
        return handler.flatten(item, self._names, param)

    def _reasoning(self, item: Reasoning) -> Sequence[Flat]:
        if item.encrypted_content is not None:
            opened = self._sealer.open(item.encrypted_content)
            if opened is None:
                self.warnings.append("reasoning whose encrypted_content does not open was left out")
                return ()
            same = (opened.upstream, opened.model) == (self._upstream, self._model)
            return [Thought(opened.text, opened.details if same else [])]
        if item.content:
            return [Thought("".join(part.text for part in item.content))]
        return ()

    def stored(self, item: Item, origin: Origin | None) -> Item:
        """An item of our own store, with what was kept of its origin."""
        if origin is None:
            return item
        if origin.model is not None:
            item.model = origin.model
        elif item.type == "reasoning":
            view = item.view(Reasoning)
            text = "".join(part.text for part in view.content or view.summary)
            same = (origin.upstream, origin.model_name) == (self._upstream, self._model)
            item.model = [Thought(text, origin.details if same else [])]
        return item


def _check_parts(content: Sequence[Part], param: str, i: int) -> None:
    for j, part in enumerate(content):
        if part.type not in TEXT_PARTS or part.text is None:
            check_part(part, f"{param}[{i}].content[{j}]")
