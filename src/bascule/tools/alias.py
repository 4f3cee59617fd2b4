"""A client's own function that the operator takes over: its calls run here, under another tool type."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Raw

from bascule.config import ConfigError
from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.toolkit.handler import ToolHandler
from bascule.toolkit.names import Identity
from bascule.toolkit.ownership import Ownership
from bascule.tools.function import FunctionHandler, FunctionParams


class AliasHandler(FunctionHandler):
    """The model knows the function as the client has declared it; who runs it is another handler's
    business, and so is what the client sees of the call."""

    types: ClassVar[frozenset[str]] = frozenset()
    item_types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def owner(self, params: FunctionParams, identity: Identity) -> Ownership:
        return self._ownership


def alias_handlers(
    aliases: Mapping[str, str], handlers: Sequence[ToolHandler[Any]]
) -> dict[str, ToolHandler[Any]]:
    """A handler for each name. Raises ConfigError for a type that nothing here runs."""
    return {
        name: AliasHandler(_ownership(name, type_, handlers)) for name, type_ in aliases.items()
    }


def _ownership(name: str, type_: str, handlers: Sequence[ToolHandler[Any]]) -> Ownership:
    place = f"tools.aliases.{name}"
    target = next((handler for handler in handlers if type_ in handler.types), None)
    if target is None:
        raise ConfigError(f"{place}: there is no tool type '{type_}'")
    try:
        params = target.parse(Raw(json.encode({"type": type_})), place)
        tools = target.normalize(params)
    except ApiError as e:
        raise ConfigError(f"{place}: '{type_}' cannot run it: {e.message}") from None
    ownership = target.owner(params, tools[0].identity) if len(tools) == 1 else None
    if ownership is None or ownership.binding is None:
        raise ConfigError(f"{place}: nothing here runs tools of the type '{type_}'")
    return ownership
