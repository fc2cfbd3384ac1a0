"""Topics: what they are sent with, who hears them, and that nothing leaves this computer.

Upstream (moto 5.2.5): a subscription of an https URL is posted to, wherever it is. AWS does that too; but
somebody who tries prod.toml here must not wake the person on call. Addresses of this computer are posted to,
and confirmed without being asked; others stay pending. A delivery that fails ends the request upstream; on
AWS the message goes to the subscription's dead-letter queue. A message of a FIFO topic that is repeated
within 5 minutes is not sent again. Attributes lack what a topic is sent with, and who made a subscription.
Sources: https://docs.aws.amazon.com/sns/latest/dg/fifo-message-dedup.html,
sns-dead-letter-queues.html beside it (2026-11-28); what was recorded from AWS is in
tests/servable_local/aws/aws_answers.jsonl in the repository.
"""

import base64
import copy
import hashlib
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from moto.awslambda.exceptions import UnknownFunctionException
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores, unix_time
from moto.sns.models import DEFAULT_PAGE_SIZE, SNSBackend, Subscription, Topic
from moto.sns.responses import SNSResponse
from moto.sqs.exceptions import QueueDoesNotExist

from servable_local.aws.moto_patches.topic_inputs import FEEDBACK

_PUBLISH, _PUBLISH_TO_ALL = Subscription.publish, Topic.publish
_SUBSCRIBE, _SUBSCRIBE_API = SNSBackend.subscribe, SNSResponse.subscribe
_POST_DATA = Subscription.get_post_data
_ATTRIBUTES = SNSResponse.get_topic_attributes
_PUBLISH_API, _BATCH_API = SNSResponse.publish, SNSResponse.publish_batch
# Shown where they were set.
# https://docs.aws.amazon.com/sns/latest/api/API_GetTopicAttributes.html
_SHOWN = ("ArchivePolicy", "FifoThroughputScope", "SignatureVersion", "TracingConfig", *FEEDBACK)
HERE = ("127.0.0.1", "localhost", "::1")
_DEDUPLICATED_SECONDS = 300
_FIRST_NUMBER = 10_000_000_000_000_000_000  # of 20 digits, as AWS's are
# https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html (2026-11-28)
_RETRIES = {
    "minDelayTarget": 20,
    "maxDelayTarget": 20,
    "numRetries": 3,
    "numMaxDelayRetries": 0,
    "numNoDelayRetries": 0,
    "numMinDelayRetries": 0,
    "backoffFunction": "linear",
}


def install() -> None:
    """Idempotent."""
    setattr(Subscription, "publish", _publish)  # noqa: B010 (mypy)
    setattr(Topic, "publish", _publish_to_all)  # noqa: B010
    setattr(SNSBackend, "subscribe", _subscribe)  # noqa: B010
    setattr(SNSResponse, "subscribe", _subscribed)  # noqa: B010
    # On AWS a subscription is there after its topic went.
    setattr(SNSBackend, "delete_topic_subscriptions", lambda backend, topic: None)  # noqa: B010
    setattr(SNSBackend, "_get_values_nexttoken", _page)  # noqa: B010
    setattr(Subscription, "get_post_data", _post_data)  # noqa: B010
    setattr(Subscription, "_parse_message_structure", _message_of)  # noqa: B010
    setattr(SNSResponse, "get_sms_attributes", _sms_attributes)  # noqa: B010
    setattr(SNSResponse, "get_topic_attributes", _attributes)  # noqa: B010
    setattr(SNSResponse, "publish", _numbered(_PUBLISH_API))  # noqa: B010
    setattr(SNSResponse, "publish_batch", _numbered(_BATCH_API))  # noqa: B010


def _is_away(protocol: str, endpoint: str) -> bool:
    return protocol in ("http", "https") and urlsplit(endpoint).hostname not in HERE


def _publish(subscription: Any, *arguments: Any, **more: Any) -> None:
    if _is_away(subscription.protocol, subscription.endpoint):
        return
    attributes = more.get("message_attributes") or {}
    if subscription.attributes.get("RawMessageDelivery"):  # queues keep bytes
        more["message_attributes"] = {
            name: value | {"Value": base64.b64decode(value["Value"])}
            if value["Type"].startswith("Binary")
            else value
            for name, value in attributes.items()
        }
    try:
        _PUBLISH(subscription, *arguments, **more)
    except (QueueDoesNotExist, UnknownFunctionException, OSError) as error:
        policy = json.loads(subscription.attributes.get("RedrivePolicy") or "{}")
        print(f"SNS: {subscription.endpoint} was not reached: {error}", file=sys.stderr)
        if policy:
            dead = copy.copy(subscription)
            dead.protocol, dead.endpoint = "sqs", policy["deadLetterTargetArn"]
            _PUBLISH(dead, *arguments, **more)


