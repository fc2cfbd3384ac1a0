"""APIs of CloudWatch, its Logs, and Application Auto Scaling: what is put is described, and deleted."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.errors import SageMakerError
from servable_local.aws.moto_patches.events import _build_message
from servable_local.aws.resources.resource_type import ResourceError
from servable_local.aws.resources.storage import _convert_lifecycle_rule
from servable_local.aws.sagemaker.endpoint_api import check_change
from tests.servable_local.aws.boto_members import named
from tests.servable_local.aws.local_account import Account, Queue
from tests.servable_local.aws.watched_endpoint import Watched

OWN = {"Namespace": "Own", "MetricName": "Calls"}


@pytest.fixture
def cloudwatch(account: Account) -> Any:
    return account.client("cloudwatch")


def put(cloudwatch: Any, **datum: Any) -> None:
    """A sample without a time is of now."""
    cloudwatch.put_metric_data(Namespace="Own", MetricData=[{"MetricName": "Calls"} | datum])


def statistics(account: Account, *names: str, metric: str = "Calls", **of: Any) -> dict[str, Any]:
    points = account.datapoints(f"Own:{metric}", *names, **of)
    return {name: value for point in points for name, value in point.items() if name in names}


ALL = ("SampleCount", "Sum", "Minimum", "Maximum", "Average")
SET = {"SampleCount": 4, "Sum": 8, "Minimum": 1, "Maximum": 5}


@pytest.mark.parametrize(
    ("datum", "expected"),
    [
        ({"Value": 3}, (1, 3, 3, 3, 3)),
        ({"Values": [1, 5], "Counts": [3, 1]}, (4, 8, 1, 5, 2)),
        ({"Values": [1, 5]}, (2, 6, 1, 5, 3)),
        ({"StatisticValues": SET}, (4, 8, 1, 5, 2)),
    ],
)
def test_samples_are_put_one_by_one_with_counts_or_as_a_set(
    account: Account, cloudwatch: Any, datum: dict[str, Any], expected: tuple[float, ...]
) -> None:
    put(cloudwatch, **datum)
    assert statistics(account, *ALL) == dict(zip(ALL, expected, strict=True))


def test_samples_that_are_not_whole_or_of_aws_are_refused(cloudwatch: Any) -> None:
    with pytest.raises(ClientError, match="must be of the same size"):
        put(cloudwatch, Values=[1, 5], Counts=[3])
    with pytest.raises(ClientError, match="At least one of the parameters"):
        put(cloudwatch)
    datum = {"MetricName": "a", "Value": 1}
    with pytest.raises(ClientError, match="The value AWS/ for parameter Namespace is invalid"):
        cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])


def test_metrics_are_listed_and_their_units_kept_apart(account: Account, cloudwatch: Any) -> None:
    for value in ("1", "2"):
        put(cloudwatch, Value=1, Dimensions=named(a=value))
    put(cloudwatch, Value=1, MetricName="Other")

    def count(**asked: Any) -> int:
        return len(cloudwatch.list_metrics(**asked)["Metrics"])

    assert (count(), count(Namespace="Own"), count(Namespace="X")) == (3, 3, 0)
    assert (count(MetricName="Calls"), count(MetricName="Other")) == (2, 1)
    assert count(Dimensions=[{"Name": "a"}]) == 2
    assert count(Dimensions=named(a="2")) == 1

    put(cloudwatch, Value=1, Unit="Count")
    sums = [statistics(account, "Sum", unit=unit) for unit in ("Count", "Seconds")]
    assert sums == [{"Sum": 1}, {}]


def test_data_are_newest_first(cloudwatch: Any, clock: ManualClock) -> None:
    now = clock.now().replace(second=0, microsecond=0)
    for minute in (1, 2):
        put(cloudwatch, Value=minute, Timestamp=now - timedelta(minutes=3 - minute))
    metric = {"Metric": OWN, "Period": 60, "Stat": "Sum"}
    queries = [
        {"Id": "m", "MetricStat": metric, "ReturnData": False},
        {"Id": "e", "Expression": "m * 10", "Label": "tenfold"},
    ]
    asked = {"MetricDataQueries": queries, "StartTime": now - timedelta(minutes=5)}
    asked["EndTime"] = now + timedelta(minutes=1)
    (newest,) = cloudwatch.get_metric_data(**asked)["MetricDataResults"]
    ascending = cloudwatch.get_metric_data(**asked, ScanBy="TimestampAscending")
    (oldest,) = ascending["MetricDataResults"]
    assert (newest["Values"], oldest["Values"]) == ([20, 10], [10, 20])
    assert (newest["Id"], newest["Label"], newest["StatusCode"]) == ("e", "tenfold", "Complete")


def test_lines_of_a_log_are_counted_by_its_filters(account: Account, clock: ManualClock) -> None:
    logs, group = account.client("logs"), {"logGroupName": "g"}
    logs.create_log_group(**group)
    logs.create_log_stream(**group, logStreamName="s")
    at = int((clock.now() - clock.now().__class__(1970, 1, 1)).total_seconds() * 1000)

    def write(*texts: str) -> None:
        lines = [{"timestamp": at, "message": text} for text in texts]
        logs.put_log_events(**group, logStreamName="s", logEvents=lines)

    def count(name: str, pattern: str, value: str, **more: Any) -> None:
        to = {"metricNamespace": "Own", "metricName": name, "metricValue": value, **more}
        given = {"filterPattern": pattern, "metricTransformations": [to]}
        logs.put_metric_filter(**group, filterName=name, **given)

    count("Calls", "timeout", "2", defaultValue=1)
    write("a timeout", "fine", "timeout")
    assert statistics(account, "Sum", "SampleCount") == {"Sum": 5, "SampleCount": 3}
    # --- the fields of a JSON line as the value and a dimension
    count("Times", "{ $.ms > 0 }", "$.ms", dimensions={"Path": "$.path"})
    write('{"ms": 7, "path": "/a"}', '{"ms": 0, "path": "/b"}', '{"path": "/c"}', "timeout")
    assert statistics(account, "Sum", metric="Times", Path="/a") == {"Sum": 7}


# --- messages of EventBridge to a topic

DETAIL = {"names": ["a", "b"], "count": 2}
EVENT = {"source": "aws.sagemaker", "detail": DETAIL, "time": 0, "ingestion-time": 0}
RULE = SimpleNamespace(arn="arn:aws:events:us-east-1:123456789012:rule/changes", name="changes")


def test_a_message_is_the_event_its_template_or_a_part_of_it() -> None:
    def message(template: str, **paths: str) -> str:
        transformer = {"InputPathsMap": paths, "InputTemplate": template}
        return _build_message(RULE, {"InputTransformer": transformer}, EVENT)

    whole = json.loads(_build_message(RULE, {}, EVENT))
    assert (whole["time"], whole["source"]) == ("1970-01-01T00:00:00Z", "aws.sagemaker")
    assert _build_message(RULE, {"InputPath": "$.detail.count"}, EVENT) == "2"
    assert _build_message(RULE, {"Input": "as it is"}, EVENT) == "as it is"
    named = message('"<name> of <absent> is up"', name="$.detail.names[0]", absent="$.absent")
    assert named == "a of  is up"
    assert message('{"of": <aws.events.rule-name>}') == '{"of":"changes"}'
    assert message('{"all": <all>}', all="$.detail.names") == '{"all":["a","b"]}'
    for path, value in [
        ("$.source", "aws.sagemaker"),
        ("$.detail.names[1]", "b"),
        ("$.detail.names[2]", ""),
        ("$.detail.count", "2"),
        ("$.detail.names", '["a", "b"]'),
        ("$.absent.name", ""),
        ("$.source.name", ""),
    ]:
        assert message('"<it>"', it=path) == value


# --- Application Auto Scaling of a service that is kept only

KEY = {"ServiceNamespace": "dynamodb", "ResourceId": "table/a",
       "ScalableDimension": "dynamodb:table:ReadCapacityUnits"}  # fmt: skip


@pytest.fixture
def scaling(account: Account) -> Any:
    client = account.client("application-autoscaling")
    client.register_scalable_target(**KEY, MinCapacity=1, MaxCapacity=4)
    return client


def test_a_scheduled_action_is_described_replaced_and_deleted(scaling: Any) -> None:
    name, asked = {"ScheduledActionName": "morning"}, {"ServiceNamespace": "dynamodb"}
    first = {
        "Schedule": "rate(5 minutes)",
        "ScalableTargetAction": {"MinCapacity": 2},
        "StartTime": datetime(2026, 12, 1, tzinfo=UTC),
        "EndTime": datetime(2026, 12, 2, tzinfo=UTC),
    }
    scaling.put_scheduled_action(**KEY, **name, **first | {"Schedule": "cron(0 9 * * ? *)"})
    scaling.put_scheduled_action(**KEY, **name, **first)
    changed = {"ScalableTargetAction": {"MaxCapacity": 3}}
    scaling.put_scheduled_action(**KEY, **name, **changed)
    (found,) = scaling.describe_scheduled_actions(**asked)["ScheduledActions"]
    left = {"Schedule": "rate(5 minutes)", "StartTime": None, "EndTime": None, **changed, **name}
    assert {key: found.get(key) for key in left} == left
    others = scaling.describe_scheduled_actions(**asked, ScheduledActionNames=["x"])
    assert others["ScheduledActions"] == []
    scaling.delete_scheduled_action(**KEY, **name)
    assert scaling.describe_scheduled_actions(**asked)["ScheduledActions"] == []
    with pytest.raises(ClientError, match="No scheduled action found for name: morning"):
        scaling.delete_scheduled_action(**KEY, **name)

    with pytest.raises(ClientError, match="ValidationException.*'resourceId' failed to satisfy"):
        scaling.deregister_scalable_target(**KEY | {"ResourceId": "x" * 1601})
    with pytest.raises(ClientError, match="Schedule is required"):
        scaling.put_scheduled_action(**KEY, ScheduledActionName="a")


def test_a_target_is_changed_in_part_and_deregistered(scaling: Any) -> None:
    scaling.register_scalable_target(**KEY, MaxCapacity=9)
    asked = {"ServiceNamespace": "dynamodb"}
    (target,) = scaling.describe_scalable_targets(**asked)["ScalableTargets"]
    with pytest.raises(ClientError, match="Maximum capacity cannot be less than minimum capacity"):
        scaling.register_scalable_target(**KEY, MinCapacity=10)
    scaling.deregister_scalable_target(**KEY)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 9)
    assert scaling.describe_scalable_targets(**asked)["ScalableTargets"] == []
    with pytest.raises(ClientError, match="No scalable target registered"):
        scaling.deregister_scalable_target(**KEY)


@pytest.fixture
def alarmed(account: Account) -> Any:
    """With the alarms `slow` and `errors`."""
    client = account.client("cloudwatch")
    for name, metric in (("slow", "Latency"), ("errors", "Errors")):
        client.put_metric_alarm(
            AlarmName=name, Namespace="Own", MetricName=metric, Statistic="Sum", Period=60,
            EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold",
        )  # fmt: skip
    return client


def names(answer: Any) -> list[str]:
    return sorted(alarm["AlarmName"] for alarm in answer["MetricAlarms"])


def test_alarms_are_found_and_a_state_that_is_set_is_in_the_history(alarmed: Any) -> None:
    alarmed.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="mine")
    described = alarmed.describe_alarms
    assert names(described()) == ["errors", "slow"]
    assert names(described(AlarmNames=["slow"])) == ["slow"]
    assert names(described(AlarmNamePrefix="err")) == ["errors"]
    assert names(described(StateValue="ALARM")) == ["slow"]
    errors = alarmed.describe_alarms_for_metric(Namespace="Own", MetricName="Errors")
    assert names(errors) == ["errors"]
    alarmed.put_composite_alarm(AlarmName="both", AlarmRule="ALARM(slow) AND ALARM(errors)")
    assert described()["CompositeAlarms"] == []
    both = described(AlarmTypes=["CompositeAlarm"])
    (composite,) = both["CompositeAlarms"]
    assert (composite["AlarmName"], both["MetricAlarms"]) == ("both", [])

    def history(**asked: Any) -> list[str]:
        items = alarmed.describe_alarm_history(**asked)["AlarmHistoryItems"]
        return [item["HistoryItemType"] for item in items]

    (alarm,) = alarmed.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    newest, *_ = history(AlarmName="slow")
    assert (alarm["StateValue"], alarm["StateReason"], newest) == ("ALARM", "mine", "StateUpdate")
    assert history(AlarmName="slow", HistoryItemType="StateUpdate") == ["StateUpdate"]
    assert history(AlarmName="slow", ScanBy="TimestampAscending")[-1] == "StateUpdate"
    assert len(history(MaxRecords=1)) == 1
    assert history(AlarmTypes=["CompositeAlarm"]) == ["StateUpdate", "ConfigurationUpdate"]
    with pytest.raises(ClientError, match="Value 'WRONG' at 'stateValue' failed"):
        alarmed.set_alarm_state(AlarmName="slow", StateValue="WRONG", StateReason="x")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        alarmed.set_alarm_state(AlarmName="absent", StateValue="OK", StateReason="x")


def test_alarms_are_tagged_disabled_enabled_and_deleted(alarmed: Any) -> None:
    (alarm,) = alarmed.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    arn = alarm["AlarmArn"]
    alarmed.tag_resource(ResourceARN=arn, Tags=[{"Key": k, "Value": "1"} for k in "ab"])
    alarmed.untag_resource(ResourceARN=arn, TagKeys=["a", "absent"])
    tags = alarmed.list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert tags == [{"Key": "b", "Value": "1"}]

    def enabled() -> bool:
        (alarm,) = alarmed.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
        return bool(alarm["ActionsEnabled"])

    alarmed.disable_alarm_actions(AlarmNames=["slow"])
    disabled = not enabled()
    alarmed.enable_alarm_actions(AlarmNames=["slow"])
    assert (disabled, enabled()) == (True, True)
    alarmed.delete_alarms(AlarmNames=["slow"])
    assert names(alarmed.describe_alarms()) == ["errors"]


# Above 10 for 2 of 2 minutes, of a metric of our own.
HIGH = {
    "AlarmName": "high", "Namespace": "Own", "MetricName": "Load", "Statistic": "Maximum", "Period": 60,
    "EvaluationPeriods": 2, "Threshold": 10.0, "ComparisonOperator": "GreaterThanThreshold",
}  # fmt: skip


@pytest.mark.long
def test_alarms_follow_what_is_published_and_tell_their_topic(watched: Watched) -> None:
    watched.align()
    client = watched.account.client
    sns, cloudwatch, queue = client("sns"), client("cloudwatch"), Queue(watched.account)
    topic, raw = sns.create_topic(Name="alarms")["TopicArn"], {"RawMessageDelivery": "true"}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn, Attributes=raw)
    cloudwatch.put_metric_alarm(**HIGH, AlarmActions=[topic], OKActions=[topic])
    other = HIGH | {"AlarmName": "other unit", "Unit": "Milliseconds"}
    cloudwatch.put_metric_alarm(**other)
    host = [{"Name": "Host", "Value": "a"}]
    cloudwatch.put_metric_alarm(**HIGH | {"AlarmName": "host", "Dimensions": host})
    few = HIGH | {"AlarmName": "few", "ExtendedStatistic": "p99"}
    del few["Statistic"]
    cloudwatch.put_metric_alarm(**few, EvaluateLowSampleCountPercentile="ignore")
    stat = {"Metric": {"Namespace": "Own", "MetricName": "Load"}, "Period": 60, "Stat": "Sum"}
    metrics = [
        {"Id": "m", "MetricStat": stat, "ReturnData": False},
        {"Id": "e", "Expression": "m / 2", "ReturnData": True},
    ]
    math = {"AlarmName": "math", "Metrics": metrics, "EvaluationPeriods": 1, "Threshold": 5.0}
    cloudwatch.put_metric_alarm(**math, ComparisonOperator="GreaterThanThreshold")
    unheard = ["INSUFFICIENT_DATA"] * 3
    states = []
    for value in (1, 11, 11, 1):
        datum = {"MetricName": "Load", "Value": value}
        cloudwatch.put_metric_data(Namespace="Own", MetricData=[datum])
        watched.clock.advance(minutes=1)
        states.append((watched.state("high"), watched.state("math")))
        assert [watched.state(name) for name in ("other unit", "host", "few")] == unheard
    assert states == [("OK", "OK"), ("OK", "ALARM"), ("ALARM", "ALARM"), ("OK", "OK")]
    changes = [(one["OldStateValue"], one["NewStateValue"]) for one in queue.receive(3)]
    assert changes == [("INSUFFICIENT_DATA", "OK"), ("OK", "ALARM"), ("ALARM", "OK")]


def test_an_invalid_alarm_is_refused(alarmed: Any) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"Period": 45}, "Period"),
        ({"AlarmActions": ["arn:aws:sns:us-east-1:123456789012:t"] * 6}, "'alarmActions' failed"),
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "anomaly detection"),
    ]
    for more, said in wrong:
        with pytest.raises(ClientError, match=said):
            alarmed.put_metric_alarm(**(HIGH | more))


def config(*variants: str, serverless: bool = False, queued: bool = False) -> dict[str, Any]:
    more: dict[str, Any] = {"ServerlessConfig": {}} if serverless else {}
    found: dict[str, Any] = {"ProductionVariants": [{"VariantName": v, **more} for v in variants]}
    return found | ({"AsyncInferenceConfig": {}} if queued else {})


@pytest.mark.parametrize(
    ("old", "new", "deployment", "problem"),
    [
        (config("a"), config("b"), None, None),
        (config("a"), config("b"), {"AutoRollbackConfiguration": {}}, None),
        (config("a"), config("a"), {"BlueGreenUpdatePolicy": {}}, None),
        (config("a"), config("b"), {"BlueGreenUpdatePolicy": {}}, "same variant names"),
        (config("a"), config("a", "b"), {"RollingUpdatePolicy": {}}, "same variant names"),
        (config("a", queued=True), config("a"), None, "cannot be removed from this endpoint"),
        (config("a", queued=True), config("a", queued=True), None, None),
        (config("a"), config("a", serverless=True), None, "to a serverless endpoint is not supported"),
        (config("a", serverless=True), config("a", serverless=True), None, None),
    ],
)  # fmt: skip
def test_an_update_that_sagemaker_refuses_is_refused_here(
    old: dict[str, Any], new: dict[str, Any], deployment: dict[str, Any] | None, problem: str | None
) -> None:
    endpoint: Any = SimpleNamespace(name="ranker", config=old)
    with pytest.raises(SageMakerError, match=problem) if problem else nullcontext():
        check_change(endpoint, new, deployment)


def test_what_moto_drops_of_a_lifecycle_rule_is_rejected_by_name() -> None:
    for rule in (
        {"ObjectSizeLessThan": "9"},
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}},
    ):
        with pytest.raises(ResourceError, match=r"ObjectSizeLessThan|NewerNoncurrentVersions"):
            _convert_lifecycle_rule({"Status": "Enabled", **rule})
