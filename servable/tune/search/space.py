"""Search space: a grid of settings, as points and as numbers; and the trials of its points.

A trial is one measured setting of everything. A budget says how many there may be.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = int | float | str | bool | None
Point = Mapping[str, Value]
Key = tuple[Value, ...]
Scale = Callable[[tuple[Value, ...]], Sequence[float]]

BATCH_SIZE = "batching.max_batch_size"
INSTANCE_TYPE = "instance_type"
WORKER_CLASS, WORKER_THREADS = "gunicorn_worker_class", "gunicorn_threads"
# Settings of batching: without it they change nothing.
OF_BATCHING = ("batching.timeout_micros", "batching.batch_threads", "batching.max_enqueued_batches")
# Their product is how many threads may compute at once: what shares the same cores.
OF_THREADS = ("tfs_processes", "inter_op_threads", "intra_op_threads")
PRODUCTS = (
    OF_THREADS,
    ("tfs_processes", "batching.batch_threads"),
    ("gunicorn_workers", WORKER_THREADS, WORKER_CLASS),
)
# A gevent worker takes any number of requests: many times as many as one with threads.
AT_ONCE = {"sync": 1, "gthread": 1, "gevent": 32}


class Space:
    """Points in the order of their grid; `points` may hold fewer: what could not run is left out.

    `names` are settings as in [variants.NAME.container], and instance_type.
    """

    def __init__(
        self, grid: Mapping[str, tuple[Value, ...]], points: Iterable[Point] | None = None
    ) -> None:
        self.grid = {name: tuple(values) for name, values in grid.items()}
        self.names = tuple(self.grid)
        points = every_point(self.grid) if points is None else points
        self.keys: tuple[Key, ...] = tuple(dict.fromkeys(self.key(point) for point in points))
        self._at = {tuple(map(_typed, key)): number for number, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, point: Point) -> Key:
        """Return the point's values without what differs in nothing."""
        inert: tuple[str, ...] = OF_BATCHING if point.get(BATCH_SIZE, 0) is None else ()
        if point.get(WORKER_CLASS, "gthread") != "gthread":
            inert = (*inert, WORKER_THREADS)
        return tuple(self.grid[name][0] if name in inert else point[name] for name in self.names)

    def point(self, number: int) -> dict[str, Value]:
        return dict(zip(self.names, self.keys[number], strict=True))

    def number(self, point: Point) -> int | None:
        """Return the number of a point; None if this space does not have it."""
        return self._at.get(tuple(map(_typed, self.key(point))))

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """[points, settings], each 0 to 1: the rank of the value, however far apart they are."""
        return self._columns(lambda values: range(len(values)))

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """[points, settings and products], each 0 to 1: what a model learns from.

        Twice as many are one step, of workers, processes and threads alike. The last columns are how many
        threads, batches, and requests there may be at once, whichever setting they come from.
        """
        products = []
        for names in PRODUCTS:
            if names == OF_THREADS or names[-1] in self.grid:
                logs = (self._logs(name) for name in names if name in self.grid)
                products.append(_to_one(sum(logs, np.zeros(len(self)))))
        return np.column_stack([self._columns(_steps), *products])

    def _logs(self, name: str) -> NDArray[np.float64]:
        """Return the logarithm of each point's value; of a class the requests that it takes at once."""
        counts = [AT_ONCE.get(str(value)) or int(value or 1) for value in self.grid[name]]
        logs: NDArray[np.float64] = np.log(counts)[self.ranks[name]]
        return logs

    @cached_property
    def ranks(self) -> dict[str, NDArray[np.intp]]:
        """{setting: the rank of each point's value}."""
        ranks = {}
        for at, (name, values) in enumerate(self.grid.items()):
            rank_of = {_typed(value): rank for rank, value in enumerate(values)}
            ranks[name] = np.array([rank_of[_typed(key[at])] for key in self.keys], int)
        return ranks

    def _columns(self, scale: Scale) -> NDArray[np.float64]:
        columns = [_to_one(scale(self.grid[name]))[ranks] for name, ranks in self.ranks.items()]
        return np.array(columns).T

    def differences(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many settings of each point differ from each of these; threads come with their class."""
        apart = np.abs(self.coordinates[:, None, :] - self.coordinates[numbers][None]) > 1e-9
        if WORKER_CLASS in self.grid and WORKER_THREADS in self.grid:
            kind, threads = map(self.names.index, (WORKER_CLASS, WORKER_THREADS))
            apart[..., threads] &= ~apart[..., kind]
        found: NDArray[np.intp] = apart.sum(axis=-1)
        return found

    def nearest(self, wanted: Point) -> int:
        """Return the point that differs least: in the fewest settings, and there by the fewest steps."""
        key = self.key({name: wanted.get(name) for name in self.names})
        target = np.array([*map(self._rank, self.names, key)])
        apart = np.abs(self.coordinates - target)
        return int(np.argmin((apart > 1e-9).sum(axis=1) + apart.sum(axis=1)))

    def _rank(self, name: str, value: Value) -> float:
        values = self.grid[name]

        def apart(rank: int) -> float:
            other = values[rank]
            if type(value) in (int, float) and type(other) in (int, float):
                return abs(float(other or 0) - float(value or 0))
            return 0.0 if _typed(value) == _typed(other) else math.inf

        return min(range(len(values)), key=apart) / max(1, len(values) - 1)


def every_point(grid: Mapping[str, tuple[Value, ...]]) -> Iterator[Point]:
    """Yield every combination of the values."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _steps(values: tuple[Value, ...]) -> Sequence[float]:
    """Scale counts by their logarithm, anything else by its rank."""
    counts = [value for value in values if type(value) is int and value > 0]
    if len(counts) < len(values):
        return range(len(values))
    return [math.log(count) for count in counts]


def _to_one(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values to 0 to 1; all 0 where all are the same."""
    found = np.array(values, float)
    low = found.min()
    scaled: NDArray[np.float64] = (found - low) / ((found.max() - low) or 1.0)
    return scaled


def _typed(value: Value) -> tuple[str, Value]:
    """Tell 1 from True: different settings, and equal in Python."""
    return type(value).__name__, value


def shown(value: Value) -> str:
    """Format a setting for display."""
    if value is None:
        return "off"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


Ranks = NDArray[np.intp]
Values = Sequence[float] | NDArray[np.float64]

# So much below the best, as a logarithm, is poor; how poor says nothing of where the best is.
POOR = 2.0
# Far less below the best a difference counts whole, far more only its logarithm.
BENT = 1.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Measured value of a point."""

    value: float
    """Maximised value: requests per second, or requests per dollar. 0 where nothing ran."""
    failure: str | None = None
    """Why nothing ran, or nothing within the objective."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """JSON: what the report shows of it."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int
    """Number from 0, in the order of measurement."""
    point: Point
    measured: Measurement
    seconds: float
    confirms: int = 0
    """Trials that confirm the choice at the end, this one among them, as planned before the first; else 0."""

    @property
    def usd(self) -> float:
        """Cost in US dollars; 0 on this computer."""
        return float(self.measured.about.get("usd", 0.0))


def logarithms(values: Values) -> NDArray[np.float64]:
    """Return logarithms for a model to learn from: a failure counts as the poorest that ran."""
    found = np.array(values, float)
    ran = found > 0
    if not ran.any():
        return np.zeros(len(found))
    logs = np.log(np.where(ran, found, 1.0))
    top, poorest = logs[ran].max(), logs[ran].min()
    learnt: NDArray[np.float64] = np.maximum(np.where(ran, logs, poorest), top - POOR)
    return learnt


def bent(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keep the order, and move the poor ones closer together: they say little of where the best is."""
    top = logs.max()
    learnt: NDArray[np.float64] = top - BENT * np.log1p((top - logs) / BENT)
    return learnt


# Assumption until settings are measured twice: two load tests of the same differ by so much (relative
# standard deviation). It counts as much as so many repeats.
NOISE, NOISE_REPEATS = 0.06, 2
# Other programs only slow: a repeat below this share of the others' middle was disturbed.
DISTURBED = 0.65


def undisturbed(tried: Ranks, values: Values) -> NDArray[np.bool_]:
    """Return which measurements to learn from. `tried`: which point each is of; failures stay."""
    found = np.array(values, float)
    middles = {number: np.sort(found[tried == number]) for number in {*tried.tolist()}}
    least = [DISTURBED * middles[one][len(middles[one]) // 2] for one in tried.tolist()]
    learnt: NDArray[np.bool_] = (found == 0) | (found >= least)
    return learnt


def noise_of(tried: Ranks, logs: NDArray[np.float64]) -> float:
    """Return the relative standard deviation of one measurement, from those of the same points."""
    squares, free = NOISE_REPEATS * NOISE**2, NOISE_REPEATS
    for number in {*tried.tolist()}:
        repeats = logs[tried == number]
        squares += float(((repeats - repeats.mean()) ** 2).sum())
        free += len(repeats) - 1
    return math.sqrt(squares / free)


# What the stages of the search were developed for.
TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Whichever ends first. A trial that would probably not end within it is not begun."""

    trials: int = TRIALS
    minutes: float | None = None
    usd: float | None = None

    def ended(self, trials: Sequence[Trial]) -> str | None:
        """Return why no other trial is begun; None while one may be. Time is that of the trials."""
        if len(trials) >= self.trials:
            return f"{self.trials} trials are done"
        spent = sum(trial.seconds for trial in trials)
        next_one = max((trial.seconds for trial in trials[-5:]), default=0.0)
        if self.minutes is not None and spent + next_one > 60 * self.minutes:
            return f"{spent / 60:.1f} of {self.minutes:.3g} minutes are spent"
        costs = [trial.usd for trial in trials]
        if self.usd is not None and sum(costs) + max(costs[-5:], default=0.0) > self.usd:
            return f"the dollars are spent: {sum(costs):.2f} in trials"
        return None

    def fit(self, trials: Sequence[Trial]) -> int:
        """Return the number of trials that fit, if they take as long as those so far."""
        spent = sum(trial.seconds for trial in trials)
        if self.minutes is None or spent <= 0:
            return self.trials
        return min(self.trials, int(60 * self.minutes / spent * len(trials)))

    def without(self, count: int, trials: Sequence[Trial]) -> "Budget":
        """Return the rest of the budget after `count` more trials as long as the longest of the last five."""
        seconds = count * max((trial.seconds for trial in trials[-5:]), default=0.0)
        usd = count * max((trial.usd for trial in trials[-5:]), default=0.0)
        return dataclasses.replace(
            self,
            trials=self.trials - count,
            minutes=None if self.minutes is None else self.minutes - seconds / 60,
            usd=None if self.usd is None else self.usd - usd,
        )

    def seconds_left(self, trials: Sequence[Trial]) -> float | None:
        """Estimate the seconds from the trials so far; None before the first."""
        if not trials:
            return None
        spent = sum(trial.seconds for trial in trials)
        left = (self.trials - len(trials)) * spent / len(trials)
        if self.minutes is not None:
            left = min(left, 60 * self.minutes - spent)
        return max(0.0, left)
