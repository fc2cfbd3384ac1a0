"""The search space: a grid of settings, as points and as numbers; and the trials of its points.

A trial is one measurement of a point. A budget limits the trials.
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
    """The points of a grid, in its order.

    `points` may contain fewer: those that can't run are left out. `names` are settings as in
    [variants.NAME.container], and instance_type.
    """

    def __init__(
        self, grid: Mapping[str, tuple[Value, ...]], points: Iterable[Point] | None = None
    ) -> None:
        self.grid = {name: tuple(values) for name, values in grid.items()}
        self.names = tuple(self.grid)
        points = generate_points(self.grid) if points is None else points
        self.keys: tuple[Key, ...] = tuple(dict.fromkeys(self.build_key(point) for point in points))
        self._at = {tuple(map(_add_type, key)): number for number, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def build_key(self, point: Point) -> Key:
        """Return the point's values, with settings that have no effect set to a fixed value."""
        inert: tuple[str, ...] = OF_BATCHING if point.get(BATCH_SIZE, 0) is None else ()
        if point.get(WORKER_CLASS, "gthread") != "gthread":
            inert = (*inert, WORKER_THREADS)
        return tuple(self.grid[name][0] if name in inert else point[name] for name in self.names)

    def build_point(self, number: int) -> dict[str, Value]:
        return dict(zip(self.names, self.keys[number], strict=True))

    def find_number(self, point: Point) -> int | None:
        """Return the number of a point; None if this space doesn't contain it."""
        return self._at.get(tuple(map(_add_type, self.build_key(point))))

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Return the ranks of the values, each scaled to 0 to 1: [points, settings].

        The distance between the values doesn't matter.
        """
        return self._scale_columns(lambda values: range(len(values)))

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """Return the model's inputs, each 0 to 1: [points, settings and products].

        Doubling a count is one step, for workers, processes, and threads alike. The last columns
        are the possible numbers of simultaneous threads, batches, and requests, whichever
        settings they come from.
        """
        products = []
        for names in PRODUCTS:
            if names == OF_THREADS or names[-1] in self.grid:
                logs = (self._compute_logs(name) for name in names if name in self.grid)
                products.append(_scale_to_one(sum(logs, np.zeros(len(self)))))
        return np.column_stack([self._scale_columns(_scale_counts), *products])

    def _compute_logs(self, name: str) -> NDArray[np.float64]:
        """Return the logarithm of each point's value of a setting.

        For a worker class, the value is the number of requests that it takes at once.
        """
        counts = [AT_ONCE.get(str(value)) or int(value or 1) for value in self.grid[name]]
        logs: NDArray[np.float64] = np.log(counts)[self.ranks[name]]
        return logs

    @cached_property
    def ranks(self) -> dict[str, NDArray[np.intp]]:
        """Return {setting: the rank of each point's value}."""
        ranks = {}
        for at, (name, values) in enumerate(self.grid.items()):
            rank_of = {_add_type(value): rank for rank, value in enumerate(values)}
            ranks[name] = np.array([rank_of[_add_type(key[at])] for key in self.keys], int)
        return ranks

    def _scale_columns(self, scale: Scale) -> NDArray[np.float64]:
        columns = [
            _scale_to_one(scale(self.grid[name]))[ranks] for name, ranks in self.ranks.items()
        ]
        return np.array(columns).T

    def count_differences(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many settings of each point differ from each of the points `numbers`.

        If the worker class differs, a difference in its threads isn't counted.
        """
        apart = np.abs(self.coordinates[:, None, :] - self.coordinates[numbers][None]) > 1e-9
        if WORKER_CLASS in self.grid and WORKER_THREADS in self.grid:
            kind, threads = map(self.names.index, (WORKER_CLASS, WORKER_THREADS))
            apart[..., threads] &= ~apart[..., kind]
        found: NDArray[np.intp] = apart.sum(axis=-1)
        return found

    def find_nearest(self, wanted: Point) -> int:
        """Return the number of the point that differs least from `wanted`.

        It differs in the fewest settings, and among those by the fewest steps.
        """
        key = self.build_key({name: wanted.get(name) for name in self.names})
        target = np.array([*map(self._compute_rank, self.names, key)])
        apart = np.abs(self.coordinates - target)
        return int(np.argmin((apart > 1e-9).sum(axis=1) + apart.sum(axis=1)))

    def _compute_rank(self, name: str, value: Value) -> float:
        values = self.grid[name]

        def compute_distance(rank: int) -> float:
            other = values[rank]
            if type(value) in (int, float) and type(other) in (int, float):
                return abs(float(other or 0) - float(value or 0))
            return 0.0 if _add_type(value) == _add_type(other) else math.inf

        return min(range(len(values)), key=compute_distance) / max(1, len(values) - 1)


def generate_points(grid: Mapping[str, tuple[Value, ...]]) -> Iterator[Point]:
    """Yield every combination of the values."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _scale_counts(values: tuple[Value, ...]) -> Sequence[float]:
    """Return the logarithms of counts; for other values, return their ranks."""
    counts = [value for value in values if type(value) is int and value > 0]
    if len(counts) < len(values):
        return range(len(values))
    return [math.log(count) for count in counts]


def _scale_to_one(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values to 0 to 1; all become 0 if all are the same."""
    found = np.array(values, float)
    low = found.min()
    scaled: NDArray[np.float64] = (found - low) / ((found.max() - low) or 1.0)
    return scaled


def _add_type(value: Value) -> tuple[str, Value]:
    """Return (type name, value).

    This distinguishes 1 from True, which are different settings but equal in Python.
    """
    return type(value).__name__, value


def format_value(value: Value) -> str:
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
    """The measured value of a point."""

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
        """Return the cost in US dollars; 0 on this computer."""
        return float(self.measured.about.get("usd", 0.0))


def compute_logarithms(values: Values) -> NDArray[np.float64]:
    """Return logarithms for a model to learn from. A failure counts as the poorest value that ran."""
    found = np.array(values, float)
    ran = found > 0
    if not ran.any():
        return np.zeros(len(found))
    logs = np.log(np.where(ran, found, 1.0))
    top, poorest = logs[ran].max(), logs[ran].min()
    learnt: NDArray[np.float64] = np.maximum(np.where(ran, logs, poorest), top - POOR)
    return learnt


def compress_poor_values(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move poor values closer together, in the same order.

    They say little about where the best value is.
    """
    top = logs.max()
    learnt: NDArray[np.float64] = top - BENT * np.log1p((top - logs) / BENT)
    return learnt


# Assumption until settings are measured twice: two load tests of the same differ by so much (relative
# standard deviation). It counts as much as so many repeats.
NOISE, NOISE_REPEATS = 0.06, 2
# Other programs only slow: a repeat below this share of the others' middle was disturbed.
DISTURBED = 0.65


def find_undisturbed(tried: Ranks, values: Values) -> NDArray[np.bool_]:
    """Return a mask of the measurements to learn from; failures are included.

    `tried`: the point of each measurement.
    """
    found = np.array(values, float)
    middles = {number: np.sort(found[tried == number]) for number in {*tried.tolist()}}
    least = [DISTURBED * middles[one][len(middles[one]) // 2] for one in tried.tolist()]
    learnt: NDArray[np.bool_] = (found == 0) | (found >= least)
    return learnt


def estimate_noise(tried: Ranks, logs: NDArray[np.float64]) -> float:
    """Return the relative standard deviation of one measurement.

    It is estimated from repeated measurements of the same points.
    """
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
    """The limits of a search; the first to be reached ends it.

    A trial that would probably exceed the budget isn't started.
    """

    trials: int = TRIALS
    minutes: float | None = None
    usd: float | None = None

    def explain_end(self, trials: Sequence[Trial]) -> str | None:
        """Return why no other trial is started; None if one may be. Time is that of the trials."""
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

    def count_fitting_trials(self, trials: Sequence[Trial]) -> int:
        """Return the number of trials that fit, if they take as long as those so far."""
        spent = sum(trial.seconds for trial in trials)
        if self.minutes is None or spent <= 0:
            return self.trials
        return min(self.trials, int(60 * self.minutes / spent * len(trials)))

    def reserve_trials(self, count: int, trials: Sequence[Trial]) -> "Budget":
        """Return the budget that is left after `count` more trials are set aside.

        Each is assumed to take as long, and to cost as much, as the maximum of the last five.
        """
        seconds = count * max((trial.seconds for trial in trials[-5:]), default=0.0)
        usd = count * max((trial.usd for trial in trials[-5:]), default=0.0)
        return dataclasses.replace(
            self,
            trials=self.trials - count,
            minutes=None if self.minutes is None else self.minutes - seconds / 60,
            usd=None if self.usd is None else self.usd - usd,
        )

    def estimate_seconds_left(self, trials: Sequence[Trial]) -> float | None:
        """Estimate the remaining seconds from the trials so far; None before the first."""
        if not trials:
            return None
        spent = sum(trial.seconds for trial in trials)
        left = (self.trials - len(trials)) * spent / len(trials)
        if self.minutes is not None:
            left = min(left, 60 * self.minutes - spent)
        return max(0.0, left)
