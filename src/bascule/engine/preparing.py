"""Before the first round: what came before, and what the model is told."""

from dataclasses import dataclass

from bascule.engine.chain import Chain, load
from bascule.engine.engine import NAME_LIMIT, Engine
from bascule.engine.history import Flattener, settle
from bascule.engine.resuming import Resumed, claim, resume
from bascule.protocols.function import WireChoice
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest
from bascule.toolkit.discovery import Discovery
from bascule.toolkit.names import Ledger
from bascule.toolkit.plan import EMPTY, ToolPlan
from bascule.toolkit.prepare import plan_tools, prepare
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


async def prepare_turn(
    engine: Engine, request: TurnRequest, target: Target, owner: str
) -> Prepared:
    """Stored items take the places of references in the request's input. Raises ApiError."""
    chain, referenced = await load(engine.store, owner, request)
    names = Ledger(NAME_LIMIT, chain.continuation.name_table())
    flattener = Flattener(engine.handlers, names, engine.sealer, target)
    earlier = [flattener.stored(item, origin) for item, origin in chain.items]
    stored = {item.key: flattener.stored(item, origin) for item, origin in referenced}
    claimed = claim(request.input, chain.continuation.suspended, engine.handlers)
    before = flattener.flatten(earlier, "previous_response_id")
    new = flattener.flatten([stored.get(item.key, item) for item in request.input])
    discovery = Discovery(owner, [*earlier, *request.input])
    plan = await _plan(engine, request, target, chain, names, discovery)
    choice = plan.resolve(request.tool_choice)
    settled = settle((before, new), names)
    items = [*before.items(), *new.items()]
    waiting = [*claimed, *((call, ()) for call in settled)]
    resumed = await resume(waiting, plan, engine.handlers, names, discovery) if waiting else []
    ignored = [*plan.ignored, *(() if target.flags.strict_tools else plan.strict)]
    return Prepared(
        chain, names, plan, choice, items, ignored, flattener.warnings, discovery, resumed
    )


async def _plan(
    engine: Engine,
    request: TurnRequest,
    target: Target,
    chain: Chain,
    names: Ledger,
    discovery: Discovery,
) -> ToolPlan:
    limit, declared = engine.settings.max_tools, chain.continuation.declared
    if declared:
        return await prepare(
            request.tools(),
            engine.handlers,
            names,
            limit,
            declared,
            surface=target.surface,
            discovery=discovery,
        )
    plan = await plan_tools(
        bytes(request.raw.get("tools", b"")),
        request.tools,
        handlers=engine.handlers,
        names=names,
        name_limit=NAME_LIMIT,
        max_tools=limit,
        cache=engine.plans,
        surface=target.surface,
        discovery=discovery,
    )
    return EMPTY if plan is None else plan