def _publish_to_all(topic: Any, message: str, **more: Any) -> str:
    """A FIFO topic has a number for each message, and sends none twice."""
    if not topic.fifo_topic:
        return _PUBLISH_TO_ALL(topic, message, **more)
    sent: dict[str, tuple[float, str]] = vars(topic).setdefault("sent", {})
    numbers = vars(topic).setdefault("numbers", {})
    key = more.get("deduplication_id") or hashlib.sha256(message.encode()).hexdigest()
    before, message_id = sent.get(key, (0.0, ""))
    if unix_time() - before >= _DEDUPLICATED_SECONDS:
        topic.number = str(_FIRST_NUMBER + len(numbers))
        message_id = _PUBLISH_TO_ALL(topic, message, **more | {"deduplication_id": key})
        sent[key], numbers[message_id] = (unix_time(), message_id), topic.number
    return message_id


def _numbered(publish: Callable[[Any], ActionResult]) -> Callable[[Any], ActionResult]:
    def published(api: Any) -> ActionResult:
        result: Any = publish(api).result
        arn = api._get_param("TopicArn") or api._get_param("TargetArn")
        numbers = vars(api.backend.get_topic(arn)).get("numbers", {}) if arn else {}
        for answer in result.get("Successful", [result]):
            if number := numbers.get(answer["MessageId"]):
                answer["SequenceNumber"] = number
        return ActionResult(result)

    return published


def _subscribe(backend: Any, topic_arn: str, endpoint: str, protocol: str) -> Any:
    subscription = _SUBSCRIBE(backend, topic_arn, endpoint, protocol)
    principal = f"arn:{backend.partition}:iam::{backend.account_id}:user/moto"
    subscription.attributes.setdefault("SubscriptionPrincipal", principal)
    if protocol in ("email", "email-json") or _is_away(protocol, endpoint):
        pending = {"PendingConfirmation": True, "ConfirmationWasAuthenticated": False}
        subscription.attributes.update(pending)
    return subscription


def _subscribed(api: Any) -> ActionResult:
    result: Any = _SUBSCRIBE_API(api).result
    pending = api.backend.subscriptions[result["SubscriptionArn"]].attributes["PendingConfirmation"]
    if pending and str(api._get_param("ReturnSubscriptionArn")).lower() != "true":
        return ActionResult({"SubscriptionArn": "pending confirmation"})
    return ActionResult(result)


def _page(_: Any, values: dict[str, Any], token: str | None = None) -> tuple[list[Any], str | None]:
    start = int(base64.b64decode(token)) if token else 0
    end = start + DEFAULT_PAGE_SIZE
    more = base64.b64encode(str(end).encode()).decode() if len(values) > end else None
    return list(itertools.islice(values.values(), start, end)), more


def _post_data(subscription: Any, *arguments: Any, **more: Any) -> Any:
    """A FIFO topic signs nothing, and numbers its messages; others sign with version 1 unless set."""
    data, topic = _POST_DATA(subscription, *arguments, **more), subscription.topic
    place = f"https://sns.{topic.sns_backend.region_name}.amazonaws.com/"
    data["UnsubscribeURL"] = f"{place}?Action=Unsubscribe&SubscriptionArn={subscription.arn}"
    data["SignatureVersion"] = getattr(topic, "signature_version", "1")
    if topic.fifo_topic:
        for name in ("Signature", "SignatureVersion", "SigningCertURL"):
            del data[name]
        data["SequenceNumber"] = topic.number
    return data


def _message_of(subscription: Any, message: str, protocol: str) -> str:
    """The text for a protocol; what is no text is not looked at."""
    texts = {name: text for name, text in json.loads(message).items() if isinstance(text, str)}
    return str(texts.get(subscription.protocol) or texts["default"])


def _sms_attributes(api: Any) -> ActionResult:
    attributes = {"MonthlySpendLimit": "1"} | api.backend.sms_attributes
    names = api._get_param("attributes") or attributes
    return ActionResult({"attributes": {n: attributes[n] for n in names if n in attributes}})


def _attributes(api: Any) -> ActionResult:
    result: Any = _ATTRIBUTES(api).result
    topic = api.backend.get_topic(api._get_param("TopicArn"))
    shown = result["Attributes"]
    for name in _SHOWN:
        value = getattr(topic, camelcase_to_underscores(name), None)
        if value is not None:
            shown[name] = value
    given = json.loads(shown.pop("DeliveryPolicy") or "{}").get("http")
    default = {"disableSubscriptionOverrides": False}
    http = default | {name: value for name, value in (given or {}).items() if value is not None}
    if given is not None:
        shown["DeliveryPolicy"] = json.dumps({"http": http})
    effective = {
        "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
        **http,
        "defaultHealthyRetryPolicy": _RETRIES | http.get("defaultHealthyRetryPolicy", {}),
    }
    shown["EffectiveDeliveryPolicy"] = json.dumps({"http": effective})
    return ActionResult(result)
