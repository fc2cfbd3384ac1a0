"""A target with policies, and numbers minute by minute, for timelines that are computed by hand."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from servable_scaling.alarms.query import MetricQuery
from servable_scaling.autoscaling import Autoscaling, ScalingMinute
from servable_scaling.target_scaler import ScaledResource

RESOURCE = "endpoint/ranker/variant/a"
START = datetime(2026, 11, 23)  # a Monday
DIMENSION = "sagemaker:variant:DesiredInstanceCount"
KEY = {"ResourceId": RESOURCE, "ScalableDimension": DIMENSION, "ServiceNamespace": "sagemaker"}
USE = {"Namespace": "Own", "MetricName": "Use", "Statistic": "Average"}


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


class Numbers:
    """{metric: its value in each minute from START on, None for none}; the last holds on."""

    def __init__(self, **metrics: Sequence[float | None]) -> None:
        self.metrics = metrics

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        minute = int((start - START).total_seconds() // 60)
        numbers = self.metrics.get(query.metric.name, ())
        if minute < 0 or not numbers:
            return None
        return numbers[min(minute, len(numbers) - 1)]

    def count_samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        return 1.0


def target(least: int = 1, most: int = 20, **more: Any) -> dict[str, Any]:
    return {**KEY, "MinCapacity": least, "MaxCapacity": most, **more}


def morning(**action: int) -> dict[str, Any]:
    """A scheduled action in the third minute."""
    at_three = {"ScheduledActionName": "morning", "Schedule": "at(2026-11-23T00:03:00)"}
    return {**at_three, "ScalableTargetAction": action}


def tracking(
    value: float = 50, metric: str = "Use", name: str = "track", **more: Any
) -> dict[str, Any]:
    if "PredefinedMetricSpecification" not in more:
        more = {"CustomizedMetricSpecification": {**USE, "MetricName": metric}, **more}
    configuration = {"TargetValue": value, "ScaleOutCooldown": 0, "ScaleInCooldown": 0, **more}
    kind = "TargetTrackingScalingPolicyConfiguration"
    return {"PolicyName": name, "ResourceId": RESOURCE, kind: configuration}


def steps(
    *adjustments: tuple[float | None, float | None, int], name: str = "step", **more: Any
) -> dict[str, Any]:
    names = ("MetricIntervalLowerBound", "MetricIntervalUpperBound", "ScalingAdjustment")
    stepped = [
        {name: value for name, value in zip(names, each, strict=True) if value is not None}
        for each in adjustments
    ]
    configuration = {
        "AdjustmentType": "ChangeInCapacity",
        "Cooldown": 0,
        "StepAdjustments": stepped,
    }
    kind = "StepScalingPolicyConfiguration"
    return {"PolicyName": name, "ResourceId": RESOURCE, kind: {**configuration, **more}}


def alarm(
    policy: str,
    threshold: float = 50,
    *,
    above: bool = True,
    minutes: int = 1,
    metric: str = "Use",
    **more: Any,
) -> dict[str, Any]:
    compared = f"{'Greater' if above else 'Less'}ThanOrEqualToThreshold"
    return {
        **USE, "MetricName": metric, "AlarmName": f"{policy}-{'high' if above else 'low'}",
        "Period": 60, "EvaluationPeriods": minutes, "Threshold": threshold,
        "ComparisonOperator": compared, "AlarmActions": [policy], **more,
    }  # fmt: skip


class Fleet:
    """A service that does what scaling wants, after `start_minutes`; counts, and tells, what happened.

    Policies are found under their own names; without `alarms` each step policy acts above 50.
    """

    def __init__(
        self,
        desired: int = 1,
        *policies: Mapping[str, Any],
        alarms: Sequence[Mapping[str, Any]] | None = None,
        metric_delay_seconds: int = 0,
        start_minutes: int = 0,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        self.desired = self.current = desired
        self.updating = False
        self.failure: str | None = None
        self.start_minutes = start_minutes
        self._ready: datetime | None = None
        stepped = [one for one in policies if "StepScalingPolicyConfiguration" in one]
        by_default = [alarm(policy["PolicyName"]) for policy in stepped]
        self.scaling = Autoscaling(
            targets={"t": bounds or target()},
            policies={policy["PolicyName"]: policy for policy in policies},
            alarms=by_default if alarms is None else alarms,
            created=START,
            metric_delay_seconds=metric_delay_seconds,
        )

    def advance(self, minute: float, numbers: Numbers) -> ScalingMinute:
        moment = at(minute)
        if self._ready is not None and moment >= self._ready:
            self.current, self._ready = self.desired, None
        starting = self._ready is not None
        state = ScaledResource(self.desired, self.current, self.updating or starting, self.failure)
        step = self.scaling.advance(moment, numbers, {RESOURCE: state})
        if RESOURCE in step.desired:
            self.desired = step.desired[RESOURCE]
            self._ready = moment + timedelta(minutes=self.start_minutes)
        return step

    def run(self, minutes: Iterable[float], numbers: Numbers) -> dict[float, int]:
        """{minute: capacity that was set in it}."""
        changes = {}
        for minute in minutes:
            if wanted := self.advance(minute, numbers).desired:
                changes[minute] = wanted[RESOURCE]
        return changes

    @property
    def told(self) -> list[dict[str, Any]]:
        """Activities as DescribeScalingActivities has them, oldest first."""
        (scaler,) = self.scaling.scalers.values()
        return [activity.describe(str(activity.number)) for activity in scaler.activities]

    @property
    def reasons(self) -> list[str]:
        """Codes of what was not scaled."""
        told = (one["NotScaledReasons"] for one in self.told if "NotScaledReasons" in one)
        return [reasons[0]["Code"] for reasons in told]


def tracked(
    desired: int,
    minutes: Iterable[float],
    use: Sequence[float | None],
    *,
    bounds: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[float, int]:
    """{minute: capacity that tracking a use of 50 sets in it}."""
    return Fleet(desired, tracking(**more), bounds=bounds).run(minutes, Numbers(Use=use))
