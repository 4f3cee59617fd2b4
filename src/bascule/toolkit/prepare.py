"""Stages 1 to 4: declarations become a plan, which is the model's functions and the registry."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import structlog
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.function import FunctionSpec, Offered
from bascule.protocols.upstream import CHAT_SURFACE, ModelSurface
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.discovery import ALONE, Announcement, Discovery
from bascule.toolkit.handler import Brought, Handlers, Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.ownership import Owner
from bascule.toolkit.plan import EMPTY, NativeTool, ToolPlan
from bascule.toolkit.plan_cache import PlanCache
from bascule.toolkit.registry import ToolEntry, ToolRegistry

T = TypeVar("T")
A = ParamSpec("A")

_log = structlog.stdlib.get_logger("bascule.tools")


class _Type(msgspec.Struct):
    type: str
    name: str | None = None
    server_label: str | None = None


_type = json.decoder(_Type)


@dataclass(frozen=True, slots=True)
class _Parsed:
    declaration: Raw
    type: str
    handler: ToolHandler[Any]
    params: Any
    param: str
    """The declaration's place in the request."""
    found: bool = False
    """Whether a search has found it."""


_Stage = _Parsed | NativeTool
_Found = dict[Identity | bytes, NativeTool | tuple[_Parsed, Tool]]


class ToolLimits(NamedTuple):
    """How many functions a turn's tools may bring, and how many deferred ones are offered at once to a
    model that cannot search."""

    tools: int
    deferred: int


DEFAULT_LIMITS: Final = ToolLimits(1024, 256)
NO_LIMITS: Final = ToolLimits(1 << 30, 1 << 30)


def parse(
    declarations: Sequence[Brought], handlers: Handlers, surface: ModelSurface
) -> list[_Stage]:
    """Stage 1. Raises ApiError 400 that names the declaration at fault."""
    parsed: list[_Stage] = []
    labels: set[str] = set()
    for given in declarations:
        declaration, place = given.declaration, given.place
        head = json.field(_type, declaration, place)
        handler = handlers.for_type(head.type, head.name)
        known = handler is not None and handler.served
        ours = handler is not None and handler.ours
        if surface.takes(head.type, known=known, ours=ours):
            shown = declaration if handler is None else handler.masked(declaration)
            parsed.append(NativeTool(head.type, head.name, head.server_label, declaration, shown))
            continue
        if head.server_label is not None:
            if head.server_label in labels and place.startswith("tools["):
                raise invalid(
                    f"Two servers have the label '{head.server_label}'.",
                    f"{place}.server_label",
                    "duplicate_server_label",
                )
            labels.add(head.server_label)
        if handler is None:
            raise invalid(
                f"Invalid value: '{head.type}'. This server does not support tools of this type.",
                f"{place}.type",
                code="unsupported_value",
            )
        params = _guarded(head.type, place, handler.parse, declaration, place)
        parsed.append(_Parsed(declaration, head.type, handler, params, place, given.found))
    return parsed


def _listed(declarations: Sequence[Raw]) -> list[Brought]:
    """Those of a request's list."""
    return [Brought(declaration, f"tools[{i}]") for i, declaration in enumerate(declarations)]


async def prepare(
    declarations: Sequence[Raw],
    handlers: Handlers,
    names: Ledger,
    limits: ToolLimits,
    later: Sequence[Brought] = (),
    surface: ModelSurface = CHAT_SURFACE,
    discovery: Discovery = ALONE,
) -> ToolPlan:
    """All four stages. New names are assigned in `names`. Raises ApiError 400.

    `later` are declarations that came after the list: one that is there already replaces it.
    """
    first = parse(_listed(declarations), handlers, surface)
    second = parse(later, handlers, surface)
    if _discovers(first) or _discovers(second):
        found = await _discovered([*first, *second], discovery)
        first, second = found[: len(first)], found[len(first) :]
    return _register(first, second, names, limits, surface)


async def recalled(
    declaration: Raw, handlers: Handlers, names: Ledger, discovery: Discovery
) -> ToolPlan:
    """The plan for a tool that an earlier turn declared, and this one does not: a call of it goes on.
    Raises ApiError 400 where it cannot."""
    parsed = parse(_listed([declaration]), handlers, CHAT_SURFACE)
    for stage in parsed:
        if isinstance(stage, _Parsed):
            _guarded(stage.type, "tools", stage.handler.recall, stage.params)
    return _register(await _discovered(parsed, discovery), (), names, NO_LIMITS, CHAT_SURFACE)


def _discovers(parsed: Iterable[_Stage]) -> bool:
    return any(isinstance(stage, _Parsed) and stage.handler.discovers for stage in parsed)


async def _discovered(parsed: Sequence[_Stage], discovery: Discovery) -> list[_Stage]:
    """Stage 2: all at once; one that fails leaves nothing of the others running."""
    async with _together() as group:
        asked = [
            group.create_task(_with_more(stage, discovery))
            if isinstance(stage, _Parsed) and stage.handler.discovers
            else stage
            for stage in parsed
        ]
    return [stage.result() if isinstance(stage, asyncio.Task) else stage for stage in asked]


