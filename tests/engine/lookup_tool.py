"""A gateway-owned tool that exists in the tests only: `lookup`, whose executor the test scripts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.engine.engine import Engine
from bascule.protocols import json
from bascule.protocols.responses.events import OtherItemEvent
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
)
from bascule.toolkit.executor import ExecutionContext, Policy, ToolExecutor
from bascule.toolkit.handler import Handlers, Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.ownership import UNAVAILABLE, Ownership, gateway
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.custom import CustomHandler
from bascule.tools.function import FunctionHandler

TOOL = {"type": "lookup"}

Answering = Callable[[Call], Awaitable[Outcome]]
Resuming = Callable[[Call, bytes, Sequence[Item]], Awaitable[Outcome]]


class LookupExecutor(ToolExecutor[Any]):
    """Answers by what the test says."""

    policy: Policy = "parallel"

    def __init__(self, answering: Answering, resuming: Resuming | None = None) -> None:
        self._answering = answering
        self._resuming = resuming
        self.calls: list[Call] = []
        self.started = asyncio.Event()

    async def execute(self, call: Call, params: Any, context: ExecutionContext) -> Outcome:
        self.calls.append(call)
        self.started.set()
        return await self._answering(call)

    async def resume(
        self,
        call: Call,
        params: Any,
        state: bytes,
        answers: Sequence[Item],
        context: ExecutionContext,
    ) -> Outcome:
        assert self._resuming is not None
        return await self._resuming(call, state, answers)

    def project(
        self, writer: ItemWriter, call: Call, identity: Identity, params: Any
    ) -> Projection:
        return LookupProjection(writer, call)


class LookupProjection(Projection):
    """`lookup_call` with a life of its own: added, lookup_call.running, lookup_call.completed, done."""

    id_prefix: ClassVar[str] = "lk"

    def begin(self) -> None:
        self.writer.added(self._item("in_progress"))

    def complete(self, arguments: str, status: ItemStatus) -> None:
        if status == "incomplete":
            self.writer.done(self._item("incomplete"))
        else:
            self.writer.event(OtherItemEvent(-1, "", 0, "response.lookup_call.running"))

    def finish(self, outcome: Outcome) -> None:
        failed = isinstance(outcome, Failed)
        end = "failed" if failed else "completed"
        self.writer.event(OtherItemEvent(-1, "", 0, f"response.lookup_call.{end}"))
        self.writer.done(self._item(end))

    def _item(self, status: str) -> dict[str, Any]:
        return {
            "type": "lookup_call",
            "id": self.writer.item_id,
            "status": status,
            "query": self.call.arguments,
        }


class LookupHandler(ToolHandler[Any]):
    types: ClassVar[frozenset[str]] = frozenset({"lookup"})
    item_types: ClassVar[frozenset[str]] = frozenset({"lookup_call", "lookup_approval"})

    def __init__(self, executor: ToolExecutor[Any] | None) -> None:
        self._executor = executor

    def parse(self, declaration: Raw, param: str) -> Any:
        return json.field(msgspec.json.Decoder(dict[str, Any]).decode, declaration, param)

    def normalize(self, params: Any) -> Sequence[Tool]:
        schema = Raw(b'{"type":"object","properties":{"query":{"type":"string"}}}')
        return [Tool(Identity(None, "lookup", "lookup"), "Look something up", schema)]

    def owner(self, params: Any, identity: Identity) -> Ownership:
        return UNAVAILABLE if self._executor is None else gateway(self._executor, params)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = msgspec.json.decode(item.raw)
        wire = names.assign(Identity(None, "lookup", "lookup"))
        return [
            FunctionCall(view["id"], wire, view.get("query", "{}")),
            FunctionCallOutput(view["id"], "(not kept)"),
        ]

    def answers(self, item: Item) -> str | None:
        if item.type != "lookup_approval":
            return None
        return msgspec.json.decode(item.raw)["approval_id"]


def install(executor: ToolExecutor[Any] | None) -> Callable[[Any], None]:
    """For `serving(adjust=...)`: adds the tool to the gateway."""

    def adjust(gateway: Any) -> None:
        engine: Engine = gateway.engine
        engine.handlers = Handlers([FunctionHandler(), CustomHandler(), LookupHandler(executor)])

    return adjust


async def found(call: Call) -> Outcome:
    return Output(output=f"found for {call.arguments}")
