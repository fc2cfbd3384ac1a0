"""EventBridge and SNS: delivery to topics, queues, logs, buses, and API destinations here.

Upstream (moto 5.2.5): a rule with a topic as its target raises NotImplementedError for an event,
an InputPath is ignored, a template's `<name>` without a value stays, an event has no account, a
missing queue aborts the request, an API destination gets no body and no key, and a bus a
different event. AWS publishes to the topic, omits missing values, and sends undeliverable events
to the dead-letter queue. Objects in lists match nothing. Sources:
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html,
eb-api-destinations.html and eb-rule-dlq.html next to it (headers, 5 s; 2026-11-28).

Nothing leaves this computer: remote API destinations and https subscriptions get no request,
unlike upstream and on AWS: somebody who tries prod.toml here must not page the person on call.
Addresses of this computer get requests, and are confirmed at once; others stay pending. A failed
delivery aborts the request upstream; on AWS the message goes to the dead-letter queue. Source:
https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html (2026-11-28)
"""

import contextlib
import copy
import json
import re
import sys
import urllib.request
import uuid
from typing import Any
from urllib.parse import urlsplit

from moto.core.exceptions import JsonRESTError, ServiceException
from moto.core.utils import (
    iso_8601_datetime_without_milliseconds,
    unix_time_millis,
    utcfromtimestamp,
)
from moto.events.models import (
    EventPattern,
    EventsBackend,
    Rule,
    events_backends,
)
from moto.events.utils import PAGINATION_MODEL
from moto.logs.models import logs_backends
from moto.sns.models import SNSBackend, Subscription, sns_backends
from moto.sqs.models import sqs_backends
from moto.utilities.arns import parse_arn

from servable_local.aws.moto_patches.log_patterns import select_values

_PUBLISH, _SUBSCRIBE = Subscription.publish, SNSBackend.subscribe
HERE = ("127.0.0.1", "localhost", "::1")
_SEND = Rule.send_to_targets
_PUT_EVENTS = EventsBackend.put_events
_PLACE = re.compile(r"<([^<>]+)>")


def _is_remote(protocol: str, endpoint: str) -> bool:
    return protocol in ("http", "https") and urlsplit(endpoint).hostname not in HERE


def _publish(subscription: Any, *arguments: Any, **more: Any) -> None:
    if _is_remote(subscription.protocol, subscription.endpoint):
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
    if protocol in ("email", "email-json") or _is_remote(protocol, endpoint):
        pending = {"PendingConfirmation": True, "ConfirmationWasAuthenticated": False}
        subscription.attributes.update(pending)
    return subscription


def install() -> None:
    """Patch SNS and EventBridge. Idempotent."""
    setattr(Subscription, "publish", _publish)  # noqa: B010 (mypy)
    setattr(SNSBackend, "subscribe", _subscribe)  # noqa: B010
    setattr(Rule, "send_to_targets", _send_to_targets)  # noqa: B010
    setattr(EventsBackend, "put_events", _put_events)  # noqa: B010
    setattr(EventPattern, "_flatten_dict", staticmethod(_flatten))  # noqa: B010
    PAGINATION_MODEL["list_targets_by_rule"]["unique_attribute"] = "Id"


def _put_events(backend: Any, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put events. On a missing bus, an event has an ID, as on AWS, but no receiver."""
    buses = [event.get("EventBusName", "default").rpartition("/")[2] for event in events]
    there = [event for event, bus in zip(events, buses, strict=True) if bus in backend.event_buses]
    answers = iter(_PUT_EVENTS(backend, [_reject_non_object(event) for event in there]))
    return [
        next(answers) if bus in backend.event_buses else {"EventId": str(uuid.uuid4())}
        for bus in buses
    ]


def _reject_non_object(event: dict[str, Any]) -> dict[str, Any]:
    """Make a JSON detail that isn't an object malformed, as on AWS: moto only rejects non-JSON."""
    try:
        malformed = not isinstance(json.loads(event["Detail"]), dict)
    except (KeyError, ValueError):
        return event
    return event | {"Detail": "!"} if malformed else event


def _send_to_targets(rule: Rule, original_event: Any, transform_input: bool = True) -> None:
    # Upstream a rule that has a schedule alone, or is disabled, matches; on AWS it matches no event.
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
            print(f"EventBridge: {target['Arn']} was not reached: {error}", file=sys.stderr)
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
    place = arn.account, arn.region
    match arn.service, arn.resource_type:
        case "sns", _:
            message = _build_message(rule, target, event)
            sns_backends[place[0]][place[1]].publish(arn=target["Arn"], message=message)
        case "sqs", _:
            sqs_backends[place[0]][place[1]].send_message(
                queue_name=arn.resource_id,
                message_body=_build_message(rule, target, event, unquoted=False),
                group_id=target.get("SqsParameters", {}).get("MessageGroupId"),
            )
        case "logs", "log-group":
            message = _build_message(rule, target, event, unquoted=False)
            logs, stream = logs_backends[place[0]][place[1]], str(uuid.uuid4())
            logs.create_log_stream(arn.resource_id, stream)
            line = {"timestamp": int(unix_time_millis()), "message": message}
            logs.put_log_events(arn.resource_id, stream, [line])
        case "events", "event-bus":  # the same event, and not another of this bus's
            bus = events_backends[place[0]][place[1]].event_buses.get(arn.resource_id)
            for other in [*bus.rules.values()] if bus else ():
                other.send_to_targets(event)
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
    request = urllib.request.Request(
        destination.invocation_endpoint,
        _build_message(rule, target, event).encode(),
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

    words = _PLACE.sub(replace_placeholder, template)
    if words.startswith("{"):  # values are not escaped, and may break it
        with contextlib.suppress(ValueError):
            words = json.dumps(json.loads(words), separators=(",", ":"))
    alone = unquoted and words.startswith('"') and words.endswith('"')
    return words[1:-1] if alone else words


def _format_time(given: Any) -> str:
    return iso_8601_datetime_without_milliseconds(utcfromtimestamp(int(given)))


def _flatten(
    node: Any, prefix: str = "", found: dict[str, Any] | None = None
) -> dict[str, list[Any]]:
    """Return values by path; those in a list, and in its objects, share a path."""
    found = {} if found is None else found
    if isinstance(node, dict):
        for name, value in node.items():
            _flatten(value, f"{prefix}.{name}" if prefix else name, found)
    elif isinstance(node, list):
        for value in node:
            _flatten(value, prefix, found)
    else:
        found.setdefault(prefix, []).append(node)
    return found
