"""Step scaling: which step a metric falls into, and the capacity that it asks for.

Source (2026-11-22):
https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
"""

import math
from collections.abc import Callable, Mapping, Sequence

from servable_scaling.scalable_target import Aggregation, StepAdjustment, StepScaling

_AGGREGATED: Mapping[Aggregation, Callable[[Sequence[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Minimum": min,
    "Maximum": max,
}


def aggregated(policy: StepScaling, datapoints: Sequence[float]) -> float:
    """The alarm's datapoints as one value, by MetricAggregationType."""
    # Chosen: a step policy aggregates all datapoints that its alarm evaluated.
    return _AGGREGATED[policy.aggregation](datapoints)


def step_of(
    policy: StepScaling, metric: float, threshold: float, *, upward: bool
) -> StepAdjustment | None:
    """The step that the metric falls into; None for none.

    Above the threshold a lower bound belongs to its step, below it an upper bound does. At the
    threshold itself the alarm's comparison decides: `upward` for "greater".
    """
    breach = metric - threshold
    above = breach > 0 or (breach == 0 and upward)
    for step in policy.steps:
        lower = -math.inf if step.lower is None else step.lower
        upper = math.inf if step.upper is None else step.upper
        if (lower <= breach < upper) if above else (lower < breach <= upper):
            return step
    return None


def adjusted(policy: StepScaling, step: StepAdjustment, capacity: int) -> int:
    """The capacity after a step, before the target's bounds."""
    if policy.kind == "ExactCapacity":
        return step.adjustment
    if policy.kind == "ChangeInCapacity":
        return max(0, capacity + step.adjustment)
    percent = capacity * step.adjustment / 100
    # 12.7 is 12, 0.67 is 1, -0.58 is -1, -6.67 is -6.
    change = int(math.copysign(1, percent)) if 0 < abs(percent) < 1 else math.trunc(percent)
    if change and abs(change) < policy.least_magnitude:
        change = int(math.copysign(policy.least_magnitude, change))
    return max(0, capacity + change)
