"""Alarms over the API: states, history, actions, and what is kept when they are put again."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.watched_endpoint import Watched


def put_alarm(watched: Watched, name: str = "high", **more: Any) -> None:
    """Above 10 for 2 of 2 minutes, of a metric of our own."""
    asked = {
        "AlarmName": name,
        "Namespace": "Own",
        "MetricName": "Load",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 2,
        "Threshold": 10.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    watched.account.client("cloudwatch").put_metric_alarm(**(asked | more))


def minutes(watched: Watched, *values: float | None) -> None:
    for value in values:
        if value is not None:
            watched.account.client("cloudwatch").put_metric_data(
                Namespace="Own", MetricData=[{"MetricName": "Load", "Value": value}]
            )
        watched.clock.advance(minutes=1)


@pytest.fixture(autouse=True)
def _aligned(watched: Watched) -> None:
    watched.align()


def test_an_alarm_fires_after_its_minutes_and_recovers(watched: Watched) -> None:
    put_alarm(watched)
    assert watched.state("high") == "INSUFFICIENT_DATA"

    put_alarm(watched)
    states = []
    for value in (1, 11, 11):
        minutes(watched, value)
        states.append(watched.state("high"))
    assert states == ["OK", "OK", "ALARM"]

    put_alarm(watched)
    minutes(watched, 11, 11, 11, 1)
    assert watched.state("high") == "OK"

    put_alarm(watched)
    minutes(watched, 10, 10, 10)
    assert watched.state("high") == "OK"

    put_alarm(watched)
    minutes(watched, 11, 12)
    alarms = watched.account.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert alarms[0]["StateReason"].startswith(
        "Threshold Crossed: 2 out of the last 2 datapoints [12.0 ("
    )


def test_unit_and_dimensions_are_of_the_metric(watched: Watched) -> None:
    put_alarm(watched, Unit="Milliseconds")
    minutes(watched, 11, 11, 11)
    assert watched.state("high") == "INSUFFICIENT_DATA"

    put_alarm(watched, Dimensions=[{"Name": "Host", "Value": "a"}])
    minutes(watched, 11, 11, 11)
    assert watched.state("high") == "INSUFFICIENT_DATA"


def test_an_alarm_is_on_a_percentile_or_on_math(watched: Watched) -> None:
    with_statistic = {"ExtendedStatistic": "p99", "EvaluateLowSampleCountPercentile": "ignore"}
    asked = {
        "AlarmName": "p99",
        "Namespace": "Own",
        "MetricName": "Load",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 10.0,
        "ComparisonOperator": "GreaterThanThreshold",
        **with_statistic,
    }
    watched.account.client("cloudwatch").put_metric_alarm(**asked)
    minutes(watched, 11)
    assert watched.state("p99") == "INSUFFICIENT_DATA"

    metric = {"Namespace": "Own", "MetricName": "Load"}
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    watched.account.client("cloudwatch").put_metric_alarm(
        AlarmName="math",
        Metrics=[
            {"Id": "m", "MetricStat": stat, "ReturnData": False},
            {"Id": "e", "Expression": "m / 2", "ReturnData": True},
        ],
        EvaluationPeriods=1,
        Threshold=5.0,
        ComparisonOperator="GreaterThanThreshold",
    )
    minutes(watched, 11)
    assert watched.state("math") == "ALARM"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"Period": 45}, "Period"),
        ({"ExtendedStatistic": "p99"}, "not both"),
        ({"AlarmActions": ["arn:aws:sns:us-east-1:123456789012:t"] * 6}, "'alarmActions' failed"),
        ({"DatapointsToAlarm": 3}, "DatapointsToAlarm"),
        ({"TreatMissingData": "sometimes"}, "TreatMissingData"),
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "anomaly detection"),
    ],
    ids=["period", "statistics", "actions", "datapoints", "missing data", "comparison"],
)
def test_an_invalid_alarm_is_refused(watched: Watched, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        put_alarm(watched, **wrong)


@pytest.fixture
def inbox(watched: Watched) -> tuple[str, str]:
    """A topic and a queue that takes what is published to it."""
    sns, sqs = watched.account.client("sns"), watched.account.client("sqs")
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=arn["QueueArn"],
        Attributes={"RawMessageDelivery": "true"},
    )
    return topic, queue


def _messages(watched: Watched, queue: str) -> list[dict[str, Any]]:
    found = watched.account.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    return [json.loads(message["Body"]) for message in found.get("Messages", [])]


def test_the_topic_is_told_of_alarm_and_recovery(watched: Watched, inbox: tuple[str, str]) -> None:
    topic, queue = inbox
    put_alarm(watched, AlarmActions=[topic], OKActions=[topic])
    minutes(watched, 11, 11, 1)
    told = [
        (message["OldStateValue"], message["NewStateValue"])
        for message in _messages(watched, queue)
    ]
    assert told == [("INSUFFICIENT_DATA", "OK"), ("OK", "ALARM"), ("ALARM", "OK")]