@asynccontextmanager
async def _together() -> AsyncGenerator[asyncio.TaskGroup]:
    """A group of tasks, of whose faults the first one counts."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as e:
        raise e.exceptions[0] from None


async def _with_more(stage: _Parsed, discovery: Discovery) -> _Parsed:
    discover = stage.handler.discover(stage.params, discovery)
    params = await _awaited(stage.type, stage.param, discover)
    return replace(stage, params=params)


def _normalized(stage: _Parsed) -> Sequence[Tool]:
    """Stage 3."""
    return _guarded(stage.type, stage.param, stage.handler.normalize, stage.params)


def _guarded(type_: str, param: str, step: Callable[A, T], *args: A.args, **kwargs: A.kwargs) -> T:
    """A handler's own fault is told by its type; it may be somebody's plugin."""
    try:
        return step(*args, **kwargs)
    except ApiError:
        raise
    except Exception as e:
        raise _failed(type_, param, e) from e


async def _awaited(type_: str, param: str, step: Awaitable[T]) -> T:
    try:
        return await step
    except ApiError:
        raise
    except Exception as e:
        raise _failed(type_, param, e) from e


def _failed(type_: str, param: str, fault: Exception) -> ApiError:
    _log.error("a tool type failed", type=type_, exc_info=fault)
    return ApiError(
        500,
        f"Tools of type '{type_}' cannot be prepared: an internal error of theirs.",
        code="server_error",
        param=param,
    )


def _register(
    first: Sequence[_Stage],
    later: Sequence[_Stage],
    names: Ledger,
    limits: ToolLimits,
    surface: ModelSurface,
) -> ToolPlan:
    """Stage 4."""
    found = _found(first, later)
    if len(found) > limits.tools:
        raise invalid(f"More than {limits.tools} tools are declared.", "tools", "too_many_tools")
    found = _searched(found, limits.deferred)
    _name(found.values(), names)
    offered: list[Offered] = []
    entries: list[ToolEntry] = []
    ignored: list[str] = []
    strict: list[str] = []
    warnings: list[str] = []
    for kept in found.values():
        if isinstance(kept, NativeTool):
            offered.append(kept.declaration)
            continue
        stage, tool = kept[0], _as_told(kept[1], surface)
        entry = _entry(stage, tool, names)
        entries.append(entry)
        if entry.offered:
            offered.append(_function(entry, tool))
        if tool.ignored or not entry.offered:
            ignored += _ignored(stage, tool, entry)
        if entry.grammar is not None:
            warnings += _warnings(stage, entry)
        if tool.strict:
            strict.append(f"{stage.param}.{tool.place}strict")
    return ToolPlan(
        offered=tuple(offered),
        registry=ToolRegistry(entries),
        names=Ledger(fixed={entry.identity: entry.wire for entry in entries}),
        echo=json.encode([_echo(stage) for stage in (*first, *later)]),
        schemas=ArgumentSchemas(tool for tool in offered if isinstance(tool, FunctionSpec)),
        natives=tuple(kept for kept in found.values() if isinstance(kept, NativeTool)),
        ignored=tuple(ignored),
        strict=tuple(strict),
        warnings=tuple(warnings),
        announced=tuple(_announced((*first, *later))),
    )


def _announced(stages: Iterable[_Stage]) -> Iterator[Announcement]:
    for stage in stages:
        if isinstance(stage, _Parsed) and stage.handler.discovers:
            found = _guarded(stage.type, stage.param, stage.handler.announce, stage.params)
            if found is not None:
                yield found


def _found(first: Sequence[_Stage], later: Sequence[_Stage]) -> _Found:
    """The tools, once each. Raises ApiError 400 for one that the list has twice."""
    found: _Found = {}
    for stage in first:
        if isinstance(stage, NativeTool):
            found[bytes(stage.declaration)] = stage
            continue
        for tool in _normalized(stage):
            if tool.identity in found:
                raise invalid(
                    f"The tool '{_shown(tool.identity)}' is declared twice.",
                    stage.param,
                    "duplicate_tool",
                )
            found[tool.identity] = (stage, tool)
    searches = _can_search(found)
    for stage in later:
        if isinstance(stage, NativeTool):
            found[bytes(stage.declaration)] = stage
            continue
        for tool in _normalized(stage):
            if stage.found:
                tool = msgspec.structs.replace(tool, deferred=False)
            before = found.get(tool.identity)
            if searches and isinstance(before, tuple) and before[1].deferred and not tool.deferred:
                # The model has not been told of it: it comes behind those that it knows.
                del found[tool.identity]
            found[tool.identity] = (stage, tool)
    return found


def _can_search(found: _Found) -> bool:
    return any(isinstance(kept, tuple) and kept[1].searches for kept in found.values())


def _searched(found: _Found, most: int) -> _Found:
    """What becomes of deferred tools: a model that can search for them is not told of them yet, one
    that cannot is told of all, up to a number. Raises ApiError 400 for more."""
    deferred = [
        (key, kept) for key, kept in found.items() if isinstance(kept, tuple) and kept[1].deferred
    ]
    if not deferred:
        return found
    if _can_search(found):
        hidden = {
            key: (stage, msgspec.structs.replace(tool, offered=False))
            for key, (stage, tool) in deferred
        }
        return {**found, **hidden}
    if len(deferred) > most:
        raise invalid(
            f"{len(deferred)} tools are deferred, and this model cannot search for them: at most {most} "
            "are offered to it at once. Declare fewer, or a tool_search that the client executes.",
            "tools",
            "too_many_deferred_tools",
        )
    told = {
        key: (
            stage,
            msgspec.structs.replace(tool, ignored=(f"{tool.place}defer_loading", *tool.ignored)),
        )
        for key, (stage, tool) in deferred
    }
    return {**found, **told}


def _as_told(tool: Tool, surface: ModelSurface) -> Tool:
    """A server that speaks Responses reads a function's declaration itself, options and all."""
    if not surface.family or tool.identity.kind != "function":
        return tool
    return msgspec.structs.replace(tool, offered=True, ignored=())


