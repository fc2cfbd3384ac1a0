"""Topics: what cannot be delivered, and that nothing leaves this computer.

Upstream (moto 5.2.5): a subscription of an https URL is posted to, wherever it is. AWS does that too; but
somebody who tries prod.toml here must not page the person on call. Addresses of this computer are posted to,
and confirmed at once; others stay pending. A delivery that fails ends the request upstream; on AWS the
message goes to the subscription's dead-letter queue.
Source: https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html (2026-11-28)
"""

import copy
import json
import sys
from typing import Any
from urllib.parse import urlsplit

from moto.core.exceptions import JsonRESTError, ServiceException
from moto.sns.models import SNSBackend, Subscription

_PUBLISH, _SUBSCRIBE = Subscription.publish, SNSBackend.subscribe
HERE = ("127.0.0.1", "localhost", "::1")


def install() -> None:
    """Patch SNS. Idempotent."""
    setattr(Subscription, "publish", _publish)  # noqa: B010 (mypy)
    setattr(SNSBackend, "subscribe", _subscribe)  # noqa: B010


def _is_away(protocol: str, endpoint: str) -> bool:
    return protocol in ("http", "https") and urlsplit(endpoint).hostname not in HERE


def _publish(subscription: Any, *arguments: Any, **more: Any) -> None:
    if _is_away(subscription.protocol, subscription.endpoint):
        return
    try:
        _PUBLISH(subscription, *arguments, **more)
    except (JsonRESTError, ServiceException, OSError) as error:
        policy = json.loads(subscription.attributes.get("RedrivePolicy") or "{}")
        print(f"SNS: {subscription.endpoint} was not reached: {error}", file=sys.stderr)
        if policy:
            dead = copy.copy(subscription)
            dead.protocol, dead.endpoint = "sqs", policy["deadLetterTargetArn"]
            _PUBLISH(dead, *arguments, **more)


def _subscribe(backend: Any, topic_arn: str, endpoint: str, protocol: str) -> Any:
    subscription = _SUBSCRIBE(backend, topic_arn, endpoint, protocol)
    if protocol in ("email", "email-json") or _is_away(protocol, endpoint):
        pending = {"PendingConfirmation": True, "ConfirmationWasAuthenticated": False}
        subscription.attributes.update(pending)
    return subscription
