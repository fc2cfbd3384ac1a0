"""Every metric of one account and region, by namespace, name, dimensions and unit."""

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from servable_local.aws.clock import TICK_SECONDS, floor
from servable_scaling.alarms.query import Metric, MetricQuery, Samples, statistic

# AWS keeps 15 days of minutes. Here: as long as anything looks back that has a period of
# a minute, with room, in the memory of one process.
KEPT = timedelta(hours=3)
_RESOLUTION_SECONDS = TICK_SECONDS


class MetricStore:
    """Samples in stretches of 10 s."""

    def __init__(self) -> None:
        self._stretches: dict[Metric, dict[str, dict[datetime, Samples]]] = {}
        self._lock = threading.Lock()

    def add(
        self, metric: Metric, value: float, *, unit: str, at: datetime, times: float = 1.0
    ) -> None:
        with self._lock:
            self._stretch(metric, unit, at).add(value, times)

    def add_samples(self, metric: Metric, samples: Samples, *, unit: str, at: datetime) -> None:
        with self._lock:
            self._stretch(metric, unit, at).merge(samples)

    def between(
        self, metric: Metric, start: datetime, end: datetime, unit: str | None = None
    ) -> Samples:
        """All of [start, end), to 10 s. A unit that the metric was not published in finds nothing."""
        total = Samples()
        with self._lock:
            for kind, stretches in self._stretches.get(metric, {}).items():
                if unit in (None, kind):
                    for samples in _within(stretches, start, end):
                        total.merge(samples)
        return total

    def value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        return statistic(self.between(query.metric, start, end, query.unit), query.statistic)

    def samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        return self.between(query.metric, start, end, query.unit).count

    def units(self, metric: Metric) -> list[str]:
        """Units that the metric was published in, first things first."""
        with self._lock:
            return list(self._stretches.get(metric, {}))

    def metrics(self) -> list[Metric]:
        with self._lock:
            return list(self._stretches)

    def forget(self, before: datetime) -> None:
        with self._lock:
            for metric, units in list(self._stretches.items()):
                for stretches in units.values():
                    for at in [at for at in stretches if at < before]:
                        del stretches[at]
                if not any(units.values()):
                    del self._stretches[metric]

    def _stretch(self, metric: Metric, unit: str, at: datetime) -> Samples:
        stretches = self._stretches.setdefault(metric, {}).setdefault(unit, {})
        return stretches.setdefault(floor(at, _RESOLUTION_SECONDS), Samples())


def _within(
    stretches: Mapping[datetime, Samples], start: datetime, end: datetime
) -> Iterator[Samples]:
    """Samples of [start, end): by each 10 s of a short time, by each stretch of a long one."""
    step = timedelta(seconds=_RESOLUTION_SECONDS)
    if (end - start) / step < len(stretches):
        for at, _ in periods(start + step - timedelta.resolution, end, _RESOLUTION_SECONDS):
            if at in stretches:
                yield stretches[at]
        return
    for at, samples in stretches.items():
        if start <= at < end:
            yield samples


def periods(start: datetime, end: datetime, seconds: int) -> Iterator[tuple[datetime, datetime]]:
    """[start, end) cut at multiples of the period, as GetMetricData does."""
    at = floor(start, seconds)
    while at < end:
        yield at, at + timedelta(seconds=seconds)
        at += timedelta(seconds=seconds)
