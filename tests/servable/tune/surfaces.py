"""Made-up endpoints whose requests per second are a formula of their settings.

A seed draws the formula's parameters. The seeds 0 to 49 were looked at while the search was developed; the
benchmark draws others, from a date.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.parameters.loading import ValidFile, load
from infra.parameters.placement import Placement, list_placements
from servable.tune.container_space import Machines, build_machines
from servable.tune.search.search import Search, list_rules_of_thumb
from servable.tune.search.space import BATCH_SIZE, Budget, Measurement, Point, Space, Value
from servable.tune.tune import CONFIRM
from tests.checkouts import ROOT

# Relative standard deviation of one measurement, as of a load test of half a minute.
NOISE = 0.05
USERS_PER_CORE = 8
FLAT = "flat"
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A grid of settings, and the requests per second of each of its points, without noise."""

    space: Space
    values: Values
    """0 is a container that does not start."""
    wanted: Sequence[Point]
    """Tried first: today's settings, then the rules of thumb."""


def compute_values(space: Space, rps: Callable[[Point], float]) -> Values:
    return np.array([rps(space.build_point(number)) for number in range(len(space))])


def number(point: Point, setting: str) -> int:
    """A setting that counts something; nothing is 1."""
    return int(point[setting] or 1)


def build_formula(seed: int, cores: int) -> Callable[[Point], float]:
    """Return a closed formula for workers, model servers, op threads and batching on some cores.

    Bounds of a closed queueing network (the slowest station, and the time of a lone request against the
    latency limit), with costs for threads that share cores. Source of the bounds: Lazowska et al.,
    Quantitative System Performance, 1984, chapter 5.
    """
    of = np.random.default_rng([103, cores, seed])
    # CPU of a request in a worker, of a call of the model, of a request's rows.
    handler_s, call_s, rows_s = (
        0.004 * float(np.exp(of.normal(0, spread))) for spread in (0.7, 0.9, 0.9)
    )
    # Share of an operation that its threads can divide, and their waste.
    parallel, intra_waste = float(of.uniform(0.0, 0.9)), float(of.uniform(0.02, 0.25))
    # Slower by this while as many threads wait for a core as there are cores.
    crowding = float(of.uniform(0.01, 0.15))
    limit_s = (handler_s + call_s + rows_s) * float(of.uniform(3, 15))
    compute_process_gib, memory_gib = float(of.uniform(0.3, 1.5)), 2.0 * cores

    def rps(point: Point) -> float:
        """The highest load whose latency stays below the limit; 0 where memory does not suffice."""
        workers, processes = number(point, "gunicorn_workers"), number(point, "tfs_processes")
        inter, intra = number(point, "inter_op_threads"), number(point, "intra_op_threads")
        if processes * compute_process_gib + workers * 0.125 > 0.9 * memory_gib:
            return 0.0
        users = USERS_PER_CORE * cores
        alone_s = handler_s + rows_s + call_s
        batch, waited, size = 1.0, 0.0, point[BATCH_SIZE]
        if size is not None:
            waited = int(point["batching.timeout_micros"] or 0) / 1e6
            arriving = 1 + waited * users / processes / alone_s / 8
            batch = max(1.0, min(float(size), arriving, users / processes))
        speed_up = 1 / ((1 - parallel) + parallel / intra)
        model_s = call_s / batch + rows_s  # CPU of one request's part of a batch
        alone_s = handler_s + (call_s + batch * rows_s) / speed_up + waited
        threads = min(processes * inter, users) * min(intra, 2 * cores)
        crowd = 1 + crowding * max(0.0, (min(workers, users) + threads) / cores - 2)
        request_s = handler_s + model_s * (1 + intra_waste * (intra - 1))
        limits = (
            min(workers, cores) / handler_s,
            processes * min(inter, cores) * speed_up / model_s,
            cores / request_s / crowd,
            users / alone_s,
        )
        # The smallest of the limits, rounded where two of them meet.
        least = min(limits)
        carried = float(least * sum((least / limit) ** 4.0 for limit in limits) ** (-1 / 4.0))
        # Near the limit little load is left before the slowest hundredth is over it.
        return carried * max(0.0, 1 - alone_s / limit_s)

    return rps


