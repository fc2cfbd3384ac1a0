"""Requests that AWS refuses and moto takes, and refusals that moto words in its own way.

Upstream (moto 5.2.5): what is malformed, missing or there twice is kept as it came, or ends in an exception.
Every code and sentence was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the
repository has each with its date and source.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.core.serialize import QuerySerializer
from moto.iam.models import Policy

from servable_local.aws.moto_patches import constraints, event_patterns, topic_inputs
from servable_local.aws.moto_patches.conflicts import CONFLICTS
from servable_local.aws.moto_patches.keys import digest
from servable_scaling.schedule import ScheduleError, last_run

_CALL, _ERROR = BaseResponse.call_action, QuerySerializer._serialize_error_metadata
_Given = Mapping[str, Any]
# What is wrong: an error's code and message.
_Problems = Iterator[tuple[str, str]]
_ROLE = re.compile(r"arn:[\w-]+:iam::\d{12}:role/.+")
_SESSION = re.compile(r"[\w+=,.@-]*")
# The most of an entry, https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html
_MOST_BYTES = 262_144
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_TestEventPattern.html (2026-11-28)
_EVENT = {"id", "account", "source", "time", "region", "detail-type"}


class _RefusedError(ServiceException):
    """Not moto's own class, whose service moto takes from where it is defined."""


def install() -> None:
    """Idempotent."""
    setattr(BaseResponse, "call_action", _call)  # noqa: B010 (mypy)
    setattr(Policy, "permissions_boundary_usage_count", 0)  # noqa: B010 - AWS always says it
    setattr(QuerySerializer, "_serialize_error_metadata", _error)  # noqa: B010


def refusal(api: Any) -> Any:
    """The answer to a request that is refused, or None."""
    service, name = operation = (api.service_name, api._get_action())
    of_input, of_state = _CHECKS.get(operation), CONFLICTS.get(operation)
    problems: list[Any] = []
    if of_input or of_state or service == "sns" or service in constraints.CODES:
        given = api.params if api.automated_parameter_parsing else json.loads(api.body or "{}")
        problems = [
            of_input(given) if of_input else (),
            topic_inputs.problems(name, given) if service == "sns" else (),
            constraints.unmet(service, name, given),
            of_state(api, given) if of_state else (),
        ]
    problem = next(itertools.chain(*problems), None)
    return problem and api.serialized(ActionResult(_RefusedError(*problem)))


def _call(api: Any) -> Any:
    operation = (api.service_name, api._get_action())
    status, headers, body = refusal(api) or _CALL(api)
    if operation == ("kms", "Verify") and not json.loads(body).get("SignatureValid", True):
        return api.serialized(ActionResult(_RefusedError("KMSInvalidSignatureException", "")))
    if int(status) >= 400 and isinstance(body, str | bytes):
        text = body.decode() if isinstance(body, bytes) else body
        for scope in (api.service_name, ".".join(map(str, operation))):
            for of_moto, of_aws in _WORDS.get(scope, ()):
                text = of_moto.sub(of_aws, text)
        body = text if isinstance(body, str) else text.encode()
    return status, headers, body


def _error(serializer: Any, serialized: Any, error: Exception, shape: Any) -> None:
    """The message of an error that has a shape is said once, as `Message`."""
    _ERROR(serializer, serialized, error, shape)
    if "Message" in serialized:
        serialized.pop("message", None)


def _twice(tags: Any, key: str) -> bool:
    keys = [tag[key] for tag in tags or []]
    return len(keys) != len(set(keys))


# --- STS


def _assume_role(given: _Given) -> _Problems:
    name, arn = given.get("RoleSessionName", ""), given.get("RoleArn", "")
    if not _SESSION.fullmatch(name):
        yield (
            "ValidationError",
            f"1 validation error detected: Value '{name}' at 'roleSessionName' failed to satisfy "
            f"constraint: Member must satisfy regular expression pattern: {_SESSION.pattern}",
        )
    if not _ROLE.fullmatch(arn):
        yield "ValidationError", f"{arn} is invalid"
    if _twice([{"Key": tag["Key"].lower()} for tag in given.get("Tags") or []], "Key"):
        yield (
            "InvalidParameterValue",
            "Duplicate tag keys found. Please note that Tag keys are case insensitive.",
        )
    tagged = {tag["Key"].lower() for tag in given.get("Tags") or []}
    if {key.lower() for key in given.get("TransitiveTagKeys") or []} - tagged:
        yield (
            "InvalidParameterValue",
            "The specified transitive tag key must be included in the requested tags.",
        )


# --- EventBridge


