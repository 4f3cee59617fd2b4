"""An agent's session in a scratch folder, in front of a scripted model."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bascule.agent.approvals.ask import Approver
from bascule.agent.approvals.gate import Gate, Remember
from bascule.agent.approvals.policy import Approval, ApprovalPolicy
from bascule.agent.approvals.rules import Rules
from bascule.agent.events import Event
from bascule.agent.handler import LocalHandler
from bascule.agent.model import Endpoint, ModelClient
from bascule.agent.router import ToolRouter
from bascule.agent.servers import Servers
from bascule.agent.session import Session
from bascule.agent.settings import Settings, ToolsConfig
from bascule.agent.telemetry import Telemetry
from bascule.agent.turn import TurnContext
from bascule.config import McpServerSection
from bascule.services.sandbox import Boundary, Bubblewrap, Mode, Open, Sandbox
from bascule.testing import ModelServer, responded
from bascule.testing.script import Rule, Script
from bascule.upstreams.http1 import Http1Client

Json = dict[str, Any]
E = TypeVar("E")


def function(name: str, arguments: Any = None, call_id: str = "call_1", **more: Any) -> Json:
    """A function call's item; arguments that are no text are made JSON."""
    text = (
        arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    )
    about = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
    return {**about, "call_id": call_id, "name": name, "arguments": text, **more}


def custom(name: str, text: str, call_id: str = "call_1") -> Json:
    about = {"type": "custom_tool_call", "id": f"ctc_{call_id}", "status": "completed"}
    return {**about, "call_id": call_id, "name": name, "input": text}


def said(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    about = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    return {**about, "content": [part]}


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@dataclass
class World:
    """`folder` is the workspace; `events` is what a display would be told."""

    session: Session
    model: ModelServer
    folder: Path
    events: list[Event] = field(default_factory=list[Event])
    diff: str = ""
    """Of what the last calls have changed by patches."""

    def of(self, type_: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, type_)]

    async def call(self, *items: Json) -> list[Json]:
        """Dispatch calls as if a model had made them at once; their outputs, in order."""
        turn = TurnContext(self.session)
        router = ToolRouter(self.session.registry)
        pending = [
            self.session.registry.dispatch(call, turn)
            for item in items
            if (call := router.from_turn(msgspec.json.encode(item))) is not None
        ]
        outputs = [msgspec.json.decode(await one) for one in pending]
        self.diff = turn.tracker.diff()
        return outputs

    async def run(self, name: str, arguments: Any = None) -> str:
        """One function's output, as text."""
        [output] = await self.call(function(name, arguments))
        return output["output"]

    async def sh(self, cmd: str, **more: Any) -> str:
        return await self.run("exec_command", {"cmd": cmd, **more})

    def asked(self, number: int) -> Json:
        """The body of a request."""
        return self.model.requests[number].json

    def told(self, number: int) -> list[Json]:
        """The items of a request."""
        return self.asked(number)["input"]


@asynccontextmanager
async def world(
    folder: Path,
    script: Script = (),
    *,
    mode: Mode = "danger-full-access",
    approval: Approval = "never",
    approver: Approver | None = None,
    remember: Remember | None = None,
    rules: Rules | None = None,
    sandbox: Sandbox | None = None,
    network: bool = False,
    handlers: Sequence[LocalHandler] = (),
    servers: Sequence[McpServerSection] = (),
    telemetry: Telemetry | None = None,
    resumed: Path | None = None,
    adjust: Callable[[Session], None] | None = None,
    retries: int = 2,
    tools: Json | None = None,
    **settings: Any,
) -> AsyncGenerator[World]:
    """By default nothing is confined and nobody is asked."""
    work, home, temp = folder / "work", folder / "home", folder / "temp"
    for path in (work, home, temp):
        path.mkdir(exist_ok=True)
    boundary = Boundary(mode=mode, workspace=work, temp=temp, network=network)
    if sandbox is None:
        sandbox = Open() if mode == "danger-full-access" else Bubblewrap()
    policy = ApprovalPolicy(
        approval=approval,
        boundary=boundary,
        rules=rules or Rules(),
        sandboxed=sandbox.name != "none",
    )
    events: list[Event] = []
    http = Http1Client()
    async with ModelServer(script) as model:
        session = Session(
            Settings(
                model="mock-model",
                home=home,
                approval=approval,
                tools=ToolsConfig(**(tools or {})),
                **settings,
            ),
            ModelClient(http, Endpoint(base_url=model.url, retries=retries)),
            sandbox=sandbox,
            boundary=boundary,
            gate=Gate(policy, approver, remember),
            listener=events.append,
            telemetry=telemetry,
            handlers=handlers,
            servers=Servers(servers) if servers else None,
            resumed=resumed,
        )
        if adjust is not None:
            adjust(session)
        try:
            await session.begin()
            yield World(session, model, work, events)
        finally:
            await session.aclose()
            await http.aclose()


def scripted(*answers: Sequence[Json]) -> Rule:
    """A script: each answer is a list of items."""
    made = [responded(*items) for items in answers]
    return lambda request: made[request.number - 1](request)
