"""Convert a variant's scalable target, policies, and schedule to [variants.NAME.scaling]."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.policy.derived_settings import (
    DEFAULT_COOLDOWN_SECONDS,
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
)
from infra.policy.execution_policy import SCALING_ROLE
from servable.init.adoption.live_fields import Effect, LiveFields, NotCarried
from servable.init.adoption.live_picture import Described, LivePicture

_COUNTS = (
    "sagemaker:variant:DesiredInstanceCount",
    "sagemaker:variant:DesiredProvisionedConcurrency",
)
_IDENTITY = ("ServiceNamespace", "ResourceId", "ScalableDimension", "CreationTime", "PolicyARN",
             "PolicyName", "Alarms", "ScheduledActionARN", "ScheduledActionName", "ScalableTargetARN",
             "PredictedCapacity")  # fmt: skip
_KEPT = (
    "the target stays as it is: safety_factor 1, because what one instance can take is not known"
)
# Key of the table -> unit of the metric in the key's: a request per minute and second, a share and percent.
_PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": ("max_rps_per_instance", 1 / 60),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": ("max_concurrency_per_instance", 1),
    "SageMakerVariantProvisionedConcurrencyUtilization": ("provisioned_use_percent", 100),
}


class ExpressedScaling:
    """The scaling of one variant as keys. `table` is None if the variant has no scalable target."""

    def __init__(self, picture: LivePicture, endpoint: str, variant: str) -> None:
        self.table: dict[str, Any] | None = None
        self.bounds: tuple[int, int] | None = None
        """Minimum and maximum of the target: instances, or provisioned concurrency."""
        self.not_carried: list[NotCarried] = []
        self.step_alarms: set[str] = set()
        """Names of alarms that [scaling] makes again."""
        self._cooldowns: dict[str, int] = {}
        self._alarms = {alarm["AlarmName"]: alarm for alarm in picture.alarms}
        self._where = f"scaling of {variant}"
        resource = f"endpoint/{endpoint}/variant/{variant}".lower()

        def select_own(described: Sequence[Described]) -> Iterator[Described]:
            return (each for each in described if each["ResourceId"].lower() == resource)

        for target in select_own(picture.targets):
            self._convert_target(target)
        if self.table is None:
            return
        for policy in select_own(picture.policies):
            self.step_alarms |= {alarm["AlarmName"] for alarm in policy.get("Alarms") or []}
            self._convert_policy(policy)
        for action in select_own(picture.scheduled):
            self._convert_schedule(action)
        if not self.table:
            self.table = None
            if not self.not_carried:
                reason = (
                    "a target without a policy scales nothing; the number of instances is fixed"
                )
                self._note_not_carried("", self.bounds, reason, "none")
        elif self._cooldowns:
            self.table |= self._cooldowns

    def _note_not_carried(
        self, path: str, value: object, reason: str, effect: Effect = "lost"
    ) -> None:
        where = f"{self._where}: {path}" if path else self._where
        self.not_carried.append(NotCarried(where=where, value=value, reason=reason, effect=effect))

    def _build_fields(self, described: Described) -> LiveFields:
        return LiveFields(self._where, described, known=dict.fromkeys(_IDENTITY))

    def _convert_target(self, target: Described) -> None:
        if target["ScalableDimension"] not in _COUNTS:
            return
        fields = self._build_fields(target)
        self.table = {}
        self.bounds = int(fields.take("MinCapacity")), int(fields.take("MaxCapacity"))
        if str(fields.peek("RoleARN")).endswith(f"/{SCALING_ROLE}"):
            fields.take("RoleARN")
        state = fields.take("SuspendedState") or {}
        if suspended := [name for name, value in state.items() if value]:
            reason = "suspended by hand; write scaling.hold = true to keep the number of instances"
            self._note_not_carried("SuspendedState", ", ".join(suspended), reason, "changed")
        role = ("the service-linked role is used instead", "none")
        self.not_carried += fields.list_not_carried({"RoleARN": role})  # type: ignore[dict-item]

    def _convert_policy(self, policy: Described) -> None:
        tracked = policy.get("TargetTrackingScalingPolicyConfiguration")
        steps = policy.get("StepScalingPolicyConfiguration")
        if tracked is not None:
            self._convert_tracking(policy["PolicyName"], tracked)
        elif steps is not None:
            self._convert_steps(policy, steps)
        else:
            self._note_not_carried(
                policy["PolicyName"], policy["PolicyType"], "no key makes such a policy"
            )

    def _convert_tracking(self, name: str, tracked: Described) -> None:
        assert self.table is not None
        fields = LiveFields(f"{self._where}: {name}", tracked, known={"DisableScaleIn": False})
        predefined = fields.take("PredefinedMetricSpecification") or {}
        key, unit = _PREDEFINED.get(str(predefined.get("PredefinedMetricType")), ("", 1.0))
        custom = fields.take("CustomizedMetricSpecification")
        if custom is not None and _is_backlog(custom):
            key, unit = "max_backlog_per_instance", 1
        if not key or key in self.table:
            metric = predefined.get("PredefinedMetricType") or (custom or {}).get("MetricName")
            self._note_not_carried(
                name, metric, "no key of [scaling] tracks this metric (once more)"
            )
            return
        value = float(fields.take("TargetValue"))
        self.table[key] = _convert_unit(value, unit)
        if key != "provisioned_use_percent":
            self.table["safety_factor"] = 1.0
            self._note_not_carried(f"{name}: TargetValue", value, _KEPT, "none")
        for way in ("Out", "In"):
            seconds = fields.take(f"Scale{way}Cooldown")
            # https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html
            self._set_cooldown(
                way, DEFAULT_COOLDOWN_SECONDS if seconds is None else int(seconds), name
            )
        self.not_carried += fields.list_not_carried({})

    def _set_cooldown(self, way: str, seconds: int, policy: str) -> None:
        known = self._cooldowns.setdefault(f"scale_{way.lower()}_cooldown_seconds", seconds)
        if known != seconds:
            reason = f"all policies of a variant have one cooldown; the file has {known} s"
            self._note_not_carried(f"{policy}: cooldown {way.lower()}", seconds, reason, "changed")

    def _convert_steps(self, policy: Described, steps: Described) -> None:
        assert self.table is not None
        name = policy["PolicyName"]
        fields = LiveFields(
            f"{self._where}: {name}",
            steps,
            known={"AdjustmentType": "ChangeInCapacity", "MetricAggregationType": "Average"},
        )
        alarms = [self._alarms.get(each["AlarmName"]) for each in policy.get("Alarms") or []]
        alarm = alarms[0] if alarms else None
        if alarm is not None and alarm.get("MetricName") == "HasBacklogWithoutCapacity":
            return  # an asynchronous variant whose minimum is 0 has such a policy of ours
        way = None if alarm is None else _find_direction(alarm)
        changes = [int(step["ScalingAdjustment"]) for step in steps["StepAdjustments"]]
        # More instances above a number of requests, fewer below one.
        against = any(change == 0 or (change > 0) != (way == "above") for change in changes)
        if alarm is None or way is None or against or fields.peek("AdjustmentType"):
            seen = alarm and alarm.get("MetricName")
            reason = (
                "steps of [scaling] add or remove a number of instances by InvocationsPerInstance per "
                "minute; this policy has a different adjustment or alarm, or its alarm is missing"
            )
            self._note_not_carried(name, seen, reason)
            return
        for step in fields.take("StepAdjustments"):
            near = "MetricIntervalLowerBound" if way == "above" else "MetricIntervalUpperBound"
            bound = float(alarm["Threshold"]) + float(step.get(near) or 0)
            self.table.setdefault("steps", []).append(
                {
                    f"{way}_rps": _convert_unit(bound, 1 / 60),
                    "change": int(step["ScalingAdjustment"]),
                }
            )
        seconds = int(fields.take("Cooldown") or DEFAULT_COOLDOWN_SECONDS)
        self._set_cooldown("Out", seconds, name)
        minutes = int(alarm["EvaluationPeriods"]) * int(alarm["Period"]) // 60
        ours = STEP_MINUTES_ABOVE if way == "above" else STEP_MINUTES_BELOW
        if minutes != ours:
            reason = f"the alarm of the steps looks at {ours} minutes"
            self._note_not_carried(
                f"{name}: {alarm['AlarmName']}", f"{minutes} minutes", reason, "changed"
            )
        self.not_carried += fields.list_not_carried({})

    def _convert_schedule(self, action: Described) -> None:
        assert self.table is not None
        fields = self._build_fields(action)
        entry: dict[str, Any] = {"at": fields.take("Schedule")}
        if zone := fields.take("Timezone"):
            entry["timezone"] = zone
        for key, bound in (("at_least", "MinCapacity"), ("at_most", "MaxCapacity")):
            value = fields.take("ScalableTargetAction", bound)
            if value is not None:
                entry[key] = int(value)
        self.table.setdefault("schedule", []).append(entry)
        self.not_carried += fields.list_not_carried({})


def _is_backlog(metric: Mapping[str, Any]) -> bool:
    return (
        metric.get("MetricName") == "ApproximateBacklogSizePerInstance"
        and metric.get("Statistic") == "Average"
        and [each["Name"] for each in metric.get("Dimensions") or []] == ["EndpointName"]
    )


def _find_direction(alarm: Described) -> str | None:
    """Return "above" or "below" for an alarm that steps of [scaling] create; otherwise None."""
    if (alarm.get("MetricName"), alarm.get("Statistic")) != ("InvocationsPerInstance", "Sum"):
        return None
    if alarm.get("Period") != 60:
        return None
    return {"GreaterThan": "above", "LessThan": "below"}.get(
        str(alarm["ComparisonOperator"]).removesuffix("Threshold").removesuffix("OrEqualTo")
    )


def _convert_unit(value: float, unit: float) -> float:
    """Return the value in the key's unit, so that converting it back returns the same value."""
    number = value * unit
    for candidate in (
        round(number, 9),
        number,
        math.nextafter(number, 0),
        math.nextafter(number, 1e9),
    ):
        if candidate / unit == value or (unit == 1 / 60 and candidate * 60 == value):
            return candidate
    return number
