"""A queue that hears what the rule of state changes says to its topic."""

import json
import time

from tests.servable_local.aws.local_account import Account

_DEADLINE_SECONDS = 10


class TopicInbox:
    def __init__(self, account: Account) -> None:
        """All rules of the account have one target, the same topic."""
        events = account.client("events")
        rules = events.list_rules()["Rules"]
        listed = [events.list_targets_by_rule(Rule=rule["Name"])["Targets"] for rule in rules]
        (arn_of_topic,) = {target["Arn"] for targets in listed for target in targets}
        self._sqs = account.client("sqs")
        self._queue = self._sqs.create_queue(QueueName="inbox")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        account.client("sns").subscribe(
            TopicArn=arn_of_topic, Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"]
        )

    def said(self, count: int) -> list[str]:
        """The first so many of the rule's messages, in the order in which they came."""
        found: list[str] = []
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            got = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
            told = [json.loads(message["Body"])["Message"] for message in got.get("Messages", [])]
            found += [one for one in told if one.startswith("Endpoint ")]  # alarms say JSON
            time.sleep(0.02)
        return found[:count]
