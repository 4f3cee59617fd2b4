"""Metrics by OpenTelemetry, for an agent's collector. Imported only when one is configured."""

from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from bascule.telemetry import genai

_TIMEOUT: Final = 5
"""Seconds that sending may take."""


class OtelMeters:
    """See `telemetry.Meters`. It has a provider of its own; nothing global is set."""

    def __init__(self, url: str, version: str = "", reader: MetricReader | None = None) -> None:
        """`url` is the collector's address for metrics."""
        resource = Resource.create({"service.name": "bascule", "service.version": version})
        if reader is None:
            reader = PeriodicExportingMetricReader(OTLPMetricExporter(url, timeout=_TIMEOUT))
        self._provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter("bascule", version)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def count(self, name: str, times: int, **labels: str | bool) -> None:
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = self._meter.create_counter(name)
        counter.add(times, _named(labels))

    def seconds(self, name: str, seconds: float, **labels: str | bool) -> None:
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = self._meter.create_histogram(name, unit="s")
        histogram.record(seconds, _named(labels))

    def close(self) -> None:
        self._provider.shutdown(timeout_millis=_TIMEOUT * 1000)


def metrics_url(endpoint: str) -> str:
    """Beside the collector's address for traces."""
    base = endpoint.rstrip("/").removesuffix("/v1/traces")
    return f"{base}/v1/metrics"


_LABELS: Final = {"model": genai.REQUEST_MODEL, "tool": genai.TOOL_NAME, "type": genai.TOKEN_TYPE}


def _named(labels: dict[str, str | bool]) -> dict[str, str | bool]:
    return {_LABELS.get(name, f"bascule.{name}"): value for name, value in labels.items()}
