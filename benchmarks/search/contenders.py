"""Searches with the same budget and the same noise: ours, and three that are plain.

Each returns the number of the point that it recommends, and how many measurements it took.
"""

from collections.abc import Callable

import numpy as np
import optuna

from benchmarks.search.surfaces.surface import Surface
from tuning.search.budget import Budget
from tuning.search.search import Search
from tuning.search.space import Space
from tuning.search.start import rules_of_thumb
from tuning.search.trial import Measured

Contender = Callable[[Surface, Space, int, int], tuple[int, int]]


def ours(surface: Surface, space: Space, seed: int, budget: int) -> tuple[int, int]:
    noise = _noise(seed)
    search = Search(space, rules_of_thumb(space, vcpus=surface.vcpus), seed=seed)
    found = search.run(
        lambda point: Measured(value=surface.measured(point, noise)), Budget(trials=budget)
    )
    number = space.number(found.choice.point) if found.choice else None
    return number or 0, len(found.trials)


def random(surface: Surface, space: Space, seed: int, budget: int) -> tuple[int, int]:
    """Different points drawn at random; the highest measurement wins."""
    noise = _noise(seed)
    drawn = np.random.default_rng([9, seed]).choice(len(space), size=budget, replace=False)
    values = [surface.measured(space.point(int(one)), noise) for one in drawn]
    return int(drawn[int(np.argmax(values))]), budget


def tpe(surface: Surface, space: Space, seed: int, budget: int) -> tuple[int, int]:
    """Optuna's own, as it comes: a whole number for each setting, its rank. The highest wins."""
    return _tpe(surface, space, seed, budget, from_rules=False)


def tpe_from_rules(surface: Surface, space: Space, seed: int, budget: int) -> tuple[int, int]:
    """The same, told our rules of thumb first: what is left is the difference in searching."""
    return _tpe(surface, space, seed, budget, from_rules=True)


def greedy(surface: Surface, space: Space, seed: int, budget: int) -> tuple[int, int]:
    """From the first rule of thumb: measures the neighbours, one step in one setting, moves to the
    best while it is higher, and starts anew at random when it is not."""
    noise, chance = _noise(seed), np.random.default_rng([10, seed])
    known: dict[int, float] = {}
    here = space.nearest(rules_of_thumb(space, vcpus=surface.vcpus)[0])

    def value(number: int) -> float:
        if number not in known and len(known) < budget:
            known[number] = surface.measured(space.point(number), noise)
        return known.get(number, 0.0)

    while len(known) < budget:
        value(here)
        around = [number for number in _neighbours(space, here) if value(number) > 0]
        best = max(around, key=value, default=here)
        here = best if value(best) > value(here) else int(chance.integers(len(space)))
    return max(known, key=known.__getitem__), len(known)


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "random": random,
    "TPE": tpe,
    "TPE from our rules of thumb": tpe_from_rules,
    "greedy neighbourhood": greedy,
}


def _tpe(
    surface: Surface, space: Space, seed: int, budget: int, *, from_rules: bool
) -> tuple[int, int]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    noise = _noise(seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    if from_rules:
        for wanted in rules_of_thumb(space, vcpus=surface.vcpus):
            near = space.point(space.nearest(wanted))
            study.enqueue_trial(
                {name: space.grid[name].index(value) for name, value in near.items()}
            )

    def measured(trial: optuna.Trial) -> float:
        ranks = {
            name: trial.suggest_int(name, 0, len(values) - 1) for name, values in space.grid.items()
        }
        return surface.measured({name: space.grid[name][ranks[name]] for name in ranks}, noise)

    study.optimize(measured, n_trials=budget)
    ranks = study.best_params
    return space.number({name: space.grid[name][ranks[name]] for name in space.names}) or 0, budget


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


def _noise(seed: int) -> np.random.Generator:
    return np.random.default_rng([7, seed])
