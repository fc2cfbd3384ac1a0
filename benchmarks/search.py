"""Compares tune's search on simulated endpoints with random search and Optuna's TPE."""

import datetime
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame import Log, Result, compute_spread
from tests.servable.tune import surfaces
from tests.servable.tune.container_formula import FAMILIES, make_surface
from tests.servable.tune.surfaces import FLAT, TRIALS, Answer, Surface

TITLE = "Search"
CLAIMS = False
TEXT = """\
Made-up endpoints whose throughput is a formula of their settings, 20 of each family, drawn from the day's
date: 40 measurements with noise, one in forty shows half of what it should. A cell is the recommended
point's throughput without noise, as a share of the best one. The last four families have their optimum in
one setting: where it stays as it is today, the best of all others has at most 87 % of it. Servable compares
its choice with today's settings at the end, and keeps those where the choice isn't better. On a flat endpoint
nothing is better.
"""
OURS, TPE, RANDOM = "Servable", "TPE", "random"
NOISES, SURFACES = (0.05, 0.15), 20
CALM = "flat endpoints where nothing is called better / all"
BOUNDS = {
    **{f"{family}, median, 5% noise": (0.9, 1.0) for family in FAMILIES if family != FLAT},
    f"{OURS} / {TPE}, all families, 5% noise": (0.97, float("inf")),
    f"{OURS} / {RANDOM}, all families, 5% noise": (1.02, float("inf")),
    CALM: (0.9, 1.0),
}
# Numpy is slower with threads of its own on matrices this small. It reads these when it is imported.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measure(_: Path, log: Log) -> Result:
    """Search every surface in every way. All ways search the same surfaces."""
    seeds = [int(f"{datetime.date.today():%Y%m%d}") * 100 + at for at in range(SURFACES)]
    os.environ.update(ONE_THREAD)
    shares: dict[tuple[str, str, float], list[float]] = {}
    calm: list[bool] = []
    # Not forked: numpy has read its environment here already.
    with ProcessPoolExecutor(None, multiprocessing.get_context("spawn")) as pool:
        for family, noise in product(FAMILIES, NOISES):
            log(f"{family}, {noise:.0%} noise")
            names = [OURS] if family == FLAT else [*CONTENDERS]
            for name in names:
                search = partial(search_surface, family, name, noise=noise)
                answers = [*pool.map(search, seeds)]
                shares[family, name, noise] = [each["share_of_best"] for each in answers]
                calm += [not each["better"] for each in answers if family == FLAT]
    return summarize(shares, float(np.mean(calm)))


def summarize(shares: dict[tuple[str, str, float], list[float]], calm: float) -> Result:
    """Return the table and the ratios from the shares of each family, contender, and noise."""
    families = [family for family in FAMILIES if family != FLAT]
    table = {
        family: {
            f"{name}, {noise:.0%}": compute_spread(shares[family, name, noise])[:1]
            for noise, name in product(NOISES, CONTENDERS)
        }
        for family in families
    }
    ratios = {
        f"{family}, median, 5% noise": compute_spread(shares[family, OURS, NOISES[0]])
        for family in families
    }
    mean = {
        name: float(np.mean([shares[family, name, NOISES[0]] for family in families]))
        for name in CONTENDERS
    }
    for name in (TPE, RANDOM):
        label = f"{OURS} / {name}, all families, 5% noise"
        ratios[label] = compute_spread([mean[OURS] / mean[name]])
    return {"table": table, "ratios": ratios | {CALM: [calm]}}


def search_random(surface: Surface, seed: int, noise: float) -> Answer:
    """Draw different points; return the one with the highest measurement."""
    factors, chance = surfaces.draw_disturbances(seed, noise), np.random.default_rng([9, seed])
    numbers = chance.choice(len(surface.space), size=TRIALS, replace=False)
    values = [surface.values[number] * next(factors) for number in numbers]
    return {"point": int(numbers[int(np.argmax(values))])}


def search_tpe(surface: Surface, seed: int, noise: float) -> Answer:
    """Run Optuna's TPE on the ranks of the settings, starting with our first points."""
    import optuna  # half a second, which the page doesn't need

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, factors = surface.space, surfaces.draw_disturbances(seed, noise)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for number in dict.fromkeys(map(space.find_nearest, surface.wanted)):
        near = space.build_point(number)
        study.enqueue_trial({name: space.grid[name].index(value) for name, value in near.items()})

    def find_number(ranks: dict[str, int]) -> int:
        point = {name: space.grid[name][ranks[name]] for name in space.names}
        number = space.find_number(point)
        return space.find_nearest(point) if number is None else number

    def measure_trial(trial: Any) -> float:
        grid = space.grid.items()
        ranks = {name: trial.suggest_int(name, 0, len(values) - 1) for name, values in grid}
        return float(surface.values[find_number(ranks)] * next(factors))

    study.optimize(measure_trial, n_trials=TRIALS)
    return {"point": find_number(study.best_params)}


CONTENDERS: dict[str, Callable[[Surface, int, float], Answer]] = {
    OURS: surfaces.search_ours,
    TPE: search_tpe,
    RANDOM: search_random,
}


def search_surface(family: str, contender: str, seed: int, noise: float) -> Answer:
    """Search one surface; return the recommended point's share of the best, and other values."""
    surface = make_surface(family, seed)
    answer = CONTENDERS[contender](surface, seed, noise)
    share = surface.values[answer.pop("point")] / surface.values.max()
    return {"share_of_best": round(float(share), 4), **answer}
