"""The metrics of one account and Region, by namespace, name, dimensions, and unit."""

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from servable_local.aws.clock import TICK_SECONDS, round_down
from servable_scaling.alarms.query import Metric, MetricQuery, Samples, compute_statistic

# AWS keeps one-minute data for 15 days. Alarms with one-minute periods look back less than this.
KEPT = timedelta(hours=3)
_RESOLUTION_SECONDS = TICK_SECONDS


class MetricStore:
    """Samples of metrics, in intervals of 10 s."""

    def __init__(self) -> None:
        self._stretches: dict[Metric, dict[str, dict[datetime, Samples]]] = {}
        self._lock = threading.Lock()

    def add(
        self, metric: Metric, value: float, *, unit: str, at: datetime, times: float = 1.0
    ) -> None:
        with self._lock:
            self._prepare_interval(metric, unit, at).add(value, times)

    def add_samples(self, metric: Metric, samples: Samples, *, unit: str, at: datetime) -> None:
        with self._lock:
            self._prepare_interval(metric, unit, at).merge(samples)

    def collect_samples(
        self, metric: Metric, start: datetime, end: datetime, unit: str | None = None
    ) -> Samples:
        """Return the samples of [start, end), to 10 s; none for a unit without samples."""
        total = Samples()
        with self._lock:
            for kind, stretches in self._stretches.get(metric, {}).items():
                if unit in (None, kind):
                    for samples in _select_samples(stretches, start, end):
                        total.merge(samples)
        return total

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        samples = self.collect_samples(query.metric, start, end, query.unit)
        return compute_statistic(samples, query.statistic)

    def count_samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        return self.collect_samples(query.metric, start, end, query.unit).count

    def list_units(self, metric: Metric) -> list[str]:
        """Return the units in which the metric was published, oldest first."""
        with self._lock:
            return list(self._stretches.get(metric, {}))

    def list_metrics(self) -> list[Metric]:
        with self._lock:
            return list(self._stretches)

    def delete_before(self, before: datetime) -> None:
        with self._lock:
            for metric, units in list(self._stretches.items()):
                for stretches in units.values():
                    for at in [at for at in stretches if at < before]:
                        del stretches[at]
                if not any(units.values()):
                    del self._stretches[metric]

    def _prepare_interval(self, metric: Metric, unit: str, at: datetime) -> Samples:
        stretches = self._stretches.setdefault(metric, {}).setdefault(unit, {})
        return stretches.setdefault(round_down(at, _RESOLUTION_SECONDS), Samples())


def _select_samples(
    stretches: Mapping[datetime, Samples], start: datetime, end: datetime
) -> Iterator[Samples]:
    """Yield the samples of [start, end): by 10 s steps if it is short, by interval if it is long."""
    step = timedelta(seconds=_RESOLUTION_SECONDS)
    if (end - start) / step < len(stretches):
        first = start + step - timedelta.resolution
        for at, _ in split_into_periods(first, end, _RESOLUTION_SECONDS):
            if at in stretches:
                yield stretches[at]
        return
    for at, samples in stretches.items():
        if start <= at < end:
            yield samples


def split_into_periods(
    start: datetime, end: datetime, seconds: int
) -> Iterator[tuple[datetime, datetime]]:
    """Yield [start, end) cut at multiples of the period, as GetMetricData does."""
    at = round_down(start, seconds)
    while at < end:
        yield at, at + timedelta(seconds=seconds)
        at += timedelta(seconds=seconds)
