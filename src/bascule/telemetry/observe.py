"""What is told of turns as they run: facts go in here, and out to metrics, traces and files.

`Observer()` alone keeps nothing, so that the engine needs no gateway around it. Nothing in here is
called for a delta. All calls come from the event loop's thread.
"""

import contextvars
from asyncio import Future
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from bascule.telemetry.tool_detail import ToolDetail

if TYPE_CHECKING:
    from bascule.telemetry.metrics import Metrics, ModelMetrics
    from bascule.telemetry.trace_files import RoundFile, TraceFiles
    from bascule.telemetry.tracing import Span, Tracing

Headers = Sequence[tuple[bytes, bytes]]

EndStatus = Literal["completed", "incomplete", "failed"]
TurnStatus = Literal["completed", "incomplete", "failed", "cancelled", "refused"]
"""`refused`: the turn failed before it began, the client got an HTTP error."""


class Tokens(Protocol):
    """The usage of a round or a turn."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


class Where(Protocol):
    """The target of a turn. `name` is that of `[[models]]`, empty for a model that is not there: no
    client can make it up."""

    @property
    def upstream(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def name(self) -> str: ...


class Observer:
    """One for each gateway."""

    def __init__(
        self,
        *,
        metrics: "Metrics | None" = None,
        tracing: "Tracing | None" = None,
        files: "TraceFiles | None" = None,
        tool_detail: ToolDetail | None = None,
    ) -> None:
        """`tool_detail`: what may be told of tool calls besides type and outcome; by default nothing."""
        self.metrics: Final = metrics
        self.tracing: Final = tracing
        self.files: Final = files
        self.tool_detail: Final = tool_detail

    def turn(self, target: Where, *, stream: bool) -> "TurnObserver":
        """A turn begins. Called in the task that runs it: what it starts logs as it does."""
        return TurnObserver(self, target, stream=stream)

    def close(self) -> None:
        """Send what is not sent yet. Blocks for some seconds at most."""
        if self.tracing is not None:
            self.tracing.close()
        if self.files is not None:
            self.files.close()


class TurnObserver:
    """Facts of one turn; what is set here is read again by the line that ends the request."""

    __slots__ = (
        "_ended",
        "_metrics",
        "_observer",
        "began",
        "context",
        "error",
        "response_id",
        "rounds",
        "span",
        "status",
        "stream",
        "target",
        "usage",
    )

    def __init__(self, observer: Observer, target: Where, *, stream: bool) -> None:
        self._observer = observer
        self._ended = False
        self._metrics: ModelMetrics | None = None
        self.target = target
        self.stream = stream
        self.began = perf_counter()
        self.response_id = ""
        self.rounds = 0
        self.status: TurnStatus = "refused"
        self.error: str | None = None
        """The code of the error that it ended with, else its type."""
        self.usage: Tokens | None = None
        self.span: Span | None = None
        if observer.tracing is not None:
            self.span = observer.tracing.turn(target)
        self.context: Final = contextvars.copy_context()
        """For tasks of the turn that are started elsewhere, from an upstream's read callback."""
        if observer.metrics is not None:
            self._metrics = observer.metrics.of(target.upstream, target.name)
            self._metrics.turn_begins(stream=stream)

    def round(self, url: str, headers: Headers, body: bytes) -> "RoundObserver":
        """A request is about to be sent to the model server."""
        self.rounds += 1
        return RoundObserver(self, self._observer, self._metrics, url, headers, body)

    def tool_call(self, type_: str, outcome: str, seconds: float | None = None) -> None:
        """A call ended. `outcome`: output, failed, suspended, timeout, cancelled, client (handed
        back), refused, incomplete."""
        if self._observer.metrics is not None:
            self._observer.metrics.tool_call(type_, outcome, seconds)

    def tool_blocked(self, type_: str) -> None:
        """An execution held the event loop for too long."""
        if self._observer.metrics is not None:
            self._observer.metrics.tool_blocked(type_)

    def tool_unstopped(self, type_: str) -> None:
        """An execution went on although it was cancelled."""
        if self._observer.metrics is not None:
            self._observer.metrics.tool_unstopped(type_)

    @property
    def tool_detail(self) -> ToolDetail | None:
        """What may be told of tool calls besides type and outcome."""
        return self._observer.tool_detail

    def tool_span(self, type_: str, name: str, call_id: str, arguments: str) -> "Span | None":
        """A span around an execution; None without traces. The caller ends it."""
        tracing, detail = self._observer.tracing, self._observer.tool_detail
        if tracing is None:
            return None
        told = {} if detail is None else detail.of_call(name, call_id, arguments)
        return tracing.tool(self.span, type_, told)

    def reasked(self, reason: str) -> None:
        """The model is asked again. `reason` is one of the code's own few words."""
        if self._metrics is not None:
            self._metrics.reasked(reason)

    def prompt_cut(self) -> None:
        """The server reported far fewer input tokens than were sent."""
        if self._metrics is not None:
            self._metrics.prompt_cuts.inc()

    def unknown_citations(self, times: int) -> None:
        """The model cited what is no source of the turn."""
        if self._metrics is not None:
            self._metrics.unknown_citations.inc(times)

    def commits(self, writing: "Future[Any]") -> None:
        """The turn is being stored."""
        if self._observer.metrics is not None:
            observe, began = self._observer.metrics.commit.observe, perf_counter()
            writing.add_done_callback(lambda _: observe(perf_counter() - began))

    def end(self, status: TurnStatus, usage: Tokens | None, error: str | None = None) -> None:
        """The first call counts."""
        if self._ended:
            return
        self._ended = True
        self.status, self.usage, self.error = status, usage, error
        if self._metrics is not None:
            self._metrics.turn_ends(status, perf_counter() - self.began, stream=self.stream)
        if self.span is not None:
            self.span.end_turn(self)


