"""What one alarm looks at, in the units that people use."""

from dataclasses import dataclass
from typing import Literal

from infra.constructs.monitoring.measured import Metric


@dataclass(frozen=True)
class Unit:
    """What a person writes, against what CloudWatch holds."""

    symbol: str
    in_the_metric: float
    """One of ours, in the metric's own unit."""


# SageMaker publishes latency in microseconds; here, and only here, it becomes milliseconds.
MILLISECONDS = Unit("ms", 1000)
# The mean of a metric that is 0 or 1 per request is a share, 0 to 1.
PERCENT = Unit("%", 0.01)


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One alarm's question. `kind` is its section of the runbook and part of its name."""

    kind: str
    variant: str | None
    """None: of the whole endpoint."""
    what: str
    metric: Metric
    threshold: float
    unit: Unit
    minutes: int
    """Consecutive ones that must show it."""
    fires: Literal["above", "below"] = "above"
    breaks_objective: bool = False
    in_words: str | None = None
    """Where threshold and unit do not say it well."""
    missing: Literal["notBreaching", "breaching"] = "notBreaching"
    """No traffic is no data, and no reason to wake anybody."""

    @property
    def name(self) -> str:
        """Short, and one of its own within the endpoint."""
        return self.kind if self.variant is None else f"{self.variant}-{self.kind}"

    @property
    def earliest_minutes(self) -> int:
        """From the beginning of the first minute that shows it: it cannot fire before."""
        return self.minutes

    @property
    def said(self) -> str:
        """As a person says it: p99 latency above 100 ms."""
        if self.in_words is not None:
            return self.in_words
        amount = f"{self.threshold:g} {self.unit.symbol}".strip()
        return f"{self.what} {self.fires} {amount}"
