"""One instance as a queue: how long requests wait, and how long they take.

`c` servers, Poisson arrivals, general service times: M/G/c. Exact for M/M/c. Sources (2026-11-22):
Erlang C; for constant service times Cosmetatos, "Some approximate equilibrium results for the
multi-server queue (M/G/r)", Operational Research Quarterly 27 (1976); between both Tijms' interpolation by
the squared coefficient of variation, https://en.wikipedia.org/wiki/M/G/k_queue.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

# Cells of a service time's distribution: (up to this share, so many cells of one size).
_CELLS = ((0.9, 12), (0.99, 9), (0.999, 9), (1.0, 2))
_Z99 = NormalDist().inv_cdf(0.99)
# Bisections of a percentile: to a thousandth of its bracket, and better.
_HALVINGS = 22
# A choice of ours: (of every request that waits, more where service times vary).
_COMMITTED = (0.6, 0.5)


@lru_cache(maxsize=100_000)
def erlang_c(servers: int, load: float) -> float:
    """The share of requests that wait. `load`: servers busy on average, below `servers`."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@dataclass(frozen=True)
class Service:
    """Service time of one request, without waiting: lognormal, given by median and p99."""

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
        """Squared coefficient of variation: 0 for a constant time, 1 for an exponential one."""
        return math.exp(self.sigma**2) - 1

    @cached_property
    def cells(self) -> list[tuple[float, float]]:
        """(share of requests, the seconds that they take), finer in the tail."""
        return [
            (share, self.p50_seconds * math.exp(self.sigma * NormalDist().inv_cdf(middle)))
            for share, middle in quantile_cells()
        ]


def quantile_cells() -> list[tuple[float, float]]:
    """(share, its middle): the cells into which a distribution is cut."""
    cells, begin = [], 0.0
    for end, count in _CELLS:
        width = (end - begin) / count
        cells += [(width, begin + (number + 0.5) * width) for number in range(count)]
        begin = end
    return cells


def mean_wait(*, servers: int, use: float, mean_seconds: float, variation: float) -> float:
    """Mean seconds in the queue. `use`: utilisation, above 0 and below 1."""
    markov = erlang_c(servers, servers * use) * mean_seconds / (servers * (1 - use))
    if variation >= 1:
        return markov * (1 + variation) / 2
    more = (1 - use) * (servers - 1) * (math.sqrt(4 + 5 * servers) - 2) / (16 * use * servers)
    constant = markov * min(1.0, (1 + more) / 2)
    return variation * markov + (1 - variation) * constant


def least_outstanding_wait(
    *, instances: int, servers: int, use: float, mean_seconds: float, variation: float
) -> tuple[float, float]:
    """(share that waits, mean seconds in the queue) where each request joins the instance with the fewest.

    As one queue before all servers, and `_COMMITTED` for what a request loses because it never
    changes its queue: fitted to an event simulation of 2 to 10 instances, within 5 % of its mean response.
    """
    together = instances * servers
    waits = erlang_c(together, together * use)
    central = mean_wait(servers=together, use=use, mean_seconds=mean_seconds, variation=variation)
    fixed, by_variation = _COMMITTED
    lost = waits * (1 - use) * (instances - 1) / instances / servers * mean_seconds
    return waits, central + (fixed + by_variation * min(variation, 2.0)) * lost


def percentile(
    cells: Sequence[tuple[float, float]],
    parts: Sequence[tuple[float, float, float, float]],
    share: float,
) -> float:
    """The seconds that `share` of the requests stay below, waiting included.

    `parts`: (share of requests, least delay, share that waits beyond it, mean seconds of those).
    """
    low, high = 0.0, 4 * cells[-1][1] + max(delay + 8 * waited for _, delay, _, waited in parts)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if slower_share(cells, parts, middle) > 1 - share else (low, middle)
        )
    return (low + high) / 2


def slower_share(
    cells: Sequence[tuple[float, float]],
    parts: Sequence[tuple[float, float, float, float]],
    limit_seconds: float,
) -> float:
    """The share of the requests that take longer than the limit, waiting included."""
    slower = 0.0
    for part, delay, waits, waited in parts:
        for cell, seconds in cells:
            spare = limit_seconds - delay - seconds
            if spare < 0:
                slower += part * cell
            elif waited > 0:
                slower += part * cell * waits * math.exp(-spare / waited)
    return slower
