"""Counters, gauges and histograms as plain numbers, shown to Prometheus when it asks.

The client library's own metrics take a lock for each change, which costs a whole turn some 10 µs; all
changes here come from one thread.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

Child = TypeVar("Child")


class Number:
    """A counter's or a gauge's value."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, by: int = 1) -> None:
        self.value += by

    def dec(self) -> None:
        self.value -= 1


class Times:
    """Observations in buckets. `observe` takes seconds."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds


class Family(Protocol):
    def show(self) -> Metric: ...


class _Labelled(Generic[Child]):
    def __init__(self, name: str, help_: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help_
        self.names: Final = tuple(labels)
        self._children: dict[tuple[str, ...], Child] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> Child:
        """The child with these label values, made when it is first asked for."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.names):
                raise ValueError(f"{self.name} has the labels {self.names}")
            child = self._children[values] = self._make()
        return child

    def _make(self) -> Child:
        raise NotImplementedError


class Counter(_Labelled[Number]):
    """Its name gets `_total`."""

    def _make(self) -> Number:
        return Number()

    def show(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.names)
        for values, child in self._children.items():
            family.add_metric(values, child.value)
        return family


class Gauge(_Labelled[Number]):
    def _make(self) -> Number:
        return Number()

    def show(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.names)
        for values, child in self._children.items():
            family.add_metric(values, child.value)
        return family


class Histogram(_Labelled[Times]):
    def __init__(
        self, name: str, help_: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> None:
        self._bounds = bounds
        super().__init__(name, help_, labels)

    def _make(self) -> Times:
        return Times(self._bounds)

    def show(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.names)
        shown = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for values, child in self._children.items():
            buckets: list[tuple[str, float]] = []
            seen = 0
            for bound, count in zip(shown, child.counts, strict=True):
                seen += count
                buckets.append((bound, seen))
            family.add_metric(values, buckets, child.sum)
        return family


class Families(Collector):
    """All of a registry."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            yield family.show()
