"""Quality of the search: `make bench-search`. Writes result.json and docs/performance.md.

The surfaces are drawn from a date, today's unless --date repeats another: nobody has looked at them.
"""

import argparse
import datetime
import functools
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.frame import Log, Result, machine, main
from benchmarks.search.surfaces import FAMILIES, FLAT, Surface
from benchmarks.tables import row, table
from servable.tune.search.search import Search
from servable.tune.search.space import Point
from servable.tune.search.trial import Budget, Measurement
from servable.tune.tune import CONFIRM

OURS, LEAST_NOISE = "ours", "0.05"
# Medians at 5 % noise, and what nine searches in ten reach there, by family.
MEDIANS = {"deceptive": 0.88, "own grid of prod": 0.99, "cliff": None}
MEDIAN, NINE_IN_TEN, LESS_AT_MORE_NOISE = 0.97, 0.93, 0.04
CALLED_BETTER = 0.025
RESAMPLES = 2_000
Shares = NDArray[np.float64]
NOISES = (0.05, 0.15)
# Variables of numpy, read when it is imported: with threads of its own it is slower on matrices this small,
# and many times slower where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


BUDGET_TRIALS = 40
# The others search every second surface: they are compared in pairs.
OTHERS_EVERY = 2
# A measurement in so many is disturbed, and shows this share of what it should.
DISTURBED_EVERY, DISTURBED_SHARE = 40, 0.5
Answer = dict[str, Any]
"""`point`: the number of the recommended one."""


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def surface_of(family: str, seed: int) -> Surface:
    return FAMILIES[family](seed)


def disturbances(seed: int, noise: float) -> Iterator[float]:
    """Factors of one measurement after the other: the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        share = DISTURBED_SHARE if chance.random() * DISTURBED_EVERY < 1 else 1.0
        yield float(np.exp(chance.normal(0.0, noise))) * share


def ours(surface: Surface, seed: int, noise: float) -> Answer:
    """Run our search with its confirmation; the answer has the kept point and the verdict."""
    space, factors = surface.space, disturbances(seed, noise)

    def measure(point: Point) -> Measurement:
        return Measurement(value=surface.values[space.number(point) or 0] * next(factors))

    search = Search(space, surface.wanted, seed=seed, confirm=CONFIRM)
    result = search.run(measure, Budget(trials=BUDGET_TRIALS))
    choice = result.choice
    return {
        "point": (choice and space.number(choice.kept)) or 0,
        "measurements": len(result.trials),
        "better": choice is not None and choice.better,
    }


def random(surface: Surface, seed: int, noise: float) -> Answer:
    """Different points drawn at random; the highest measurement wins."""
    factors, chance = disturbances(seed, noise), np.random.default_rng([9, seed])
    numbers = chance.choice(len(surface.space), size=BUDGET_TRIALS, replace=False)
    values = [surface.values[number] * next(factors) for number in numbers]
    return {"point": int(numbers[int(np.argmax(values))])}


def tpe(surface: Surface, seed: int, noise: float) -> Answer:
    """Optuna's TPE as it comes: each setting is the number of its rank; our first points begin."""
    import optuna  # half a second, which the page need not wait for

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, factors = surface.space, disturbances(seed, noise)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for number in dict.fromkeys(map(space.nearest, surface.wanted)):
        near = space.point(number)
        study.enqueue_trial({name: space.grid[name].index(value) for name, value in near.items()})

    def number_at(ranks: dict[str, int]) -> int:
        point = {name: space.grid[name][ranks[name]] for name in space.names}
        number = space.number(point)
        return space.nearest(point) if number is None else number

    def measured(trial: Any) -> float:
        grid = space.grid.items()
        ranks = {name: trial.suggest_int(name, 0, len(values) - 1) for name, values in grid}
        return float(surface.values[number_at(ranks)] * next(factors))

    study.optimize(measured, n_trials=BUDGET_TRIALS)
    return {"point": number_at(study.best_params)}


CONTENDERS: dict[str, Callable[[Surface, int, float], Answer]] = {
    "ours": ours,
    "TPE": tpe,
    "random": random,
}


def run(family: str, contender: str, seed: int, noise: float) -> Answer:
    """One search on one surface: the true throughput of the point that it recommends, without noise."""
    surface = surface_of(family, seed)
    answer = CONTENDERS[contender](surface, seed, noise)
    share = surface.values[answer.pop("point")] / surface.values.max()
    return {"share_of_best": round(float(share), 4), **answer}


def everyone(job: tuple[str, int, float]) -> dict[str, Answer]:
    """Run our search on every surface, and the others on a part of those that are not flat."""
    family, seed, noise = job
    names = ["ours"] if family == FLAT or seed % OTHERS_EVERY else [*CONTENDERS]
    return {name: run(family, name, seed, noise) for name in names}


def measure(_: Path, log: Log, *, date: datetime.date, surfaces: int) -> Result:
    before, first = machine(), int(f"{date:%Y%m%d}") * 100
    seeds = range(first, first + surfaces)
    log(f"seeds {seeds[0]} to {seeds[-1]}, of --date {date}")
    runs: dict[str, Any] = {}
    os.environ.update(ONE_THREAD)
    # Not forked: numpy has read its environment here already. Ctrl-C reaches every process of the terminal;
    # the first one decides what ends.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(None, spawn, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            for family, noise in product(FAMILIES, NOISES):
                log(f"{family}, {noise:.0%} noise")
                answers = [*pool.map(everyone, [(family, seed, noise) for seed in seeds])]
                runs.setdefault(family, {})[f"{noise:g}"] = {
                    name: {
                        key: [answer[name][key] for answer in answers if name in answer]
                        for key in answers[0][name]
                    }
                    for name in answers[0]
                }
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return {
        "machine": before,
        "date": str(date),
        "seeds": [seeds[0], seeds[-1]],
        "budget_trials": BUDGET_TRIALS,
        "points": {family: len(make(first).space) for family, make in FAMILIES.items()},
        "runs": runs,
    }


