"""Prometheus metrics of one gateway.

Labels are bounded by the configuration and by the code: an upstream's name, a `[[models]]` name (all
others together are `other`), a status, a kind of fault, a tool type that a handler serves.
"""

from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from bascule.telemetry.families import Counter, Families, Gauge, Histogram, Number
from bascule.telemetry.observe import Tokens, TurnStatus

OTHER: Final = "other"

_MAX_TYPES: Final = 200

_SECONDS: Final = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
)
_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_WHERE: Final = ("upstream", "model")


class Metrics:
    """A registry of its own, so that several gateways can live in one process."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._of: dict[tuple[str, str], ModelMetrics] = {}
        self.turns = Counter("bascule_turns", "Turns that ended, by status.", (*_WHERE, "status"))
        self.turn_seconds = Histogram(
            "bascule_turn_seconds", "From a turn's start to its end.", _WHERE, bounds=_SECONDS
        )
        self.rounds = Counter("bascule_rounds", "Rounds of inference.", _WHERE)
        self.first_token_seconds = Histogram(
            "bascule_time_to_first_token_seconds",
            "From a streamed turn's start to the model's first event.",
            _WHERE,
            bounds=_SECONDS,
        )
        self.head_seconds = Histogram(
            "bascule_upstream_head_seconds",
            "From a request to a model server to the head of its answer.",
            _WHERE,
            bounds=_SECONDS,
        )
        self.upstream_seconds = Histogram(
            "bascule_upstream_seconds",
            "From a request to a model server to the end of its answer.",
            _WHERE,
            bounds=_SECONDS,
        )
        self.upstream_errors = Counter(
            "bascule_upstream_errors",
            "Answers of model servers that failed, by kind of fault.",
            (*_WHERE, "kind"),
        )
        self.tokens = Counter(
            "bascule_tokens",
            "Tokens as model servers count them; cached is part of input, reasoning of output.",
            (*_WHERE, "kind"),
        )
        self.running_turns = Gauge("bascule_running_turns", "Turns under way.")
        self.open_streams = Gauge("bascule_open_streams", "Streamed turns under way.")
        self.reasks = Counter(
            "bascule_reasks",
            "Rounds asked again because the model did not keep to the request.",
            (*_WHERE, "reason"),
        )
        self.prompt_cuts = Counter(
            "bascule_prompt_cuts", "Rounds of which the server read far less than was sent.", _WHERE
        )
        self.unknown_citations = Counter(
            "bascule_unknown_citations", "Citations of sources that there are not, removed.", _WHERE
        )
        self.tool_calls = Counter(
            "bascule_tool_calls",
            "Calls of tools, by declared type and outcome.",
            ("type", "outcome"),
        )
        self.tool_seconds = Histogram(
            "bascule_tool_seconds",
            "Executions of the gateway's own tools.",
            ("type",),
            bounds=_SECONDS,
        )
        self.tool_blocks = Counter(
            "bascule_tool_blocks",
            "Steps of the gateway's own tools that held the event loop for too long.",
            ("type",),
        )
        self.tool_unstops = Counter(
            "bascule_tool_unstopped",
            "Executions that went on although they were cancelled, and were torn down.",
            ("type",),
        )
        self.commit_seconds = Histogram(
            "bascule_store_commit_seconds",
            "From handing a turn to the store to the end of its transaction.",
            bounds=_FAST,
        )
        self.requests = Counter(
            "bascule_http_requests",
            "Answered HTTP requests, by route and status; 499 for a client that left before.",
            ("method", "route", "status"),
        )
        info = Gauge("bascule_info", "Always 1.", ("version",))
        info.labels(version).inc()
        self._requests: dict[tuple[str, str, int], Number] = {}
        self._tool_types: set[str] = set()

        self.commit = self.commit_seconds.labels()
        own = [
            f for f in (*vars(self).values(), info) if isinstance(f, Counter | Gauge | Histogram)
        ]
        self.registry.register(Families(own))

    def of(self, upstream: str, model: str) -> "ModelMetrics":
        """The metrics of one configured model, their labels bound."""
        key = (upstream, model or OTHER)
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = ModelMetrics(self, key)
        return found

    def tool_call(self, type_: str, outcome: str, seconds: float | None = None) -> None:
        type_ = self._tool_type(type_)
        self.tool_calls.labels(type_, outcome).inc()
        if seconds is not None:
            self.tool_seconds.labels(type_).observe(seconds)

    def tool_blocked(self, type_: str) -> None:
        self.tool_blocks.labels(self._tool_type(type_)).inc()

    def tool_unstopped(self, type_: str) -> None:
        self.tool_unstops.labels(self._tool_type(type_)).inc()

    def _tool_type(self, type_: str) -> str:
        """Types are what handlers say; one that makes them up from a request cannot fill the memory."""
        if type_ in self._tool_types:
            return type_
        if len(self._tool_types) >= _MAX_TYPES:
            return OTHER
        self._tool_types.add(type_)
        return type_

    def request(self, method: str, route: str, status: int) -> None:
        """`route` is a template, `other` for an unknown address."""
        key = (method, route, status)
        bound = self._requests.get(key)
        if bound is None:
            bound = self._requests[key] = self.requests.labels(method, route, str(status))
        bound.inc()

    def expose(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the form that the scraper accepts, and the form's content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


class ModelMetrics:
    """Children that are looked up once."""

    def __init__(self, all_: Metrics, key: tuple[str, str]) -> None:
        self._all = all_
        self._key = key
        self._statuses: dict[str, Number] = {}
        self._turn_seconds = all_.turn_seconds.labels(*key)
        self._rounds = all_.rounds.labels(*key)
        self._upstream_seconds = all_.upstream_seconds.labels(*key)
        self._running = all_.running_turns.labels()
        self._streams = all_.open_streams.labels()
        self.first_token_seconds = all_.first_token_seconds.labels(*key)
        self.head_seconds = all_.head_seconds.labels(*key)
        self.prompt_cuts = all_.prompt_cuts.labels(*key)
        self.unknown_citations = all_.unknown_citations.labels(*key)
        kinds = ("input", "cached", "output", "reasoning")
        self._tokens = [all_.tokens.labels(*key, kind) for kind in kinds]

    def turn_begins(self, *, stream: bool) -> None:
        self._running.inc()
        if stream:
            self._streams.inc()

    def turn_ends(self, status: TurnStatus, seconds: float, *, stream: bool) -> None:
        self._running.dec()
        if stream:
            self._streams.dec()
        bound = self._statuses.get(status)
        if bound is None:
            bound = self._statuses[status] = self._all.turns.labels(*self._key, status)
        bound.inc()
        self._turn_seconds.observe(seconds)

    def round_ends(self, seconds: float, usage: Tokens | None, fault: str | None) -> None:
        self._rounds.inc()
        self._upstream_seconds.observe(seconds)
        if fault is not None:
            self._all.upstream_errors.labels(*self._key, fault).inc()
        if usage is not None:
            counts = (
                usage.input_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                usage.reasoning_tokens,
            )
            for counter, count in zip(self._tokens, counts, strict=True):
                if count > 0:
                    counter.inc(count)

    def reasked(self, reason: str) -> None:
        self._all.reasks.labels(*self._key, reason).inc()
