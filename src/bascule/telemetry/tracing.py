"""OpenTelemetry spans: request, turn, round of inference, tool call. Imported only when configured.

Spans carry names, ids and numbers; a tool's name and content only where they are configured.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bascule.telemetry import genai

if TYPE_CHECKING:
    from bascule.telemetry.observe import Tokens, TurnObserver, Where

Headers = Sequence[tuple[bytes, bytes]]

_TIMEOUT: Final = 5.0
"""Seconds that sending a batch may take."""
_CARRIED: Final = (b"traceparent", b"tracestate")

_TOLD: Final = {
    "tool": genai.TOOL_NAME,
    "call_id": genai.TOOL_CALL_ID,
    "arguments": genai.TOOL_ARGUMENTS,
}

_propagator = TraceContextTextMapPropagator()


def traces_url(endpoint: str) -> str:
    """The collector's address for traces; one with a path is taken as it is."""
    return endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"


class Tracing:
    """One for each gateway, with its own provider; nothing global is set."""

    def __init__(
        self, endpoint: str, version: str = "", exporter: SpanExporter | None = None
    ) -> None:
        resource = Resource.create({"service.name": "bascule", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = exporter or OTLPSpanExporter(traces_url(endpoint), timeout=_TIMEOUT)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("bascule", version)

    def request(self, request_id: str, headers: Headers) -> "Span":
        """A span for an HTTP request, below the caller's if it names one. It becomes the parent of
        what this task starts; `end_request` names and ends it, in the same task."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in headers if name in _CARRIED
        }
        span = self._start(
            "request",
            SpanKind.SERVER,
            _propagator.extract(carrier, Context()) if carrier else Context(),
        )
        span.set(genai.REQUEST_ID, request_id)
        span.enter()
        return span

    def turn(self, target: "Where") -> "Span":
        """Below the request of this task, if there is one."""
        span = self._start(f"{genai.INVOKE_AGENT} bascule", SpanKind.INTERNAL, None)
        span.set(genai.OPERATION, genai.INVOKE_AGENT)
        _set_target(span, target)
        return span

    def round(self, turn: "Span | None", target: "Where", *, stream: bool) -> "Span":
        span = self._start(f"{genai.CHAT} {target.model}", SpanKind.CLIENT, _below(turn))
        span.set(genai.OPERATION, genai.CHAT)
        span.set(genai.REQUEST_STREAM, stream)
        _set_target(span, target)
        return span

    def tool(self, turn: "Span | None", type_: str, told: Mapping[str, str]) -> "Span":
        """`told` is what `ToolDetail` lets out; without the tool's name the span bears its type."""
        shown = told.get("tool", type_)
        span = self._start(f"{genai.EXECUTE_TOOL} {shown}", SpanKind.INTERNAL, _below(turn))
        span.set(genai.OPERATION, genai.EXECUTE_TOOL)
        span.set(genai.TOOL_TYPE, type_)
        for name, attribute in _TOLD.items():
            if name in told:
                span.set(attribute, told[name])
        return span

    def propagated(self, span: "Span") -> Headers:
        """Headers that tell a model server of the span."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, span.context)
        return [(name.encode(), value.encode("latin-1")) for name, value in carrier.items()]

    def close(self) -> None:
        """Send what is left, within some seconds."""
        self._provider.shutdown()

    def _start(self, name: str, kind: SpanKind, parent: Context | None) -> "Span":
        return Span(self._tracer.start_span(name, parent, kind))


def _below(parent: "Span | None") -> Context | None:
    return None if parent is None else parent.context


def _set_target(span: "Span", target: "Where") -> None:
    span.set(genai.PROVIDER, target.upstream)
    span.set(genai.REQUEST_MODEL, target.model)


class Span:
    """One span under way."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._began = perf_counter()
        self.context: Final = trace.set_span_in_context(span)
        self._token: object = None

    def set(self, name: str, value: str | bool | float) -> None:
        self._span.set_attribute(name, value)

    def event(self, name: str, told: Mapping[str, str | bool | float]) -> None:
        """Something that happened at one moment of it."""
        self._span.add_event(name, told)

    def enter(self) -> None:
        """What this task starts from here on is below this span."""
        self._token = attach(self.context)

    def first_event(self) -> None:
        self.set(genai.FIRST_CHUNK_SECONDS, perf_counter() - self._began)

    def end_request(self, status: int, method: str, route: str) -> None:
        self._span.update_name(f"{method} {route}")
        self.set(genai.HTTP_METHOD, method)
        self.set(genai.HTTP_ROUTE, route)
        self.set(genai.HTTP_STATUS, status)
        if status >= 500:
            self._fail(str(status))
        if self._token is not None:
            detach(self._token)  # type: ignore[arg-type]
        self._span.end()

    def end_turn(self, turn: "TurnObserver") -> None:
        self.set(genai.RESPONSE_ID, turn.response_id)
        self.set(genai.TURN_STATUS, turn.status)
        self.set(genai.TURN_ROUNDS, turn.rounds)
        self._usage(turn.usage)
        if turn.status in ("failed", "refused"):
            self._fail(turn.error or turn.status)
        self._span.end()

    def end_round(self, usage: "Tokens | None", fault: str | None) -> None:
        self._usage(usage)
        if fault is not None:
            self._fail(fault)
        self._span.end()

    def tool_result(self, text: str) -> None:
        self.set(genai.TOOL_RESULT, text)

    def end_tool(self, outcome: str) -> None:
        self.set(genai.TOOL_OUTCOME, outcome)
        if outcome in ("failed", "timeout"):
            self._fail(outcome)
        self._span.end()

    def _usage(self, usage: "Tokens | None") -> None:
        if usage is not None:
            self.set(genai.INPUT_TOKENS, usage.input_tokens)
            self.set(genai.OUTPUT_TOKENS, usage.output_tokens)
            self.set(genai.CACHED_TOKENS, usage.cached_tokens)
            self.set(genai.REASONING_TOKENS, usage.reasoning_tokens)

    def _fail(self, kind: str) -> None:
        self.set(genai.ERROR_TYPE, kind)
        self._span.set_status(Status(StatusCode.ERROR))
