"""The search space: a grid of settings, as points and as numbers; trials of points, and their budget."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = int | float | str | bool | None
Point = Mapping[str, Value]
Key = tuple[Value, ...]
Ranks = NDArray[np.integer[Any]]

BATCH_SIZE, QUEUE = "batching.max_batch_size", "batching.max_enqueued_batches"
INSTANCE_TYPE = "instance_type"
WORKER_CLASS, WORKER_THREADS = "gunicorn_worker_class", "gunicorn_threads"
# Settings that have no effect without batching.
OF_BATCHING = ("batching.timeout_micros", "batching.batch_threads", QUEUE)
# Beginnings of the names of each program's settings; the model servers have all others.
PROGRAMS = ("gunicorn", "batching", "")
# Their product is the number of threads that may compute at once, on the same cores.
OF_THREADS = ("tfs_processes", "inter_op_threads", "intra_op_threads")
PRODUCTS = (
    OF_THREADS,
    ("tfs_processes", "batching.batch_threads"),
    ("gunicorn_workers", WORKER_THREADS, WORKER_CLASS),
)
# A gevent worker takes any number of requests: many times as many as one with threads.
AT_ONCE = {"sync": 1, "gthread": 1, "gevent": 32}


class Space:
    """The points of a grid, in its order; with `points`, only these.

    `names` are settings as in [variants.NAME.container], and instance_type.
    """

    def __init__(
        self, grid: Mapping[str, tuple[Value, ...]], points: Iterable[Point] | None = None
    ) -> None:
        self.grid = {name: tuple(values) for name, values in grid.items()}
        self.names = tuple(self.grid)
        points = generate_points(self.grid) if points is None else points
        self.keys: tuple[Key, ...] = tuple(dict.fromkeys(self.build_key(point) for point in points))
        self._at = {key: number for number, key in enumerate(self.keys)}

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
        """Return the number of a point; None if the space doesn't contain it."""
        return self._at.get(self.build_key(point))

    @cached_property
    def ranks(self) -> Ranks:
        """Return the rank of each value in its setting's values: [points, settings]."""
        ranks = [{value: rank for rank, value in enumerate(row)} for row in self.grid.values()]
        return np.array([[*map(dict.__getitem__, ranks, key)] for key in self.keys], np.uint8)

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Return the ranks, each scaled to 0 to 1: the distance between the values doesn't matter."""
        scaled: NDArray[np.float64] = self.ranks / np.array(
            [max(1, len(values) - 1) for values in self.grid.values()]
        )
        return scaled

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """Return the model's inputs, each 0 to 1: [points, settings and products].

        Counts enter by their logarithms. The last columns are the possible numbers of simultaneous
        threads, batches, and requests.
        """
        columns = [
            _scale_to_one(_scale_counts(values))[ranks]
            for values, ranks in zip(self.grid.values(), self.ranks.T, strict=True)
        ]
        for names in PRODUCTS:
            if names == OF_THREADS or names[-1] in self.grid:
                logs = [self._compute_logs(name) for name in names if name in self.grid]
                columns.append(_scale_to_one(np.sum(logs, axis=0) if logs else np.zeros(len(self))))
        return np.column_stack(columns)

    def _compute_logs(self, name: str) -> NDArray[np.float64]:
        """Return the logarithm of each point's value; for a worker class, of `AT_ONCE`."""
        counts = [AT_ONCE.get(str(value)) or int(value or 1) for value in self.grid[name]]
        logs: NDArray[np.float64] = np.log(counts)[self.ranks[:, self.names.index(name)]]
        return logs

    def find_neighbors(self, number: int, program: str) -> NDArray[np.bool_]:
        """Return a mask of the points that differ from a point only in settings of a program.

        A program's settings suit each other: the best number of workers depends on their class and
        threads, as that of model servers does on theirs. Changed alone, each looks worse.
        Sources: https://docs.gunicorn.org/en/stable/design.html (How Many Workers, How Many Threads),
        https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
        (Performance Tuning).
        """
        owners = np.array([next(filter(name.startswith, PROGRAMS)) for name in self.names])
        others = self.ranks[:, owners != program]
        neighbors: NDArray[np.bool_] = (others == others[number]).all(axis=1)
        return neighbors

    def find_nearest(self, wanted: Point) -> int:
        """Return the number of the point that differs in the fewest settings, by the fewest steps."""
        key = self.build_key({name: wanted.get(name) for name in self.names})
        target = np.array([*map(self._compute_rank, self.names, key)])
        apart = np.abs(self.coordinates - target)
        return int(np.argmin((apart > 1e-9).sum(axis=1) + apart.sum(axis=1)))

    def _compute_rank(self, name: str, value: Value) -> float:
        values = self.grid[name]

        def compute_distance(rank: int) -> float:
            other = values[rank]
            if isinstance(value, int | float) and isinstance(other, int | float):
                return abs(other - value)
            return 0.0 if value == other else math.inf

        return min(range(len(values)), key=compute_distance) / max(1, len(values) - 1)


