"""`Session`: a conversation with a model that has tools here. It converts and delegates."""

import asyncio
import time
from asyncio import sleep
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, structs

from bascule.agent import rollout
from bascule.agent.approvals.gate import Gate
from bascule.agent.events import (
    Diff,
    Event,
    Listener,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from bascule.agent.executor import LocalExecutor
from bascule.agent.handler import LocalHandler
from bascule.agent.history import History, message
from bascule.agent.model import ModelClient, ModelFault, pause_before
from bascule.agent.patch.apply import Applier, journals_of
from bascule.agent.processes.commands import Commands
from bascule.agent.prompt import INSTRUCTIONS, permissions, surroundings
from bascule.agent.reading import Reading
from bascule.agent.registry import LocalRegistry
from bascule.agent.router import ToolRouter
from bascule.agent.settings import Settings
from bascule.agent.specs import build_specs
from bascule.agent.telemetry import Telemetry
from bascule.agent.turn import TurnContext
from bascule.protocols import json
from bascule.protocols.ids import mint
from bascule.services.sandbox import Boundary, Sandbox

if TYPE_CHECKING:
    from bascule.agent.servers import Servers


class Session:
    """Turns follow one another; `aclose` leaves nothing running."""

    def __init__(
        self,
        settings: Settings,
        model: ModelClient,
        *,
        sandbox: Sandbox,
        boundary: Boundary,
        gate: Gate,
        listener: Listener,
        telemetry: Telemetry | None = None,
        handlers: Sequence[LocalHandler] = (),
        servers: "Servers | None" = None,
        resumed: Path | None = None,
    ) -> None:
        """`handlers` are the user's own tools. `resumed` is the file of an earlier session.

        Raises OSError, ValueError for one that cannot be read.
        """
        self.settings = settings
        self.model: Final = model
        self.sandbox: Final = sandbox
        self.boundary: Final = boundary
        self.gate: Final = gate
        self.telemetry: Final = telemetry or Telemetry()
        self.commands: Final = Commands()
        self.servers: Final = servers
        self.applier: Final = Applier(journals_of(settings.home, boundary.workspace))
        self._listener = listener
        self._own = handlers
        self._registry: LocalRegistry | None = None
        self._tools = b"[]"
        self.id = mint("ses")
        self._resumed = resumed is not None
        items: list[bytes] = []
        if resumed is not None:
            about, items = rollout.read(resumed)
            self.id = about.id
        self.history: Final = History(items)
        self._rollout: Final = rollout.Rollout(resumed or rollout.path_of(settings.home, self.id))
        self._turn: asyncio.Task[None] | None = None

    @property
    def registry(self) -> LocalRegistry:
        if self._registry is None:
            raise RuntimeError("the session has not begun")
        return self._registry

    def emit(self, event: Event) -> None:
        self._listener(event)

    def use_model(self, model: str) -> None:
        """Another one, from the next turn on."""
        self.settings = structs.replace(self.settings, model=model)

    async def begin(self) -> None:
        """Find the tools, and write the beginning down. What a crash has cut off is undone first."""
        for path in await asyncio.to_thread(self.applier.recover):
            self.emit(Warned(f"A patch that was cut off was undone: {path}"))
        await self._declare()
        settings = self.settings
        cwd = str(self.boundary.workspace)
        if not self._resumed:
            about = rollout.About(id=self.id, cwd=cwd, model=settings.model, created=time.time())
            self._keep("session", json.encode(about))
            for item in (
                permissions(self.boundary, settings.approval),
                surroundings(self.boundary),
            ):
                self.add(item)
        for item in self.history.repair():
            self._keep("item", item)
        self.emit(
            SessionStarted(
                session_id=self.id,
                model=settings.model,
                cwd=cwd,
                sandbox=self.gate.policy.named,
                approval=settings.approval,
                resumed=self._resumed,
            )
        )
        self.telemetry.conversation_starts(self)

    async def _declare(self) -> None:
        builder = await build_specs(self.settings.tools, self, self._own)
        namespaces = self.settings.tools.namespaces
        self._registry = builder.build(LocalExecutor(self.gate), namespaces=namespaces)
        specs = [spec.declaration for spec in self._registry.iter_specs()]
        self._tools = json.encode(specs)
        self.telemetry.tools_registered(self._registry)

    # --- items

    def add(self, item: bytes) -> None:
        """To the history, and to the file."""
        self.history.add(item)
        self._keep("item", item)

    def _keep(self, kind: rollout.Kind, data: bytes) -> None:
        try:
            self._rollout.write(kind, data)
        except OSError as e:
            self.emit(Warned(f"The session cannot be written down: {e.strerror}"))

    def request(self, *, first: bool = False) -> bytes:
        """The body of the next request. A choice of tools is for a turn's first one: what came of it has
        to be told, too."""
        settings = self.settings
        members: dict[str, Any] = {
            "model": settings.model,
            "instructions": settings.instructions or INSTRUCTIONS,
            "input": Raw(self.history.encoded()),
            "tools": Raw(self._tools),
            "tool_choice": settings.tool_choice if first else "auto",
            "parallel_tool_calls": True,
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.id,
        }
        if settings.reasoning_effort is not None:
            members["reasoning"] = {"effort": settings.reasoning_effort, "summary": "auto"}
        if settings.output_schema is not None:
            members["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": settings.output_schema,
                    "strict": True,
                }
            }
        return json.encode(members)

    # --- turns

    async def turn(self, prompt: str, images: Sequence[str] = ()) -> TurnContext:
        """One turn, to its end: whatever happens, the history can be gone on with. `interrupt` stops what
        runs, and cancelling does, too."""
        if self._turn is not None:
            raise RuntimeError("a turn of this session runs already")
        turn = TurnContext(self)
        self.emit(TurnStarted(turn.id, prompt))
        self.telemetry.user_prompt(turn, prompt)
        self.add(message("user", prompt, images))
        # A task of its own: what interrupts it cancels nobody who waits for it.
        rounds = self._turn = asyncio.create_task(self._rounds(turn))
        try:
            await asyncio.wait([rounds])
        except asyncio.CancelledError:
            rounds.cancel()
            await asyncio.wait([rounds])
            raise
        finally:
            self._turn = None
            try:
                _settle(turn, rounds)
            finally:
                self._finish(turn)
        return turn

    def interrupt(self) -> bool:
        """Stop the turn that runs; whether there was one."""
        if self._turn is None or self._turn.done():
            return False
        self._turn.cancel()
        return True

    def _finish(self, turn: TurnContext) -> None:
        for item in self.history.repair():
            self._keep("item", item)
        if diff := turn.tracker.diff():
            self.emit(Diff(diff))
        seconds = time.monotonic() - turn.began
        ended = TurnEnded(turn.id, turn.status, turn.usage, seconds, turn.error)
        self._keep("turn", json.encode({"id": turn.id, "status": turn.status, "error": turn.error}))
        self.telemetry.turn_ended(turn)
        self.emit(ended)

    async def _rounds(self, turn: TurnContext) -> None:
        router = ToolRouter(self.registry)
        while not turn.stop.is_set():
            if turn.rounds >= self.settings.max_rounds:
                turn.end("incomplete", f"{turn.rounds} rounds were made, and no more may be.")
                return
            turn.rounds += 1
            pending = await self._round(turn, router)
            if not pending:
                return

    async def _round(self, turn: TurnContext, router: ToolRouter) -> int:
        """How many calls it had; all are answered then."""
        round_ = Round(turn, router)
        attempt = 0
        try:
            while True:
                try:
                    await round_.ask()
                    break
                except ModelFault as e:
                    if not e.again or round_.began or attempt >= self.model.retries:
                        raise
                    pause = pause_before(attempt, e)
                    self.emit(Warned(f"{e} Trying again in {pause:.1f} s."))
                    attempt += 1
                    await sleep(pause)
        except BaseException as e:
            failed = isinstance(e, ModelFault)
            await turn.cancel("the answer that made the call has failed" if failed else None)
            await round_.collect()
            raise
        try:
            await round_.wait()
        except asyncio.CancelledError:
            await turn.cancel()
            await round_.collect()
            raise
        await turn.settle()
        return round_.calls

    async def aclose(self) -> None:
        """End what still runs."""
        if self._turn is not None and self.interrupt():
            await asyncio.wait([self._turn])
        await self.commands.aclose()
        if self.servers is not None:
            await self.servers.aclose()
        self._rollout.close()
        self.telemetry.close()


