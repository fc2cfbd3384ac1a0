"""APIs of CloudWatch, its Logs and Application Auto Scaling: what is put is described, and deleted."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.moto_patches.events import _build_message
from tests.servable_local.aws.boto_members import named
from tests.servable_local.aws.local_account import Account

OWN = {"Namespace": "Own", "MetricName": "Calls"}


@pytest.fixture
def cloudwatch(account: Account) -> Any:
    return account.client("cloudwatch")


def put(cloudwatch: Any, **datum: Any) -> None:
    """A sample without a time is of now."""
    cloudwatch.put_metric_data(Namespace="Own", MetricData=[{"MetricName": "Calls"} | datum])


def statistics(account: Account, *names: str, metric: str = "Calls", **of: str) -> dict[str, Any]:
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
    asked = {
        "MetricDataQueries": [
            {"Id": "m", "MetricStat": metric, "ReturnData": False},
            {"Id": "e", "Expression": "m * 10", "Label": "tenfold"},
        ],
        "StartTime": now - timedelta(minutes=5),
        "EndTime": now + timedelta(minutes=1),
    }
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

KEY = {
    "ServiceNamespace": "dynamodb",
    "ResourceId": "table/a",
    "ScalableDimension": "dynamodb:table:ReadCapacityUnits",
}


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
