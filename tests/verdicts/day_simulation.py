"""A day, request by request, written apart from `servable_scaling`: the oracle of `servable rehearse`.

Every request has its moment, its instance, its place in that instance's queue and its service time.
Instances start after so many seconds, datapoints are seen after so many, and a tracking policy or a schedule
changes the number of instances. Nothing here is imported from what it judges.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MINUTE_SECONDS = 60
# Standard normal quantile of 99 %.
Z99 = 2.3263478740408408
# The alarms of a tracking policy: minutes above, minutes below, the low threshold as a share of the target;
# and the largest share of the instances that it removes at once.
HIGH, LOW, LOW_SHARE, GRADUAL = 3, 15, 0.9, 0.1
MOST_REFUSED = 0.01


@dataclass(frozen=True, kw_only=True)
class SimulatedPolicy:
    """A tracking policy, in requests a minute and instance, and a schedule of minimums."""

    minimum: int
    maximum: int
    target: float | None = None
    out_cooldown_seconds: float = 300
    in_cooldown_seconds: float = 300
    schedule: tuple[tuple[int, int], ...] = ()
    """(minute of the day, the minimum from then on)."""


@dataclass(frozen=True, kw_only=True)
class SimulatedInstance:
    """`servers` requests at once, `places` that wait, lognormal service times."""

    servers: int
    p50_seconds: float
    p99_seconds: float
    places: int
    least_outstanding: bool = True


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The numbers that AWS does not publish, and how requests come within a minute."""

    start_seconds: float
    delay_seconds: float
    peak: float = 1.0
    burst_seconds: float = 1.0


@dataclass
class SimulatedDay:
    broken: int = 0
    """Minutes in which p99 was above the objective or more than 1 % of the requests were refused."""
    instance_minutes: float = 0.0
    refused: int = 0
    counts: list[int] = field(default_factory=list)


def arrivals(requests: Sequence[float], around: Surroundings, chance: Any) -> Any:
    """Moments of all requests, in seconds; half of them in bursts where there is a peak."""
    counts = chance.poisson(np.asarray(requests, float))
    begins = np.repeat(np.arange(len(counts)) * MINUTE_SECONDS, counts)
    moments = begins + chance.uniform(0, MINUTE_SECONDS, int(counts.sum()))
    if around.peak > 1:
        cycle = 2 * around.peak * around.burst_seconds
        shifted = moments + chance.uniform(0, cycle)
        within = shifted % cycle
        quiet_pace = (cycle - around.burst_seconds) / (cycle / 2)
        moved = np.where(
            within < cycle / 2,
            within / around.peak,
            around.burst_seconds + (within - cycle / 2) * quiet_pace,
        )
        moments = np.abs(moments - within + moved)  # what would come before the day comes in it
    moments.sort()
    return moments


class _Fleet:
    """Instances with their servers and queues; departures are known when a request comes."""

    def __init__(self, instance: SimulatedInstance, count: int) -> None:
        self.instance = instance
        # For those that take requests: the moments at which their servers are free, and [requests in it].
        self.free: list[list[float]] = []
        self.inside: list[list[int]] = []
        self.departures: list[tuple[float, int, list[int]]] = []
        self.add(count)

    def add(self, count: int) -> None:
        for _ in range(count):
            self.free.append([0.0] * self.instance.servers)
            self.inside.append([0])

    def remove(self, count: int) -> None:
        """The newest take no more requests, and finish those that they have."""
        if count > 0:
            del self.free[-count:], self.inside[-count:]

    def take(self, number: int, at: float, service: float, drawn: float) -> float | None:
        """The latency of the request that comes now; None if it is refused."""
        departures, inside = self.departures, self.inside
        while departures and departures[0][0] <= at:
            heapq.heappop(departures)[2][0] -= 1
        fewest = self.instance.least_outstanding
        chosen = inside.index(min(inside)) if fewest else int(drawn * len(inside))
        count = inside[chosen]
        if count[0] >= self.instance.servers + self.instance.places:
            return None
        free = self.free[chosen]
        ends = max(at, free[0]) + service
        heapq.heapreplace(free, ends)
        count[0] += 1
        heapq.heappush(departures, (ends, number, count))
        return ends - at


