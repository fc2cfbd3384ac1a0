"""State changes of the endpoint and of its deployments reach the topic, as words."""

from typing import Any

import pytest

from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.topic_inbox import TopicInbox
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long

OF_EVENTS = ("AWS::Events::Rule", "AWS::KMS::Key", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy")


@pytest.fixture(scope="module")
def rule_and_topics(watching_template: dict[str, Any]) -> dict[str, Any]:
    resources = watching_template["Resources"]
    return {name: resource for name, resource in resources.items() if resource["Type"] in OF_EVENTS}


@pytest.fixture
def inbox(watched: Watched, rule_and_topics: dict[str, Any]) -> TopicInbox:
    watched.account.deploy({"Resources": rule_and_topics}, name="watching")
    return TopicInbox(watched.account)


def test_a_creation_reaches_the_topic(watched: Watched, inbox: TopicInbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    (said,) = inbox.said(1)
    assert said.startswith("Endpoint ranker: CREATING at ")
    assert said.endswith("Reason, where there is one: ")


def test_why_an_endpoint_failed_reaches_the_topic(watched: Watched, inbox: TopicInbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"BROKEN")))
    assert "did not answer its ping" in inbox.said(2)[1]


def test_why_an_update_failed_reaches_the_topic(watched: Watched, inbox: TopicInbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a", "a")))
    watched.account.deploy(serving(watched.account.put_archive(b"BROKEN", "b")))
    assert "did not answer its ping" in inbox.said(2)[1]


def test_a_rule_of_a_schedule_matches_no_event(watched: Watched, inbox: TopicInbox) -> None:
    events = watched.account.client("events")
    rule = events.list_rules()["Rules"][0]
    targets = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    events.put_rule(Name="minute", ScheduleExpression="rate(1 minute)")
    events.put_targets(Rule="minute", Targets=targets)
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    watched.account.delete()
    assert [one.split(" at ")[0] for one in inbox.said(2)] == [
        "Endpoint ranker: CREATING",
        "Endpoint ranker: DELETING",
    ]


def test_scaling_does_not_reach_the_topic(watched: Watched, inbox: TopicInbox) -> None:
    watched.account.deploy(serving(watched.account.put_archive(b"a")))
    watched.account.change_capacities("ranker", VariantName="primary", DesiredInstanceCount=3)
    watched.account.delete()
    assert [one.split(" at ")[0] for one in inbox.said(2)] == [
        "Endpoint ranker: CREATING",
        "Endpoint ranker: DELETING",
    ]


def test_another_endpoint_is_not_heard_of(watched: Watched, inbox: TopicInbox) -> None:
    archive = watched.account.put_archive(b"a")
    other = serving(archive)
    other["Resources"]["Endpoint"]["Properties"]["EndpointName"] = "other"
    watched.account.deploy(other, name="other")
    watched.account.deploy(serving(archive))
    assert all("ranker" in one for one in inbox.said(1))