def _name(kept: Iterable[NativeTool | tuple[_Parsed, Tool]], names: Ledger) -> None:
    """Functions before hosted tools, which may be called anything."""
    tools = [pair for pair in kept if not isinstance(pair, NativeTool)]
    for late in (False, True):
        names.assign_all(tool.identity for p, tool in tools if p.handler.names_late is late)


def _entry(parsed: _Parsed, tool: Tool, names: Ledger) -> ToolEntry:
    ownership = _guarded(
        parsed.type, parsed.param, parsed.handler.owner, parsed.params, tool.identity
    )
    runs = ownership.owner is not Owner.GATEWAY or ownership.binding is not None
    return ToolEntry(
        tool.identity,
        names.assign(tool.identity),
        parsed.handler,
        ownership,
        parsed.declaration,
        tool.shown_namespace,
        offered=tool.offered and runs,
        lenient=tool.lenient,
        members=tool.members,
        grammar=tool.grammar,
    )


def _ignored(parsed: _Parsed, tool: Tool, entry: ToolEntry) -> list[str]:
    if not entry.offered and tool.offered:
        return [parsed.param]
    return [f"{parsed.param}.{path}" for path in tool.ignored]


def _warnings(parsed: _Parsed, entry: ToolEntry) -> list[str]:
    if entry.grammar is None or entry.grammar.checked:
        return []
    return [f"{parsed.param}: calls are not checked, since its grammar cannot be read here"]


def _function(entry: ToolEntry, tool: Tool) -> FunctionSpec:
    declared = Raw()
    if entry.identity.kind == "function":
        declared = tool.declaration if bytes(tool.declaration) else entry.declaration
    return FunctionSpec(entry.wire, tool.description, tool.parameters, tool.strict, declared)


def _echo(stage: _Stage) -> Raw:
    if isinstance(stage, NativeTool):
        return stage.shown
    return stage.handler.echo(stage.declaration, stage.params)


def _shown(identity: Identity) -> str:
    return f"{identity.namespace}.{identity.name}" if identity.namespace else identity.name


async def plan_tools(
    source: bytes,
    split: Callable[[], Sequence[Raw]],
    *,
    handlers: Handlers,
    names: Ledger,
    limits: ToolLimits,
    cache: PlanCache,
    surface: ModelSurface,
    discovery: Discovery | None = None,
    later: Sequence[Brought] = (),
) -> ToolPlan | None:
    """The plan for a request's tools, from the cache where it fits the names of the chain.

    `source` is the list's own bytes, `split` cuts it into declarations where that is needed; `later`
    are declarations that came after it. New names are assigned in `names`. Without a `discovery` nobody is asked anything: None for tools that
    somebody would have to be asked for.
    """
    if not source and not later:
        return EMPTY
    key = _key(source, later) if later else source
    plan = cache.get(surface, key)
    if plan is None:
        first, second = parse(_listed(split()), handlers, surface), parse(later, handlers, surface)
        if _discovers(first) or _discovers(second):
            if discovery is None:
                return None
            return await prepare(split(), handlers, names, limits, later, surface, discovery)
        plan = _register(first, second, Ledger(surface.name_limit), limits, surface)
        cache.put(surface, key, plan)
    if names.agrees(plan.names):
        names.adopt(plan.names)
        return plan
    return await prepare(split(), handlers, names, limits, later, surface)


def _key(source: bytes, later: Sequence[Brought]) -> bytes:
    parts = [source]
    for brought in later:
        parts += [brought.place.encode(), b"\1" if brought.found else b"\0", brought.declaration]
    return b"\0".join(parts)
