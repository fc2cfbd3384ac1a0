"""State changes of the endpoint and of its deployments reach the topic, as words."""

import json
import time
from typing import Any

import pytest

from tests.local_aws.deployed_templates import serving
from tests.local_aws.watched_endpoint import Watched

OF_EVENTS = ("AWS::Events::Rule", "AWS::KMS::Key", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy")


@pytest.fixture(scope="module")
def rule_and_topics(watching_template: dict[str, Any]) -> dict[str, Any]:
    resources = watching_template["Resources"]
    return {name: one for name, one in resources.items() if one["Type"] in OF_EVENTS}


class Inbox:
    """A queue that hears what is said to the topic of the rule."""

    def __init__(self, watched: Watched, resources: dict[str, Any]) -> None:
        account = watched.account
        account.deploy({"Resources": resources}, name="watching")
        (target,) = account.client("events").list_targets_by_rule(
            Rule=account.client("events").list_rules()["Rules"][0]["Name"]
        )["Targets"]
        self._sqs = account.client("sqs")
        self._queue = self._sqs.create_queue(QueueName="inbox")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        account.client("sns").subscribe(
            TopicArn=target["Arn"], Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"]
        )

    def said(self, count: int) -> list[str]:
        """The first so many messages, in the order in which they came."""
        found: list[str] = []
        deadline = time.monotonic() + 10
        while len(found) < count and time.monotonic() < deadline:
            got = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
            found += [json.loads(one["Body"])["Message"] for one in got.get("Messages", [])]
            time.sleep(0.02)
        return found[:count]


@pytest.fixture
def inbox(watched: Watched, rule_and_topics: dict[str, Any]) -> Inbox:
    return Inbox(watched, rule_and_topics)


def test_that_an_endpoint_is_being_made_reaches_the_topic(watched: Watched, inbox: Inbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    assert [one.split(" at ")[0] for one in inbox.said(2)] == [
        "Endpoint ranker (SageMaker Endpoint State Change): CREATING",
        "Endpoint ranker (SageMaker Endpoint State Change): IN_SERVICE",
    ]


def test_why_an_endpoint_failed_reaches_the_topic(watched: Watched, inbox: Inbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"BROKEN")))
    assert "did not answer its ping" in inbox.said(2)[1]


def test_where_there_is_no_reason_none_is_said(watched: Watched, inbox: Inbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    assert inbox.said(1)[0].endswith("Reason, where there is one: ")


def test_another_endpoint_is_not_heard_of(watched: Watched, inbox: Inbox) -> None:
    archive = watched.account.put_archive(b"a")
    other = serving(archive)
    other["Resources"]["Endpoint"]["Properties"]["EndpointName"] = "other"
    watched.account.deploy(other, name="other")
    watched.account.deploy(serving(archive))
    assert all("ranker" in one for one in inbox.said(2))
