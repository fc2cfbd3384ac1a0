"""What an alarm does when it changes: its topic is told, and its history says so."""

import json
from typing import Any

import pytest

from tests.servable_local.aws.own_metric import history, minutes, put_alarm
from tests.servable_local.aws.watched_endpoint import Watched


@pytest.fixture(autouse=True)
def _aligned(watched: Watched) -> None:
    watched.align()


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


def test_an_action_is_in_the_history(watched: Watched, inbox: tuple[str, str]) -> None:
    put_alarm(watched, AlarmActions=[inbox[0]])
    minutes(watched, 11, 11)
    assert history(watched, "Action") == [f"Successfully executed action {inbox[0]}"]


def test_an_action_that_fails_is_in_the_history(watched: Watched) -> None:
    absent = f"arn:aws:sns:us-east-1:{watched.account.number}:absent"
    put_alarm(watched, AlarmActions=[absent])
    minutes(watched, 11, 11)
    assert history(watched, "Action") == [f"Failed to execute action {absent}"]


def test_disabled_actions_are_not_carried_out(watched: Watched, inbox: tuple[str, str]) -> None:
    put_alarm(watched, AlarmActions=[inbox[0]])
    watched.account.client("cloudwatch").disable_alarm_actions(AlarmNames=["high"])
    minutes(watched, 11, 11)
    assert _messages(watched, inbox[1]) == []
