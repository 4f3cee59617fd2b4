"""`ToolExecutor`: runs the calls of a tool that is not the client's, and shows them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from bascule.protocols.responses.items import Item
from bascule.toolkit.approval import Question
from bascule.toolkit.citations import Citations
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call, Outcome
from bascule.toolkit.projection import ItemWriter, Projection

P = TypeVar("P")

Policy = Literal["parallel", "per_name", "exclusive"]
"""Which of a round's calls may overlap: all, all but calls of the same name, or none: an exclusive
call runs while no other call of the turn does, of whatever tool."""


class ExecutionContext(msgspec.Struct):
    """What an execution may know of its turn."""

    response_id: str
    round: int
    owner: str = ""
    """Whose turn it is: a digest, empty without authentication."""
    images: bool = True
    """Whether the model can look at images in a result."""
    citations: Citations = msgspec.field(default_factory=Citations)
    """Takes the sources that the model may cite."""


class ToolExecutor(ABC, Generic[P]):
    """Runs calls, on the event loop, which no step of it may hold for long: work that does belongs
    in a thread. Whatever it raises becomes an error result of that call alone. When it is cancelled,
    by its time limit or with the turn, it has some seconds to clean up."""

    policy: Policy = "per_name"
    timeout: float = 60.0
    """Seconds, from when the call runs; `inf` for none."""

    @abstractmethod
    async def execute(self, call: Call, params: P, context: ExecutionContext) -> Outcome:
        """Run the call; its arguments are JSON that fits the tool's schema."""

    async def resume(
        self,
        call: Call,
        params: P,
        state: bytes,
        answers: Sequence[Item],
        context: ExecutionContext,
    ) -> Outcome:
        """Go on with a call that was suspended, with the input items that it awaited, in order."""
        raise NotImplementedError(f"{type(self).__name__} suspends but cannot resume")

    def ask(self, call: Call, identity: Identity, params: P) -> Question:
        """What the client is asked before the call runs. Of a tool whose binding has a rule."""
        raise NotImplementedError(f"{type(self).__name__} has a rule but asks nothing")

    def project(
        self, writer: ItemWriter, call: Call, identity: Identity, params: P
    ) -> Projection | None:
        """The call's public item and its lifecycle; None for a call that the client need not see."""
        return None
