"""Queues of an account that hear what EventBridge and topics say."""

import json
import time
from collections.abc import Callable
from typing import Any

from tests.servable_local.aws.local_account import Account

_DEADLINE_SECONDS = 10


class Queue:
    def __init__(self, account: Account) -> None:
        self._sqs = account.client("sqs")
        self._url = self._sqs.create_queue(QueueName="inbox")["QueueUrl"]
        asked = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        self.arn: str = asked["Attributes"]["QueueArn"]

    def receive(self, count: int, wanted: Callable[[Any], bool] = lambda body: True) -> list[Any]:
        """The first so many of the messages that are wanted, in the order in which they came."""
        found: list[Any] = []
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            got = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10)
            bodies = [json.loads(message["Body"]) for message in got.get("Messages", [])]
            found += filter(wanted, bodies)
            time.sleep(0.02)
        return found[:count]


class TopicInbox:
    """Hears what the rule of state changes says to its topic."""

    def __init__(self, account: Account) -> None:
        """All rules of the account have one target, the same topic."""
        events = account.client("events")
        rules = events.list_rules()["Rules"]
        listed = [events.list_targets_by_rule(Rule=rule["Name"])["Targets"] for rule in rules]
        (topic,) = {target["Arn"] for targets in listed for target in targets}
        self._queue = Queue(account)
        account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self._queue.arn)

    def said(self, count: int) -> list[str]:
        """The first so many of the rule's messages; alarms say JSON."""
        bodies = self._queue.receive(count, lambda body: body["Message"].startswith("Endpoint "))
        return [body["Message"] for body in bodies]
