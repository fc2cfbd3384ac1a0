"""What EventBridge is told: a rule with a queue, and what arrives there."""

import json
from datetime import datetime
from typing import Any

import pytest

from servable_local.aws.loopback import Access, Loopback
from tests.servable_local.aws.deployed_templates import alarm, serving
from tests.servable_local.aws.local_account import Account, Queue, TopicInbox
from tests.servable_local.aws.watched_endpoint import Watched

STATE = "SageMaker Endpoint State Change"


class Inbox(Queue):
    """A queue that a rule fills with all events of one source."""

    def __init__(self, watched: Watched, source: str) -> None:
        super().__init__(watched.account)
        events = watched.account.client("events")
        events.put_rule(Name="all", EventPattern=json.dumps({"source": [source]}))
        events.put_targets(Rule="all", Targets=[{"Id": "1", "Arn": self.arn}])
        self._read: list[dict[str, Any]] = []

    def events(self, count: int) -> list[dict[str, Any]]:
        """The first so many."""
        self._read += self.receive(count - len(self._read))
        return self._read[:count]


@pytest.mark.long
def test_states_and_deployments_of_an_endpoint_are_told(watched: Watched) -> None:
    inbox, account = Inbox(watched, "aws.sagemaker"), watched.account
    for archive in (b"a", b"b"):
        account.deploy(serving(account.put_archive(archive, archive.decode())))
    account.change_capacities("ranker", VariantName="primary", DesiredInstanceCount=3)
    account.delete()
    events = inbox.events(7)
    assert len(events) == 7
    first, changed = events[0], events[4]
    arn = f"arn:aws:sagemaker:us-east-1:{account.number}:endpoint/ranker"
    assert (first["resources"], first["detail-type"]) == ([arn], STATE)
    states = [one["detail"]["EndpointStatus"] for one in events if one["detail-type"] == STATE]
    assert states == ["CREATING", "IN_SERVICE", "UPDATING", "IN_SERVICE", "DELETING"]
    assert changed["detail-type"] == "SageMaker Endpoint Deployment State Change"
    assert changed["detail"]["ProductionVariants"][0]["DesiredInstanceCount"] == 3


def test_an_alarms_change_is_told_of(watched: Watched) -> None:
    inbox = Inbox(watched, "aws.cloudwatch")
    cloudwatch = watched.account.client("cloudwatch")
    cloudwatch.put_metric_alarm(**alarm()["Properties"], AlarmName="high")
    cloudwatch.set_alarm_state(AlarmName="high", StateValue="ALARM", StateReason="a test")
    (event,) = inbox.events(1)
    detail = event["detail"]
    assert (detail["alarmName"], detail["state"]["value"]) == ("high", "ALARM")


def test_an_event_that_event_bridge_does_not_take_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(self: Any, service: str, **whose: str) -> Any:
        raise OSError("closed")

    monkeypatch.setattr(Access, "client", refuses)
    aws = Loopback(Access("http://127.0.0.1:1", "secret"), account="1" * 12, region="eu-west-1")
    aws.send_event("s", "State Change", {}, "a", datetime(2026, 11, 23))
    printed = capsys.readouterr().err
    assert "EventBridge did not accept State Change of a\n" in printed
    assert "OSError: closed" in printed


OF_EVENTS = ("AWS::Events::Rule", "AWS::KMS::Key", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy")


@pytest.fixture
def topic(account: Account, watching_template: dict[str, Any]) -> TopicInbox:
    """What the stack's rule says to its topic, as words."""
    resources = watching_template["Resources"]
    rule = {name: one for name, one in resources.items() if one["Type"] in OF_EVENTS}
    account.deploy({"Resources": rule}, name="watching")
    return TopicInbox(account)


@pytest.mark.long
def test_states_of_the_endpoint_alone_reach_the_topic(account: Account, topic: TopicInbox) -> None:
    events = account.client("events")
    rule = events.list_rules()["Rules"][0]
    targets = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    events.put_rule(Name="minute", ScheduleExpression="rate(1 minute)")
    events.put_targets(Rule="minute", Targets=targets)
    archive = account.put_archive(b"a")
    other = serving(archive)
    other["Resources"]["Endpoint"]["Properties"]["EndpointName"] = "other"
    account.deploy(other, name="other")
    account.deploy(serving(archive))
    account.change_capacities("ranker", VariantName="primary", DesiredInstanceCount=3)
    account.delete()
    said = topic.said(2)
    states = [one.split(" at ")[0] for one in said]
    assert states == ["Endpoint ranker: CREATING", "Endpoint ranker: DELETING"]
    assert said[0].endswith("Reason, where there is one: ")


@pytest.mark.long
def test_why_an_endpoint_or_its_update_failed_reaches_the_topic(
    account: Account, topic: TopicInbox
) -> None:
    account.deploy(serving(account.put_archive(b"BROKEN")))
    assert "did not answer its ping" in topic.said(2)[1]
    account.delete()
    account.deploy(serving(account.put_archive(b"a", "a")))
    account.deploy(serving(account.put_archive(b"BROKEN", "b")))
    said = topic.said(2)[1]
    assert said.startswith("Endpoint ranker: IN_SERVICE at ")
    assert "did not answer its ping" in said
