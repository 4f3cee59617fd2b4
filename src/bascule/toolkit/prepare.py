"""Stages 1 to 4: declarations become a plan, which is the model's functions and the registry."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.function import FunctionSpec, Offered, WireChoice
from bascule.protocols.responses.request import ToolChoice, ToolRef
from bascule.protocols.upstream import CHAT_SURFACE, ModelSurface
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.handler import Handlers, Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.registry import CLIENT, Binding, Owner, Ownership, ToolEntry, ToolRegistry


class _Type(msgspec.Struct):
    type: str
    name: str | None = None
    server_label: str | None = None


_type = json.decoder(_Type)


@dataclass(frozen=True, slots=True)
class NativeTool:
    """A declaration that the model's server takes as it is, and whose calls are its business or
    the client's."""

    type: str
    name: str | None
    server_label: str | None
    declaration: Raw

    def chosen(self, ref: ToolRef) -> bool:
        """Whether a tool choice names this tool; of an MCP server it may name one function."""
        if ref.type != self.type or ref.server_label != self.server_label:
            return False
        return self.name is None or ref.name == self.name


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The outcome for one list of declarations. Never changed, so it may serve many turns."""

    offered: tuple[Offered, ...]
    """What the model's server is told of, in the order of the declarations."""
    registry: ToolRegistry
    names: dict[Identity, str]
    echo: bytes
    """The declarations as the response shows them: a JSON list."""
    schemas: ArgumentSchemas
    """The functions' parameters, for checks of what they are called with."""
    natives: tuple[NativeTool, ...] = ()
    _encoded: dict[object, bytes] = field(default_factory=dict[object, bytes])

    @property
    def functions(self) -> list[FunctionSpec]:
        """Those of what is offered that are functions."""
        return [tool for tool in self.offered if isinstance(tool, FunctionSpec)]

    @property
    def is_verbatim(self) -> bool:
        """Whether a server that speaks Responses is told the declarations as they are, and no call
        is the gateway's."""
        return all(
            entry.identity == (None, entry.wire, "function")
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

    def resolve(self, choice: ToolChoice) -> WireChoice:
        """A tool choice in wire names. Raises ApiError 400 for a tool that is not declared."""
        if choice.named is not None:
            wires, natives = self._find([choice.named], "tool_choice")
            if natives:
                return WireChoice("required", native=tuple(natives))
            if len(wires) == 1:
                return WireChoice("required", wires[0])
            return WireChoice("required", None, tuple(wires))
        if choice.allowed is not None:
            wires, natives = self._find(choice.allowed, "tool_choice")
            return WireChoice(choice.mode, None, tuple(wires), tuple(natives))
        if choice.mode == "required" and not self.offered:
            raise invalid(
                "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"
            )
        return WireChoice(choice.mode)

    def _find(self, refs: Sequence[ToolRef], param: str) -> tuple[list[str], list[Raw]]:
        """The wire names of functions, and the other tools as the client named them."""
        wires: list[str] = []
        natives: list[Raw] = []
        for ref in refs:
            found = [
                entry.wire
                for entry in self.registry
                if ref.type in entry.handler.types and entry.handler.chosen(ref, entry.identity)
            ]
            wires += found
            if not found:
                if not any(tool.chosen(ref) for tool in self.natives):
                    what = f"Tool choice '{ref.type}' not found in 'tools' parameter."
                    raise invalid(what, param)
                natives.append(Raw(json.encode(ref)))
        return wires, natives


EMPTY = ToolPlan((), ToolRegistry(), {}, b"[]", ArgumentSchemas(()))


@dataclass(frozen=True, slots=True)
class _Parsed:
    declaration: Raw
    handler: ToolHandler[object]
    params: object
    param: str


_Stage = _Parsed | NativeTool


def parse(
    declarations: Sequence[Raw], handlers: Handlers, surface: ModelSurface, param: str = "tools"
) -> list[_Stage]:
    """Stage 1. Raises ApiError 400 that names the declaration at fault."""
    parsed: list[_Stage] = []
    for i, declaration in enumerate(declarations):
        place = f"{param}[{i}]"
        head = json.field(_type, declaration, place)
        handler = handlers.for_type(head.type)
        if surface.takes(head.type, known=handler is not None):
            parsed.append(NativeTool(head.type, head.name, head.server_label, declaration))
            continue
        if handler is None:
            raise invalid(
                f"Invalid value: '{head.type}'. This server does not support tools of this type.",
                f"{place}.type",
                code="unsupported_value",
            )
        parsed.append(_Parsed(declaration, handler, handler.parse(declaration, place), place))
    return parsed


async def prepare(
    declarations: Sequence[Raw],
    handlers: Handlers,
    names: Ledger,
    limit: int,
    later: Sequence[Raw] = (),
    surface: ModelSurface = CHAT_SURFACE,
) -> ToolPlan:
    """All four stages. New names are assigned in `names`. Raises ApiError 400.

    `later` are declarations that came after the list: one that is there already replaces it.
    """
    first = await _discovered(parse(declarations, handlers, surface))
    second = await _discovered(parse(later, handlers, surface, "declared"))
    return _register(first, second, names, limit)


async def _discovered(parsed: Sequence[_Stage]) -> list[_Stage]:
    return [
        _Parsed(p.declaration, p.handler, await p.handler.discover(p.params), p.param)
        if isinstance(p, _Parsed) and p.handler.discovers
        else p
        for p in parsed
    ]


def _register(
    first: Sequence[_Stage], later: Sequence[_Stage], names: Ledger, limit: int
) -> ToolPlan:
    found: dict[Identity | bytes, NativeTool | tuple[_Parsed, Tool]] = {}
    for stage in first:
        if isinstance(stage, NativeTool):
            found[bytes(stage.declaration)] = stage
            continue
        for tool in stage.handler.normalize(stage.params):
            if tool.identity in found:
                raise invalid(
                    f"The tool '{_shown(tool.identity)}' is declared twice.",
                    stage.param,
                    "duplicate_tool",
                )
            found[tool.identity] = (stage, tool)
    for stage in later:
        if isinstance(stage, NativeTool):
            found[bytes(stage.declaration)] = stage
            continue
        for tool in stage.handler.normalize(stage.params):
            found[tool.identity] = (stage, tool)
    if len(found) > limit:
        raise invalid(f"More than {limit} tools are declared.", "tools", "too_many_tools")
    names.assign_all(key for key in found if isinstance(key, Identity))
    offered: list[Offered] = []
    entries: list[ToolEntry] = []
    for kept in found.values():
        if isinstance(kept, NativeTool):
            offered.append(kept.declaration)
            continue
        entry = _entry(*kept, names)
        offered.append(_function(entry, kept[1]))
        entries.append(entry)
    return ToolPlan(
        offered=tuple(offered),
        registry=ToolRegistry(entries),
        names={entry.identity: entry.wire for entry in entries},
        echo=json.encode([_echo(stage) for stage in (*first, *later)]),
        schemas=ArgumentSchemas(tool for tool in offered if isinstance(tool, FunctionSpec)),
        natives=tuple(kept for kept in found.values() if isinstance(kept, NativeTool)),
    )


def _entry(parsed: _Parsed, tool: Tool, names: Ledger) -> ToolEntry:
    wire = names.assign(tool.identity)
    return ToolEntry(tool.identity, wire, parsed.handler, _ownership(parsed), parsed.declaration)


def _function(entry: ToolEntry, tool: Tool) -> FunctionSpec:
    declared = entry.declaration if entry.identity.kind == "function" else Raw()
    return FunctionSpec(entry.wire, tool.description, tool.parameters, tool.strict, declared)


def _echo(stage: _Stage) -> Raw:
    if isinstance(stage, NativeTool):
        return stage.declaration
    return stage.handler.echo(stage.declaration, stage.params)


def _ownership(parsed: _Parsed) -> Ownership:
    executor = parsed.handler.executor(parsed.params)
    if executor is None:
        return CLIENT
    return Ownership(Owner.GATEWAY, Binding(executor, parsed.params))


def _shown(identity: Identity) -> str:
    return f"{identity.namespace}.{identity.name}" if identity.namespace else identity.name


_Key = tuple[ModelSurface, int, bytes]


class PlanCache:
    """Plans by the declarations' bytes: agents send the same hundred tools every turn.

    Holds at most `size` plans and `max_bytes` of declarations; the longest unused go first.
    """

    def __init__(self, size: int = 128, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._plans: OrderedDict[_Key, tuple[bytes, ToolPlan]] = OrderedDict()
        self._size = size
        self._max_bytes = max_bytes
        self._bytes = 0

    def get(self, surface: ModelSurface, declarations: bytes) -> ToolPlan | None:
        key = _key(surface, declarations)
        found = self._plans.get(key)
        if found is None or found[0] != declarations:
            return None
        self._plans.move_to_end(key)
        return found[1]

    def put(self, surface: ModelSurface, declarations: bytes, plan: ToolPlan) -> None:
        key = _key(surface, declarations)
        old = self._plans.pop(key, None)
        self._bytes += len(declarations) - (len(old[0]) if old else 0)
        self._plans[key] = (declarations, plan)
        while len(self._plans) > self._size or self._bytes > self._max_bytes:
            _, (gone, _) = self._plans.popitem(last=False)
            self._bytes -= len(gone)


def _key(surface: ModelSurface, declarations: bytes) -> _Key:
    # Comparing two equal lists of 200 kB is several times cheaper than hashing one.
    return surface, len(declarations), declarations[-128:]


async def plan_tools(
    source: bytes,
    split: Callable[[], Sequence[Raw]],
    *,
    handlers: Handlers,
    names: Ledger,
    name_limit: int,
    max_tools: int,
    cache: PlanCache,
    surface: ModelSurface,
) -> ToolPlan:
    """The plan for a request's tools, from the cache where it fits the names of the chain.

    `source` is the list's own bytes, `split` cuts it into declarations where that is needed. New
    names are assigned in `names`.
    """
    if not source:
        return EMPTY
    plan = cache.get(surface, source)
    if plan is None:
        fresh = Ledger(name_limit)
        plan = await prepare(split(), handlers, fresh, max_tools, surface=surface)
        if not any(entry.handler.discovers for entry in plan.registry):
            cache.put(surface, source, plan)
    if names.agrees(plan.names):
        names.adopt(plan.names)
        return plan
    return await prepare(split(), handlers, names, max_tools, surface=surface)
