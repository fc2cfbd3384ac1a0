"""Search space: a grid of settings, as points and as numbers."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Value = int | float | str | bool | None
Point = Mapping[str, Value]
Key = tuple[Value, ...]
Scale = Callable[[tuple[Value, ...]], Sequence[float]]

BATCH_SIZE = "batching.max_batch_size"
INSTANCE_TYPE = "instance_type"
# Settings of batching: without it they change nothing.
OF_BATCHING = ("batching.timeout_micros", "batching.batch_threads")
# Their product is how many threads may compute at once: what shares the same cores.
OF_THREADS = ("tfs_processes", "inter_op_threads", "intra_op_threads")


class Space:
    """Points in the order of their grid; `points` may hold fewer: what could not run is left out.

    `names` are settings as in [variants.NAME.container], and instance_type.
    """

    def __init__(
        self, grid: Mapping[str, tuple[Value, ...]], points: Iterable[Point] | None = None
    ) -> None:
        self.grid = {name: tuple(values) for name, values in grid.items()}
        self.names = tuple(self.grid)
        if points is None:
            products = itertools.product(*self.grid.values())
            points = (dict(zip(self.names, values, strict=True)) for values in products)
        self.keys: tuple[Key, ...] = tuple(dict.fromkeys(self.key(point) for point in points))
        self._at = {tuple(map(_typed, key)): number for number, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, point: Point) -> Key:
        """The point without what differs in nothing."""
        settings = {name: point[name] for name in self.names}
        if BATCH_SIZE in settings and settings[BATCH_SIZE] is None:
            settings |= {name: self.grid[name][0] for name in OF_BATCHING if name in settings}
        return tuple(settings.values())

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
        """[points, settings and one more], each 0 to 1: what a model learns from.

        Twice as many are one step, of workers, processes and threads alike. The last column is how
        many threads may compute at once, whichever setting they come from.
        """
        threads = _to_one([math.log(self._threads(key)) for key in self.keys])
        return np.column_stack([self._columns(_steps), threads])

    def _columns(self, scale: Scale) -> NDArray[np.float64]:
        at = [
            dict(zip(map(_typed, values), _to_one(scale(values)), strict=True))
            for values in self.grid.values()
        ]
        rows = [
            [column[_typed(value)] for column, value in zip(at, key, strict=True)]
            for key in self.keys
        ]
        return np.array(rows, float).reshape(len(self.keys), len(self.names))

    def _threads(self, key: Key) -> int:
        settings = dict(zip(self.names, key, strict=True))
        return math.prod(int(settings.get(name) or 1) for name in OF_THREADS)

    def nearest(self, wanted: Point) -> int:
        """The point that differs least: in the fewest settings, and there by the fewest steps."""
        if wanted.get(BATCH_SIZE) is None and None in self.grid.get(BATCH_SIZE, ()):
            wanted = {**wanted, **{name: self.grid.get(name, (None,))[0] for name in OF_BATCHING}}
        target = np.array([self._rank(name, wanted.get(name)) for name in self.names])
        apart = np.abs(self.coordinates - target)
        return int(np.argmin((apart > 1e-9).sum(axis=1) + apart.sum(axis=1)))

    def _rank(self, name: str, value: Value) -> float:
        values = self.grid[name]
        typed, at = [_typed(other) for other in values], 0
        if _typed(value) in typed:
            at = typed.index(_typed(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            apart = [
                (abs(other - value), rank)
                for rank, other in enumerate(values)
                if isinstance(other, int | float) and not isinstance(other, bool)
            ]
            at = min(apart)[1] if apart else 0
        return at / max(1, len(values) - 1)


def _steps(values: tuple[Value, ...]) -> Sequence[float]:
    """Counts by their logarithm, anything else by its rank."""
    counts = [value for value in values if type(value) is int and value > 0]
    if len(counts) < len(values):
        return range(len(values))
    return [math.log(count) for count in counts]


def _to_one(values: Sequence[float]) -> list[float]:
    """Scale values to 0 to 1; all 0 where all are the same."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / ((high - low) or 1.0) for value in values]


def _typed(value: Value) -> tuple[str, Value]:
    """1 and True are different settings, and equal in Python."""
    return type(value).__name__, value


def shown(value: Value) -> str:
    """A setting's value for people."""
    if value is None:
        return "off"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
