"""Stages 1 to 4: declarations become a plan, which is the model's functions and the registry."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.function import FunctionSpec, WireChoice
from bascule.protocols.responses.request import ToolChoice, ToolRef
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.handler import Handlers, Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.registry import CLIENT, Binding, Owner, Ownership, ToolEntry, ToolRegistry


class _Type(msgspec.Struct):
    type: str


_type = json.decoder(_Type)


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The outcome for one list of declarations. Never changed, so it may serve many turns."""

    functions: tuple[FunctionSpec, ...]
    registry: ToolRegistry
    names: dict[Identity, str]
    echo: bytes
    """The declarations as the response shows them: a JSON list."""
    schemas: ArgumentSchemas
    """The functions' parameters, for checks of what they are called with."""
    _encoded: dict[object, bytes] = field(default_factory=dict[object, bytes])

    def encoded(self, key: object, encode: Callable[[Sequence[FunctionSpec]], bytes]) -> bytes:
        """The functions in an upstream's form, made once for each `key`; empty if there are none."""
        found = self._encoded.get(key)
        if found is None:
            found = encode(self.functions) if self.functions else b""
            self._encoded[key] = found
        return found

    def resolve(self, choice: ToolChoice) -> WireChoice:
        """A tool choice in wire names. Raises ApiError 400 for a tool that is not declared."""
        if choice.named is not None:
            wires = self._find(choice.named, "tool_choice")
            if len(wires) == 1:
                return WireChoice("required", wires[0])
            return WireChoice("required", None, tuple(wires))
        if choice.allowed is not None:
            wires = [wire for ref in choice.allowed for wire in self._find(ref, "tool_choice")]
            return WireChoice(choice.mode, None, tuple(wires))
        if choice.mode == "required" and not self.functions:
            raise invalid(
                "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"
            )
        return WireChoice(choice.mode)

    def _find(self, ref: ToolRef, param: str) -> list[str]:
        wires = [
            entry.wire
            for entry in self.registry
            if ref.type in entry.handler.types and entry.handler.chosen(ref, entry.identity)
        ]
        if not wires:
            raise invalid(f"Tool choice '{ref.type}' not found in 'tools' parameter.", param)
        return wires


EMPTY = ToolPlan((), ToolRegistry(), {}, b"[]", ArgumentSchemas(()))


@dataclass(frozen=True, slots=True)
class _Parsed:
    declaration: Raw
    handler: ToolHandler[object]
    params: object
    param: str


def parse(declarations: Sequence[Raw], handlers: Handlers, param: str = "tools") -> list[_Parsed]:
    """Stage 1. Raises ApiError 400 that names the declaration at fault."""
    parsed: list[_Parsed] = []
    for i, declaration in enumerate(declarations):
        place = f"{param}[{i}]"
        type_ = json.field(_type, declaration, place).type
        handler = handlers.for_type(type_)
        if handler is None:
            raise invalid(
                f"Invalid value: '{type_}'. This server does not support tools of this type.",
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
) -> ToolPlan:
    """All four stages. New names are assigned in `names`. Raises ApiError 400.

    `later` are declarations that came after the list: one that is there already replaces it.
    """
    first = await _discovered(parse(declarations, handlers))
    second = await _discovered(parse(later, handlers, "declared"))
    return _register(first, second, names, limit)


async def _discovered(parsed: Sequence[_Parsed]) -> list[_Parsed]:
    return [
        _Parsed(p.declaration, p.handler, await p.handler.discover(p.params), p.param)
        if p.handler.discovers
        else p
        for p in parsed
    ]


def _register(
    first: Sequence[_Parsed], later: Sequence[_Parsed], names: Ledger, limit: int
) -> ToolPlan:
    found: dict[Identity, tuple[_Parsed, Tool]] = {}
    for p in first:
        for tool in p.handler.normalize(p.params):
            if tool.identity in found:
                raise invalid(
                    f"The tool '{_shown(tool.identity)}' is declared twice.",
                    p.param,
                    "duplicate_tool",
                )
            found[tool.identity] = (p, tool)
    for p in later:
        for tool in p.handler.normalize(p.params):
            found[tool.identity] = (p, tool)
    if len(found) > limit:
        raise invalid(f"More than {limit} tools are declared.", "tools", "too_many_tools")
    names.assign_all(found)
    functions: list[FunctionSpec] = []
    entries: list[ToolEntry] = []
    for identity, (p, tool) in found.items():
        wire = names.assign(identity)
        functions.append(FunctionSpec(wire, tool.description, tool.parameters, tool.strict))
        entries.append(ToolEntry(identity, wire, p.handler, _ownership(p), p.declaration))
    echo = json.encode([p.handler.echo(p.declaration, p.params) for p in (*first, *later)])
    wires = {entry.identity: entry.wire for entry in entries}
    return ToolPlan(
        tuple(functions), ToolRegistry(entries), wires, echo, ArgumentSchemas(functions)
    )


def _ownership(parsed: _Parsed) -> Ownership:
    executor = parsed.handler.executor(parsed.params)
    if executor is None:
        return CLIENT
    return Ownership(Owner.GATEWAY, Binding(executor, parsed.params))


def _shown(identity: Identity) -> str:
    return f"{identity.namespace}.{identity.name}" if identity.namespace else identity.name


_Key = tuple[int, int, bytes]


class PlanCache:
    """Plans by the declarations' bytes: agents send the same hundred tools every turn.

    Holds at most `size` plans and `max_bytes` of declarations; the longest unused go first.
    """

    def __init__(self, size: int = 128, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._plans: OrderedDict[_Key, tuple[bytes, ToolPlan]] = OrderedDict()
        self._size = size
        self._max_bytes = max_bytes
        self._bytes = 0

    def get(self, name_limit: int, declarations: bytes) -> ToolPlan | None:
        key = _key(name_limit, declarations)
        found = self._plans.get(key)
        if found is None or found[0] != declarations:
            return None
        self._plans.move_to_end(key)
        return found[1]

    def put(self, name_limit: int, declarations: bytes, plan: ToolPlan) -> None:
        key = _key(name_limit, declarations)
        old = self._plans.pop(key, None)
        self._bytes += len(declarations) - (len(old[0]) if old else 0)
        self._plans[key] = (declarations, plan)
        while len(self._plans) > self._size or self._bytes > self._max_bytes:
            _, (gone, _) = self._plans.popitem(last=False)
            self._bytes -= len(gone)


def _key(name_limit: int, declarations: bytes) -> _Key:
    # Comparing two equal lists of 200 kB is several times cheaper than hashing one.
    return name_limit, len(declarations), declarations[-128:]


async def plan_tools(
    source: bytes,
    split: Callable[[], Sequence[Raw]],
    *,
    handlers: Handlers,
    names: Ledger,
    name_limit: int,
    max_tools: int,
    cache: PlanCache,
) -> ToolPlan:
    """The plan for a request's tools, from the cache where it fits the names of the chain.

    `source` is the list's own bytes, `split` cuts it into declarations where that is needed. New
    names are assigned in `names`.
    """
    if not source:
        return EMPTY
    plan = cache.get(name_limit, source)
    if plan is None:
        fresh = Ledger(name_limit)
        plan = await prepare(split(), handlers, fresh, max_tools)
        if not any(entry.handler.discovers for entry in plan.registry):
            cache.put(name_limit, source, plan)
    if names.agrees(plan.names):
        names.adopt(plan.names)
        return plan
    return await prepare(split(), handlers, names, max_tools)
