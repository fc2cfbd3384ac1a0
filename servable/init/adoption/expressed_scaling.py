"""Convert a variant's scalable target, policies, and schedule to [variants.NAME.scaling]."""

import math
from collections.abc import Sequence
from typing import Any

from infra.policy.derived_settings import (
    DEFAULT_COOLDOWN_SECONDS,
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
)
from infra.policy.execution_policy import SCALING_ROLE
from servable.init.adoption.live_fields import Listed, LiveFields
from servable.init.adoption.live_snapshot import Described, LiveSnapshot

_COUNTS = (
    "sagemaker:variant:DesiredInstanceCount",
    "sagemaker:variant:DesiredProvisionedConcurrency",
)
_IDENTITY = dict.fromkeys(
    ("ServiceNamespace", "ResourceId", "ScalableDimension", "CreationTime", "ScheduledActionARN",
     "ScheduledActionName", "ScalableTargetARN", "PredictedCapacity")
)  # fmt: skip
# Metric -> key of the table, and the factor from the metric's unit to the key's: a request per minute and
# second, a share and percent.
_PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": ("max_rps_per_instance", 1 / 60),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": ("max_concurrency_per_instance", 1),
    "SageMakerVariantProvisionedConcurrencyUtilization": ("provisioned_use_percent", 100),
}
_BACKLOG = {"MetricName": "ApproximateBacklogSizePerInstance", "Statistic": "Average"}
_SAFETY = "safety_factor is 1 to keep the target, because an instance's maximum is unknown"
# Operator of the alarm of a step policy -> what the steps are above or below, their near bound, and the
# minutes that the alarm of [scaling] evaluates.
_DIRECTIONS = {
    "GreaterThan": ("above", "MetricIntervalLowerBound", STEP_MINUTES_ABOVE),
    "LessThan": ("below", "MetricIntervalUpperBound", STEP_MINUTES_BELOW),
}


