"""What tools depend on, as metrics."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bascule.toolkit.handler import Handlers

_LABELS = ("type", "name")


class ToolHealth:
    """Asks the handlers whenever somebody scrapes."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def collect(self) -> Iterator[Metric]:
        connected = GaugeMetricFamily(
            "bascule_tool_dependency_connected",
            "Whether what a tool type depends on is.",
            labels=_LABELS,
        )
        calls = CounterMetricFamily(
            "bascule_tool_dependency_calls", "What it was asked.", labels=_LABELS
        )
        failures = CounterMetricFamily(
            "bascule_tool_dependency_failures", "How often that failed.", labels=_LABELS
        )
        connects = CounterMetricFamily(
            "bascule_tool_dependency_connects", "How often it was connected to.", labels=_LABELS
        )
        for health in self._handlers.health():
            place = [health.type, health.name]
            connected.add_metric(place, health.state == "connected")
            calls.add_metric(place, health.calls)
            failures.add_metric(place, health.failures)
            connects.add_metric(place, health.connects)
        yield from (connected, calls, failures, connects)
