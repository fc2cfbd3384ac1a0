"""Queues: which messages they had, and what encrypts them.

Upstream (moto 5.2.5): a message of a FIFO queue can be sent again as soon as it is deleted; on AWS not within
5 minutes, and by another group neither unless the queue was made for that. A queue with a key of KMS is said
to be encrypted by SQS too, and the policy that a first permission makes is of another version.
Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
(2026-11-28); what was recorded from AWS is in tests/servable_local/aws/aws_answers.jsonl in the repository.
"""

import json
from typing import Any

from moto.core.utils import unix_time
from moto.sqs.models import DEDUPLICATION_TIME_IN_SECONDS, Queue

_ADD, _SET, _POLICY = Queue.add_message, Queue._set_attributes, vars(Queue)["policy"]


def install() -> None:
    """Idempotent."""
    setattr(Queue, "add_message", _add)  # noqa: B010 (mypy)
    setattr(Queue, "_set_attributes", _set)  # noqa: B010
    setattr(Queue, "policy", property(_POLICY.fget, _set_policy))  # noqa: B010


def _add(queue: Any, message: Any) -> None:
    if queue.fifo_queue and message.deduplication_id:
        scope = vars(queue).setdefault("scope", queue.deduplication_scope)
        group = message.group_id if scope == "messageGroup" else None
        sent = vars(queue).setdefault("sent", {})
        before = sent.get((group, message.deduplication_id), 0.0)
        if unix_time() - before < DEDUPLICATION_TIME_IN_SECONDS:
            return
        sent[group, message.deduplication_id] = unix_time()
    _ADD(queue, message)


def _set(queue: Any, attributes: dict[str, Any], now: float | None = None) -> None:
    sse = {"SqsManagedSseEnabled": False} if attributes.get("KmsMasterKeyId") else {}
    _SET(queue, attributes | sse, now)


def _set_policy(queue: Any, policy: str | None) -> None:
    empty = {"Version": "2008-10-17", "Id": f"{queue.queue_arn}/SQSDefaultPolicy", "Statement": []}
    _POLICY.fset(queue, policy or json.dumps(empty))