class RoundObserver:
    """Facts of one exchange with a model server."""

    __slots__ = ("_began", "_ended", "_head", "_metrics", "_turn", "file", "propagated", "span")

    def __init__(
        self,
        turn: TurnObserver,
        observer: Observer,
        metrics: "ModelMetrics | None",
        url: str,
        headers: Headers,
        body: bytes,
    ) -> None:
        self._turn = turn
        self._metrics = metrics
        self._ended = False
        self._head = False
        self.file: RoundFile | None = None
        """Takes the answer's bytes, where rounds are written down."""
        self.span: Span | None = None
        self.propagated: Headers = ()
        """Headers that carry the trace to the model server."""
        if observer.files is not None:
            self.file = observer.files.round(turn.response_id, turn.rounds, url, headers, body)
        if observer.tracing is not None:
            self.span = observer.tracing.round(turn.span, turn.target, stream=turn.stream)
            self.propagated = observer.tracing.propagated(self.span)
        self._began = perf_counter()

    def head(self, status: int, headers: Headers) -> None:
        """The answer's head is there."""
        if self._metrics is not None and not self._head:
            self._metrics.head_seconds.observe(perf_counter() - self._began)
        self._head = True
        if self.file is not None:
            self.file.head(status, headers)

    def first(self) -> None:
        """The first events of a streamed answer are there."""
        turn = self._turn
        if self._metrics is not None and turn.rounds == 1:
            self._metrics.first_token_seconds.observe(perf_counter() - turn.began)
        if self.span is not None:
            self.span.first_event()

    def end(self, usage: Tokens | None, fault: str | None = None) -> None:
        """`fault`: connect, connect_timeout, first_byte_timeout, idle_timeout, closed, malformed,
        receiver, http_4xx, http_429, http_5xx, stream (an error inside the answer), cancelled."""
        if self._ended:
            return
        self._ended = True
        if self._metrics is not None:
            self._metrics.round_ends(perf_counter() - self._began, usage, fault)
        if self.file is not None:
            self.file.end(fault)
        if self.span is not None:
            self.span.end_round(usage, fault)


NOBODY: Final = Observer()
"""Keeps nothing."""