class ExpressedScaling:
    """The scaling of one variant as keys. `table` is None if the variant doesn't scale."""

    def __init__(self, snapshot: LiveSnapshot, endpoint: str, variant: str) -> None:
        self.table: dict[str, Any] | None = None
        self.bounds: tuple[int, int] | None = None
        """Minimum and maximum of the target: instances, or provisioned concurrency."""
        self.not_carried = Listed()
        self.step_alarms: set[str] = set()
        """Names of alarms that [scaling] creates again."""
        self._keys: dict[str, Any] = {}
        self._cooldowns: dict[str, int] = {}
        self._alarms = {alarm["AlarmName"]: alarm for alarm in snapshot.alarms}
        self._where = f"scaling of {variant}"
        resource = f"endpoint/{endpoint}/variant/{variant}".lower()

        def select_own(described: Sequence[Described]) -> list[Described]:
            return [each for each in described if each["ResourceId"].lower() == resource]

        for target in select_own(snapshot.targets):
            if target["ScalableDimension"] in _COUNTS:
                self._convert_target(self._build_fields(target))
        if self.bounds is None:
            return
        for policy in select_own(snapshot.policies):
            self._convert_policy(policy)
        for action in select_own(snapshot.scheduled):
            self._convert_schedule(self._build_fields(action))
        if self._keys:
            self.table = self._keys | self._cooldowns
        elif not self.not_carried:
            reason = "a target without a policy doesn't scale; the number of instances is fixed"
            self.not_carried.note(self._where, self.bounds, reason, "none")

    def _build_fields(self, described: Described) -> LiveFields:
        return LiveFields(self._where, described, self.not_carried, _IDENTITY)

    def _convert_target(self, fields: LiveFields) -> None:
        self.bounds = int(fields.take("MinCapacity")), int(fields.take("MaxCapacity"))
        role = fields.take("RoleARN")
        if role and not role.endswith(f"/{SCALING_ROLE}"):
            fields.note("RoleARN", role, "the service-linked role is used instead", "none")
        state = fields.take("SuspendedState") or {}
        if suspended := [name for name, value in state.items() if value]:
            reason = "suspended manually; to keep the number of instances, set scaling.hold = true"
            fields.note("SuspendedState", ", ".join(suspended), reason)
        fields.note_rest()

    def _convert_policy(self, policy: Described) -> None:
        where = f"{self._where}: {policy['PolicyName']}"
        names = [alarm["AlarmName"] for alarm in policy.get("Alarms") or []]
        self.step_alarms |= {*names}
        if (tracked := policy.get("TargetTrackingScalingPolicyConfiguration")) is not None:
            known: dict[str, Any] = {"DisableScaleIn": False}
            self._convert_tracking(where, LiveFields(where, tracked, self.not_carried, known))
        elif (steps := policy.get("StepScalingPolicyConfiguration")) is not None:
            alarm = self._alarms.get(names[0], {}) if names else {}
            # Servable creates such a policy for an asynchronous variant whose minimum is 0.
            if alarm.get("MetricName") != "HasBacklogWithoutCapacity":
                self._convert_steps(where, steps, alarm)
        else:
            reason = "no key creates this kind of policy"
            self.not_carried.note(where, policy["PolicyType"], reason, "lost")

    def _convert_tracking(self, where: str, fields: LiveFields) -> None:
        custom = fields.take("CustomizedMetricSpecification") or {}
        metric = fields.take("PredefinedMetricSpecification.PredefinedMetricType")
        key, unit = _PREDEFINED.get(str(metric), ("", 1.0))
        dimensions = [each["Name"] for each in custom.get("Dimensions") or []]
        if custom.items() >= _BACKLOG.items() and dimensions == ["EndpointName"]:
            key, unit = "max_backlog_per_instance", 1
        if not key or key in self._keys:
            reason = "no key of [scaling] tracks this metric, or another policy tracks it already"
            self.not_carried.note(where, metric or custom.get("MetricName"), reason, "lost")
            return
        value = float(fields.take("TargetValue"))
        self._keys[key] = _convert_unit(value, unit)
        if key != "provisioned_use_percent":
            self._keys["safety_factor"] = 1.0
            fields.note("TargetValue", value, _SAFETY, "none")
        for way in ("Out", "In"):
            self._set_cooldown(fields, way, fields.take(f"Scale{way}Cooldown"))
        fields.note_rest()

    def _set_cooldown(self, fields: LiveFields, way: str, live: int | None) -> None:
        # https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html
        seconds = DEFAULT_COOLDOWN_SECONDS if live is None else int(live)
        first = self._cooldowns.setdefault(f"scale_{way.lower()}_cooldown_seconds", seconds)
        if first != seconds:
            reason = f"all policies of a variant share one cooldown; the file has {first} s"
            fields.note(f"cooldown {way.lower()}", seconds, reason)

    def _convert_steps(self, where: str, live: Described, alarm: Described) -> None:
        """Convert a step policy. `alarm`: the one that triggers it, or {}."""
        known = {"AdjustmentType": "ChangeInCapacity", "MetricAggregationType": "Average"}
        fields = LiveFields(where, live, self.not_carried, known)
        steps = fields.take("StepAdjustments")
        changes = [int(step["ScalingAdjustment"]) for step in steps]
        operator = str(alarm.get("ComparisonOperator")).removesuffix("Threshold")
        direction = _DIRECTIONS.get(operator.removesuffix("OrEqualTo"))
        shape = (alarm.get("MetricName"), alarm.get("Statistic"), alarm.get("Period"))
        # More instances above a number of requests, fewer below one.
        signs = {(change > 0) - (change < 0) for change in changes}
        expressible = (
            shape == ("InvocationsPerInstance", "Sum", 60)
            and not fields.take("AdjustmentType")
            and direction is not None
            and signs <= {1 if direction[0] == "above" else -1}
        )
        if direction is None or not expressible:
            reason = (
                "steps of [scaling] add or remove a number of instances by InvocationsPerInstance per "
                "minute; this policy has a different adjustment or alarm, or its alarm is missing"
            )
            self.not_carried.note(where, alarm.get("MetricName"), reason, "lost")
            return
        way, near, ours = direction
        for step, change in zip(steps, changes, strict=True):
            rps = _convert_unit(float(alarm["Threshold"]) + float(step.get(near) or 0), 1 / 60)
            self._keys.setdefault("steps", []).append({f"{way}_rps": rps, "change": change})
        self._set_cooldown(fields, "Out", fields.take("Cooldown") or None)
        minutes = int(alarm["EvaluationPeriods"]) * int(alarm["Period"]) // 60
        if minutes != ours:
            reason = f"the alarm of the steps evaluates {ours} minutes"
            fields.note(alarm["AlarmName"], f"{minutes} minutes", reason)
        fields.note_rest()

    def _convert_schedule(self, fields: LiveFields) -> None:
        bound = "ScalableTargetAction.{}Capacity".format
        entry = fields.take_keys({"at": "Schedule", "timezone": "Timezone",
                                  "at_least": bound("Min"), "at_most": bound("Max")})  # fmt: skip
        self._keys.setdefault("schedule", []).append(entry)
        fields.note_rest()


def _convert_unit(value: float, unit: float) -> float:
    """Return the value in the key's unit, so that converting it back returns the same value."""
    number = value * unit
    neighbors = math.nextafter(number, 0), math.nextafter(number, math.inf)
    for candidate in (round(number, 9), number, *neighbors):
        if candidate / unit == value or (unit == 1 / 60 and candidate * 60 == value):
            return candidate
    return number


def convert_capacity(
    fields: LiveFields, running: Described, scaling: ExpressedScaling
) -> dict[str, Any]:
    """Return a variant's keys of its instances, or of its serverless containers."""
    if (live := fields.take("ServerlessConfig")) is not None:
        table = {"memory_mib": live["MemorySizeInMB"], "max_concurrency": live["MaxConcurrency"]}
        if (provisioned := live.get("ProvisionedConcurrency")) is not None:
            table["provisioned_concurrency"] = provisioned
        if scaling.bounds is not None:
            table["provisioned_concurrency"], table["max_provisioned_concurrency"] = scaling.bounds
        return {"serverless": table}
    initial = int(fields.take("InitialInstanceCount") or 1)
    if scaling.table is not None and scaling.bounds is not None:
        least, most = scaling.bounds
        keys = {"min_instances": least, "max_instances": most}
        return keys if initial == 1 else {**keys, "initial_instances": initial}
    now = running.get("DesiredInstanceCount") or running.get("CurrentInstanceCount")
    count = int(now or initial)
    if count != initial:
        reason = "a different number of instances is running; the file has the running number"
        fields.note("InitialInstanceCount", initial, reason)
    return {"min_instances": count}
