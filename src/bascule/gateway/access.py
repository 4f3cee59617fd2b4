"""The line, the count and the span that each answered request leaves."""

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.routing import BaseRoute, Route

from bascule.telemetry.logs import bind_request, lines
from bascule.telemetry.metrics import OTHER
from bascule.telemetry.observe import Observer, TurnObserver

if TYPE_CHECKING:
    from bascule.telemetry.tracing import Span

_log = structlog.stdlib.get_logger("bascule.access")

CLIENT_GONE: Final = 499
"""What is noted for a client that left before an answer began; nothing is sent."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_QUIET: Final = frozenset({"/health", "/ready", "/metrics"})
"""Asked every few seconds by machines: their lines are for `level = "debug"`."""
_MAX_PATH: Final = 256
_MAX_MODEL: Final = 128


class AccessLog:
    """Knows the routes, so that a made-up address makes no new series."""

    def __init__(self, observer: Observer, routes: Iterable[BaseRoute]) -> None:
        self._observer = observer
        self._routes = {route.endpoint: route.path for route in routes if isinstance(route, Route)}

    def begin(self, scope: Any, request_id: bytes, route: str | None = None) -> "Access":
        """A request's headers are there. What this task logs from now on names the request."""
        bind_request(request_id.decode())
        return Access(self, scope, request_id, route)

    def end(self, access: "Access", turn: TurnObserver | None) -> None:
        """The request is over."""
        scope, status = access.scope, access.status or CLIENT_GONE
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        route = access.route or self._routes.get(scope.get("endpoint"), OTHER)
        metrics = self._observer.metrics
        if metrics is not None:
            metrics.request(method, route, status)
        if access.span is not None:
            access.span.end_request(status, method, route)
        fields: dict[str, Any] = {
            "method": method,
            "path": _path(scope),
            "status": status,
            "seconds": round(perf_counter() - access.began, 4),
        }
        if turn is not None:
            usage = turn.usage
            fields["upstream"] = turn.target.upstream
            fields["model"] = turn.target.model[:_MAX_MODEL]
            fields["response_id"] = turn.response_id
            fields["turn"] = turn.status
            fields["error"] = turn.error
            fields["rounds"] = turn.rounds
            fields["input_tokens"] = None if usage is None else usage.input_tokens
            fields["output_tokens"] = None if usage is None else usage.output_tokens
            lines.info("turn", fields)
        elif route in _QUIET and status < 400:
            _log.debug("request", **fields)
        else:
            lines.info("request", fields)

    def span(self, scope: Any, request_id: bytes) -> "Span | None":
        """What this task starts from here on is below it."""
        tracing = self._observer.tracing
        if tracing is None or scope["path"] in _QUIET:
            return None
        return tracing.request(request_id.decode(), scope["headers"])


class Access:
    """One request under way; `status` is set when its answer begins."""

    __slots__ = ("_log", "began", "route", "scope", "span", "status")

    def __init__(self, log: AccessLog, scope: Any, request_id: bytes, route: str | None) -> None:
        self._log = log
        self.scope = scope
        self.route = route
        self.status = 0
        self.began = perf_counter()
        self.span = log.span(scope, request_id)

    def end(self, turn: TurnObserver | None = None) -> None:
        self._log.end(self, turn)


def _path(scope: Any) -> str:
    """As it was sent, without the query: that may hold a key."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    return raw.partition(b"?")[0].decode("latin-1")[:_MAX_PATH]
