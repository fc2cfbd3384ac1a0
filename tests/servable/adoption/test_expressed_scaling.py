"""A variant's live target, policies and scheduled actions as keys of [scaling]."""

from typing import Any

from servable.init.adoption.expressed_scaling import ExpressedScaling
from tests.servable.adoption import snapshots
from tests.servable.adoption.snapshots import Row, alarm, convert, snapshot, target, tracking

ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
BY_REQUESTS = {"max_rps_per_instance": 1000 / 60, "safety_factor": 1.0}
COOLDOWNS = {"scale_out_cooldown_seconds": 300, "scale_in_cooldown_seconds": 300}
UP = (
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 300, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 300, "ScalingAdjustment": 3},
)
DOWN = (
    {"MetricIntervalUpperBound": 0, "MetricIntervalLowerBound": -120, "ScalingAdjustment": -1},
    {"MetricIntervalUpperBound": -120, "ScalingAdjustment": -2},
)


def scaling(**live: Any) -> ExpressedScaling:
    return ExpressedScaling(snapshot(**{"targets": [target()], **live}), "ranker", "AllTraffic")


def rows(result: ExpressedScaling) -> list[Row]:
    return snapshots.rows(result, "scaling of AllTraffic")


def steps(*adjustments: dict[str, int], **more: Any) -> dict[str, Any]:
    """A step policy, which the alarm `steps` triggers."""
    configuration = {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Average",
        "StepAdjustments": list(adjustments),
        "Cooldown": 60,
        **more,
    }
    return snapshots.TARGET | {
        "PolicyName": "stepped",
        "PolicyType": "StepScaling",
        "StepScalingPolicyConfiguration": configuration,
        "Alarms": [{"AlarmName": "steps"}],
    }


def requests_above(threshold: float = 600.0, **more: Any) -> dict[str, Any]:
    named = {"AlarmName": "steps", "ComparisonOperator": "GreaterThanOrEqualToThreshold"}
    return alarm("InvocationsPerInstance", "Sum", threshold, **{**named, **more})


def test_only_a_target_of_the_variant_in_any_case_is_its_scaling() -> None:
    result = scaling(targets=[], policies=[tracking()])
    assert (result.table, result.bounds, rows(result)) == (None, None, [])
    components = target(ScalableDimension="sagemaker:inference-component:DesiredCopyCount")
    assert scaling(targets=[components], policies=[tracking()]).table is None
    other = {"ResourceId": "endpoint/ranker/variant/Other"}
    result = scaling(
        targets=[target(), target(MaxCapacity=9, **other)],
        policies=[tracking(), tracking(value=60.0) | other],
        scheduled=[target(Schedule="rate(1 day)", **other)],
    )
    assert (result.table, result.bounds) == (BY_REQUESTS | COOLDOWNS, (1, 4))
    result = scaling(targets=[target(ResourceId="endpoint/Ranker/variant/alltraffic")])
    assert result.bounds == (1, 4)


def test_a_target_bounds_the_instances_and_what_else_it_says_is_listed() -> None:
    result = scaling()
    assert (result.table, rows(result)) == (None, [("", (1, 4), "none")])
    table = convert(targets=[target()]).tables["variants"]["AllTraffic"]
    assert (table["min_instances"], "scaling" in table) == (2, False)
    bounds = target(MinCapacity=2, MaxCapacity=6)
    for initial, stated in ((2, 2), (1, None)):
        scaled = {"targets": [bounds], "policies": [tracking()]}
        tables = convert(variant={"InitialInstanceCount": initial}, **scaled).tables
        table = tables["variants"]["AllTraffic"]
        keys = ("min_instances", "max_instances", "initial_instances")
        assert [table.get(key) for key in keys] == [2, 6, stated]
    held = ("DynamicScalingInSuspended", "ScheduledScalingSuspended")
    suspended = {"DynamicScalingOutSuspended": False} | dict.fromkeys(held, True)
    cases: list[tuple[dict[str, Any], list[tuple[str, object, str]]]] = [
        ({"RoleARN": f"arn:aws:iam::1:role/aws-service-role/x/{ROLE}"}, []),
        ({"RoleARN": "arn:aws:iam::1:role/own"}, [("RoleARN", "arn:aws:iam::1:role/own", "none")]),
        ({"SuspendedState": suspended}, [("SuspendedState", ", ".join(held), "changed")]),
        ({"SuspendedState": {"DynamicScalingInSuspended": False}}, []),
        ({"NewField": 7}, [("NewField", 7, "lost")]),
    ]
    for fields, listed in cases:
        result = scaling(targets=[target(**fields)], policies=[tracking()])
        kept = ("by-hand: TargetValue", 1000.0, "none")
        assert rows(result) == [*listed, kept]


