"""What a rehearsal evaluates is what the template deploys."""

from collections.abc import Iterable
from typing import Any

import pytest

from infra.parameters.placement import find_placement
from infra.parameters.scaling_properties import build_scaling_properties
from tests.conftest import VALID, Environment, valid
from tests.constructs.conftest import Synthesise

TEXT = (
    VALID
    + """\
min_instances = 2
max_instances = 12
[variants.primary.scaling]
max_rps_per_instance = 164
max_concurrency_per_instance = 8
safety_factor = 0.7
scale_out_cooldown_seconds = 90
steps = [
  { above_rps = 150, change = 4 }, { above_rps = 300, change = 8 }, { below_rps = 20, change = -1 },
  { below_rps = 5, change = -3 },
]
schedule = [{ at = "cron(0 7 ? * MON-FRI *)", timezone = "Europe/Berlin", at_least = 6 }]
[alarms]
p50_latency_ms = 40
p90_latency_ms = 70
p99_latency_ms = 100
"""
)
POLICY, ALARM = "AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::CloudWatch::Alarm"
KINDS = ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration")
OF_AN_ALARM = (
    "ComparisonOperator", "Threshold", "EvaluationPeriods", "DatapointsToAlarm", "TreatMissingData",
    "MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Period",
)  # fmt: skip


SLEEPING = (
    VALID + "sleep_after_minutes = 10\nmax_instances = 3\n"
    "[variants.primary.scaling]\nmax_rps_per_instance = 164\n"
)


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, ordered(one)) for key, one in value.items())
    if isinstance(value, list):
        return sorted((ordered(one) for one in value), key=repr)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def configured(policies: Iterable[Any]) -> Any:
    return ordered([{kind: one[kind] for kind in KINDS if kind in one} for one in policies])


def bounded(target: Any) -> list[Any]:
    actions = [
        {key: value for key, value in each.items() if key != "ScheduledActionName"}
        for each in target.get("ScheduledActions", ())
    ]
    return [target["MinCapacity"], target["MaxCapacity"], target["ScalableDimension"], actions]


@pytest.mark.parametrize("text", [TEXT, SLEEPING], ids=["instances", "asleep"])
def test_policies_bounds_and_alarms_are_the_templates(
    synthesise: Synthesise, environment: Environment, text: str
) -> None:
    template, loaded = synthesise(text), valid(environment(text))
    placed = find_placement(loaded.environment, "primary")
    assert placed is not None
    found = build_scaling_properties(loaded.environment, placed)
    assert configured(found.policies.values()) == configured(template.all(POLICY))
    (target,) = found.targets.values()
    assert bounded(target) == bounded(template.one("AWS::ApplicationAutoScaling::ScalableTarget"))
    deployed = {one["AlarmName"]: one for one in template.all(ALARM)}
    differ = [
        (alarm["AlarmName"], key)
        for alarm in found.alarms
        for key in OF_AN_ALARM
        # The template fills the minutes without traffic with zero; a rehearsal has a zero there.
        if not alarm["AlarmName"].endswith("steps-in") or key in ("Threshold", "ComparisonOperator")
        if alarm.get(key) != deployed[alarm["AlarmName"]].get(key)
    ]
    assert differ == []
