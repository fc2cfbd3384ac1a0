"""Searches with the same budget and the same noise: ours, and three that are plain.

Each returns the number of the point that it recommends, and how many measurements it took.
"""

from collections.abc import Callable

import numpy as np
import optuna

from benchmarks.search.known import Known, noise
from servable.tune.search.budget import Budget
from servable.tune.search.search import Found, Search
from servable.tune.search.space import Point, Space
from servable.tune.search.start import rules_of_thumb
from servable.tune.search.trial import Measured

Contender = Callable[[Known, int, int], tuple[int, int]]


def ours(surface: Known, seed: int, budget: int, *, draw: int = 0) -> tuple[int, int]:
    found = search_of(surface, seed, budget, draw=draw)
    number = surface.space.number(found.choice.point) if found.choice else None
    return number or 0, len(found.trials)


def search_of(surface: Known, seed: int, budget: int, *, draw: int = 0) -> Found:
    """As `servable tune` does it; Optuna keeps the trials in memory.

    Another `draw` is other noise and other points to begin with.
    """
    space, drawn = surface.space, noise(seed, draw)

    def measure(point: Point) -> Measured:
        return Measured(value=surface.measured(space.number(point) or 0, drawn))

    search = Search(space, rules_of_thumb(space, vcpus=surface.vcpus), seed=seed + 1000 * draw)
    return search.run(measure, Budget(trials=budget))


def random(surface: Known, seed: int, budget: int) -> tuple[int, int]:
    """Different points drawn at random; the highest measurement wins."""
    drawn = noise(seed)
    numbers = np.random.default_rng([9, seed]).choice(
        len(surface.space), size=budget, replace=False
    )
    values = [surface.measured(int(number), drawn) for number in numbers]
    return int(numbers[int(np.argmax(values))]), budget


def tpe(surface: Known, seed: int, budget: int) -> tuple[int, int]:
    """Optuna's own, as it comes: a whole number for each setting, its rank. The highest wins."""
    return _tpe(surface, seed, budget, from_rules=False)


def tpe_from_rules(surface: Known, seed: int, budget: int) -> tuple[int, int]:
    """The same, told our rules of thumb first: what is left is the difference in searching."""
    return _tpe(surface, seed, budget, from_rules=True)


def greedy(surface: Known, seed: int, budget: int) -> tuple[int, int]:
    """From the first rule of thumb: measures the neighbours, one step in one setting, moves to the
    best while it is higher, and starts anew at random when it is not."""
    drawn, chance = noise(seed), np.random.default_rng([10, seed])
    measured: dict[int, float] = {}
    here = surface.rules[0]

    def value(number: int) -> float:
        if number not in measured and len(measured) < budget:
            measured[number] = surface.measured(number, drawn)
        return measured.get(number, 0.0)

    while len(measured) < budget:
        value(here)
        around = [number for number in _neighbours(surface.space, here) if value(number) > 0]
        best = max(around, key=value, default=here)
        here = best if value(best) > value(here) else int(chance.integers(len(surface.space)))
    return max(measured, key=measured.__getitem__), len(measured)


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "random": random,
    "TPE": tpe,
    "TPE from our rules of thumb": tpe_from_rules,
    "greedy neighbourhood": greedy,
}


def _tpe(surface: Known, seed: int, budget: int, *, from_rules: bool) -> tuple[int, int]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space, drawn = surface.space, noise(seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    if from_rules:
        for number in surface.rules:
            near = space.point(number)
            study.enqueue_trial(
                {name: space.grid[name].index(value) for name, value in near.items()}
            )

    def at(ranks: dict[str, int]) -> int:
        return space.number({name: space.grid[name][ranks[name]] for name in space.names}) or 0

    def measured(trial: optuna.Trial) -> float:
        ranks = {
            name: trial.suggest_int(name, 0, len(values) - 1) for name, values in space.grid.items()
        }
        return surface.measured(at(ranks), drawn)

    study.optimize(measured, n_trials=budget)
    return at(study.best_params), budget


def _neighbours(space: Space, number: int) -> list[int]:
    point, found = space.point(number), []
    for name, values in space.grid.items():
        rank = values.index(point[name])
        for step in (-1, 1):
            if 0 <= rank + step < len(values):
                other = space.number({**point, name: values[rank + step]})
                if other is not None and other != number:
                    found.append(other)
    return list(dict.fromkeys(found))
