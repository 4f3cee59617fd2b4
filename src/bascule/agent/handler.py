"""`LocalHandler`: a tool that runs on the client's side. A new tool is one of these and its line in
`specs.build_specs`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from bascule.agent.actions import Action
from bascule.agent.calls import (
    CustomPayload,
    FunctionPayload,
    ToolKind,
    ToolName,
    ToolOutput,
    ToolPayload,
)
from bascule.services.sandbox import Boundary

if TYPE_CHECKING:
    from bascule.agent.session import Session
    from bascule.agent.turn import TurnContext
    from bascule.agent.turn_diff import TurnDiffTracker

S = TypeVar("S", bound=msgspec.Struct)


class ToolFault(Exception):
    """A call that ended badly; the model is told the message, and goes on."""

    loggable = True


class FatalFault(Exception):
    """Something that ends the turn: no answer to the model would help."""

    loggable = True


class Exposure(Enum):
    """Who knows of a tool. All that are registered can be called."""

    DIRECT = "direct"
    """It is in the prompt's list."""
    DEFERRED = "deferred"
    """A search finds it."""
    HIDDEN = "hidden"
    """It is only called."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A declaration, as the server is given it. That of a tool in a namespace stands in there."""

    declaration: Mapping[str, Any]

    @property
    def about(self) -> str:
        """What a search reads."""
        return str(self.declaration.get("description") or "")


class ToolInvocation(msgspec.Struct, kw_only=True):
    """One call under way, and all that a handler may use for it."""

    session: "Session"
    turn: "TurnContext"
    tracker: "TurnDiffTracker"
    sub_id: str
    """Of the turn that it belongs to."""
    call_id: str
    payload: ToolPayload
    boundary: Boundary
    """What it may do: set when the approvals are through."""
    action: Action | None = None
    """What `action` said of it."""
    live: Callable[[str], None]
    """Takes what it prints while it runs, for whoever watches."""


class LocalHandler(ABC):
    """One tool."""

    name: ToolName
    parallel: ClassVar[bool] = False
    """Whether it may run beside others. One that may not waits for all before it and holds up all
    that come after it."""
    exposure: Exposure = Exposure.DIRECT
    takes: ClassVar[tuple[type, ...]] = (FunctionPayload,)
    """What it can be called with."""

    @abstractmethod
    def spec(self) -> ToolSpec | None:
        """None for a tool that the server knows of by itself."""

    @abstractmethod
    def kind(self) -> ToolKind: ...

    async def action(self, invocation: ToolInvocation) -> Action | None:
        """What the call is about to do, where somebody may have a say in that. Raises ToolFault for a
        call that makes no sense, so that nobody is asked about it."""
        return None

    @abstractmethod
    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        """Run the call. Raises ToolFault, FatalFault."""

    def alone(self, payload: ToolPayload) -> bool:
        """Whether this one call may not run beside others, although the tool may."""
        return False


def arguments(payload: ToolPayload, type_: type[S]) -> S:
    """A function's arguments. Raises ToolFault that says what is wrong with them."""
    if not isinstance(payload, FunctionPayload):
        raise ToolFault("failed to parse function arguments: it is no function call")
    try:
        return msgspec.json.decode(payload.arguments or "{}", type=type_)
    except msgspec.DecodeError as e:
        raise ToolFault(f"failed to parse function arguments: {e}") from None
    except RecursionError:
        raise ToolFault("failed to parse function arguments: nested too deeply") from None


def text_of(payload: ToolPayload) -> str:
    """What was called with, in one text, for logs and displays."""
    if isinstance(payload, FunctionPayload):
        return payload.arguments
    if isinstance(payload, CustomPayload):
        return payload.input
    return msgspec.json.encode(payload).decode()


def function(name: str, description: str, parameters: Mapping[str, Any]) -> ToolSpec:
    """A function's declaration."""
    return ToolSpec(
        {
            "type": "function",
            "name": name,
            "description": description,
            "strict": False,
            "parameters": parameters,
        }
    )


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    """An object's schema that takes these and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
