"""What tools depend on, as metrics."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bascule.toolkit.handler import Handlers

_LABELS = ("name",)


class ToolHealth:
    """Asks the handlers whenever somebody scrapes."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def collect(self) -> Iterator[Metric]:
        connected = GaugeMetricFamily(
            "bascule_mcp_server_connected", "Whether a configured MCP server is.", labels=_LABELS
        )
        calls = CounterMetricFamily(
            "bascule_mcp_server_calls", "What it was asked.", labels=_LABELS
        )
        failures = CounterMetricFamily(
            "bascule_mcp_server_failures", "How often that failed.", labels=_LABELS
        )
        connects = CounterMetricFamily(
            "bascule_mcp_server_connects", "How often it was connected to.", labels=_LABELS
        )
        for health in self._handlers.health():
            name = [health.name]
            connected.add_metric(name, health.state == "connected")
            calls.add_metric(name, health.calls)
            failures.add_metric(name, health.failures)
            connects.add_metric(name, health.connects)
        yield from (connected, calls, failures, connects)
