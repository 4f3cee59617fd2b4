"""What is told of a session's turns, rounds and calls. Nothing is, unless a collector is configured.

Spans come from the toolkit's and the gateway's own wrappers (`TurnObserver`); events of the client's
side stand on the turn's span, counters and durations go to `Meters`.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from bascule.agent.calls import McpPayload, ToolCall
from bascule.agent.handler import Exposure, text_of
from bascule.agent.model import ModelEvent, ModelFault
from bascule.telemetry import genai
from bascule.telemetry.observe import Observer, TurnObserver
from bascule.telemetry.tool_detail import ToolDetail

if TYPE_CHECKING:
    from bascule.agent.registry import LocalRegistry
    from bascule.agent.session import Session
    from bascule.agent.turn import TurnContext

ORIGINATOR: Final = "bascule"
BUILT_IN: Final = "functions"
"""The namespace of tools that have none."""

How = Literal["completed", "failed", "aborted"]


class Meters(Protocol):
    """Numbers for a collector. Labels are names of tools and models, and words of the code's own."""

    def count(self, name: str, times: int, **labels: str | bool) -> None: ...

    def seconds(self, name: str, seconds: float, **labels: str | bool) -> None: ...

    def close(self) -> None: ...


class _Target:
    """A turn's target, as observers want it."""

    upstream = ORIGINATOR
    name = ""

    def __init__(self, model: str) -> None:
        self.model = model


class Asking:
    """One request under way."""

    def __init__(self, observed: Any, turn: "TurnContext") -> None:
        self._observed = observed
        self._turn = turn
        self._began = time.perf_counter()
        self.first: float | None = None
        """Seconds to the first event."""

    def heard(self, event: ModelEvent) -> None:
        if self.first is None:
            self.first = time.perf_counter() - self._began
            if self._observed is not None:
                self._observed.first()


class Telemetry:
    """One for each session. Without an observer and meters it keeps nothing."""

    def __init__(
        self,
        observer: Observer | None = None,
        meters: Meters | None = None,
        detail: ToolDetail | None = None,
    ) -> None:
        self._observer = observer
        self._meters = meters
        self._detail = detail or ToolDetail()
        self._results = 0
        self._turn_calls = 0

    def turn(self, session: "Session") -> TurnObserver | None:
        self._turn_calls = 0
        if self._observer is None:
            return None
        return self._observer.turn(_Target(session.settings.model), stream=True)

    @contextmanager
    def asking(self, turn: "TurnContext") -> Generator[Asking]:
        """Around one request to the model."""
        observed = None
        if turn.observed is not None:
            observed = turn.observed.round(turn.session.model.url, (), b"")
        asking = Asking(observed, turn)
        fault: str | None = "cancelled"
        try:
            yield asking
            fault = None
        except ModelFault:
            fault = "stream"
            raise
        finally:
            if observed is not None:
                observed.end(None, fault)
            if self._meters is not None and asking.first is not None and turn.rounds == 1:
                self._meters.seconds(genai.TIME_TO_FIRST, asking.first, model=self._model(turn))
            self._event(turn, "api_request", attempt=turn.rounds, error=fault or "")

    def conversation_starts(self, session: "Session") -> None:
        if self._meters is not None:
            self._meters.count(genai.CONVERSATIONS, 1, model=session.settings.model)

    def tools_registered(self, registry: "LocalRegistry") -> None:
        if self._meters is None:
            return
        for exposure in Exposure:
            number = sum(h.exposure is exposure for h in registry.handlers.values())
            self._meters.count(genai.TOOLS_REGISTERED, number, exposure=exposure.value)
        size = sum(len(spec.about.encode()) for spec in registry.iter_specs())
        self._meters.count(genai.TOOLS_DESCRIBED, size)

    def user_prompt(self, turn: "TurnContext", prompt: str) -> None:
        told: dict[str, Any] = {"prompt_length": len(prompt)}
        if self._detail.content:
            told["prompt"] = self._detail.shown(prompt)
        self._event(turn, "user_prompt", **told)

    def tool_decision(
        self, turn: "TurnContext", call: ToolCall, decision: str, source: str
    ) -> None:
        self._event(turn, "tool_decision", **self._of(call), decision=decision, source=source)

    def tool_result(
        self, turn: "TurnContext", call: ToolCall, how: How, output: str, seconds: float
    ) -> None:
        self._results += 1
        self._turn_calls += 1
        if self._meters is not None:
            labels = {"tool": str(call.name), "success": how == "completed"}
            self._meters.count(genai.TOOL_CALLS, 1, **labels)
            self._meters.seconds(genai.TOOL_SECONDS, seconds, **labels)
        if turn.observed is None:
            return
        told: dict[str, Any] = {
            **self._of(call),
            "tool_result_seq": self._results,
            "duration_ms": round(seconds * 1000, 3),
            "success": how == "completed",
            "outcome": how,
            "output_truncated": "tokens truncated…" in output,
            "conversation_id": turn.session.id,
            "originator": ORIGINATOR,
            "version": _version(),
            "model": turn.session.settings.model,
        }
        if self._detail.content:
            told["arguments"] = self._detail.shown(text_of(call.payload))
            told["output"] = self._detail.shown(output)
        self._event(turn, "tool_result", **told)

    def sandbox_stopped(self, turn: "TurnContext", call: ToolCall, *, again: bool) -> None:
        """`again`: whether it runs once more, without the sandbox."""
        self._event(turn, "sandbox_outcome", **self._of(call), outcome="denied", again=again)

    def turn_ended(self, turn: "TurnContext") -> None:
        if self._meters is not None:
            model = self._model(turn)
            self._meters.count(genai.TURN_TOOL_CALLS, self._turn_calls, model=model)
            for kind, number in (
                ("input", turn.usage.input_tokens),
                ("output", turn.usage.output_tokens),
            ):
                self._meters.count(genai.TOKENS, number, model=model, type=kind)
            seconds = time.monotonic() - turn.began
            self._meters.seconds(genai.OPERATION_SECONDS, seconds, model=model, status=turn.status)
        if turn.observed is not None:
            turn.observed.response_id = turn.id
            turn.observed.rounds = turn.rounds
            status = "cancelled" if turn.status == "interrupted" else turn.status
            turn.observed.end(status, None, turn.status if turn.error else None)

    def close(self) -> None:
        """Send what is left."""
        if self._observer is not None:
            self._observer.close()
        if self._meters is not None:
            self._meters.close()

    def _of(self, call: ToolCall) -> dict[str, Any]:
        told: dict[str, Any] = {
            "tool_name": call.name.name,
            "tool_namespace": call.name.namespace or BUILT_IN,
            "call_id": call.call_id,
        }
        if isinstance(call.payload, McpPayload):
            told["mcp_server"] = call.payload.server
        return told

    def _model(self, turn: "TurnContext") -> str:
        return turn.session.settings.model

    def _event(self, turn: "TurnContext", name: str, **told: Any) -> None:
        if turn.observed is not None and turn.observed.span is not None:
            turn.observed.span.event(f"bascule.{name}", told)


def _version() -> str:
    from bascule import __version__

    return __version__