@dataclass(frozen=True)
class SearchTarget:
    """A bound of a statistic of all surfaces. `statistic` takes draws [..., surfaces] along an axis."""

    label: str
    values: Shares
    statistic: Callable[..., Any]
    least: float
    counted: bool = False
    """The statistic is a number of surfaces, and not a share."""

    @property
    def met(self) -> bool:
        return bool(self.statistic(self.values) >= self.least)

    def row(self) -> str:
        often = (self.statistic(_drawn(self.values), axis=-1) >= self.least).mean()
        value = self.statistic(self.values)
        measured, wanted = f"{value:.1%}", f"at least {self.least:.0%}"
        if self.counted:
            measured, wanted = f"{value:.0f} of {len(self.values)}", f"at least {self.least:.0f}"
        verdict = "met" if self.met else "**not met**"
        return row(self.label, measured, wanted, verdict, f"{100 * often:.0f}")


def fields(result: Result) -> dict[str, Any]:
    runs, (first, last) = result["runs"], result["seeds"]
    gone = "; ".join(family for family in runs if family not in FAMILIES)
    targets = [*_targets(runs)]
    if gone and "flat" in runs[FLAT][LEAST_NOISE][OURS]:
        gone += ". It was made before pairs of trials alone decided, which keep fewer settings"
    head = ["| target | found | wanted | | met in draws of 100 |", "|---|---:|---:|---|---:|"]
    return {
        "count": last - first + 1,
        "gone": gone and f"A new run draws these families no more, and asks no forest: {gone}.",
        "shares": _shares_table(result),
        "differences": _differences(runs),
        "missed": sum(not target.met for target in targets),
        "wanted": len(targets),
        "targets": [*head, *(target.row() for target in targets)],
    }


def _shares_table(result: Result) -> list[str]:
    rows = []
    for family, by_noise in result["runs"].items():
        for noise, by_name in by_noise.items() if family != FLAT else ():
            shares = _shares(by_name[OURS])
            low, high = _interval(shares, np.median)
            label = f"{family}, {result['points'][family]:,}" if noise == LEAST_NOISE else ""
            cells = [f"{np.median(shares):.1%}", f"{low:.1%} to {high:.1%}"]
            cells += [f"{_nine_in_ten(shares):.1%}", f"{shares.min():.1%}"]
            measurements = f"{np.mean(by_name[OURS]['measurements']):.0f}"
            rows.append((label, f"{float(noise):.0%}", *cells, measurements))
    head = ("surface, points", "noise", "median", "95 % interval of the median", "nine in ten")
    return table((*head, "worst", "measurements"), rows)


def _differences(runs: dict[str, Any]) -> list[str]:
    """A row for each surface, and one for all of them."""
    surfaces = {family: by_noise for family, by_noise in runs.items() if family != FLAT}
    noises = next(iter(surfaces.values()))
    columns = [(noise, name) for noise in noises for name in noises[noise] if name != OURS]
    apart: dict[str, list[Shares]] = {}
    for family, by_noise in surfaces.items():
        apart[family] = []
        for noise, name in columns:
            ours, theirs = (_shares(by_noise[noise][search]) for search in (OURS, name))
            # The others search every second surface.
            apart[family].append(100 * (ours[::2] - theirs))
    apart["all of them"] = [np.mean(column, axis=0) for column in zip(*apart.values(), strict=True)]
    head = [f"{name}, {float(noise):.0%}" for noise, name in columns]
    rows = [(family, *map(_difference, points)) for family, points in apart.items()]
    return table(("surface", *head), rows)


def _difference(points: Shares) -> str:
    low, high = _interval(points, np.mean)
    return f"{points.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def _targets(runs: dict[str, Any]) -> Iterator[SearchTarget]:
    for family, by_noise in runs.items():
        least = MEDIANS.get(family, MEDIAN)
        for noise, by_name in by_noise.items():
            ours, label = by_name[OURS], f"{family}, {float(noise):.0%} noise"
            if family == FLAT:
                calm = 1.0 - np.array(ours["better"], float)
                least = math.floor((1 - CALLED_BETTER) * len(calm))
                yield SearchTarget(f"{label}: not called better", calm, np.sum, least, counted=True)
            elif least is not None:
                values, less = _shares(ours), LESS_AT_MORE_NOISE * (noise != LEAST_NOISE)
                yield SearchTarget(f"{label}: median", values, np.median, least - less)
                if noise == LEAST_NOISE and family not in MEDIANS:
                    yield SearchTarget(f"{label}: nine in ten", values, _nine_in_ten, NINE_IN_TEN)


def _shares(runs: dict[str, Any]) -> Shares:
    return np.array(runs["share_of_best"])


def _nine_in_ten(shares: Shares, axis: int = -1) -> Any:
    """The share that nine searches in ten reach at least."""
    return np.sort(shares, axis=axis).take(shares.shape[axis] // 10, axis=axis)


def _drawn(values: Shares) -> Shares:
    """[resamples, surfaces], from a seed of its own."""
    drawn: Shares = np.random.default_rng(0).choice(values, size=(RESAMPLES, len(values)))
    return drawn


def _interval(values: Shares, statistic: Callable[..., Any]) -> tuple[float, float]:
    low, high = np.percentile(statistic(_drawn(values), axis=1), [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument(
        "--surfaces", type=int, default=20, choices=range(1, 101), metavar="1..100",
        help="of each family and noise",
    )  # fmt: skip
    given = parser.parse_args()
    sys.exit(main("search", partial(measure, date=given.date, surfaces=given.surfaces)))
