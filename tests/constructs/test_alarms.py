"""Alarms are written in milliseconds and percent, and emitted in what CloudWatch holds."""

import json
from collections.abc import Callable
from typing import Any

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
ALARMS = VALID + "[alarms]\np99_latency_ms = 100\n"


def alarms(found: Synthesised) -> list[dict[str, Any]]:
    return found.all("AWS::CloudWatch::Alarm")


def alarm(found: Synthesised, metric: str) -> dict[str, Any]:
    (one,) = [one for one in found.all("AWS::CloudWatch::Alarm") if one.get("MetricName") == metric]
    return one


def test_thresholds_are_in_the_units_that_sagemaker_publishes(synthesise: Synthesise) -> None:
    assert alarm(synthesise(ALARMS), "ModelLatency")["Threshold"] == 100_000
    assert alarm(synthesise(ALARMS), "ModelLatency")["ExtendedStatistic"] == "p99"
    assert alarm(synthesise(ALARMS), "OverheadLatency")["Statistic"] == "Average"
    assert alarm(synthesise(ALARMS), "Invocation5XXErrors")["Threshold"] == 0.01


def test_every_alarm_sleeps_without_traffic_and_tells_the_topic(synthesise: Synthesise) -> None:
    for metric in ["ModelLatency", "OverheadLatency", "Invocation5XXErrors"]:
        assert alarm(synthesise(ALARMS), metric)["TreatMissingData"] == "notBreaching"

        found = synthesise(ALARMS)
        (topic,) = found.ids("AWS::SNS::Topic")
        assert alarm(found, metric)["AlarmActions"] == [{"Ref": topic}]


def test_what_nobody_asks_for_is_not_watched(synthesise: Synthesise) -> None:
    assert sorted(one["AlarmName"] for one in alarms(synthesise())) == [
        "ranker-primary-5xx",
        "ranker-primary-cpu",
        "ranker-primary-disk",
        "ranker-primary-memory",
        "ranker-primary-overhead-latency",
        "ranker-queue-refused",
    ]
    assert "ModelLatency" not in {one.get("MetricName") for one in alarms(synthesise())}


def test_percent_of_a_machine_is_percent_of_each_core_and_of_a_gpu_that_it_has(
    synthesise: Synthesise,
) -> None:
    for machine, metric, threshold in [
        ("ml.c5.xlarge", "CPUUtilization", 90 * 4),
        ("ml.c5.4xlarge", "CPUUtilization", 90 * 16),
        ("ml.c5.4xlarge", "MemoryUtilization", 90),
        ("ml.c5.4xlarge", "DiskUtilization", 80),
        ("ml.g4dn.12xlarge", "GPUUtilization", 95 * 4),
        ("ml.g4dn.12xlarge", "GPUMemoryUtilization", 80 * 4),
    ]:
        text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
        if ".g4dn" in machine:
            text = text.replace("[alarms]", "container = { tfs_processes = 4 }\n[alarms]")
        found = synthesise(text, **{"ml.c5.xlarge": machine})
        assert alarm(found, metric)["Threshold"] == threshold
    text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
    assert not [one for one in alarms(synthesise(text)) if "gpu" in one["AlarmName"]]


def test_every_alarm_says_when_it_can_fire_and_where_its_runbook_is(synthesise: Synthesise) -> None:
    for text in [VALID, ALARMS]:
        for one in alarms(synthesise(text)):
            kind = one["AlarmName"].removeprefix("ranker-").removeprefix("primary-")
            fires, _, rest = one["AlarmDescription"].partition(" First: ")
            earliest = (
                f"{one['DatapointsToAlarm']} min after the first minute that shows it begins."
            )
            assert fires.endswith(f"Fires at the earliest {earliest}")
            assert rest.endswith(f" Runbook: docs/runbook.md#{kind}")

    text = VALID + '[alarms]\nrunbook = "https://wiki.example.com/ranker"\n'
    said = [one["AlarmDescription"] for one in alarms(synthesise(text))]
    assert all("Runbook: https://wiki.example.com/ranker#" in one for one in said)


def test_one_composite_pages_for_what_breaks_the_objective(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS)
    rule = json.dumps(found.one("AWS::CloudWatch::CompositeAlarm")["AlarmRule"])
    ids = found.template["Resources"]
    named = [ids[one]["Properties"]["AlarmName"] for one in ids if f'"{one}"' in rule]
    assert sorted(named) == ["ranker-primary-5xx", "ranker-primary-p99-latency"]

    found = synthesise(VALID + '[alarms]\npage = ["https://pager.example.com/hook"]\n')
    (subscription,) = found.all("AWS::SNS::Subscription")
    told = [
        one["AlarmActions"]
        for one in [*alarms(found), found.one("AWS::CloudWatch::CompositeAlarm")]
        if one["AlarmActions"] == [subscription["TopicArn"]]
    ]
    assert len(told) == 1

    found = synthesise()
    (topic,) = found.ids("AWS::SNS::Topic")
    assert found.one("AWS::CloudWatch::CompositeAlarm")["AlarmActions"] == [{"Ref": topic}]


