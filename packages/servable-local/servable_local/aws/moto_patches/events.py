"""EventBridge and SNS: delivery to topics, queues, and API destinations on this computer.

Upstream (moto 5.2.5): a rule with a topic as its target raises NotImplementedError for an event,
an InputPath is ignored, a template's `<name>` without a value stays, and an API destination gets
no body and no key. AWS publishes to the topic, omits missing values, and sends undeliverable
events to the dead-letter queue. Sources:
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html,
eb-api-destinations.html and eb-rule-dlq.html next to it (headers, 5 s; 2026-11-28).

Nothing leaves this computer: remote API destinations and https subscriptions get no request, so
that trying prod.toml here doesn't page the person on call. Addresses of this computer get
requests, and are confirmed at once; others stay pending. A failed delivery aborts the request
upstream; on AWS the message goes to the dead-letter queue. Source:
https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html (2026-11-28)
"""

import contextlib
import copy
import json
import re
import sys
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from moto.core.exceptions import JsonRESTError, ServiceException
from moto.core.utils import iso_8601_datetime_without_milliseconds, utcfromtimestamp
from moto.events.models import Rule, events_backends
from moto.events.utils import PAGINATION_MODEL
from moto.sns.models import SNSBackend, Subscription, sns_backends
from moto.sqs.models import sqs_backends
from moto.utilities.arns import parse_arn

from servable_local.aws.moto_patches.log_patterns import select_values

_PUBLISH, _SUBSCRIBE = Subscription.publish, SNSBackend.subscribe
HERE = ("127.0.0.1", "localhost", "::1")
_SEND = Rule.send_to_targets
_PLACEHOLDER = re.compile(r"<([^<>]+)>")


def _is_remote(protocol: str, endpoint: str) -> bool:
    return protocol in ("http", "https") and urlsplit(endpoint).hostname not in HERE


def _publish(subscription: Any, *arguments: Any, **more: Any) -> None:
    if _is_remote(subscription.protocol, subscription.endpoint):
        return
    try:
        _PUBLISH(subscription, *arguments, **more)
    except (JsonRESTError, ServiceException, OSError) as error:
        policy = json.loads(subscription.attributes.get("RedrivePolicy") or "{}")
        print(f"SNS: cannot reach {subscription.endpoint}: {error}", file=sys.stderr)
        if policy:
            dead = copy.copy(subscription)
            dead.protocol, dead.endpoint = "sqs", policy["deadLetterTargetArn"]
            _PUBLISH(dead, *arguments, **more)


def _subscribe(backend: Any, topic_arn: str, endpoint: str, protocol: str) -> Any:
    subscription = _SUBSCRIBE(backend, topic_arn, endpoint, protocol)
    if protocol in ("email", "email-json") or _is_remote(protocol, endpoint):
        pending = {"PendingConfirmation": True, "ConfirmationWasAuthenticated": False}
        subscription.attributes.update(pending)
    return subscription


def install() -> None:
    """Patch SNS and EventBridge. Idempotent."""
    setattr(Subscription, "publish", _publish)  # noqa: B010 (mypy)
    setattr(SNSBackend, "subscribe", _subscribe)  # noqa: B010
    setattr(Rule, "send_to_targets", _send_to_targets)  # noqa: B010
    PAGINATION_MODEL["list_targets_by_rule"]["unique_attribute"] = "Id"


def _send_to_targets(rule: Rule, original_event: Any, transform_input: bool = True) -> None:
    # On AWS, a disabled rule and one with only a schedule match no event; upstream they match.
    pattern = rule.event_pattern
    matches = pattern.get_pattern() and pattern.matches_event(original_event)
    if not matches or rule.state == "DISABLED":
        return
    everywhere, others = rule.targets, []
    for target in everywhere:
        try:
            if not _deliver(rule, target, original_event):
                others.append(target)
        except (JsonRESTError, ServiceException) as error:
            print(f"EventBridge: cannot reach {target['Arn']}: {error}", file=sys.stderr)
            if dead := target.get("DeadLetterConfig"):
                _deliver(rule, {"Arn": dead["Arn"]}, original_event)
    rule.targets = others
    try:
        if rule.targets:
            _SEND(rule, original_event, transform_input)
    finally:
        rule.targets = everywhere


