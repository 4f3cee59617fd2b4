"""The client's tools: the toolkit's registry, filled from handlers."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from bascule.agent.calls import MalformedPayload, ToolCall, ToolName, ToolOutput, aborted
from bascule.agent.handler import Exposure, LocalHandler, ToolSpec
from bascule.telemetry.logger import Logger
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Outcome
from bascule.toolkit.ownership import Binding, Owner, Ownership
from bascule.toolkit.registry import ToolEntry, ToolRegistry
from bascule.tools.function import FunctionHandler

if TYPE_CHECKING:
    from bascule.agent.executor import LocalExecutor
    from bascule.agent.turn import TurnContext

_log = Logger("bascule.agent")

NAME_LIMIT: Final = 64
_DECLARED: Final = FunctionHandler()
"""Stands for the declared type: nothing of a local tool's calls is parsed or restored here."""


class LocalRegistry(ToolRegistry):
    """Looks tools up by both parts of their names, declares them, and runs what is called."""

    def __init__(
        self,
        handlers: Sequence[LocalHandler],
        executor: "LocalExecutor",
        *,
        namespaces: bool = True,
    ) -> None:
        """Without `namespaces` each tool is declared by its one wire name."""
        self._namespaces = namespaces
        ledger = Ledger(NAME_LIMIT)
        self.handlers: Final = {handler.name: handler for handler in handlers}
        identities = {name: Identity(*name, "local") for name in self.handlers}
        ledger.assign_all(identities.values())
        self._wires = {name: ledger.assign(identity) for name, identity in identities.items()}
        super().__init__(
            _entry(handler, identities[name], self._wires[name], executor)
            for name, handler in self.handlers.items()
        )
        self._by_wire = {wire: name for name, wire in self._wires.items()}

    def find(self, name: ToolName) -> ToolEntry | None:
        """By namespace and name. A gateway on the way may have made one name of both."""
        wire = self._wires.get(name)
        if wire is None and name.namespace is None and name.name in self._by_wire:
            wire = name.name
        return None if wire is None else self.lookup(wire)

    def handler_of(self, name: ToolName) -> LocalHandler | None:
        entry = self.find(name)
        return None if entry is None else self.handlers[self._by_wire[entry.wire]]

    def iter_specs(self) -> Iterator[ToolSpec]:
        """The prompt's list; tools of one namespace together, where its first one stands."""
        shown = [h for h in self.handlers.values() if h.exposure is Exposure.DIRECT]
        seen: set[str] = set()
        for handler in shown:
            spec = handler.spec()
            space = handler.name.namespace
            if spec is None:
                continue
            if space is None:
                yield spec
            elif not self._namespaces:
                yield ToolSpec({**spec.declaration, "name": self._wires[handler.name]})
            elif space not in seen:
                seen.add(space)
                yield in_namespace(space, [h for h in shown if h.name.namespace == space])

    def dispatch(self, call: ToolCall, turn: "TurnContext") -> asyncio.Future[bytes]:
        """Run a call, as far as others permit at once; gives the input item that answers it. There is
        one for each call, whatever becomes of it. Calls are held to the order of being dispatched."""
        if isinstance(call.payload, MalformedPayload):
            return _ready(aborted(call.payload.reason).input_item(call))
        entry = self.find(call.name)
        if entry is None:
            name = f"{call.name.namespace or ''}{call.name.name}"
            return _ready(aborted(f"unsupported call: {name}").input_item(call))
        handler = self.handlers[self._by_wire[entry.wire]]
        if not isinstance(call.payload, handler.takes):
            return _ready(aborted(_mismatch(call, handler)).input_item(call))
        outcome = turn.submit(call, entry)
        return asyncio.ensure_future(_answer(call, outcome, turn))


class ToolRegistryBuilder:
    """Filled by `specs.build_specs`. The first tool of a name counts."""

    def __init__(self) -> None:
        self._handlers: dict[ToolName, LocalHandler] = {}

    def add(self, handler: LocalHandler) -> bool:
        """Whether it was taken: one whose name is taken is left out, and the log says so."""
        if handler.name in self._handlers:
            _log.warning("a tool was left out: its name is taken", tool=str(handler.name))
            return False
        self._handlers[handler.name] = handler
        return True

    @property
    def handlers(self) -> list[LocalHandler]:
        return list(self._handlers.values())

    def build(self, executor: "LocalExecutor", *, namespaces: bool = True) -> LocalRegistry:
        return LocalRegistry(self.handlers, executor, namespaces=namespaces)


def in_namespace(space: str, handlers: Sequence[LocalHandler]) -> ToolSpec:
    """One declaration for tools of one namespace."""
    specs = [spec for handler in handlers if (spec := handler.spec()) is not None]
    about = next((text for h in handlers if (text := getattr(h, "about_namespace", None))), None)
    return ToolSpec(
        {
            "type": "namespace",
            "name": space,
            "description": about or f"Tools of {space}.",
            "tools": [spec.declaration for spec in specs],
        }
    )


def _entry(
    handler: LocalHandler, identity: Identity, wire: str, executor: "LocalExecutor"
) -> ToolEntry:
    policy = "parallel" if handler.parallel else "exclusive"
    binding = Binding(executor, handler, policy, executor.timeout)
    return ToolEntry(
        identity,
        wire,
        _DECLARED,
        Ownership(Owner.LOCAL, binding),
        declaration=executor.undeclared,
        offered=handler.exposure is Exposure.DIRECT,
    )


def _mismatch(call: ToolCall, handler: LocalHandler) -> str:
    item = "a custom tool call" if call.item_type == "custom_tool_call" else f"a {call.item_type}"
    spec = handler.spec()
    type_ = "tool" if spec is None else str(spec.declaration["type"])
    way = {
        "custom": "is a custom tool: call it with a text, not with JSON arguments",
        "function": "is a function: call it with JSON arguments",
    }.get(type_, f"is of the type {type_}: call it as such")
    return f"{call.name.name} {way} (this was {item})"


async def _answer(call: ToolCall, outcome: asyncio.Future[Outcome], turn: "TurnContext") -> bytes:
    began = time.monotonic()
    try:
        output = ToolOutput.of(await asyncio.shield(outcome))
    except asyncio.CancelledError:
        if not outcome.cancelled():
            raise
        output = aborted(turn.stopped(time.monotonic() - began))
    return output.input_item(call)


def _ready(item: bytes) -> asyncio.Future[bytes]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    answer.set_result(item)
    return answer
