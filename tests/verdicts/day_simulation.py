"""A day, request by request, written apart from `servable_scaling`: the oracle of `servable rehearse`.

Every request has its moment, its instance, its place in that instance's queue and its service time.
Instances start after so many seconds, datapoints are seen after so many, and a tracking policy or a schedule
changes the number of instances. Nothing here is imported from what it judges.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MINUTE_SECONDS = 60
# Standard normal quantile of 99 %.
Z99 = 2.3263478740408408
# The alarms of a tracking policy: minutes above, minutes below, the low threshold as a share of the target;
# and the largest share of the instances that it removes at once.
HIGH, LOW, LOW_SHARE, GRADUAL = 3, 15, 0.9, 0.1


@dataclass(frozen=True, kw_only=True)
class DayCase:
    """The case that `servable rehearse` and the simulation are both given."""

    requests: tuple[float, ...]
    """Expected in each minute."""
    servers: int
    """Requests that an instance takes at once; its queue has no end."""
    p50_seconds: float
    p99_seconds: float
    """Of lognormal service times."""
    least_outstanding: bool
    minimum: int
    maximum: int
    target: float
    """Of a tracking policy, in requests a minute and instance."""
    out_cooldown_seconds: float
    in_cooldown_seconds: float
    start_seconds: float
    """Of an instance. AWS publishes neither this nor the delay of its metrics."""
    delay_seconds: float
    rate_rps: float
    safety_factor: float
    p99_ms: float
    """The objective."""


class _Fleet:
    """Instances with their servers and queues; departures are known when a request comes."""

    def __init__(self, case: DayCase, count: int) -> None:
        self.case = case
        # For those that take requests: the moments at which their servers are free, and [requests in it].
        self.free: list[list[float]] = []
        self.inside: list[list[int]] = []
        self.departures: list[tuple[float, int, list[int]]] = []
        self.add(count)

    def add(self, count: int) -> None:
        self.free += [[0.0] * self.case.servers for _ in range(count)]
        self.inside += [[0] for _ in range(count)]

    def remove(self, count: int) -> None:
        """The newest take no more requests, and finish those that they have."""
        if count > 0:
            del self.free[-count:], self.inside[-count:]

    def take(self, number: int, at: float, service: float, drawn: float) -> float:
        """Return the latency of the request that comes now."""
        departures, inside = self.departures, self.inside
        while departures and departures[0][0] <= at:
            heapq.heappop(departures)[2][0] -= 1
        fewest = self.case.least_outstanding
        chosen = inside.index(min(inside)) if fewest else int(drawn * len(inside))
        free = self.free[chosen]
        ends = max(at, free[0]) + service
        heapq.heapreplace(free, ends)
        inside[chosen][0] += 1
        heapq.heappush(departures, (ends, number, inside[chosen]))
        return ends - at


class _Scaler:
    """The number of instances, decided at the begin of each minute."""

    def __init__(self, case: DayCase, count: int) -> None:
        self.case, self.desired = case, count
        self.starting: list[tuple[float, int]] = []
        self.datapoints: list[float] = []
        self.out_until = self.in_until = -math.inf
        self.before = count
        self.pending = ""

    def decide(self, minute: int, fleet: _Fleet) -> None:
        now = minute * MINUTE_SECONDS
        if self.starting:
            return  # the endpoint is updating
        if self.pending == "out":
            self.out_until = now + self.case.out_cooldown_seconds
        elif self.pending:
            self.in_until = now + self.case.in_cooldown_seconds
        self.pending = ""
        target = self.case.target
        seen = int((now - self.case.delay_seconds) // MINUTE_SECONDS)
        points = self.datapoints[: max(0, seen)]
        if len(points) >= HIGH and all(each > target for each in points[-HIGH:]):
            base = self.before if now < self.out_until else self.desired
            wanted = min(self.case.maximum, math.ceil(base * points[-1] / target - 1e-9))
            if wanted > self.desired:
                self.before, self.pending, self.in_until = self.desired, "out", -math.inf
                self._set(wanted, now, fleet)
        elif len(points) >= LOW and all(each < LOW_SHARE * target for each in points[-LOW:]):
            needed = math.ceil(self.desired * points[-1] / target - 1e-9)
            gradual = self.desired - max(1, math.floor(self.desired * GRADUAL))
            wanted = max(needed, gradual, self.case.minimum)
            if wanted < self.desired and now >= self.in_until:
                self.pending = "in"
                self._set(wanted, now, fleet)

    def _set(self, wanted: int, now: float, fleet: _Fleet) -> None:
        if wanted > self.desired:
            self.starting.append((now + self.case.start_seconds, wanted - self.desired))
        else:
            fleet.remove(self.desired - wanted)
        self.desired = wanted

    def started(self, until: float) -> int:
        ready = sum(count for at, count in self.starting if at <= until)
        self.starting = [(at, count) for at, count in self.starting if at > until]
        return ready


def simulate(requests: Sequence[float], case: DayCase, *, instances: int, seed: int) -> int:
    """Return the minutes in which p99 is above the objective, with these requests expected in each.

    `instances`: at the beginning.
    """
    chance = np.random.default_rng(seed)
    counts = chance.poisson(np.asarray(requests, float))
    begins = np.repeat(np.arange(len(counts)) * MINUTE_SECONDS, counts)
    moments = np.sort(begins + chance.uniform(0, MINUTE_SECONDS, len(begins))).tolist()
    sigma = math.log(case.p99_seconds / case.p50_seconds) / Z99
    normal = chance.standard_normal(len(moments))
    services = (case.p50_seconds * np.exp(sigma * normal)).tolist()
    drawn = chance.random(len(moments)).tolist()
    fleet, scaler = _Fleet(case, instances), _Scaler(case, instances)
    first, broken = 0, 0
    for minute, count in enumerate(counts):
        scaler.decide(minute, fleet)
        slow = 0
        for number in range(first, first + count):
            at = moments[number]
            fleet.add(scaler.started(at))
            slow += fleet.take(number, at, services[number], drawn[number]) > case.p99_ms / 1000
        first += count
        fleet.add(scaler.started((minute + 1) * MINUTE_SECONDS))
        scaler.datapoints.append(count / len(fleet.free))
        # The slowest 1 %, rounded down, may be above the objective.
        broken += bool(slow > 0.01 * count)
    return broken
