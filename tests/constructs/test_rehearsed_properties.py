"""What a rehearsal evaluates is what the template deploys."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.parameters.loading import ValidFile
from infra.parameters.placement import find_placement
from infra.parameters.scaling_properties import ScalingProperties, build_scaling_properties
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised

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


@pytest.fixture(params=[TEXT, SLEEPING], ids=["instances", "asleep"])
def both(
    request: pytest.FixtureRequest, synthesise: Callable[..., Synthesised], environment: Environment
) -> tuple[Synthesised, ScalingProperties]:
    template = synthesise(request.param)
    loaded = environment(request.param)
    assert isinstance(loaded, ValidFile)
    placed = find_placement(loaded.environment, "primary")
    assert placed is not None
    return template, build_scaling_properties(loaded.environment, placed)


def by_text(several: Any) -> list[str]:
    return sorted(repr(ordered(one)) for one in several)


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, ordered(one)) for key, one in value.items())
    if isinstance(value, list):
        return sorted((ordered(one) for one in value), key=repr)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_policies_bounds_and_alarms_are_the_templates(
    both: tuple[Synthesised, ScalingProperties],
) -> None:
    def configured(several: Any) -> list[str]:
        return by_text({kind: one[kind] for kind in KINDS if kind in one} for one in several)

    template, found = both
    assert configured(found.policies.values()) == configured(template.all(POLICY))

    def bounded(one: Any) -> list[Any]:
        actions = [
            {key: value for key, value in each.items() if key != "ScheduledActionName"}
            for each in one.get("ScheduledActions", ())
        ]
        return [one["MinCapacity"], one["MaxCapacity"], one["ScalableDimension"], actions]

    template, found = both
    (target,) = found.targets.values()
    assert bounded(target) == bounded(template.one("AWS::ApplicationAutoScaling::ScalableTarget"))

    template, found = both
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
