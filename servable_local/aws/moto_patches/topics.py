"""Topics and API destinations: EventBridge rules deliver to them, and nothing leaves this computer.

Upstream (moto 5.2.5): a rule with a topic as its target raises NotImplementedError when an
event matches, and a template's `<name>` without a value stays as it is. AWS publishes to
the topic and leaves out what the event does not hold. An API destination is sent no body and no key.
Sources: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html,
eb-api-destinations.html beside it (headers, 5 s; 2026-11-28)

A subscription of an https URL is posted to, wherever it is, and so is an API destination. AWS does that
too; but somebody who tries prod.toml here must not wake the person on call. Addresses of this computer
are posted to.

GetTopicAttributes leaves out what a topic is sent with, and a subscription does not say who made it.
"""

import json
import re
import sys
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from moto.core.responses import ActionResult
from moto.core.utils import (
    camelcase_to_underscores,
    iso_8601_datetime_without_milliseconds,
    utcfromtimestamp,
)
from moto.events.models import Rule, events_backends
from moto.sns.models import SNSBackend, Subscription, sns_backends
from moto.sns.responses import SNSResponse
from moto.utilities.arns import parse_arn

from servable_local.aws.moto_patches import json_pattern

_SEND = Rule.send_to_targets
_PLACE = re.compile(r"<([^<>]+)>")
_PUBLISH = Subscription.publish
_SUBSCRIBE = SNSBackend.subscribe
_POST_DATA = Subscription.get_post_data
_ATTRIBUTES = SNSResponse.get_topic_attributes
# Shown where they were set.
# https://docs.aws.amazon.com/sns/latest/api/API_GetTopicAttributes.html
_SHOWN = ("ArchivePolicy", "FifoThroughputScope", "SignatureVersion", "TracingConfig")
_HERE = ("127.0.0.1", "localhost", "::1")


def install() -> None:
    """Idempotent."""
    setattr(Rule, "send_to_targets", _send_to_targets)  # noqa: B010 (mypy)
    setattr(Subscription, "publish", _publish)  # noqa: B010
    setattr(SNSBackend, "subscribe", _subscribe)  # noqa: B010
    # On AWS a subscription is there after its topic went.
    setattr(SNSBackend, "delete_topic_subscriptions", lambda backend, topic: None)  # noqa: B010
    setattr(Subscription, "get_post_data", _post_data)  # noqa: B010
    setattr(SNSResponse, "get_topic_attributes", _attributes)  # noqa: B010


def _send_to_targets(rule: Rule, original_event: Any, transform_input: bool = True) -> None:
    # Upstream a rule that has a schedule alone matches every event; on AWS it matches none.
    if not rule.event_pattern.get_pattern() or not rule.event_pattern.matches_event(original_event):
        return
    everywhere = rule.targets
    others = []
    for target in everywhere:
        arn = parse_arn(target["Arn"])
        if arn.service == "sns":
            message = _message(target, original_event)
            sns_backends[arn.account][arn.region].publish(arn=target["Arn"], message=message)
        elif arn.service == "events" and arn.resource_type == "api-destination":
            _post(events_backends[arn.account][arn.region], target, original_event)
        else:
            others.append(target)
    rule.targets = others
    try:
        if rule.targets:
            _SEND(rule, original_event, transform_input)
    finally:
        rule.targets = everywhere


def _post(backend: Any, target: dict[str, Any], event: Any) -> None:
    """Send an API destination of this computer what its target says, with the key of its connection."""
    destination = backend.destinations[target["Arn"].split("/")[1]]
    if urlsplit(destination.invocation_endpoint).hostname not in _HERE:
        return
    connections = {each.arn: each for each in backend.connections.values()}
    given = connections[destination.connection_arn].auth_parameters.get("ApiKeyAuthParameters", {})
    request = urllib.request.Request(
        destination.invocation_endpoint,
        _message(target, event).encode(),
        {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "Amazon/EventBridge/ApiDestinations",
            **({given["ApiKeyName"]: given["ApiKeyValue"]} if given else {}),
        },
        method=destination.http_method,
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=5).close()
    except OSError as error:  # AWS tries again for a day; nobody waits for that here
        print(f"EventBridge: {destination.name} was not reached: {error}", file=sys.stderr)


def _message(target: dict[str, Any], event: Any) -> str:
    if "Input" in target:
        return str(target["Input"])
    shown = {name: value for name, value in event.items() if name != "ingestion-time"}
    if isinstance(shown.get("time"), int | float):
        shown["time"] = iso_8601_datetime_without_milliseconds(utcfromtimestamp(shown["time"]))
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(shown, separators=(",", ":"))
    paths = transformer.get("InputPathsMap", {})
    template = str(transformer["InputTemplate"])
    words = _PLACE.sub(lambda place: _value(shown, paths.get(place[1], "")), template)
    return words[1:-1] if words.startswith('"') and words.endswith('"') else words


def _value(event: Any, path: str) -> str:
    """`$.detail.names[0]` and the like: what rules here use."""
    found = json_pattern.selected(path, event)
    if not found or found[0] is None:
        return ""
    return found[0] if isinstance(found[0], str) else json.dumps(found[0])


def _publish(subscription: Subscription, *arguments: Any, **more: Any) -> None:
    away = urlsplit(subscription.endpoint).hostname not in _HERE
    if subscription.protocol in ("http", "https") and away:
        return
    _PUBLISH(subscription, *arguments, **more)


def _subscribe(backend: Any, topic_arn: str, endpoint: str, protocol: str) -> Any:
    subscription = _SUBSCRIBE(backend, topic_arn, endpoint, protocol)
    principal = f"arn:{backend.partition}:iam::{backend.account_id}:user/moto"
    subscription.attributes.setdefault("SubscriptionPrincipal", principal)
    return subscription


def _post_data(subscription: Any, *arguments: Any, **more: Any) -> Any:
    """Upstream every message says "2", which only a topic that was set to it has."""
    data = _POST_DATA(subscription, *arguments, **more)
    return data | {"SignatureVersion": getattr(subscription.topic, "signature_version", "1")}


def _attributes(api: Any) -> ActionResult:
    result: Any = _ATTRIBUTES(api).result
    topic = api.backend.get_topic(api._get_param("TopicArn"))
    for name in _SHOWN:
        value = getattr(topic, camelcase_to_underscores(name), None)
        if value is not None:
            result["Attributes"][name] = value
    return ActionResult(result)
