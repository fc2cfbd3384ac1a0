"""What EventBridge is told: a rule with a queue, and what arrives there."""

import json
import time
from typing import Any

import pytest

from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.watched_endpoint import Watched

STATE = "SageMaker Endpoint State Change"


class Inbox:
    """A queue that a rule fills with all events of one source."""

    def __init__(self, watched: Watched, source: str) -> None:
        account = watched.account
        self._sqs, events = account.client("sqs"), account.client("events")
        self._queue = self._sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        events.put_rule(Name="all", EventPattern=json.dumps({"source": [source]}))
        events.put_targets(Rule="all", Targets=[{"Id": "1", "Arn": arn["Attributes"]["QueueArn"]}])
        self._read: list[dict[str, Any]] = []

    def events(self, count: int) -> list[dict[str, Any]]:
        """The first so many."""
        deadline = time.monotonic() + 10
        while len(self._read) < count and time.monotonic() < deadline:
            found = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
            self._read += [json.loads(message["Body"]) for message in found.get("Messages", [])]
            time.sleep(0.02)
        return self._read[:count]


@pytest.fixture
def inbox(watched: Watched) -> Inbox:
    return Inbox(watched, "aws.sagemaker")


def _statuses(found: list[dict[str, Any]]) -> list[str]:
    return [one["detail"]["EndpointStatus"] for one in found]


def test_states_of_an_endpoint_are_told(watched: Watched, inbox: Inbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    assert _statuses(inbox.events(2)) == ["CREATING", "IN_SERVICE"]

    watched = watched.another()
    inbox = Inbox(watched, "aws.sagemaker")
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    (event,) = inbox.events(1)
    arn = f"arn:aws:sagemaker:us-east-1:{watched.account.number}:endpoint/ranker"
    assert (event["resources"], event["detail-type"]) == ([arn], STATE)
    watched = watched.another()
    inbox = Inbox(watched, "aws.sagemaker")
    watched.account.deploy(serving(watched.account.put_archive(b"BROKEN")))
    assert "did not answer its ping" in inbox.events(2)[1]["detail"]["FailureReason"]

    watched = watched.another()
    inbox = Inbox(watched, "aws.sagemaker")
    watched.account.deploy(serving(watched.account.put_archive(b"a", "a")))
    watched.account.deploy(serving(watched.account.put_archive(b"b", "b")))
    watched.account.delete()
    wanted = ["CREATING", "IN_SERVICE", "UPDATING", "IN_SERVICE", "DELETING"]
    assert _statuses(inbox.events(5)) == wanted


def test_changed_weights_are_a_deployment_state_change(watched: Watched, inbox: Inbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    watched.account.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName="ranker",
        DesiredWeightsAndCapacities=[{"VariantName": "primary", "DesiredInstanceCount": 3}],
    )
    event = inbox.events(3)[2]
    assert event["detail-type"] == "SageMaker Endpoint Deployment State Change"
    assert event["detail"]["ProductionVariants"][0]["DesiredInstanceCount"] == 3


def test_an_alarms_change_is_told_of(watched: Watched) -> None:
    inbox = Inbox(watched, "aws.cloudwatch")
    cloudwatch = watched.account.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="high",
        Namespace="Own",
        MetricName="Load",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    cloudwatch.set_alarm_state(AlarmName="high", StateValue="ALARM", StateReason="a test")
    (event,) = inbox.events(1)
    detail = event["detail"]
    assert (detail["alarmName"], detail["state"]["value"]) == ("high", "ALARM")
