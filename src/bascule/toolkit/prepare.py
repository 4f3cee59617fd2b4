"""Stages 1 to 4: declarations become a plan, which is the model's functions and the registry."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import msgspec
import structlog
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.function import FunctionSpec, Offered
from bascule.protocols.upstream import CHAT_SURFACE, ModelSurface
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.discovery import ALONE, Announcement, Discovery
from bascule.toolkit.handler import Handlers, Tool, ToolHandler
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


_Stage = _Parsed | NativeTool


def parse(
    declarations: Sequence[Raw], handlers: Handlers, surface: ModelSurface, param: str = "tools"
) -> list[_Stage]:
    """Stage 1. Raises ApiError 400 that names the declaration at fault."""
    parsed: list[_Stage] = []
    labels: set[str] = set()
    for i, declaration in enumerate(declarations):
        place = f"{param}[{i}]"
        head = json.field(_type, declaration, place)
        handler = handlers.for_type(head.type, head.name)
        known = handler is not None and handler.served
        ours = handler is not None and handler.ours
        if surface.takes(head.type, known=known, ours=ours):
            shown = declaration if handler is None else handler.masked(declaration)
            parsed.append(NativeTool(head.type, head.name, head.server_label, declaration, shown))
            continue
        if head.server_label is not None:
            if head.server_label in labels:
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
        parsed.append(_Parsed(declaration, head.type, handler, params, place))
    return parsed


async def prepare(
    declarations: Sequence[Raw],
    handlers: Handlers,
    names: Ledger,
    limit: int,
    later: Sequence[Raw] = (),
    surface: ModelSurface = CHAT_SURFACE,
    discovery: Discovery = ALONE,
) -> ToolPlan:
    """All four stages. New names are assigned in `names`. Raises ApiError 400.

    `later` are declarations that came after the list: one that is there already replaces it.
    """
    first = parse(declarations, handlers, surface)
    second = parse(later, handlers, surface, "declared")
    if _discovers(first) or _discovers(second):
        found = await _discovered([*first, *second], discovery)
        first, second = found[: len(first)], found[len(first) :]
    return _register(first, second, names, limit, surface)


async def recalled(
    declaration: Raw, handlers: Handlers, names: Ledger, discovery: Discovery
) -> ToolPlan:
    """The plan for a tool that an earlier turn declared, and this one does not: a call of it goes on.
    Raises ApiError 400 where it cannot."""
    parsed = parse([declaration], handlers, CHAT_SURFACE)
    for stage in parsed:
        if isinstance(stage, _Parsed):
            _guarded(stage.type, "tools", stage.handler.recall, stage.params)
    return _register(await _discovered(parsed, discovery), (), names, 1 << 30, CHAT_SURFACE)


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
    limit: int,
    surface: ModelSurface,
) -> ToolPlan:
    """Stage 4."""
    found = _found(first, later)
    if len(found) > limit:
        raise invalid(f"More than {limit} tools are declared.", "tools", "too_many_tools")
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
        ignored += _ignored(stage, tool, entry)
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


def _found(
    first: Sequence[_Stage], later: Sequence[_Stage]
) -> dict[Identity | bytes, NativeTool | tuple[_Parsed, Tool]]:
    """The tools, once each. Raises ApiError 400 for one that the list has twice."""
    found: dict[Identity | bytes, NativeTool | tuple[_Parsed, Tool]] = {}
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
    for stage in later:
        if isinstance(stage, NativeTool):
            found[bytes(stage.declaration)] = stage
            continue
        for tool in _normalized(stage):
            found[tool.identity] = (stage, tool)
    return found


def _as_told(tool: Tool, surface: ModelSurface) -> Tool:
    """A server that speaks Responses reads a function's declaration itself, options and all."""
    if not surface.items or tool.identity.kind != "function":
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
    name_limit: int,
    max_tools: int,
    cache: PlanCache,
    surface: ModelSurface,
    discovery: Discovery | None = None,
) -> ToolPlan | None:
    """The plan for a request's tools, from the cache where it fits the names of the chain.

    `source` is the list's own bytes, `split` cuts it into declarations where that is needed. New
    names are assigned in `names`. Without a `discovery` nobody is asked anything: None for tools that
    somebody would have to be asked for.
    """
    if not source:
        return EMPTY
    plan = cache.get(surface, source)
    if plan is None:
        parsed = parse(split(), handlers, surface)
        if _discovers(parsed):
            if discovery is None:
                return None
            found = await _discovered(parsed, discovery)
            return _register(found, (), names, max_tools, surface)
        plan = _register(parsed, (), Ledger(name_limit), max_tools, surface)
        cache.put(surface, source, plan)
    if names.agrees(plan.names):
        names.adopt(plan.names)
        return plan
    return await prepare(split(), handlers, names, max_tools, surface=surface)