def _targets(given: _Given) -> _Problems:
    targets = given.get("Targets") or []
    if len(targets) > 5:
        yield (
            "LimitExceededException",
            "The requested resource exceeds the maximum number allowed.",
        )
    for target in targets:
        name = target["Id"]
        if len({"Input", "InputPath", "InputTransformer"} & target.keys()) > 1:
            yield (
                "ValidationException",
                "Only one of Input, InputPath, or InputTransformer must be provided for target "
                f"{name}.",
            )
        transformer = target.get("InputTransformer") or {}
        known = {*(transformer.get("InputPathsMap") or {})}
        for place in re.findall(r"<([^<>\s]+)>", transformer.get("InputTemplate", "")):
            if place not in known and not place.startswith("aws.events."):
                yield (
                    "ValidationException",
                    f"InputTemplate for target {name} contains invalid placeholder {place}.",
                )


def _rule(given: _Given) -> _Problems:
    schedule = given.get("ScheduleExpression", "")
    try:
        if schedule:
            last_run("" if schedule.startswith("at(") else schedule)
    except ScheduleError:
        yield "ValidationException", "Parameter ScheduleExpression is not valid."
    yield from _pattern(given)


def _pattern(given: _Given) -> _Problems:
    if given.get("EventPattern"):
        yield from event_patterns.problems(given["EventPattern"])


def _event(given: _Given) -> _Problems:
    try:
        event = json.loads(given.get("Event", "{}"))
        valid = isinstance(event, dict) and event.keys() >= _EVENT
    except ValueError:
        valid = False
    if not valid:
        yield "ValidationException", "Parameter Event is not valid."
    yield from _pattern(given)


def _events(given: _Given) -> _Problems:
    sizes = [
        len(str(entry.get(name, "")).encode())
        for entry in given.get("Entries") or []
        for name in ("Source", "DetailType", "Detail")
    ]
    if sum(sizes) > _MOST_BYTES:
        problem = "Total size of the entries in the request is over the limit."
        yield "ValidationException", problem


# --- IAM, KMS


def _policy(given: _Given) -> _Problems:
    if not given.get("PolicyArn", "").startswith("arn:"):
        yield "ValidationError", "Invalid ARN:  Could not be parsed!"


def _key(given: _Given) -> _Problems:
    if given.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT" and "KeyUsage" not in given:
        yield (
            "ValidationException",
            "You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys.",
        )
    yield from _key_tags(given)


def _key_tags(given: _Given) -> _Problems:
    if _twice(given.get("Tags"), "TagKey"):
        yield "TagException", "Duplicate tag keys"
    if len(given.get("Tags") or []) > 50:
        yield "TagException", "Too many tags"


def _alias(given: _Given) -> _Problems:
    if not given.get("AliasName", "").startswith("alias/"):
        yield (
            "ValidationException",
            'Alias must start with the prefix "alias/". Please see '
            "https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html",
        )


# --- CloudWatch Logs, SQS


def _groups(given: _Given) -> _Problems:
    if "logGroupNamePrefix" in given and "logGroupNamePattern" in given:
        yield (
            "InvalidParameterException",
            "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.",
        )


def _streams(given: _Given) -> _Problems:
    if "logGroupName" in given and "logGroupIdentifier" in given:
        yield (
            "ValidationException",
            "LogGroup name and LogGroup ARN are mutually exclusive parameters.",
        )


def _filter(given: _Given) -> _Problems:
    if len(given.get("logGroupName", "")) > 512:
        yield (
            "InvalidParameterException",
            "Invalid LogGroup or LogStream, both must have length less than or equal to 512.",
        )


def _entries(given: _Given) -> _Problems:
    entries = given.get("Entries") or []
    if len(entries) > 10:
        few = f"Maximum number of entries per request are 10. You have sent {len(entries)}."
        yield "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", few
    for entry in entries:
        if not re.fullmatch(r"[\w-]{1,80}", entry["Id"]):
            yield (
                "AWS.SimpleQueueService.InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can "
                "be at most 80 letters long.",
            )


def _messages(given: _Given) -> _Problems:
    yield from _entries(given)
    for entry in given.get("Entries") or []:
        if str(given.get("QueueUrl")).endswith(".fifo") and "MessageGroupId" not in entry:
            message = "The request must contain the parameter MessageGroupId."
            yield "InvalidParameterValue", message
        yield from _groups_of(entry)


def _groups_of(given: _Given) -> _Problems:
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        value = given.get(name, "none")
        if not re.fullmatch(r"[!-~]{1,128}", value):
            yield (
                "InvalidParameterValue",
                f"Value {value} for parameter {name} is invalid. Reason: {name} can only include "
                "alphanumeric and punctuation characters. 1 to 128 in length.",
            )


