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
# A growing backlog within one minute, or one burst, is shown as so many equal parts of it.
SLICES = 4
# Steps of utilisation that are computed: at 90 % a step of 0.5 % is 2.5 % of the wait.
USES = 200
# The share of the requests that comes in bursts, by definition: the peak then says how short they are.
IN_BURSTS = 0.5
# A queue that is nearly stable refuses so many of the requests that find it longer than its places.
LEAST_TURNED_AWAY = 0.1


@dataclass(frozen=True)
class Bursts:
    """Arrivals within a minute: half of the requests come in bursts of `seconds`, at `peak` times the mean.

    A peak of 2.5 for 1 s: half of the requests in one second of five. 1: at random moments, without bursts.
    """

    peak: float = 1.0
    seconds: float = 1.0

    @property
    def calm(self) -> float:
        """The rate between bursts, as a share of the mean."""
        return (1 - IN_BURSTS) / (1 - IN_BURSTS / self.peak)

    @property
    def calm_seconds(self) -> float:
        return self.seconds * (self.peak / IN_BURSTS - 1)


NO_BURSTS = Bursts()


@dataclass(frozen=True)
class InstanceModel:
    """Measured capacity of one instance. `queue`: requests that may wait in it; more are refused."""

    rate_rps: float
    service: Service
    queue: float
    bursts: Bursts = NO_BURSTS
    kept: dict[tuple[int, float, float], Part] = field(
        default_factory=dict, compare=False, repr=False
    )
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

    def steady(self, use: float, instances: int, seconds: float = SECONDS) -> Part:
        """Waiting at this utilisation. `instances`: among how many a request finds the least busy.

        `seconds`: as long as it lasts.
        """
        key = (instances, round(use, 3), seconds)
        if key not in self.kept:
            self.kept[key] = self._steady(min(STEADY_BELOW, key[1]), instances, seconds)
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

    def _steady(self, use: float, instances: int, seconds: float) -> Part:
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
        # What arrivals and service vary within a minute, or a burst, bounds what can queue in it.
        spread = math.sqrt(seconds * (1 + variation) / (self.rate_rps * instances))
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
        beyond_places = max(0.0, after - self.model.queue)
        cohort.backlog = min(max(0.0, after), self.model.queue)
        if before <= 0 and cohort.backlog <= 0:
            parts, refused = self._phases(round(use * USES) / USES, joined, 0.0)
            return parts, max(beyond_places, arriving * refused)
        slices, turned_away = [], 0.0
        for number in range(SLICES):
            share = (number + 0.5) / SLICES
            waiting = min(self.model.queue, max(0.0, before + (after - before) * share))
            parts, refused = self._phases(use, joined, waiting)
            slices += [(part[0] / SLICES, *part[1:]) for part in parts]
            turned_away += arriving * refused / SLICES
        # A full queue turns away what the minute brings too much; what a burst does comes in no addition.
        return slices, max(beyond_places, turned_away)

    def _phases(self, use: float, joined: int, waiting: float) -> tuple[list[Part], float]:
        """(parts of the bursts and of the time between them, the share refused), behind a backlog."""
        model, bursts = self.model, self.model.bursts
        if bursts.peak <= 1:
            return self._wave(1.0, (waiting, waiting), use, joined, SECONDS)
        rate, high, low = model.rate_rps, use * bursts.peak, use * bursts.calm
        grown = max(0.0, bursts.seconds * rate * (high - 1))
        room = model.queue - waiting
        refused = max(0.0, grown - room) / (bursts.seconds * rate * high) if high else 0.0
        most = waiting + min(grown, room)
        burst, more = self._wave(IN_BURSTS, (waiting, most), high, joined, bursts.seconds)
        refused = IN_BURSTS * refused + more
        # Behind a burst its backlog is answered; who comes until then waits.
        drains = (most - waiting) / (rate * (1 - low)) if low < 1 else bursts.calm_seconds
        share = (1 - IN_BURSTS) * min(1.0, drains / bursts.calm_seconds)
        behind: list[Part] = []
        calm: list[Part] = []
        if share > 0:
            behind, more = self._wave(share, (most, waiting), low, joined, bursts.calm_seconds)
            refused += more
        if share < 1 - IN_BURSTS:
            rest = 1 - IN_BURSTS - share
            calm, more = self._wave(rest, (waiting, waiting), low, joined, SECONDS)
            refused += more
        return [*burst, *behind, *calm], refused

    def _wave(
        self, share: float, waiting: tuple[float, float], use: float, joined: int, seconds: float
    ) -> tuple[list[Part], float]:
        """(parts, the share refused) while as many wait, from the first number to the second."""
        model, (begin, end) = self.model, waiting
        steady = model.steady(use, joined, seconds)
        count = SLICES if begin != end else 1
        parts, refused = [], 0.0
        for number in range(count):
            queued = begin + (end - begin) * (number + 0.5) / count
            # What comes behind the last place is refused, and waits for nothing.
            room = round((model.queue - queued) / model.rate_rps, 3)
            beyond = min(steady[3], room)
            parts.append((share / count, round(queued / model.rate_rps, 3), steady[2], beyond))
            if beyond > 0:
                longer = steady[2] * math.exp(-room / beyond)
                if longer > FEW_WAIT:
                    refused += share / count * longer * max(LEAST_TURNED_AWAY, 1 - use)
        return parts, refused

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