class _Scaler:
    """The number of instances, decided at the begin of each minute."""

    def __init__(self, policy: SimulatedPolicy, around: Surroundings, count: int) -> None:
        self.policy, self.around = policy, around
        self.desired, self.minimum = count, policy.minimum
        self.starting: list[tuple[float, int]] = []
        self.datapoints: list[float] = []
        self.out_until = self.in_until = -math.inf
        self.before = count
        self.pending = ""

    def decide(self, minute: int, fleet: _Fleet) -> None:
        now = minute * MINUTE_SECONDS
        for at, minimum in self.policy.schedule:
            if at == minute:
                self.minimum = minimum
        if self.starting:
            return  # the endpoint is updating
        if self.pending:
            cool = self.policy.out_cooldown_seconds, self.policy.in_cooldown_seconds
            if self.pending == "out":
                self.out_until = now + cool[0]
            else:
                self.in_until = now + cool[1]
            self.pending = ""
        if self.desired < self.minimum:
            self._set(self.minimum, now, fleet)
            return
        target = self.policy.target
        if target is None:
            return
        seen = int((now - self.around.delay_seconds) // MINUTE_SECONDS)
        points = self.datapoints[: max(0, seen)]
        if len(points) >= HIGH and all(each > target for each in points[-HIGH:]):
            base = self.before if now < self.out_until else self.desired
            wanted = min(self.policy.maximum, math.ceil(base * points[-1] / target - 1e-9))
            if wanted > self.desired:
                self.before, self.pending, self.in_until = self.desired, "out", -math.inf
                self._set(wanted, now, fleet)
        elif len(points) >= LOW and all(each < LOW_SHARE * target for each in points[-LOW:]):
            needed = math.ceil(self.desired * points[-1] / target - 1e-9)
            gradual = self.desired - max(1, math.floor(self.desired * GRADUAL))
            wanted = max(needed, gradual, self.minimum)
            if wanted < self.desired and now >= self.in_until:
                self.pending = "in"
                self._set(wanted, now, fleet)

    def _set(self, wanted: int, now: float, fleet: _Fleet) -> None:
        if wanted > self.desired:
            self.starting.append((now + self.around.start_seconds, wanted - self.desired))
        else:
            fleet.remove(self.desired - wanted)
        self.desired = wanted

    def started(self, until: float) -> int:
        ready = sum(count for at, count in self.starting if at <= until)
        self.starting = [(at, count) for at, count in self.starting if at > until]
        return ready


def simulate(
    requests: Sequence[float],
    instance: SimulatedInstance,
    policy: SimulatedPolicy,
    around: Surroundings,
    *,
    instances: int,
    p99_seconds: float,
    seed: int,
) -> SimulatedDay:
    """`requests`: expected in each minute. `instances`: at the begin. `p99_seconds`: the objective."""
    chance = np.random.default_rng(seed)
    moments = arrivals(requests, around, chance)
    sigma = math.log(instance.p99_seconds / instance.p50_seconds) / Z99
    services = (
        instance.p50_seconds * np.exp(sigma * chance.standard_normal(len(moments)))
    ).tolist()
    drawn = chance.random(len(moments)).tolist()
    edges = np.searchsorted(moments, np.arange(len(requests) + 1) * MINUTE_SECONDS)
    moments = moments.tolist()
    fleet, scaler = _Fleet(instance, instances), _Scaler(policy, around, instances)
    day = SimulatedDay()
    for minute in range(len(requests)):
        scaler.decide(minute, fleet)
        begin, end = int(edges[minute]), int(edges[minute + 1])
        latencies, refused = [], 0
        ready_at = min((at for at, _ in scaler.starting), default=math.inf)
        for number in range(begin, end):
            at = moments[number]
            if at >= ready_at:
                fleet.add(scaler.started(at))
                ready_at = min((at for at, _ in scaler.starting), default=math.inf)
            latency = fleet.take(number, at, services[number], drawn[number])
            if latency is None:
                refused += 1
            else:
                latencies.append(latency)
        fleet.add(scaler.started((minute + 1) * MINUTE_SECONDS))
        scaler.datapoints.append((end - begin) / len(fleet.free))
        day.counts.append(len(fleet.free))
        day.instance_minutes += len(fleet.free) + sum(count for _, count in scaler.starting)
        day.refused += refused
        # The slowest 1 %, rounded down, may be above the objective.
        slow = sum(latency > p99_seconds for latency in latencies)
        day.broken += slow > 0.01 * len(latencies) or refused > MOST_REFUSED * (end - begin)
    return day
