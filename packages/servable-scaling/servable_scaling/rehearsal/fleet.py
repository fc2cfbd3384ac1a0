"""Instances that serve requests, each with a queue; each minute's backlog is carried over.

A queue has `c` servers, Poisson arrivals, general service times: M/G/c. Exact for M/M/c. Sources
(2026-11-22): Erlang C; for constant service times Cosmetatos, "Some approximate equilibrium
results for the multi-server queue (M/G/r)", Operational Research Quarterly 27 (1976); between
both Tijms' interpolation by the squared coefficient of variation,
https://en.wikipedia.org/wiki/M/G/k_queue.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Literal

# Cells of a service time's distribution: (up to this share, so many cells of one size).
_CELLS = ((0.9, 12), (0.99, 9), (0.999, 9), (1.0, 2))
_Z99 = NormalDist().inv_cdf(0.99)
# Bisections of a percentile: to a thousandth of its bracket, and better.
_HALVINGS = 22
# Our choice: (for every request that waits, more if service times vary).
_COMMITTED = (0.6, 0.5)


@lru_cache(maxsize=100_000)
def compute_erlang_c(servers: int, load: float) -> float:
    """Return the share of requests that wait. `load`: servers busy on average, below `servers`."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@dataclass(frozen=True)
class Service:
    """The service time of one request, without waiting: lognormal, given by median and p99."""

    p50_seconds: float
    p99_seconds: float

    @property
    def sigma(self) -> float:
        return math.log(max(1.0, self.p99_seconds / self.p50_seconds)) / _Z99

    @property
    def mean_seconds(self) -> float:
        return self.p50_seconds * math.exp(self.sigma**2 / 2)

    @property
    def variation(self) -> float:
        """Return the squared coefficient of variation: 0 if constant, 1 if exponential."""
        return math.exp(self.sigma**2) - 1

    @cached_property
    def cells(self) -> list[tuple[float, float]]:
        """Return pairs (share of requests, the seconds that they take), finer in the tail."""
        return [
            (share, self.p50_seconds * math.exp(self.sigma * NormalDist().inv_cdf(middle)))
            for share, middle in build_quantile_cells()
        ]


def build_quantile_cells() -> list[tuple[float, float]]:
    """Return the cells into which a distribution is cut, as pairs (share, its middle)."""
    cells, begin = [], 0.0
    for end, count in _CELLS:
        width = (end - begin) / count
        cells += [(width, begin + (number + 0.5) * width) for number in range(count)]
        begin = end
    return cells


def compute_mean_wait(*, servers: int, use: float, mean_seconds: float, variation: float) -> float:
    """Return the mean seconds in the queue. `use`: utilization, above 0 and below 1."""
    markov = compute_erlang_c(servers, servers * use) * mean_seconds / (servers * (1 - use))
    if variation >= 1:
        return markov * (1 + variation) / 2
    more = (1 - use) * (servers - 1) * (math.sqrt(4 + 5 * servers) - 2) / (16 * use * servers)
    constant = markov * min(1.0, (1 + more) / 2)
    return variation * markov + (1 - variation) * constant


def compute_least_outstanding_wait(
    *, instances: int, servers: int, use: float, mean_seconds: float, variation: float
) -> tuple[float, float]:
    """Return (share that waits, mean seconds in the queue) for least outstanding requests.

    Each request joins the instance with the fewest. This is computed as one queue before all
    servers, plus `_COMMITTED` for what a request loses because it never changes its queue. That
    is fitted to an event simulation of 2 to 10 instances, within 5 % of its mean response.
    """
    together = instances * servers
    waits = compute_erlang_c(together, together * use)
    central = compute_mean_wait(
        servers=together, use=use, mean_seconds=mean_seconds, variation=variation
    )
    fixed, by_variation = _COMMITTED
    lost = waits * (1 - use) * (instances - 1) / instances / servers * mean_seconds
    return waits, central + (fixed + by_variation * min(variation, 2.0)) * lost


SECONDS = 60.0
Routing = Literal["random", "least_outstanding_requests"]
Part = tuple[float, float, float, float]
"""(share of the requests, least delay in s, share that waits beyond it, mean seconds of those)."""


@lru_cache(maxsize=100_000)
def compute_percentile(service: Service, parts: tuple[Part, ...], share: float) -> float:
    """Return the seconds that `share` of the requests stay below, waiting included."""
    longest = max(delay + 8 * waited for _, delay, _, waited in parts)
    low, high = 0.0, 4 * service.cells[-1][1] + longest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # Not from the cache: a limit of a bisection hardly comes twice.
        if compute_slower_share.__wrapped__(service, parts, middle) > 1 - share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache(maxsize=100_000)
def compute_slower_share(service: Service, parts: tuple[Part, ...], limit_seconds: float) -> float:
    """Return the share of the requests that take longer than the limit, waiting included."""
    slower = 0.0
    for part, delay, waits, waited in parts:
        for cell, seconds in service.cells:
            spare = limit_seconds - delay - seconds
            if spare < 0:
                slower += part * cell
            elif waited > 0:
                slower += part * cell * waits * math.exp(-spare / waited)
    return slower


