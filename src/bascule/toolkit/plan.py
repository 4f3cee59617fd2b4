"""What stages 1 to 4 come to: the model's functions, and the registry for its calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.function import FunctionSpec, Offered, WireChoice
from bascule.protocols.responses.request import ToolChoice, ToolRef
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.discovery import Announcement
from bascule.toolkit.names import DEFAULT_NAMESPACE, Identity, Ledger
from bascule.toolkit.ownership import UPSTREAM, Owner, Ownership
from bascule.toolkit.registry import ToolEntry, ToolRegistry


@dataclass(frozen=True, slots=True)
class NativeTool:
    """A declaration that the model's server takes as it is: calls are its own business, or come back
    as items for the client; none of them is routed here."""

    type: str
    name: str | None
    server_label: str | None
    declaration: Raw
    shown: Raw
    """The declaration without its secrets."""
    ownership: Ownership = UPSTREAM

    def chosen(self, ref: ToolRef) -> bool:
        """Whether a tool choice names this tool; of an MCP server it may name one function."""
        if ref.type != self.type or ref.server_label != self.server_label:
            return False
        return self.name is None or ref.name == self.name


@dataclass(frozen=True)
class ToolPlan:
    """The outcome for one list of declarations. Never changed, so it may serve many turns."""

    offered: tuple[Offered, ...]
    """What the model's server is told of, in the order of the declarations."""
    registry: ToolRegistry
    names: Ledger
    """The names of the tools, and of nothing else."""
    echo: bytes
    """The declarations as the response shows them: a JSON list."""
    schemas: ArgumentSchemas
    """The functions' parameters, for checks of what they are called with."""
    natives: tuple[NativeTool, ...] = ()
    ignored: tuple[str, ...] = ()
    """JSON paths of what has no effect: tools that nothing here can run, members without a meaning."""
    warnings: tuple[str, ...] = ()
    """What the client is to be told of the declarations."""
    strict: tuple[str, ...] = ()
    """JSON paths of `strict` where it is true, which not every server understands."""
    announced: tuple[Announcement, ...] = ()
    """What the client is shown of what was found out about the tools."""
    _encoded: dict[object, bytes] = field(default_factory=dict[object, bytes])

    @cached_property
    def functions(self) -> Sequence[FunctionSpec]:
        """Those of what is offered that are functions."""
        return [tool for tool in self.offered if isinstance(tool, FunctionSpec)]

    @cached_property
    def function_names(self) -> Sequence[str]:
        return [spec.name for spec in self.functions]

    @cached_property
    def is_verbatim(self) -> bool:
        """Whether a server that speaks Responses is told the declarations as they are, and no call
        is the gateway's."""
        return not self.ignored and all(
            entry.identity == (None, entry.wire, "function")
            and entry.shown_namespace is None
            and entry.ownership.owner is Owner.CLIENT
            for entry in self.registry
        )

    def encoded(self, key: object, encode: Callable[[Sequence[Offered]], bytes]) -> bytes:
        """The list in an upstream's form, made once for each `key`; empty if there is nothing."""
        found = self._encoded.get(key)
        if found is None:
            found = encode(self.offered) if self.offered else b""
            self._encoded[key] = found
        return found

    def canonical(self, name: str) -> str:
        """The wire name of the tool that a model means by a name; the name itself if there is none."""
        entry = self.registry.lookup(name)
        return name if entry is None else entry.wire

    def resolve(self, choice: ToolChoice) -> WireChoice:
        """A tool choice in wire names. Raises ApiError 400 for a tool that is not declared, or that
        must be called and cannot."""
        if choice.named is not None:
            wires, natives = self._find([choice.named])
            if natives:
                return WireChoice("required", native=tuple(natives))
            if not wires:
                raise _unavailable(f"Tool choice '{choice.named.type}' cannot be forced")
            if len(wires) == 1:
                return WireChoice("required", wires[0])
            return WireChoice("required", None, tuple(wires))
        if choice.allowed is not None:
            wires, natives = self._find(choice.allowed)
            if choice.mode == "required" and not wires and not natives:
                raise _unavailable("None of the allowed tools can be called")
            return WireChoice(choice.mode, None, tuple(wires), tuple(natives))
        if choice.mode == "required" and not self.offered:
            if self.ignored:
                raise _unavailable("Tool choice 'required' cannot be followed")
            raise invalid(
                "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"
            )
        return WireChoice(choice.mode)

    def _find(self, refs: Sequence[ToolRef]) -> tuple[list[str], list[Raw]]:
        """The wire names of functions that are offered, and the other tools as the client named them."""
        wires: list[str] = []
        natives: list[Raw] = []
        for ref in refs:
            found = _chosen(self.registry, ref)
            wires += [entry.wire for entry in found if entry.offered]
            if not found:
                if not any(tool.chosen(ref) for tool in self.natives):
                    what = f"Tool choice '{ref.type}' not found in 'tools' parameter."
                    raise invalid(what, "tool_choice")
                natives.append(Raw(json.encode(ref)))
        return wires, natives


EMPTY = ToolPlan((), ToolRegistry(), Ledger(), b"[]", ArgumentSchemas(()))


def _chosen(registry: ToolRegistry, ref: ToolRef) -> list[ToolEntry]:
    """The tools that a choice names: exactly; else by a bare name, `namespace.name` or
    `namespace__name`, where that means one tool."""
    of_type = [e for e in registry if ref.type == e.identity.kind or ref.type in e.handler.types]
    exact = [entry for entry in of_type if entry.handler.chosen(ref, entry.identity)]
    if exact or ref.name is None or ref.namespace is not None:
        return exact
    near = [entry for entry in of_type if ref.name in _other_names(entry.identity)]
    if not near and ref.type == "function":  # clients know what was discovered as functions, too
        near = [e for e in registry if e.handler.discovers and ref.name in _other_names(e.identity)]
    if len(near) > 1:
        candidates = ", ".join(f"'{_dotted(entry.identity)}'" for entry in near)
        raise invalid(f"Tool choice '{ref.name}' could be any of {candidates}.", "tool_choice")
    return near


def _other_names(identity: Identity) -> tuple[str, ...]:
    namespace = identity.namespace or DEFAULT_NAMESPACE
    return identity.name, f"{namespace}.{identity.name}", f"{namespace}__{identity.name}"


def _dotted(identity: Identity) -> str:
    return f"{identity.namespace or DEFAULT_NAMESPACE}.{identity.name}"


def _unavailable(what: str) -> ApiError:
    return invalid(f"{what}: this server cannot run it.", "tool_choice", "unsupported_value")
