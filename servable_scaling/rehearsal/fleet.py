"""Instances that answer, each with a queue, minute by minute with the backlog carried over."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from servable_scaling.rehearsal.queueing import (
    Service,
    erlang_c,
    least_outstanding_wait,
    mean_wait,
    percentile,
)

SECONDS = 60.0
Routing = Literal["random", "least_outstanding_requests"]
Part = tuple[float, float, float, float]
"""(share of the requests, least delay in s, share that waits beyond it, mean seconds of those)."""

# Choices of ours. At this utilisation and above, a minute is too short for a queue's long-run average:
# the wait is that which Poisson arrivals build up within one minute.
STEADY_BELOW = 0.995
# Where fewer wait, nothing that a percentile shows comes from waiting.
FEW_WAIT = 1e-4
# A growing backlog within one minute is shown as so many equal parts of it.
SLICES = 4


@dataclass(frozen=True)
class InstanceModel:
    """Measured capacity of one instance. `queue`: requests that may wait in it; more are refused."""

    rate_rps: float
    service: Service
    queue: float
    kept: dict[tuple[int, float], Part] = field(default_factory=dict, compare=False, repr=False)
    percentiles: dict[tuple[Part, float], float] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def servers(self) -> int:
        """Requests that it answers at the same time: its rate times what one takes."""
        return max(1, round(self.rate_rps * self.service.mean_seconds))

    def steady(self, use: float, instances: int) -> Part:
        """Waiting at this utilisation. `instances`: among how many a request finds the least busy."""
        key = (instances, round(use, 3))
        if key not in self.kept:
            self.kept[key] = self._steady(min(STEADY_BELOW, key[1]), instances)
        return self.kept[key]

    def at(self, parts: Sequence[Part], share: float) -> float:
        """Seconds within which `share` of the requests of these parts are answered."""
        if len(parts) > 1:
            return percentile(self.service.cells, parts, share)
        key = ((1.0, *parts[0][1:]), share)
        if key not in self.percentiles:
            self.percentiles[key] = percentile(self.service.cells, [key[0]], share)
        return self.percentiles[key]

    def _steady(self, use: float, instances: int) -> Part:
        if use <= 0:
            return (1.0, 0.0, 0.0, 0.0)
        mean, variation = self.servers / self.rate_rps, self.service.variation
        if instances > 1:
            waits, wait = least_outstanding_wait(
                instances=instances,
                servers=self.servers,
                use=use,
                mean_seconds=mean,
                variation=variation,
            )
        else:
            waits = erlang_c(self.servers, self.servers * use)
            wait = mean_wait(servers=self.servers, use=use, mean_seconds=mean, variation=variation)
        if waits < FEW_WAIT:
            return (1.0, 0.0, 0.0, 0.0)
        # What arrivals and service vary within a minute bounds what can queue in it.
        spread = math.sqrt(SECONDS * (1 + variation) / (self.rate_rps * instances))
        return (1.0, 0.0, waits, min(wait / waits, spread, self.queue / self.rate_rps))


@dataclass
class Cohort:
    """Instances that have answered for equally long. `backlog`: requests waiting in each."""

    count: int
    backlog: float = 0.0


@dataclass
class ServedMinute:
    """Result of one minute. `use`: share of the instances' rate, above 1 while a backlog grows."""

    parts: list[Part]
    refused: float
    use: float


class QueuedFleet:
    """Cohorts behind one routing strategy."""

    def __init__(self, model: InstanceModel, routing: Routing, count: int) -> None:
        self.model = model
        self.routing = routing
        self.cohorts = [Cohort(count)] if count else []

    @property
    def count(self) -> int:
        if len(self.cohorts) == 1:
            return self.cohorts[0].count
        return sum(cohort.count for cohort in self.cohorts)

    def add(self, count: int) -> None:
        """Instances that begin to answer, with nothing waiting in them."""
        if count > 0:
            self.cohorts.append(Cohort(count))

    def remove(self, count: int, *, drained: bool = True) -> float:
        """The newest end first. Returns the requests that are lost: none where they drain first."""
        lost = 0.0
        while count > 0 and self.cohorts:
            last = self.cohorts[-1]
            gone = min(count, last.count)
            last.count -= gone
            count -= gone
            lost += 0.0 if drained else gone * last.backlog
            if not last.count:
                self.cohorts.pop()
        return lost

    def serve(self, requests: float) -> ServedMinute:
        """One minute. Without an instance everything is refused."""
        if not self.count:
            return ServedMinute([], requests, 0.0)
        self._merge()
        each = requests / self.count
        joined = 1 if self.routing == "random" else self.count
        parts, refused = [], 0.0
        for cohort in self.cohorts:
            own, turned_away = self._minute(cohort, each, joined)
            share = cohort.count / self.count
            parts += [(share * part[0], *part[1:]) for part in own]
            refused += turned_away * cohort.count
        return ServedMinute(parts, refused, each / (self.model.rate_rps * SECONDS))

    def _minute(self, cohort: Cohort, arriving: float, joined: int) -> tuple[list[Part], float]:
        rate = self.model.rate_rps
        before, use = cohort.backlog, arriving / (rate * SECONDS)
        after = before + arriving - rate * SECONDS
        refused = max(0.0, after - self.model.queue)
        cohort.backlog = min(max(0.0, after), self.model.queue)
        steady = self.model.steady(use, joined)
        if before <= 0 and cohort.backlog <= 0:
            return [steady], refused
        slices = []
        for number in range(SLICES):
            share = (number + 0.5) / SLICES
            waiting = min(self.model.queue, max(0.0, before + (after - before) * share))
            # What comes behind the last place is refused, and waits for nothing.
            room = round((self.model.queue - waiting) / rate, 3)
            beyond = min(steady[3], room)
            slices.append((1 / SLICES, round(waiting / rate, 3), steady[2], beyond))
        return slices, refused

    def _merge(self) -> None:
        """Least outstanding requests evens the queues out; equal queues are one cohort."""
        if self.routing != "random":
            waiting = sum(cohort.count * cohort.backlog for cohort in self.cohorts)
            self.cohorts = [Cohort(self.count, waiting / self.count)]
            return
        by_backlog: dict[float, int] = {}
        for cohort in self.cohorts:
            by_backlog[cohort.backlog] = by_backlog.get(cohort.backlog, 0) + cohort.count
        self.cohorts = [Cohort(count, backlog) for backlog, count in by_backlog.items()]
