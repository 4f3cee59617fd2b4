"""`namespace`: a group of functions and custom tools, whose names count within the group."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.request import ToolRef
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection


class NamespaceParams(msgspec.Struct):
    """`description` may be empty; `tools` are declarations of members."""

    name: str
    tools: list[Raw]
    description: str | None = None


class _Member(msgspec.Struct):
    type: str


_decode = json.decoder(NamespaceParams)
_member = json.decoder(_Member)


class Namespace(msgspec.Struct):
    """A declaration with its members parsed, each by the handler of its type."""

    name: str
    description: str
    members: list[tuple[ToolHandler[Any], Raw, Any]]


class NamespaceHandler(ToolHandler[Namespace]):
    """The model is told of functions that say what their group is for; the client reads calls with
    the namespace beside the name."""

    types: ClassVar[frozenset[str]] = frozenset({"namespace"})
    names_late: ClassVar[bool] = False

    def __init__(self, members: Sequence[ToolHandler[Any]]) -> None:
        """`members` are the handlers of the types that a namespace may hold, one type each."""
        self._members = {name: handler for handler in members for name in handler.types}

    def parse(self, declaration: Raw, param: str) -> Namespace:
        params = json.field(_decode, declaration, param)
        if not params.name:
            raise invalid(f"'{param}.name' is empty.", f"{param}.name", "empty_string")
        members: list[tuple[ToolHandler[Any], Raw, Any]] = []
        for i, member in enumerate(params.tools):
            place = f"{param}.tools[{i}]"
            type_ = json.field(_member, member, place).type
            handler = self._members.get(type_)
            if handler is None:
                known = " and ".join(f"'{name}'" for name in self._members)
                raise invalid(
                    f"Invalid value: '{type_}'. A namespace holds tools of the types {known}.",
                    f"{place}.type",
                    "invalid_value",
                )
            members.append((handler, member, handler.parse(member, place)))
        return Namespace(params.name, params.description or "", members)

    def normalize(self, params: Namespace) -> Sequence[Tool]:
        return [
            self._in_namespace(tool, params, i, member)
            for i, (handler, member, parsed) in enumerate(params.members)
            for tool in handler.normalize(parsed)
        ]

    def _in_namespace(self, tool: Tool, params: Namespace, i: int, member: Raw) -> Tool:
        return msgspec.structs.replace(
            tool,
            identity=Identity.of(params.name, tool.identity.name, tool.identity.kind),
            description=_joined(params.description, tool.description),
            shown_namespace=params.name,
            declaration=member,
            place=f"tools[{i}].",
            ignored=[f"tools[{i}].{path}" for path in tool.ignored] if tool.ignored else (),
        )

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        """A member by namespace and name, or all of a namespace."""
        if ref.type == "namespace":
            return Identity.of(ref.name, identity.name, identity.kind) == identity
        named = Identity.of(ref.namespace, ref.name or "", ref.type)
        return ref.namespace is not None and named == identity

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection | None:
        return self._members[identity.kind].restore(writer, call, identity)

    def echo(self, declaration: Raw, params: Namespace) -> Raw:
        members = json.envelope(bytes(declaration))
        shown = [handler.echo(member, parsed) for handler, member, parsed in params.members]
        return Raw(json.encode({**members, "tools": shown}))


def _joined(of_namespace: str, own: str | None) -> str | None:
    """Both descriptions, or the one that there is."""
    if of_namespace and own:
        return f"{of_namespace}\n\n{own}"
    return of_namespace or own or None
