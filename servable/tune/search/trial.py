"""One measured setting of everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.space import Point

# So much below the best, as a logarithm, is poor; how poor says nothing of where the best is.
POOR = 2.0
# Far less than this below the best a difference counts whole, far more of it only its logarithm.
BENT = 1.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a measurement says of a point."""

    value: float
    """What is to be high: requests per second, or requests per dollar. 0 where nothing ran."""
    failure: str | None = None
    """Why nothing ran, or nothing within the objective."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """JSON: what the report shows of it."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int
    """From 0, in the order in which they were measured."""
    point: Point
    measured: Measurement
    seconds: float

    @property
    def usd(self) -> float:
        """What it cost; nothing on this computer."""
        return float(self.measured.about.get("usd", 0.0))


def logarithms(values: Sequence[float]) -> NDArray[np.float64]:
    """What a model learns from: a failure counts as the poorest that ran."""
    found = np.array(values, float)
    ran = found > 0
    if not ran.any():
        return np.zeros(len(found))
    logs = np.log(np.where(ran, found, 1.0))
    top, poorest = logs[ran].max(), logs[ran].min()
    learnt: NDArray[np.float64] = np.maximum(np.where(ran, logs, poorest), top - POOR)
    return learnt


def bent(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same order, the poor ones closer together: where the best is, they say little of it."""
    top = logs.max()
    learnt: NDArray[np.float64] = top - BENT * np.log1p((top - logs) / BENT)
    return learnt