def _settle(turn: TurnContext, rounds: "asyncio.Task[None]") -> None:
    """What became of a turn. Raises what nobody has foreseen."""
    if rounds.cancelled():
        turn.end("interrupted", "interrupted by the user")
        return
    fault = rounds.exception()
    if isinstance(fault, ModelFault):
        turn.end("failed", str(fault))
    elif fault is not None:
        turn.end("failed", f"{type(fault).__name__}")
        raise fault


class Round:
    """One request and its answer. Calls start while the model still writes."""

    def __init__(self, turn: TurnContext, router: ToolRouter) -> None:
        self._turn = turn
        self._session = turn.session
        self._reading = Reading(turn, self._item)
        self._router = router
        self._outputs: list[asyncio.Future[bytes]] = []

    @property
    def began(self) -> bool:
        """Whether a part of an answer was taken, so that it cannot be asked for again."""
        return self._reading.items > 0

    @property
    def calls(self) -> int:
        return len(self._outputs)

    async def ask(self) -> None:
        """Raises ModelFault."""
        session = self._session
        with session.telemetry.asking(self._turn) as asking:
            async for event in session.model.events(session.request(first=self._turn.rounds == 1)):
                asking.heard(event)
                self._reading.take(event)

    def _item(self, item: bytes) -> None:
        self._session.add(item)
        call = self._router.from_turn(item)
        if call is not None:
            self._outputs.append(self._session.registry.dispatch(call, self._turn))

    async def wait(self) -> None:
        """For the outputs of all calls; they go into the history in the order of the calls."""
        if self._outputs:
            await asyncio.wait(self._outputs)
        for output in self._outputs:
            self._session.add(output.result())

    async def collect(self) -> None:
        """The same when all was stopped: each call has an output, of what it did or of its end."""
        for item in await asyncio.gather(*self._outputs, return_exceptions=True):
            if isinstance(item, bytes):
                self._session.add(item)
