"""What turns share: the handlers, the store, the keys, the limits."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bascule.engine.locks import ConversationLocks
from bascule.engine.seal import Sealer
from bascule.engine.state import TurnState
from bascule.state.store import Store
from bascule.telemetry.observe import NOBODY, Observer
from bascule.toolkit.handler import Handlers
from bascule.toolkit.plan_cache import PlanCache
from bascule.toolkit.prepare import DEFAULT_LIMITS, ToolLimits

Checkpoint = Callable[[TurnState], Awaitable[None]]


async def no_checkpoint(_: TurnState) -> None:
    """Of foreground turns: nothing of them outlives the process before their commit."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    max_rounds: int = 10
    max_concurrent_calls: int = 5
    max_reasks: int = 2
    max_result_bytes: int = 1024 * 1024
    tool_limits: ToolLimits = DEFAULT_LIMITS


@dataclass(slots=True)
class Engine:
    """What turns share."""

    handlers: Handlers
    store: Store
    sealer: Sealer
    settings: EngineSettings = field(default_factory=EngineSettings)
    checkpoint: Checkpoint = no_checkpoint
    plans: PlanCache = field(default_factory=PlanCache)
    observer: Observer = NOBODY
    closing: bool = False
    """Turns that are cancelled from now on end because the server does, not their client."""
    locks: ConversationLocks = field(default_factory=ConversationLocks)