def test_a_tracked_metric_or_backlog_is_a_key_in_the_file_s_unit() -> None:
    by_concurrency = {"max_concurrency_per_instance": 4.0, "safety_factor": 1.0}
    for metric, value, table in (
        ("InvocationsPerInstance", 1000.0, BY_REQUESTS),
        ("ConcurrentRequestsPerModelHighResolution", 4.0, by_concurrency),
        # 0.57 times 100 isn't 57.0
        ("ProvisionedConcurrencyUtilization", 0.57, {"provisioned_use_percent": 57.0}),
    ):
        result = scaling(policies=[tracking(f"SageMakerVariant{metric}", value)])
        listed = [("by-hand: TargetValue", value, "none")] * ("safety_factor" in table)
        assert (result.table, rows(result)) == (table | COOLDOWNS, listed)

    result = scaling(policies=[backlog()])
    assert result.table == {"max_backlog_per_instance": 5.0, "safety_factor": 1.0} | COOLDOWNS
    kept = ("by-hand: TargetValue", 5.0, "none")
    wakes = alarm("HasBacklogWithoutCapacity", "Average", 1.0, AlarmName="steps")
    result = scaling(policies=[backlog(), steps(*UP)], alarms=[wakes])
    assert (rows(result), result.step_alarms) == ([kept], {"steps"})


def backlog(**changed: Any) -> dict[str, Any]:
    metric = {
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Namespace": "AWS/SageMaker",
        "Statistic": "Average",
        "Dimensions": [{"Name": "EndpointName", "Value": "ranker"}],
        **changed,
    }
    policy = tracking(value=5.0, CustomizedMetricSpecification=metric)
    del policy["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"]
    return policy


def test_what_no_key_tracks_and_other_cooldowns_are_listed() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (backlog(MetricName="CPUUtilization"), "CPUUtilization"),
        (backlog(Statistic="Maximum"), "ApproximateBacklogSizePerInstance"),
        (backlog(Dimensions=[]), "ApproximateBacklogSizePerInstance"),
        (tracking("SageMakerVariantOther"), "SageMakerVariantOther"),
        (tracking() | {"PolicyName": "again"}, "SageMakerVariantInvocationsPerInstance"),
    ]
    for policy, metric in cases:
        result = scaling(policies=[tracking(), policy])
        assert result.table == BY_REQUESTS | COOLDOWNS
        assert rows(result)[1:] == [(policy["PolicyName"], metric, "lost")]

    concurrent = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    second = tracking(concurrent, 4.0, ScaleOutCooldown=30, ScaleInCooldown=0)
    second["PolicyName"] = "second"
    result = scaling(policies=[tracking(ScaleOutCooldown=60, ScaleInCooldown=0), second])
    table = result.table or {}
    assert (table["scale_out_cooldown_seconds"], table["scale_in_cooldown_seconds"]) == (60, 0)
    assert ("second: cooldown out", 30, "changed") in rows(result)
    assert len(rows(result)) == 3
    result = scaling(policies=[tracking(DisableScaleIn=True)])
    assert rows(result)[1:] == [("by-hand: DisableScaleIn", True, "lost")]
    assert len(rows(scaling(policies=[tracking(DisableScaleIn=False)]))) == 1
    policy = snapshots.TARGET | {"PolicyName": "by-hand", "PolicyType": "PredictiveScaling"}
    assert rows(scaling(policies=[policy])) == [("by-hand", "PredictiveScaling", "lost")]


