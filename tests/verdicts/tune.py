"""Share of right verdicts of `servable tune` on made-up endpoints.

Everything is drawn from the seed, a fresh one where none is given: which settings run today, what they and
the others bring, and the noise. A search counts as it ends by default: 40 trials, its choice confirmed.
"""

import itertools
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.search import ONE_THREAD
from servable.tune.search.search import Search, list_rules_of_thumb
from servable.tune.search.space import Budget, Measurement, Point, Space, Value
from servable.tune.tune import CONFIRM

VCPUS, TRIALS = 16, 40
GRID: dict[str, tuple[Value, ...]] = {
    "tfs_processes": (1, 2, 4, 8, 16),
    "gunicorn_workers": (4, 8, 16, 32),
    "inter_op_threads": (1, 2, 4, 16),
    "intra_op_threads": (1, 2, 4, 16),
    "onednn": (False, True),
}
SPACE = Space(GRID)
PLANTED = ((0.15, 0.05), (0.40, 0.05), (0.40, 0.20))  # (gain, noise)
# A search kept the best if what it keeps has nine tenths of the planted gain.
KEPT_SHARE = 0.9
Effect = Callable[[Point], float]
Chance = np.random.Generator


def one_setting(today: Point, gain: float, chance: Chance) -> Effect:
    name, best = _other(today, chance)
    return lambda point: gain * (point[name] == best)


def two_together(today: Point, gain: float, chance: Chance) -> Effect:
    """Half of the gain by one setting, and the other half where a second one changes with it."""
    (name, best), (second, also) = _two(today, chance)
    return lambda point: gain * (point[name] == best) * (0.5 + 0.5 * (point[second] == also))


def slope(today: Point, gain: float, chance: Chance) -> Effect:
    """A peak in two settings: the nearer, the better."""
    peaks = _two(today, chance)

    def near(point: Point, name: str, best: Value) -> float:
        rank, peak, here = (GRID[name].index(at) for at in (point[name], best, today[name]))
        return max(0.0, 1 - abs(rank - peak) / abs(here - peak))

    return lambda point: gain * sum(near(point, *peak) for peak in peaks) / 2


def flat(today: Point, gain: float, chance: Chance) -> Effect:
    return lambda point: 0.0


def today_best(today: Point, gain: float, chance: Chance) -> Effect:
    """Every step away from today's settings costs up to a tenth."""
    steps = {name: float(chance.uniform(0.01, 0.1)) for name in GRID}

    def count_steps(name: str, point: Point) -> int:
        return abs(GRID[name].index(point[name]) - GRID[name].index(today[name]))

    return lambda point: -sum(cost * count_steps(name, point) for name, cost in steps.items())


def today_second(today: Point, gain: float, chance: Chance) -> Effect:
    """As `today_best`, but for one value that brings 3 %."""
    (name, best), worse = _other(today, chance), today_best(today, gain, chance)
    return lambda point: (
        0.03 + worse({**point, name: today[name]}) if point[name] == best else worse(point)
    )


def _other(today: Point, chance: Chance) -> tuple[str, Value]:
    """Draw a setting, and a value that is not today's."""
    name = str(chance.choice([*GRID]))
    values = [value for value in GRID[name] if value != today[name]]
    return name, values[int(chance.integers(len(values)))]


def _two(today: Point, chance: Chance) -> list[tuple[str, Value]]:
    drawn = dict(_other(today, chance) for _ in range(20))
    return [*drawn.items()][:2]


def normal(noise: float, chance: Chance) -> Iterator[float]:
    while True:
        yield float(chance.normal(0, noise))


def drift(noise: float, chance: Chance) -> Iterator[float]:
    """The computer becomes slower or faster by up to a fifth, and wanders."""
    slope, at = float(chance.uniform(-0.2, 0.2)) / TRIALS, 0.0
    for each in normal(noise, chance):
        at += slope + float(chance.normal(0, noise / 4))
        yield at + each


def heavy_tails(noise: float, chance: Chance) -> Iterator[float]:
    """Student's t of three degrees of freedom; one measurement in forty shows half of what it should."""
    while True:
        disturbed = math.log(2) * (chance.random() * 40 < 1)
        yield noise / math.sqrt(3) * float(chance.standard_t(3)) - disturbed


SURFACES = {each.__name__: each for each in (one_setting, two_together, slope)}
NOTHING_BETTER = {each.__name__: each for each in (flat, today_best, today_second)}
NOISES = {each.__name__: each for each in (normal, drift, heavy_tails)}
Case = tuple[str, float, float, str]
"""Surface, planted gain, noise of one measurement and its kind."""


def search(job: tuple[Case, int, int]) -> tuple[str, bool, bool]:
    """Run one search; return its verdict, and whether what it keeps is the best, and worse than today's."""
    (surface, gain, noise, kind), seed, number = job
    chance = np.random.default_rng([seed, number])
    today = SPACE.build_point(int(chance.integers(len(SPACE))))
    effect = (SURFACES | NOTHING_BETTER)[surface](today, math.log1p(gain), chance)
    errors = NOISES[kind](noise, chance)
    wanted = [today, *list_rules_of_thumb(SPACE, vcpus=VCPUS)]
    found = Search(SPACE, wanted, confirm=CONFIRM).run(
        lambda point: Measurement(value=100 * math.exp(effect(point) + next(errors))),
        Budget(trials=TRIALS),
    )
    choice = found.choice
    assert choice is not None  # everything runs
    kept = effect(choice.recommended_point)
    return choice.confirmation.verdict, kept >= KEPT_SHARE * math.log1p(gain), kept <= 0


def run_trials(seed: int, count: int) -> Iterator[tuple[str, bool | None, list[str]]]:
    """Run `count` searches for each gain, noise, and kind of noise."""
    os.environ.update(ONE_THREAD)
    # Not forked: numpy has read its environment here already.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for surface, noise in itertools.product([*SURFACES, *NOTHING_BETTER], (0.05, 0.20)):
            planted = surface in SURFACES
            gains = [gain for gain, each in PLANTED if each == noise] if planted else [0.0]
            cases = [(surface, gain, noise, kind) for gain in gains for kind in NOISES]
            jobs = [(case, seed, number) for number, case in enumerate(count * cases)]
            verdicts = [
                "falsely better" if verdict == "better" and worse else verdict
                for verdict, _, worse in pool.map(search, jobs, chunksize=8)
            ]
            name = f"{surface.replace('_', ' ')}, {noise:.0%} noise"
            yield name, True if planted else None, verdicts
