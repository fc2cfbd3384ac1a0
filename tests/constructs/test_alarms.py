"""Alarms are written in milliseconds and percent, and emitted in what CloudWatch holds."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
ALARMS = VALID + "[alarms]\np99_latency_ms = 100\n"


def alarms(found: Synthesised) -> list[dict[str, Any]]:
    return found.all("AWS::CloudWatch::Alarm")


def alarm(found: Synthesised, metric: str) -> dict[str, Any]:
    (one,) = [one for one in found.all("AWS::CloudWatch::Alarm") if one.get("MetricName") == metric]
    return one


def test_latency_is_typed_in_milliseconds_and_emitted_in_microseconds(
    synthesise: Synthesise,
) -> None:
    assert alarm(synthesise(ALARMS), "ModelLatency")["Threshold"] == 100_000


def test_latency_is_judged_by_its_99th_percentile(synthesise: Synthesise) -> None:
    assert alarm(synthesise(ALARMS), "ModelLatency")["ExtendedStatistic"] == "p99"


def test_overhead_is_judged_by_its_mean_for_it_has_no_percentiles(synthesise: Synthesise) -> None:
    assert alarm(synthesise(ALARMS), "OverheadLatency")["Statistic"] == "Average"


def test_5xx_is_typed_in_percent_and_emitted_as_a_share(synthesise: Synthesise) -> None:
    assert alarm(synthesise(ALARMS), "Invocation5XXErrors")["Threshold"] == 0.01


@pytest.mark.parametrize("metric", ["ModelLatency", "OverheadLatency", "Invocation5XXErrors"])
def test_no_traffic_wakes_nobody(synthesise: Synthesise, metric: str) -> None:
    assert alarm(synthesise(ALARMS), metric)["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("metric", ["ModelLatency", "OverheadLatency", "Invocation5XXErrors"])
def test_every_alarm_is_sent_to_the_topic(synthesise: Synthesise, metric: str) -> None:
    found = synthesise(ALARMS)
    (topic,) = found.ids("AWS::SNS::Topic")
    assert alarm(found, metric)["AlarmActions"] == [{"Ref": topic}]


def test_without_an_objective_there_is_no_latency_alarm(synthesise: Synthesise) -> None:
    assert "ModelLatency" not in {one.get("MetricName") for one in alarms(synthesise())}


def test_what_nobody_asks_for_is_not_watched(synthesise: Synthesise) -> None:
    assert sorted(one["AlarmName"] for one in alarms(synthesise())) == [
        "ranker-primary-5xx",
        "ranker-primary-cpu",
        "ranker-primary-disk",
        "ranker-primary-memory",
        "ranker-primary-overhead-latency",
        "ranker-queue-refused",
    ]


@pytest.mark.parametrize(
    ("machine", "metric", "threshold"),
    [
        ("ml.c5.xlarge", "CPUUtilization", 90 * 4),
        ("ml.c5.4xlarge", "CPUUtilization", 90 * 16),
        ("ml.c5.4xlarge", "MemoryUtilization", 90),
        ("ml.c5.4xlarge", "DiskUtilization", 80),
        ("ml.g4dn.12xlarge", "GPUUtilization", 95 * 4),
        ("ml.g4dn.12xlarge", "GPUMemoryUtilization", 80 * 4),
    ],
)
def test_percent_of_a_machine_is_percent_of_each_core_and_gpu(
    synthesise: Synthesise, machine: str, metric: str, threshold: float
) -> None:
    text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
    if ".g4dn" in machine:
        text = text.replace("[alarms]", "container = { tfs_processes = 4 }\n[alarms]")
    found = synthesise(text, **{"ml.c5.xlarge": machine})
    assert alarm(found, metric)["Threshold"] == threshold


def test_a_machine_without_a_gpu_has_no_alarm_of_one(synthesise: Synthesise) -> None:
    text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
    assert not [one for one in alarms(synthesise(text)) if "gpu" in one["AlarmName"]]


@pytest.mark.parametrize("text", [VALID, ALARMS], ids=["defaults", "objective"])
def test_every_alarm_says_when_it_can_fire_and_where_its_runbook_is(
    synthesise: Synthesise, text: str
) -> None:
    for one in alarms(synthesise(text)):
        kind = one["AlarmName"].removeprefix("ranker-").removeprefix("primary-")
        fires, _, rest = one["AlarmDescription"].partition(" First: ")
        earliest = f"{one['DatapointsToAlarm']} min after the first minute that shows it begins."
        assert fires.endswith(f"Fires at the earliest {earliest}")
        assert rest.endswith(f" Runbook: docs/runbook.md#{kind}")


def test_the_runbooks_address_is_the_files(synthesise: Synthesise) -> None:
    text = VALID + '[alarms]\nrunbook = "https://wiki.example.com/ranker"\n'
    said = [one["AlarmDescription"] for one in alarms(synthesise(text))]
    assert all("Runbook: https://wiki.example.com/ranker#" in one for one in said)


def test_one_composite_pages_for_what_breaks_the_objective(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS)
    rule = json.dumps(found.one("AWS::CloudWatch::CompositeAlarm")["AlarmRule"])
    ids = found.template["Resources"]
    named = [ids[one]["Properties"]["AlarmName"] for one in ids if f'"{one}"' in rule]
    assert sorted(named) == ["ranker-primary-5xx", "ranker-primary-p99-latency"]


def test_who_is_paged_is_told_of_the_composite_alone(synthesise: Synthesise) -> None:
    found = synthesise(VALID + '[alarms]\npage = ["https://pager.example.com/hook"]\n')
    (subscription,) = found.all("AWS::SNS::Subscription")
    told = [
        one["AlarmActions"]
        for one in [*alarms(found), found.one("AWS::CloudWatch::CompositeAlarm")]
        if one["AlarmActions"] == [subscription["TopicArn"]]
    ]
    assert len(told) == 1


def test_where_nobody_is_paged_who_is_informed_hears_of_the_composite(
    synthesise: Synthesise,
) -> None:
    found = synthesise()
    (topic,) = found.ids("AWS::SNS::Topic")
    assert found.one("AWS::CloudWatch::CompositeAlarm")["AlarmActions"] == [{"Ref": topic}]


def test_all_instances_in_use_is_looked_at_only_where_something_scales(
    synthesise: Synthesise,
) -> None:
    scaling = "max_instances = 3\n[variants.primary.scaling]\nmax_rps_per_instance = 10\n"
    (found,) = [one for one in alarms(synthesise(VALID + scaling)) if "at-max" in one["AlarmName"]]
    assert (found["Threshold"], found["EvaluationPeriods"]) == (2.5, 10)


def test_where_scaling_has_no_room_all_instances_in_use_is_no_news(synthesise: Synthesise) -> None:
    scaling = "min_instances = 2\nmax_instances = 2\n[variants.primary.scaling]\n"
    found = synthesise(VALID + scaling + "max_rps_per_instance = 10\n")
    assert not [one for one in alarms(found) if "at-max" in one["AlarmName"]]


def test_no_traffic_is_no_data_and_then_alarms(synthesise: Synthesise) -> None:
    text = VALID + "[alarms]\nno_traffic_minutes = 15\n"
    (found,) = [one for one in alarms(synthesise(text)) if "traffic" in one["AlarmName"]]
    assert (found["TreatMissingData"], found["EvaluationPeriods"]) == ("breaching", 15)


def test_cloudwatch_may_publish_to_the_topic(synthesise: Synthesise) -> None:
    policy = synthesise().one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [one["Principal"] for one in policy if one["Effect"] == "Allow"]
    assert {"Service": "cloudwatch.amazonaws.com"} in allowed


@pytest.mark.parametrize("service", ["cloudwatch", "events"])
def test_who_publishes_may_use_the_topics_key_for_that_and_nothing_else(
    synthesise: Synthesise, service: str
) -> None:
    policy = synthesise().one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    (actions,) = [
        one["Action"]
        for one in policy
        if one["Principal"] == {"Service": f"{service}.amazonaws.com"}
    ]
    assert actions == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_eventbridge_uses_the_topics_key_without_a_condition_for_it_sends_no_source(
    synthesise: Synthesise,
) -> None:
    policy = synthesise().one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    (events,) = [one for one in policy if one["Principal"] == {"Service": "events.amazonaws.com"}]
    assert "Condition" not in events


def test_every_address_is_subscribed(synthesise: Synthesise) -> None:
    text = VALID + '[alarms]\nnotify = ["a@example.com", "b@example.com"]\n'
    subscribed = [one["Endpoint"] for one in synthesise(text).all("AWS::SNS::Subscription")]
    assert subscribed == ["a@example.com", "b@example.com"]


@pytest.mark.parametrize(
    "line",
    [
        "alarm: p99 latency above 100 ms",
        "alarm: mean latency that SageMaker adds above 500 ms",
        "alarm: requests answered 5xx above 1 %",
        "alarm: CPU above 90 %",
        "alarm: requests a minute turned away by a full queue above 10",
    ],
)
def test_every_alarm_draws_its_line_on_the_dashboard(synthesise: Synthesise, line: str) -> None:
    body = synthesise(ALARMS).one("AWS::CloudWatch::Dashboard")["DashboardBody"]
    assert line in "".join(part for part in body["Fn::Join"][1] if isinstance(part, str))


@pytest.mark.parametrize("percentile", ["p50", "p90", "p99"])
def test_a_percentile_of_few_requests_is_judged(synthesise: Synthesise, percentile: str) -> None:
    text = VALID + f"[alarms]\n{percentile}_latency_ms = 100\n"
    assert alarm(synthesise(text), "ModelLatency")["EvaluateLowSampleCountPercentile"] == "evaluate"


@pytest.mark.parametrize(("percentile", "least"), [("p50", "20"), ("p90", "100"), ("p99", "1,000")])
def test_a_percentiles_alarm_says_what_few_requests_mean(
    synthesise: Synthesise, percentile: str, least: str
) -> None:
    text = VALID + f"[alarms]\n{percentile}_latency_ms = 100\n"
    said = alarm(synthesise(text), "ModelLatency")["AlarmDescription"]
    assert f"With fewer than {least} requests in that time {percentile} is decided by a few" in said


def test_what_is_no_percentile_says_nothing_of_few_requests(synthesise: Synthesise) -> None:
    found = alarm(synthesise(ALARMS), "Invocation5XXErrors")
    assert "EvaluateLowSampleCountPercentile" not in found
    assert "With fewer" not in found["AlarmDescription"]


def test_a_rollback_alarm_on_p99_judges_few_requests_and_says_so(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    (rollback,) = [one for one in alarms(found) if "-rollback-primary-latency-" in one["AlarmName"]]
    assert rollback["EvaluateLowSampleCountPercentile"] == "evaluate"
    assert "With fewer than 1,000 requests in that time p99" in rollback["AlarmDescription"]


def detail(found: Synthesised, detail_type: str) -> dict[str, Any]:
    (pattern,) = [
        one["EventPattern"]
        for one in found.all("AWS::Events::Rule")
        if one["EventPattern"]["detail-type"] == [detail_type]
    ]
    matched: dict[str, Any] = pattern["detail"]
    return matched


def test_a_deployment_event_is_told_only_of_an_update(synthesise: Synthesise) -> None:
    assert detail(synthesise(), "SageMaker Endpoint Deployment State Change") == {
        "EndpointName": ["ranker"],
        "PendingDeploymentSummary": {"EndpointConfigName": [{"exists": True}]},
    }


def test_a_state_is_told_where_scaling_cannot_have_brought_it(synthesise: Synthesise) -> None:
    assert detail(synthesise(), "SageMaker Endpoint State Change") == {
        "EndpointName": ["ranker"],
        "$or": [
            {"EndpointStatus": [{"anything-but": ["UPDATING", "IN_SERVICE"]}]},
            {"FailureReason": [{"exists": True}]},
        ],
    }
