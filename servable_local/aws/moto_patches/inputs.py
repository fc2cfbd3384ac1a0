"""Requests that AWS refuses and moto takes, and refusals that moto words in its own way.

Upstream (moto 5.2.5): what is malformed, missing or there twice is kept as it came, or ends in an exception.
Every code and sentence was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the
repository has each with its date and source.
"""

import itertools
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.core import responses
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.core.serialize import QuerySerializer
from moto.iam.models import Policy

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches import (
    constraints,
    event_patterns,
    functions,
    operations,
    topic_inputs,
)
from servable_local.aws.moto_patches.conflicts import CONFLICTS
from servable_local.aws.moto_patches.keys import digest, not_for_usage
from servable_scaling.schedule import ScheduleError, last_run

_METADATA = QuerySerializer._serialize_error_metadata
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

    Type = "User"  # of Lambda's errors


def install() -> None:
    """Idempotent."""
    setattr(BaseResponse, "call_action", _call)  # noqa: B010 (mypy)
    setattr(QuerySerializer, "_serialize_error_metadata", _error_metadata)  # noqa: B010
    setattr(Policy, "permissions_boundary_usage_count", 0)  # noqa: B010 - AWS always says it
    setattr(responses, "gen_amzn_requestid_long", _request_id)  # noqa: B010


def _request_id(headers: dict[str, Any] | None = None) -> str:
    """The answer's id, which is written into its headers."""
    name = str(uuid.uuid4())
    if headers is not None:
        headers["x-amzn-RequestId"] = name
    return name


def _call(api: Any) -> Any:
    operation = (api.service_name, api._get_action())
    service, name = operation
    of_input, of_state = _CHECKS.get(operation), CONFLICTS.get(operation)
    problems: list[Any] = []
    if of_input or of_state or service == "sns" or service in constraints.CODES:
        if service in ("awslambda", "scheduler"):
            given = functions.given(api)
        elif api.automated_parameter_parsing:
            given = api.params
        else:
            given = json.loads(api.body or "{}")
        problems = [
            of_input(given) if of_input else (),
            topic_inputs.problems(name, given) if service == "sns" else (),
            constraints.unmet(service, name, given),
            of_state(api, given) if of_state else (),
            functions.problems(api, given) if service == "awslambda" else (),
        ]
    problem = next(itertools.chain(*problems), None)
    status, headers, body = _refused(api, *problem) if problem else operations.call(api)
    if operation == ("kms", "Verify") and not json.loads(body).get("SignatureValid", True):
        return _refused(api, "KMSInvalidSignatureException", "")
    if service == "awslambda" and int(status) < 300:
        status = functions.status(api, int(status))
    if int(status) >= 400 and isinstance(body, str | bytes):
        text = body.decode() if isinstance(body, bytes) else body
        for scope in (api.service_name, ".".join(map(str, operation))):
            for of_moto, of_aws in _WORDS.get(scope, ()):
                text = of_moto.sub(of_aws, text)
        if api.service_name == "awslambda":
            text = functions.error(text)
        body = text if isinstance(body, str) else text.encode()
    return status, headers, body


def _refused(api: Any, code: str, message: str) -> Any:
    """Where AWS says no message there is no member of it either."""
    status, headers, body = api.serialized(ActionResult(_RefusedError(code, message)))
    if not message:
        body = json.dumps({"__type": code})
    return status, headers, body


def _error_metadata(serializer: Any, serialized: Any, error: Exception, shape: Any) -> None:
    """In XML the message stands there once, with a capital."""
    _METADATA(serializer, serialized, error, shape)
    if "Message" in serialized:
        serialized.pop("message", None)
    if serializer.service_model.service_name == "sqs":
        serialized["Detail"] = None  # which queues' errors have, empty


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


def _trust(given: _Given) -> _Problems:
    try:
        json.loads(given.get("AssumeRolePolicyDocument", "{}"))
    except ValueError:
        yield "MalformedPolicyDocument", "This policy contains invalid Json"


def _key(given: _Given) -> _Problems:
    if given.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT" and "KeyUsage" not in given:
        yield (
            "ValidationException",
            "You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys.",
        )
    yield from not_for_usage(given)
    yield from _key_policy(given)
    yield from _key_tags(given)


def _random(given: _Given) -> _Problems:
    if given.get("NumberOfBytes") is None:
        yield "ValidationException", "NumberOfBytes is required."


def _key_tags(given: _Given) -> _Problems:
    if _twice(given.get("Tags"), "TagKey"):
        yield "TagException", "Duplicate tag keys"
    if len(given.get("Tags") or []) > 50:
        yield "TagException", "Too many tags"
    if any(tag["TagKey"].startswith("aws:") for tag in given.get("Tags") or []):
        yield "TagException", "Tags beginning with aws: are reserved"


