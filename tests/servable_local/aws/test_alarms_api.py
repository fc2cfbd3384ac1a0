"""CloudWatch's operations on alarms, and what SageMaker refuses of an endpoint's next configuration."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.resources.resource_type import ResourceError
from servable_local.aws.resources.storage import _convert_lifecycle_rule
from servable_local.aws.sagemaker.endpoint_api import check_change
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.topic_inbox import Queue
from tests.servable_local.aws.watched_endpoint import Watched


@pytest.fixture
def cloudwatch(account: Account) -> Any:
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


def test_alarms_are_found_and_a_state_that_is_set_is_in_the_history(cloudwatch: Any) -> None:
    cloudwatch.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="mine")
    described = cloudwatch.describe_alarms
    assert names(described()) == ["errors", "slow"]
    assert names(described(AlarmNames=["slow"])) == ["slow"]
    assert names(described(AlarmNamePrefix="err")) == ["errors"]
    assert names(described(StateValue="ALARM")) == ["slow"]
    errors = cloudwatch.describe_alarms_for_metric(Namespace="Own", MetricName="Errors")
    assert names(errors) == ["errors"]
    cloudwatch.put_composite_alarm(AlarmName="both", AlarmRule="ALARM(slow) AND ALARM(errors)")
    assert described()["CompositeAlarms"] == []
    both = described(AlarmTypes=["CompositeAlarm"])
    (composite,) = both["CompositeAlarms"]
    assert (composite["AlarmName"], both["MetricAlarms"]) == ("both", [])

    cloudwatch.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="mine")

    def history(**asked: Any) -> list[str]:
        items = cloudwatch.describe_alarm_history(**asked)["AlarmHistoryItems"]
        return [item["HistoryItemType"] for item in items]

    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    newest, *_ = history(AlarmName="slow")
    assert (alarm["StateValue"], alarm["StateReason"], newest) == ("ALARM", "mine", "StateUpdate")
    assert history(AlarmName="slow", HistoryItemType="StateUpdate") == ["StateUpdate"]
    assert history(AlarmName="slow", ScanBy="TimestampAscending")[-1] == "StateUpdate"
    assert len(history(MaxRecords=1)) == 1
    assert history(AlarmTypes=["CompositeAlarm"]) == ["StateUpdate", "ConfigurationUpdate"]
    with pytest.raises(ClientError, match="Value 'WRONG' at 'stateValue' failed"):
        cloudwatch.set_alarm_state(AlarmName="slow", StateValue="WRONG", StateReason="x")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        cloudwatch.set_alarm_state(AlarmName="absent", StateValue="OK", StateReason="x")


def test_alarms_are_tagged_disabled_enabled_and_deleted(cloudwatch: Any) -> None:
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    arn = alarm["AlarmArn"]
    cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": k, "Value": "1"} for k in "ab"])
    cloudwatch.untag_resource(ResourceARN=arn, TagKeys=["a", "absent"])
    tags = cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert tags == [{"Key": "b", "Value": "1"}]

    def enabled() -> bool:
        (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
        return bool(alarm["ActionsEnabled"])

    cloudwatch.disable_alarm_actions(AlarmNames=["slow"])
    disabled = not enabled()
    cloudwatch.enable_alarm_actions(AlarmNames=["slow"])
    assert (disabled, enabled()) == (True, True)
    cloudwatch.delete_alarms(AlarmNames=["slow"])
    assert names(cloudwatch.describe_alarms()) == ["errors"]


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
    few = {key: value for key, value in HIGH.items() if key != "Statistic"} | {
        "AlarmName": "few",
        "ExtendedStatistic": "p99",
        "EvaluateLowSampleCountPercentile": "ignore",
    }
    cloudwatch.put_metric_alarm(**few)
    stat = {"Metric": {"Namespace": "Own", "MetricName": "Load"}, "Period": 60, "Stat": "Sum"}
    cloudwatch.put_metric_alarm(
        AlarmName="math",
        Metrics=[
            {"Id": "m", "MetricStat": stat, "ReturnData": False},
            {"Id": "e", "Expression": "m / 2", "ReturnData": True},
        ],
        EvaluationPeriods=1,
        Threshold=5.0,
        ComparisonOperator="GreaterThanThreshold",
    )
    unheard = ["INSUFFICIENT_DATA"] * 3
    states = []
    for value in (1, 11, 11, 1):
        cloudwatch.put_metric_data(
            Namespace="Own", MetricData=[{"MetricName": "Load", "Value": value}]
        )
        watched.clock.advance(minutes=1)
        states.append((watched.state("high"), watched.state("math")))
        assert [watched.state(name) for name in ("other unit", "host", "few")] == unheard
    assert states == [("OK", "OK"), ("OK", "ALARM"), ("ALARM", "ALARM"), ("OK", "OK")]
    changes = [(one["OldStateValue"], one["NewStateValue"]) for one in queue.receive(3)]
    assert changes == [("INSUFFICIENT_DATA", "OK"), ("OK", "ALARM"), ("ALARM", "OK")]


def test_an_invalid_alarm_is_refused(cloudwatch: Any) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"Period": 45}, "Period"),
        ({"AlarmActions": ["arn:aws:sns:us-east-1:123456789012:t"] * 6}, "'alarmActions' failed"),
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "anomaly detection"),
    ]
    for more, said in wrong:
        with pytest.raises(ClientError, match=said):
            cloudwatch.put_metric_alarm(**(HIGH | more))


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
