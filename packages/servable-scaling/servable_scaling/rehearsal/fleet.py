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
    slower_share,
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
# Steps of utilisation that are computed: at 90 % a step of 0.5 % is 2.5 % of the wait.
USES = 200
# A queue that is nearly stable refuses so many of the requests that find it longer than its places.
LEAST_TURNED_AWAY = 0.1


@dataclass(frozen=True)
class InstanceModel:
    """Measured capacity of one instance. `queue`: requests that may wait in it; more are refused."""

    rate_rps: float
    service: Service
    queue: float
    kept: dict[tuple[int, float], Part] = field(default_factory=dict, compare=False, repr=False)
    # By the parts, and the share or the seconds that are asked of them.
    percentiles: dict[tuple[tuple[Part, ...], float], float] = field(
        default_factory=dict, compare=False, repr=False
    )
    slower_shares: dict[tuple[tuple[Part, ...], float], float] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def servers(self) -> int:
        """Requests that it answers at the same time: its rate times what one takes."""
        return max(1, round(self.rate_rps * self.service.mean_seconds))

    def steady(self, use: float, instances: int) -> Part:
        """Return the waiting at this utilisation. A request joins the least busy of `instances`."""
        key = (instances, round(use, 3))
        if key not in self.kept:
            self.kept[key] = self._steady(min(STEADY_BELOW, key[1]), instances)
        return self.kept[key]

    def at(self, parts: Sequence[Part], share: float) -> float:
        """Seconds within which `share` of the requests of these parts are answered."""
        key = (_whole(parts), share)
        if key not in self.percentiles:
            self.percentiles[key] = percentile(self.service.cells, key[0], share)
        return self.percentiles[key]

    def slower(self, parts: Sequence[Part], seconds: float) -> float:
        """The share of the requests of these parts that take longer."""
        key = (_whole(parts), seconds)
        if key not in self.slower_shares:
            self.slower_shares[key] = slower_share(self.service.cells, key[0], seconds)
        return self.slower_shares[key]

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


def _whole(parts: Sequence[Part]) -> tuple[Part, ...]:
    """One part alone is the same whatever its share."""
    return tuple(parts) if len(parts) > 1 else ((1.0, *parts[0][1:]),)


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
        """Add instances that begin to answer, with nothing waiting in them."""
        if count > 0:
            self.cohorts.append(Cohort(count))

    def remove(self, count: int) -> None:
        """Remove the newest instances, which drain first: no request is lost."""
        while count > 0 and self.cohorts:
            last = self.cohorts[-1]
            gone = min(count, last.count)
            last.count -= gone
            count -= gone
            if not last.count:
                self.cohorts.pop()

    def serve(self, requests: float) -> ServedMinute:
        """Serve one minute. Without an instance everything is refused."""
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
        beyond_places = max(0.0, after - self.model.queue)
        cohort.backlog = min(max(0.0, after), self.model.queue)
        if before <= 0 and cohort.backlog <= 0:
            part, refused = self._part(round(use * USES) / USES, joined, 0.0)
            return [part], max(beyond_places, arriving * refused)
        slices, turned_away = [], 0.0
        for number in range(SLICES):
            share = (number + 0.5) / SLICES
            waiting = min(self.model.queue, max(0.0, before + (after - before) * share))
            part, refused = self._part(use, joined, waiting)
            slices.append((1 / SLICES, *part[1:]))
            turned_away += arriving * refused / SLICES
        return slices, max(beyond_places, turned_away)

    def _part(self, use: float, joined: int, queued: float) -> tuple[Part, float]:
        """Return (waiting behind so many queued requests, the share refused)."""
        model = self.model
        _, _, waits, waited = model.steady(use, joined)
        # What comes behind the last place is refused, and waits for nothing.
        room = round((model.queue - queued) / model.rate_rps, 3)
        beyond, refused = min(waited, room), 0.0
        if beyond > 0:
            longer = waits * math.exp(-room / beyond)
            if longer > FEW_WAIT:
                refused = longer * max(LEAST_TURNED_AWAY, 1 - use)
        return (1.0, round(queued / model.rate_rps, 3), waits, beyond), refused

    def _merge(self) -> None:
        """Even the queues out under least outstanding requests; otherwise join equal queues."""
        if self.routing != "random":
            waiting = sum(cohort.count * cohort.backlog for cohort in self.cohorts)
            self.cohorts = [Cohort(self.count, waiting / self.count)]
            return
        by_backlog: dict[float, int] = {}
        for cohort in self.cohorts:
            by_backlog[cohort.backlog] = by_backlog.get(cohort.backlog, 0) + cohort.count
        self.cohorts = [Cohort(count, backlog) for backlog, count in by_backlog.items()]