# Our choices. At this utilization and above, a minute is too short for a queue's long-run average:
# the wait is that which Poisson arrivals build up within one minute.
STEADY_BELOW = 0.995
# If fewer wait, waiting doesn't affect a percentile.
FEW_WAIT = 1e-4
# A growing backlog within one minute is shown as so many equal parts of it.
SLICES = 4
# Steps of utilization that are computed: at 90 % a step of 0.5 % is 2.5 % of the wait.
USES = 200
# A nearly stable queue rejects this share of the requests that find it full.
LEAST_TURNED_AWAY = 0.1


@dataclass(frozen=True)
class InstanceModel:
    """The measured capacity of one instance. `queue`: requests that may wait in it; more are rejected."""

    rate_rps: float
    service: Service
    queue: float

    @property
    def servers(self) -> int:
        """Return the number of requests served at a time: the rate times one request's time."""
        return max(1, round(self.rate_rps * self.service.mean_seconds))


@lru_cache(maxsize=100_000)
def compute_steady_part(model: InstanceModel, use: float, instances: int) -> Part:
    """Return the waiting at this utilization. A request joins the least busy of `instances`."""
    if use <= 0:
        return (1.0, 0.0, 0.0, 0.0)
    servers, rate, variation = model.servers, model.rate_rps, model.service.variation
    waits, wait = compute_least_outstanding_wait(
        instances=instances,
        servers=servers,
        use=min(STEADY_BELOW, use),
        mean_seconds=servers / rate,
        variation=variation,
    )
    if waits < FEW_WAIT:
        return (1.0, 0.0, 0.0, 0.0)
    # What arrivals and service vary within a minute bounds what can queue in it.
    spread = math.sqrt(SECONDS * (1 + variation) / (rate * instances))
    return (1.0, 0.0, waits, min(wait / waits, spread, model.queue / rate))


@dataclass
class Cohort:
    """Instances that have served for equally long. `backlog`: requests waiting in each."""

    count: int
    backlog: float = 0.0


@dataclass
class ServedMinute:
    """The result of one minute. `use`: share of the instances' rate, above 1 while a backlog grows."""

    parts: list[Part]
    refused: float
    use: float


class QueuedFleet:
    """A fleet of cohorts with one routing strategy."""

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
        """Add instances that begin to serve, without waiting requests."""
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
        """Serve one minute. Without an instance all requests are rejected."""
        if not self.count:
            return ServedMinute([], requests, 0.0)
        self._merge_cohorts()
        each = requests / self.count
        joined = 1 if self.routing == "random" else self.count
        parts, refused = [], 0.0
        for cohort in self.cohorts:
            own, turned_away = self._serve_cohort(cohort, each, joined)
            share = cohort.count / self.count
            parts += [(share * part[0], *part[1:]) for part in own]
            refused += turned_away * cohort.count
        return ServedMinute(parts, refused, each / (self.model.rate_rps * SECONDS))

    def _serve_cohort(
        self, cohort: Cohort, arriving: float, joined: int
    ) -> tuple[list[Part], float]:
        rate = self.model.rate_rps
        before, use = cohort.backlog, arriving / (rate * SECONDS)
        after = before + arriving - rate * SECONDS
        beyond_places = max(0.0, after - self.model.queue)
        cohort.backlog = min(max(0.0, after), self.model.queue)
        if before <= 0 and cohort.backlog <= 0:
            part, refused = self._compute_part(round(use * USES) / USES, joined, 0.0)
            return [part], max(beyond_places, arriving * refused)
        slices, turned_away = [], 0.0
        for number in range(SLICES):
            share = (number + 0.5) / SLICES
            waiting = min(self.model.queue, max(0.0, before + (after - before) * share))
            part, refused = self._compute_part(use, joined, waiting)
            slices.append((1 / SLICES, *part[1:]))
            turned_away += arriving * refused / SLICES
        return slices, max(beyond_places, turned_away)

    def _compute_part(self, use: float, joined: int, queued: float) -> tuple[Part, float]:
        """Return the part that waits behind `queued` requests, and the share rejected."""
        model = self.model
        _, _, waits, waited = compute_steady_part(model, round(use, 3), joined)
        # Requests behind the last place are rejected at once.
        room = round((model.queue - queued) / model.rate_rps, 3)
        beyond, refused = min(waited, room), 0.0
        if beyond > 0:
            longer = waits * math.exp(-room / beyond)
            if longer > FEW_WAIT:
                refused = longer * max(LEAST_TURNED_AWAY, 1 - use)
        return (1.0, round(queued / model.rate_rps, 3), waits, beyond), refused

    def _merge_cohorts(self) -> None:
        """Level the queues under least outstanding requests; otherwise merge equal queues."""
        if self.routing != "random":
            waiting = sum(cohort.count * cohort.backlog for cohort in self.cohorts)
            self.cohorts = [Cohort(self.count, waiting / self.count)]
            return
        by_backlog: dict[float, int] = {}
        for cohort in self.cohorts:
            by_backlog[cohort.backlog] = by_backlog.get(cohort.backlog, 0) + cohort.count
        self.cohorts = [Cohort(count, backlog) for backlog, count in by_backlog.items()]
