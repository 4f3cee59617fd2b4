"""Before the first round: what came before, and what the model is told."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Raw

from bascule.engine.additional import brought_by, newest
from bascule.engine.chain import Chain, history, load
from bascule.engine.engine import Engine
from bascule.engine.history import Flattener, settle
from bascule.engine.resuming import Resumed, claim, resume
from bascule.protocols.function import WireChoice
from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.request import TurnRequest
from bascule.toolkit.discovery import Discovery
from bascule.toolkit.handler import Brought
from bascule.toolkit.names import Ledger
from bascule.toolkit.plan import EMPTY, ToolPlan
from bascule.toolkit.prepare import plan_tools
from bascule.upstreams.target import Target


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn that is ready for its first round."""

    chain: Chain
    names: Ledger
    plan: ToolPlan
    choice: WireChoice
    items: list[Flat]
    """The history and the input, as the model's server can read them."""
    ignored: list[str]
    """JSON paths of what has no effect in the tools."""
    warnings: list[str]
    """What had to be left out."""
    discovery: Discovery
    resumed: list[Resumed]
    """The calls that go on before the first round."""
    later: list[Brought]
    """Declarations that the history brings."""


async def prepare_turn(
    engine: Engine, request: TurnRequest, target: Target, owner: str
) -> Prepared:
    """Stored items take the places of references in the request's input. Raises ApiError."""
    chain, referenced = await load(engine.store, owner, request, engine.handlers)
    names = Ledger(target.surface.name_limit, chain.continuation.name_table())
    flattener = Flattener(engine.handlers, names, engine.sealer, target)
    earlier = [flattener.stored(item, origin) for item, origin in history(chain)]
    stored = {item.key: flattener.stored(item, origin) for item, origin in referenced}
    claimed = claim(request.input, chain.continuation.suspended, engine.handlers)
    before = flattener.flatten(earlier, "previous_response_id")
    new = flattener.flatten([stored.get(item.key, item) for item in request.input])
    discovery = Discovery(owner, [*earlier, *request.input])
    later = _later(engine, target, earlier, request)
    plan = await _plan(engine, request, target, [*later, *declared(chain)], names, discovery)
    choice = plan.resolve(request.tool_choice)
    settled = settle((before, new), names)
    items = [*before.items(), *new.items()]
    waiting = [*claimed, *((call, ()) for call in settled)]
    resumed = await resume(waiting, plan, engine.handlers, names, discovery) if waiting else []
    ignored = [*plan.ignored, *(() if target.flags.strict_tools else plan.strict)]
    return Prepared(
        chain, names, plan, choice, items, ignored, flattener.warnings, discovery, resumed, later
    )


async def _plan(
    engine: Engine,
    request: TurnRequest,
    target: Target,
    later: Sequence[Brought],
    names: Ledger,
    discovery: Discovery,
) -> ToolPlan:
    plan = await plan_tools(
        bytes(request.raw.get("tools", b"")),
        request.tools,
        handlers=engine.handlers,
        names=names,
        limits=engine.settings.tool_limits,
        cache=engine.plans,
        surface=target.surface,
        discovery=discovery,
        later=later,
    )
    return EMPTY if plan is None else plan


def _later(
    engine: Engine, target: Target, earlier: Sequence[Item], request: TurnRequest
) -> list[Brought]:
    """What the history brings, unless the server reads it there itself."""
    if target.surface.family:
        return []
    handlers = engine.handlers
    before = brought_by(earlier, handlers, "previous_response_id")
    return newest([*before, *brought_by(request.input, handlers, "input")])


def declared(chain: Chain) -> list[Brought]:
    """What calls of earlier turns have declared."""
    return as_declared(chain.continuation.declared)


def as_declared(tools: Sequence[Raw]) -> list[Brought]:
    return [Brought(tool, f"declared[{i}]") for i, tool in enumerate(tools)]