def _deliver(rule: Any, target: dict[str, Any], event: Any) -> bool:
    """Deliver an event to a target. Return False if moto has to deliver it."""
    arn = parse_arn(target["Arn"])
    match arn.service, arn.resource_type:
        case "sns", _:
            topics = sns_backends[arn.account][arn.region]
            topics.publish(arn=target["Arn"], message=_build_message(rule, target, event))
        case "sqs", _:
            group = target.get("SqsParameters", {}).get("MessageGroupId")
            message = _build_message(rule, target, event, unquoted=False)
            queues = sqs_backends[arn.account][arn.region]
            queues.send_message(arn.resource_id, message, group_id=group)
        case "events", "api-destination":
            _post_to_destination(rule, target, event)
        case _:
            return False
    return True


def _post_to_destination(rule: Any, target: dict[str, Any], event: Any) -> None:
    """Send the target's message, with the connection's key, to an API destination here."""
    arn = parse_arn(target["Arn"])
    backend = events_backends[arn.account][arn.region]
    destination = backend.destinations[target["Arn"].split("/")[1]]
    if urlsplit(destination.invocation_endpoint).hostname not in HERE:
        return
    connections = {each.arn: each for each in backend.connections.values()}
    given = connections[destination.connection_arn].auth_parameters.get("ApiKeyAuthParameters", {})
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Amazon/EventBridge/ApiDestinations",
    }
    if given:
        headers[given["ApiKeyName"]] = given["ApiKeyValue"]
    body = _build_message(rule, target, event).encode()
    url, method = destination.invocation_endpoint, destination.http_method
    request = urllib.request.Request(url, body, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=5).close()
    except OSError as error:  # AWS retries for a day
        print(f"EventBridge: cannot reach {destination.name}: {error}", file=sys.stderr)


def _build_message(rule: Any, target: dict[str, Any], event: Any, *, unquoted: bool = True) -> str:
    """Return a target's message. `unquoted`: remove the quotes of a template that is one text."""
    if "Input" in target:
        return str(target["Input"])
    shown = {name: value for name, value in event.items() if name != "ingestion-time"}
    if isinstance(shown.get("time"), int | float):
        shown["time"] = _format_time(shown["time"])
    if "InputPath" in target:
        selected = select_values(target["InputPath"], shown)
        return json.dumps(selected[0], separators=(",", ":")) if selected else ""
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(shown, separators=(",", ":"))
    values: dict[str, Any] = {
        "aws.events.rule-arn": rule.arn,
        "aws.events.rule-name": rule.name,
        "aws.events.event.ingestion-time": _format_time(event["ingestion-time"]),
        "aws.events.event": {name: value for name, value in shown.items() if name != "detail"},
        "aws.events.event.json": shown,
    }
    for name, path in transformer.get("InputPathsMap", {}).items():
        values[name] = next(iter(select_values(path, shown)), None)
    template = str(transformer["InputTemplate"])

    def replace_placeholder(place: re.Match[str]) -> str:
        """Return the value, quoted unless the template does so: `{"name": <name>}`."""
        value = values.get(place[1])
        quoted = len(re.findall(r'(?<!\\)"', template[: place.start()])) % 2
        if value is None:
            return ""
        return value if isinstance(value, str) and quoted else json.dumps(value)

    words = _PLACEHOLDER.sub(replace_placeholder, template)
    if words.startswith("{"):  # unescaped values can make it invalid JSON
        with contextlib.suppress(ValueError):
            words = json.dumps(json.loads(words), separators=(",", ":"))
    alone = unquoted and words.startswith('"') and words.endswith('"')
    return words[1:-1] if alone else words


def _format_time(given: Any) -> str:
    return iso_8601_datetime_without_milliseconds(utcfromtimestamp(int(given)))
