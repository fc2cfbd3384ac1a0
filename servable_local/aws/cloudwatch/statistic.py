"""Statistics by their CloudWatch names: Average, Sum, p99, …"""

import re
from collections.abc import Callable

from servable_local.aws.cloudwatch.samples import Samples

_SIMPLE: dict[str, Callable[[Samples], float]] = {
    "SampleCount": lambda samples: samples.count,
    "Average": lambda samples: samples.total / samples.count,
    "Sum": lambda samples: samples.total,
    "Minimum": lambda samples: samples.least,
    "Maximum": lambda samples: samples.most,
}
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{0,10})?|100)$")
KNOWN = (*_SIMPLE, "p0 to p100")


class UnknownStatisticError(ValueError):
    """Not one of ours: trimmed means and the like are not emulated."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The statistic {name} is not emulated; known are {', '.join(KNOWN)}.")


def check(name: str) -> None:
    """Raises `UnknownStatisticError`."""
    if name not in _SIMPLE and not _PERCENTILE.match(name):
        raise UnknownStatisticError(name)


def percent_of(name: str) -> float | None:
    """99.0 for p99; None for a statistic that is no percentile."""
    match = _PERCENTILE.match(name)
    return float(match.group(1)) if match else None


def statistic(samples: Samples, name: str) -> float | None:
    """None where there is nothing to tell. Raises `UnknownStatisticError`."""
    check(name)
    if samples.count == 0:
        return None
    percent = percent_of(name)
    return _SIMPLE[name](samples) if percent is None else samples.percentile(percent)