def generate_points(grid: Mapping[str, tuple[Value, ...]]) -> Iterator[Point]:
    """Yield every combination of the values."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def sort_values(*values: Value) -> tuple[Value, ...]:
    """Sort numbers, with None (off) first; strings keep their order."""
    if any(isinstance(value, str) for value in values):
        return tuple(dict.fromkeys(values))
    return tuple(sorted(set(values), key=lambda value: (value is not None, value or 0)))


def is_distinct(point: Point, today: Point) -> bool:
    """Return whether no other point has the same effect. `today`: the settings that the point leaves out."""
    whole = {**today, **point}
    kind, threads = whole[WORKER_CLASS], int(whole[WORKER_THREADS] or 1)
    if kind == "gthread" and threads == 1:  # as sync
        return kind == today[WORKER_CLASS] and threads == today[WORKER_THREADS]
    if kind != "gthread" and threads > 1:  # Gunicorn reads them with gthread alone
        return False
    if kind == "gevent" or whole.get(QUEUE) == today[QUEUE]:
        return True
    # No more requests than the workers take at once are in the queues of the model servers.
    room = int(whole["tfs_processes"] or 1) * int(today[QUEUE] or 1)
    return int(whole["gunicorn_workers"] or 1) * threads > room


def join_spaces(spaces: Mapping[str, Space], by_size: Sequence[str]) -> Space:
    """Join the points of all instance types, in the settings that are tried on all of them."""
    first, *others = spaces.values()
    grid: dict[str, tuple[Value, ...]] = {INSTANCE_TYPE: tuple(by_size)}
    for name in first.names:
        if all(name in part.grid for part in others):
            values = (value for part in spaces.values() for value in part.grid[name])
            grid[name] = sort_values(*values)
    points = (
        {INSTANCE_TYPE: kind, **part.build_point(number)}
        for kind, part in spaces.items()
        for number in range(len(part))
    )
    return Space(grid, points)


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


def format_value(value: Value) -> str:
    """Format a setting for display."""
    if value is None:
        return "off"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


Values = Sequence[float] | NDArray[np.float64]

# Values further below the best, as a logarithm, count as this poor: how poor doesn't show where the best is.
POOR = 2.0
# Of differences from the best that are much larger, only the logarithm counts.
BENT = 0.3


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measured value of a point."""

    value: float
    """Requests per second or per dollar, to be maximized; 0 for a failure."""
    failure: str | None = None
    """Why nothing ran, or nothing within the objective."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """JSON object for the report."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int
    """From 0, in the order of measurement."""
    point: Point
    measured: Measurement
    seconds: float
    confirms: int = 0
    """Planned number of trials that confirm the choice, if this is one of them; otherwise 0."""

    @property
    def usd(self) -> float:
        """Return the cost in US dollars; 0 on this computer."""
        return float(self.measured.about.get("usd", 0.0))


def compute_logarithms(values: Values) -> NDArray[np.float64]:
    """Return logarithms for a model to learn from. A failure counts as the poorest value that ran."""
    found = np.array(values, float)
    if not found.any():
        return found
    logs = np.log(np.where(found > 0, found, found[found > 0].min()))
    return np.clip(logs, logs.max() - POOR, None)


def compress_poor_values(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move poor values closer together: they say little about where the best value is."""
    top = logs.max()
    return np.asarray(top - BENT * np.log1p((top - logs) / BENT))


# Assumed relative standard deviation of one measurement; it counts as much as so many repeats.
NOISE, NOISE_REPEATS = 0.06, 2
# A repeat below this share of the point's median was disturbed: other programs only slow it.
DISTURBED = 0.65


class Noise(NamedTuple):
    """The relative standard deviation of one measurement, and its estimate's degrees of freedom."""

    deviation: float
    degrees: int


def find_undisturbed(tried: Ranks, values: Values, share: float = DISTURBED) -> NDArray[np.bool_]:
    """Return a mask of the measurements to learn from, with failures. `tried`: their points."""
    found = np.array(values, float)
    middles = {number: np.sort(found[tried == number]) for number in {*tried.tolist()}}
    least = [share * middles[one][len(middles[one]) // 2] for one in tried.tolist()]
    return np.asarray((found == 0) | (found >= np.array(least)))


def estimate_noise(tried: Ranks, logs: NDArray[np.float64], assumed: int = NOISE_REPEATS) -> Noise:
    """Estimate the noise from repeats. `assumed`: as many more have the usual noise."""
    squares, degrees = assumed * NOISE**2, assumed
    for number in {*tried.tolist()}:
        repeats = logs[tried == number]
        squares += float(((repeats - repeats.mean()) ** 2).sum())
        degrees += len(repeats) - 1
    return Noise(math.sqrt(squares / max(1, degrees)), degrees)


# The usual number of trials, for which the search was developed.
TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits of a search. A trial that would probably exceed one isn't started."""

    trials: int = TRIALS
    minutes: float | None = None
    usd: float | None = None

    def explain_end(self, trials: Sequence[Trial]) -> str | None:
        """Return why no other trial may start; None if one may."""
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
        """Return the budget without `count` more trials like the longest and dearest of the last five."""
        seconds = count * max((trial.seconds for trial in trials[-5:]), default=0.0)
        usd = count * max((trial.usd for trial in trials[-5:]), default=0.0)
        return Budget(
            trials=self.trials - count,
            minutes=None if self.minutes is None else self.minutes - seconds / 60,
            usd=None if self.usd is None else self.usd - usd,
        )