def _alias(given: _Given) -> _Problems:
    if not given.get("AliasName", "").startswith("alias/"):
        yield (
            "ValidationException",
            'Alias must start with the prefix "alias/". Please see '
            "https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html",
        )
    if given.get("AliasName", "").startswith("alias/aws/"):
        yield "NotAuthorizedException", ""


def _key_policy(given: _Given) -> _Problems:
    try:
        json.loads(given.get("Policy") or "{}")
    except ValueError:
        yield "MalformedPolicyDocumentException", ""


def _key_deletion(given: _Given) -> _Problems:
    days = given.get("PendingWindowInDays", 30)
    if not 7 <= days <= 30:
        bound = "greater than or equal to 7" if days < 7 else "less than or equal to 30"
        yield (
            "ValidationException",
            f"1 validation error detected: Value '{days}' at 'pendingWindowInDays' failed to satisfy "
            f"constraint: Member must have value {bound}",
        )


# --- SSM, CloudWatch Logs, SQS


def _parameter(given: _Given) -> _Problems:
    for name in [*(given.get("Names") or []), given.get("Name") or given.get("Path") or "/"]:
        rooted = name.startswith("/") or not ("/" in name or "Path" in given)
        if not name.startswith("arn:") and ("//" in name or not rooted):
            yield (
                "ValidationException",
                "The parameter doesn't meet the parameter name requirements. The parameter name must "
                'begin with a forward slash "/". It can\'t be prefixed with "aws" or "ssm" '
                "(case-insensitive). It must use only letters, numbers, or the following symbols: . "
                "(period), - (hyphen), _ (underscore). Special characters are not allowed. All "
                'sub-paths, if specified, must use the forward slash symbol "/". Valid example: '
                "/get/parameters2-/by1./path0_.",
            )


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
    known: Any = service_model("sqs").shape_for("QueueAttributeName")
    for name in {*(given.get("Attributes") or {})} - {*known.enum}:
        yield "InvalidAttributeName", f"Unknown Attribute {name}."
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
    ("iam", "CreateRole"): _trust,
    ("events", "TestEventPattern"): _event,
    ("kms", "CreateKey"): _key,
    ("kms", "GenerateRandom"): _random,
    ("kms", "PutKeyPolicy"): _key_policy,
    ("kms", "ScheduleKeyDeletion"): _key_deletion,
    ("kms", "TagResource"): _key_tags,
    ("kms", "CreateAlias"): _alias,
    ("kms", "Sign"): digest,
    ("kms", "Verify"): digest,
    **{("ssm", f"{verb}Parameter"): _parameter for verb in ("Delete", "Get", "Put")},
    **{("ssm", f"GetParameters{what}"): _parameter for what in ("", "ByPath")},
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
_NO_POLICY = r"The {} policy with name \1 cannot be found."
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
        "awslambda.CreateFunction": [
            (r"::\(\\\\d\{12\}\):", r"::\\\\d{12}:"),
        ],
        "awslambda.RemovePermission": [("Function not found:", "No policy found for:")],
        "kms": [(r"Invalid keyId ([^'\"]+)", r"Invalid keyId '\1'")],
        "iam": [
            (r"(policy/\S+) not found", r"\1 was not found."),
            (r"(User|Group|Role) (\S+) already exists\.?", r"\1 with name \2 already exists."),
            (r"Role (\S+) not found", r"The role with name \1 cannot be found."),
            (r"User (\S+) not found", r"The user with name \1 cannot be found."),
            (r"Group (\S+) not found", r"The group with name \1 cannot be found."),
            (r"Instance profile (\S+) not found", r"Instance Profile \1 cannot be found."),
            (r"Login profile for (\S+) not found", r"Login Profile for User \1 cannot be found."),
            (r"Policy Document (\S+) not attached [^<]*", _NO_POLICY.format("role")),
            (r"(Access Key with id \S+ cannot be found)(?!\.)", r"\1."),
        ],
        **{
            f"iam.{verb}{kind}Policy": [
                (r"Policy (\S+) not found", _NO_POLICY.format(kind.lower()))
            ]
            for verb in ("Delete", "Get")
            for kind in ("Group", "User")
        },
        "logs": [(r"(Policy with name \[.*?\] does not exist)(?!\.)", r"\1.")],
        "logs.DeleteDestination": [("log group does not", "destination does not")],
        "logs.PutDestinationPolicy": [("log group does not", "destination does not")],
        "logs.DescribeExportTasks": [("log group does not", "export task does not")],
        "logs.CreateLogStream": [(r"log group already exists", "log stream already exists")],
        "awslambda.UpdateAlias": [(r"Cannot find alias arn:", "Alias not found:")],
        "awslambda.GetPolicy": [
            (r"Function not found: [^\"]*", "The resource you requested does not exist.")
        ],
        "sqs": [
            (r'("__type": "[^"]*InvalidParameterValue)"', r'\1Exception"'),
            (r"An error occurred \(\w+\) when calling the ReceiveMessage operation: ", ""),
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