@functools.cache
def build_space(cores: int) -> Space:
    """Space of a family: a seed changes the throughput of the points, and not which there are."""
    counts = sorted({1, 2, max(1, cores // 8), max(1, cores // 4), cores // 2, cores, 2 * cores})
    grid: dict[str, tuple[Value, ...]] = {
        "tfs_processes": tuple(count for count in counts if count <= cores),
        "gunicorn_workers": tuple(counts),
        "inter_op_threads": tuple(sorted({1, 2, 4, cores})),
        "intra_op_threads": tuple(sorted({1, 2, 4, cores})),
        BATCH_SIZE: (None, 8, 32, 128),
        "batching.timeout_micros": (0, 1000, 5000),
    }
    return Space(grid)


def queueing(seed: int, *, cores: int) -> Surface:
    space = build_space(cores)
    values = compute_values(space, build_formula(seed, cores))
    return Surface(space=space, values=values, wanted=list_rules_of_thumb(space, vcpus=cores))


def load_placed(name: str) -> tuple[ValidFile, Placement]:
    """Return this repository's environment of that name, and its first placement."""
    loaded = next(one for one in load(ROOT, ROOT / "environments") if one.name == name)
    assert isinstance(loaded, ValidFile)  # `make check` reads it
    return loaded, list_placements(loaded.environment)[0]


@functools.cache
def prod_machines() -> Machines:
    """Return the grid that `servable tune` makes of this repository's prod."""
    return build_machines(*load_placed("prod"))


def own_grid(seed: int) -> Surface:
    tuned = prod_machines()
    today = tuned.kinds[tuned.today]
    rows = today.loaded.environment.traffic.rows_per_request or 1
    formula = build_formula(seed, today.placement.instance.vcpus)
    onednn = np.random.default_rng([108, seed]).uniform(0.9, 1.2)

    def rps(point: Point) -> float:
        requests = number(point, BATCH_SIZE) / rows
        batched = {**point, BATCH_SIZE: requests if requests >= 1 else None}
        return formula(batched) * (onednn if point["onednn"] else 1.0)

    values = compute_values(tuned.space, rps)
    return Surface(space=tuned.space, values=values, wanted=tuned.initial_points)


def flat(seed: int) -> Surface:
    """A server that is limited by something no setting touches: every point has the same throughput."""
    height, space = float(np.random.default_rng([105, seed]).uniform(10, 500)), build_space(16)
    rules = list_rules_of_thumb(space, vcpus=16)
    return Surface(space=space, values=np.full(len(space), height), wanted=rules)


FAMILIES: dict[str, Callable[[int], Surface]] = {
    "queueing, 4 cores": functools.partial(queueing, cores=4),
    "queueing, 16 cores": functools.partial(queueing, cores=16),
    "queueing, 36 cores": functools.partial(queueing, cores=36),
    "own grid of prod": own_grid,
    FLAT: flat,
}


TRIALS = 40
Answer = dict[str, Any]
"""`point`: the number of the recommended point; `better`: the verdict of our search."""


def draw_disturbances(seed: int, noise: float) -> Iterator[float]:
    """Yield factors of one measurement after the other, the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        share = 0.5 if chance.random() * 40 < 1 else 1.0
        yield float(np.exp(chance.normal(0.0, noise))) * share


def search_ours(surface: Surface, seed: int, noise: float) -> Answer:
    """Run our search with its confirmation; the answer has the kept point and the verdict."""
    space, factors = surface.space, draw_disturbances(seed, noise)

    def measure_point(point: Point) -> Measurement:
        return Measurement(value=surface.values[space.find_number(point) or 0] * next(factors))

    search = Search(space, surface.wanted, confirm=CONFIRM)
    result = search.run(measure_point, Budget(trials=TRIALS))
    choice = result.choice
    return {
        "point": (choice and space.find_number(choice.recommended_point)) or 0,
        "measurements": len(result.trials),
        "better": choice is not None and choice.is_better,
    }