def test_all_instances_in_use_counts_where_scaling_has_room(synthesise: Synthesise) -> None:
    scaling = "max_instances = 3\n[variants.primary.scaling]\nmax_rps_per_instance = 10\n"
    (found,) = [one for one in alarms(synthesise(VALID + scaling)) if "at-max" in one["AlarmName"]]
    assert (found["Threshold"], found["EvaluationPeriods"]) == (2.5, 10)

    scaling = "min_instances = 2\nmax_instances = 2\n[variants.primary.scaling]\n"
    found = synthesise(VALID + scaling + "max_rps_per_instance = 10\n")
    assert not [one for one in alarms(found) if "at-max" in one["AlarmName"]]


def test_no_traffic_is_no_data_and_then_alarms(synthesise: Synthesise) -> None:
    text = VALID + "[alarms]\nno_traffic_minutes = 15\n"
    (found,) = [one for one in alarms(synthesise(text)) if "traffic" in one["AlarmName"]]
    assert (found["TreatMissingData"], found["EvaluationPeriods"]) == ("breaching", 15)


def test_who_publishes_to_the_topic_may_use_its_key_for_that_and_nothing_else(
    synthesise: Synthesise,
) -> None:
    policy = synthesise().one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [one["Principal"] for one in policy if one["Effect"] == "Allow"]
    assert {"Service": "cloudwatch.amazonaws.com"} in allowed

    policy = synthesise().one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    (events,) = [one for one in policy if one["Principal"] == {"Service": "events.amazonaws.com"}]
    assert "Condition" not in events
    for service in ["cloudwatch", "events"]:
        policy = synthesise().one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
        (actions,) = [
            one["Action"]
            for one in policy
            if one["Principal"] == {"Service": f"{service}.amazonaws.com"}
        ]
        assert actions == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_every_address_is_subscribed(synthesise: Synthesise) -> None:
    text = VALID + '[alarms]\nnotify = ["a@example.com", "b@example.com"]\n'
    subscribed = [one["Endpoint"] for one in synthesise(text).all("AWS::SNS::Subscription")]
    assert subscribed == ["a@example.com", "b@example.com"]


def test_every_alarm_draws_its_line_on_the_dashboard(synthesise: Synthesise) -> None:
    for line in [
        "alarm: p99 latency above 100 ms",
        "alarm: mean latency that SageMaker adds above 500 ms",
        "alarm: requests answered 5xx above 1 %",
        "alarm: CPU above 90 %",
        "alarm: requests a minute rejected by a full queue above 10",
    ]:
        body = synthesise(ALARMS).one("AWS::CloudWatch::Dashboard")["DashboardBody"]
        assert line in "".join(part for part in body["Fn::Join"][1] if isinstance(part, str))


def test_a_percentile_of_few_requests_is_judged_and_says_so(synthesise: Synthesise) -> None:
    for percentile in ["p50", "p90", "p99"]:
        text = VALID + f"[alarms]\n{percentile}_latency_ms = 100\n"
        assert (
            alarm(synthesise(text), "ModelLatency")["EvaluateLowSampleCountPercentile"]
            == "evaluate"
        )
    for percentile, least in [("p50", "20"), ("p90", "100"), ("p99", "1,000")]:
        text = VALID + f"[alarms]\n{percentile}_latency_ms = 100\n"
        said = alarm(synthesise(text), "ModelLatency")["AlarmDescription"]
        assert (
            f"With fewer than {least} requests in that time {percentile} depends on a few" in said
        )

    found = synthesise(ALARMS + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    (rollback,) = [one for one in alarms(found) if "-rollback-primary-latency-" in one["AlarmName"]]
    assert rollback["EvaluateLowSampleCountPercentile"] == "evaluate"
    assert "With fewer than 1,000 requests in that time p99" in rollback["AlarmDescription"]

    found = alarm(synthesise(ALARMS), "Invocation5XXErrors")
    assert "EvaluateLowSampleCountPercentile" not in found
    assert "With fewer" not in found["AlarmDescription"]


def detail(found: Synthesised, detail_type: str) -> dict[str, Any]:
    (pattern,) = [
        one["EventPattern"]
        for one in found.all("AWS::Events::Rule")
        if one["EventPattern"]["detail-type"] == [detail_type]
    ]
    matched: dict[str, Any] = pattern["detail"]
    return matched


def test_an_update_and_a_state_not_of_scaling_are_told(synthesise: Synthesise) -> None:
    assert detail(synthesise(), "SageMaker Endpoint Deployment State Change") == {
        "EndpointName": ["ranker"],
        "PendingDeploymentSummary": {"EndpointConfigName": [{"exists": True}]},
    }
    assert detail(synthesise(), "SageMaker Endpoint State Change") == {
        "EndpointName": ["ranker"],
        "$or": [
            {"EndpointStatus": [{"anything-but": ["UPDATING", "IN_SERVICE"]}]},
            {"FailureReason": [{"exists": True}]},
        ],
    }


def test_alarms_are_created_after_the_endpoint(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS)
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    waits = [
        resource.get("DependsOn")
        for resource in found.template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    ]
    assert len(waits) > 5
    assert all(each == [endpoint] for each in waits)