def test_steps_add_instances_above_their_bound_and_remove_them_below() -> None:
    result = scaling(policies=[steps(*UP)], alarms=[requests_above()])
    assert result.table == {
        "steps": [{"above_rps": 10.0, "change": 1}, {"above_rps": 15.0, "change": 3}],
        "scale_out_cooldown_seconds": 60,
    }
    assert (rows(result), result.step_alarms) == ([], {"steps"})
    below = requests_above(180.0, ComparisonOperator="LessThanThreshold", EvaluationPeriods=15)
    result = scaling(policies=[steps(*DOWN)], alarms=[below])
    assert (result.table or {})["steps"] == [
        {"below_rps": 3.0, "change": -1}, {"below_rps": 1.0, "change": -2}]  # fmt: skip
    assert rows(result) == []
    result = scaling(policies=[steps(*UP, MinAdjustmentMagnitude=2)], alarms=[requests_above()])
    assert rows(result) == [("stepped: MinAdjustmentMagnitude", 2, "lost")]

    window = requests_above(EvaluationPeriods=4)
    result = scaling(policies=[steps(*UP, Cooldown=0)], alarms=[window])
    assert rows(result) == [("stepped: steps", "4 minutes", "changed")]
    assert (result.table or {})["scale_out_cooldown_seconds"] == 300
    below = requests_above(ComparisonOperator="LessThanThreshold")
    result = scaling(policies=[steps(*DOWN)], alarms=[below])
    assert rows(result) == [("stepped: steps", "3 minutes", "changed")]


def test_steps_that_no_key_makes_are_listed_and_scaling_alarms_are_no_others() -> None:
    above, metric = requests_above(), "InvocationsPerInstance"
    no_change = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 0}
    cases: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        (steps(*DOWN), above, metric),
        (steps(*UP), requests_above(ComparisonOperator="LessThanThreshold"), metric),
        (steps(no_change), above, metric),
        (steps(*UP, AdjustmentType="PercentChangeInCapacity"), above, metric),
        (steps(*UP), requests_above(MetricName="CPUUtilization"), "CPUUtilization"),
        (steps(*UP), requests_above(Statistic="Average"), metric),
        (steps(*UP), requests_above(Period=30), metric),
        (steps(*UP), requests_above(ComparisonOperator="GreaterThanUpperThreshold"), metric),
        (steps(*UP), alarm("Other", "Sum", 1.0), None),
        (steps(*UP) | {"Alarms": []}, above, None),
    ]
    for policy, trigger, seen in cases:
        result = scaling(policies=[policy], alarms=[trigger])
        assert (result.table, rows(result)) == (None, [("stepped", seen, "lost")])

    alarms = [requests_above(), alarm("Other", "Sum", 1.0, AlarmName="TargetTracking-x")]
    result = convert(targets=[target()], policies=[steps(*UP)], alarms=alarms)
    assert "alarms" not in result.tables
    assert [row.where for row in result.not_carried if row.where.startswith("alarm ")] == []


def test_a_scheduled_action_is_an_entry_of_the_schedule() -> None:
    morning = {
        "ResourceId": "endpoint/ranker/variant/AllTraffic", "ScheduledActionName": "morning",
        "Schedule": "cron(0 7 ? * MON-FRI *)", "Timezone": "Europe/Berlin",
        "ScalableTargetAction": {"MinCapacity": 4},
    }  # fmt: skip
    night = morning | {"Schedule": "rate(1 day)", "ScalableTargetAction": {"MaxCapacity": 2},
                       "Timezone": None, "StartTime": "2026-12-01"}  # fmt: skip
    result = scaling(scheduled=[morning, night])
    assert (result.table or {})["schedule"] == [
        {"at": "cron(0 7 ? * MON-FRI *)", "timezone": "Europe/Berlin", "at_least": 4},
        {"at": "rate(1 day)", "at_most": 2},
    ]
    assert rows(result) == [("StartTime", "2026-12-01", "lost")]