def _message(given: _Given) -> _Problems:
    yield from _groups_of(given)
    if not given.get("MessageBody"):
        yield "MissingParameter", "The request must contain the parameter MessageBody."
    for name, value in (given.get("MessageAttributes") or {}).items():
        if value.get("DataType") == "String" and not value.get("StringValue"):
            yield (
                "InvalidParameterValue",
                f"Message (user) attribute '{name}' must contain a non-empty value of type 'String'.",
            )


def _receipt(given: _Given) -> _Problems:
    seconds = int(given.get("WaitTimeSeconds") or 0)
    if not 0 <= seconds <= 20:
        yield (
            "InvalidParameterValue",
            f"Value {seconds} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= "
            "20, if provided.",
        )


def _queue(given: _Given) -> _Problems:
    if (given.get("Attributes") or {}).get("FifoQueue", "true").lower() != "true":
        yield "InvalidAttributeName", "Unknown Attribute FifoQueue."


def _queue_attributes(given: _Given) -> _Problems:
    standard = not str(given.get("QueueUrl", "")).endswith(".fifo")
    if standard and "FifoQueue" in (given.get("Attributes") or {}):
        yield "InvalidAttributeName", "Unknown Attribute FifoQueue."
    if (given.get("Attributes") or {}).get("FifoQueue", "true").lower() != "true":
        what = "Invalid value for the parameter FifoQueue."
        yield "InvalidAttributeValue", f"{what} Reason: Modifying queue type is not supported."
    attributes = given.get("Attributes") or {}
    if attributes.get("KmsMasterKeyId") and attributes.get("SqsManagedSseEnabled") == "true":
        yield (
            "InvalidAttributeName",
            "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE "
            "or SQS SSE.",
        )


_CHECKS: dict[tuple[str, str], Callable[[_Given], _Problems]] = {
    ("sts", "AssumeRole"): _assume_role,
    ("events", "PutTargets"): _targets,
    ("events", "PutEvents"): _events,
    ("events", "PutRule"): _rule,
    **{
        ("iam", f"{verb}{kind}Policy"): _policy
        for verb in ("Attach", "Detach")
        for kind in ("Group", "Role", "User")
    },
    ("events", "TestEventPattern"): _event,
    ("kms", "CreateKey"): _key,
    ("kms", "TagResource"): _key_tags,
    ("kms", "CreateAlias"): _alias,
    ("kms", "Sign"): digest,
    ("kms", "Verify"): digest,
    ("logs", "DescribeLogGroups"): _groups,
    ("logs", "DescribeLogStreams"): _streams,
    ("logs", "CreateLogGroup"): _filter,
    ("logs", "DeleteMetricFilter"): _filter,
    ("logs", "PutMetricFilter"): _filter,
    ("sqs", "ChangeMessageVisibilityBatch"): _entries,
    ("sqs", "DeleteMessageBatch"): _entries,
    ("sqs", "SendMessage"): _message,
    ("sqs", "SendMessageBatch"): _messages,
    ("sqs", "ReceiveMessage"): _receipt,
    ("sqs", "CreateQueue"): _queue,
    ("sqs", "SetQueueAttributes"): _queue_attributes,
}
# An error's text, by service or operation: moto's words and AWS's.
_WORDS: dict[str, list[tuple[re.Pattern[str], str]]] = {
    service: [(re.compile(of_moto), of_aws) for of_moto, of_aws in words]
    for service, words in {
        "ssm": [(r"Parameter [^\"<]* not found\.", "")],
        "events": [
            (r"(Rule [^ \"]* does not exist)\.", r"\1 on EventBus default."),
            (
                r"EventBus does not have a policy\.",
                "Statement with the provided id does not exist.",
            ),
        ],
        "awslambda.CreateFunction": [(r"::\(\\\\d\{12\}\):", r"::\\\\d{12}:")],
        "kms": [(r"Invalid keyId ([\w-]+)", r"Invalid keyId '\1'")],
        "iam": [(r"(policy/\S+) not found", r"\1 was not found.")],
        "logs": [(r"(Policy with name \[.*?\] does not exist)(?!\.)", r"\1.")],
        "logs.CreateLogStream": [(r"log group already exists", "log stream already exists")],
        "awslambda.GetPolicy": [
            (r"Function not found: [^\"]*", "The resource you requested does not exist.")
        ],
        "sqs": [
            (r'("__type": "[^"]*InvalidParameterValue)"', r'\1Exception"'),
            (r"(can't find label) on existing policy", r"\1"),
        ],
        "sns": [
            (
                r"(>)(Policy statement action out of service scope!|Statement already exists)",
                r"\1Invalid parameter: \2",
            ),
            (r"Subscription with arn \S+ not found", "Subscription does not exist"),
        ],
    }.items()
}
