"""Requests of SNS that AWS refuses and moto takes or words in its own way.

Codes and sentences were recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the repository has
most with date and source; of endpoints, numbers and long messages, several public clients quote AWS
(2026-11-28). Those of an empty message and of a value that is no number are from memory.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches import event_patterns

_Given = Mapping[str, Any]
# What is wrong: an error's code and message.
_Problems = Iterator[tuple[str, str]]
# https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html
_MOST_BYTES = 262_144
_TOPIC = re.compile(r"[\w-]{1,256}")
_ENTRY = re.compile(r"[\w-]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PROTOCOLS = frozenset(
    {"application", "email", "email-json", "firehose", "http", "https", "lambda", "sms", "sqs"}
)
# https://docs.aws.amazon.com/sns/latest/api/API_CreatePlatformApplication.html (2026-11-28)
_PLATFORMS = frozenset(
    {"ADM", "APNS", "APNS_SANDBOX", "APNS_VOIP", "APNS_VOIP_SANDBOX", "BAIDU", "FCM", "GCM"}
    | {"MACOS", "MACOS_SANDBOX", "MPNS", "WNS"}
)
# How deliveries are logged, by protocol.
# https://docs.aws.amazon.com/sns/latest/api/API_SetTopicAttributes.html (2026-11-28)
FEEDBACK = tuple(
    f"{protocol}{what}"
    for protocol in ("Application", "Firehose", "HTTP", "Lambda", "SQS")
    for what in ("SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate", "FailureFeedbackRoleArn")
)
_SET = frozenset(
    {"ArchivePolicy", "ContentBasedDeduplication", "DataProtectionPolicy", "DeliveryPolicy"}
    | {"DisplayName", "FifoThroughputScope", "KmsMasterKeyId", "Policy", "SignatureVersion"}
    | {"TracingConfig", *FEEDBACK}
)
_SET_OF_SUBSCRIPTION = frozenset(
    {"DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy"}
    | {"ReplayPolicy", "ReplayStatus", "SubscriptionRoleArn"}
)
# https://docs.aws.amazon.com/sns/latest/api/API_SetSMSAttributes.html (2026-11-28)
_SET_OF_SMS = frozenset(
    {"DefaultSMSType", "DefaultSenderID", "DeliveryStatusIAMRole", "MonthlySpendLimit"}
    | {"DeliveryStatusSuccessSamplingRate", "UsageReportS3Bucket"}
)


def problems(operation: str, given: _Given) -> _Problems:
    """Code and message of what is wrong with a request, before anything that is there is looked at."""
    shape = service_model("sns").operation_model(operation).input_shape
    for name in shape.members if shape else ():
        value, required = given.get(name), name in shape.required_members
        is_arn = name.endswith("Arn") and shape.members[name].type_name == "string"
        if is_arn and value is None and required:
            yield _invalid(f"{name} Reason: no value for required parameter")
        elif is_arn and value is not None and value.count(":") < 5:
            count = value.count(":") + 1
            yield _invalid(f"{name} Reason: An ARN must have at least 6 elements, not {count}")
        elif required and value is None:
            yield _null(name[0].lower() + name[1:])
    if operation in _CHECKS:
        yield from _CHECKS[operation](given)


def _invalid(what: str) -> tuple[str, str]:
    return "InvalidParameter", f"Invalid parameter: {what}"


def _null(where: str) -> tuple[str, str]:
    return (
        "ValidationError",
        f"1 validation error detected: Value null at '{where}' failed to satisfy constraint: Member must "
        "not be null",
    )


def _topic(given: _Given) -> _Problems:
    name = given.get("Name", "")
    attributes = given.get("Attributes") or {}
    fifo = str(attributes.get("FifoTopic", "")).lower() == "true"
    if not _TOPIC.fullmatch(name.removesuffix(".fifo")) or fifo != name.endswith(".fifo"):
        yield _invalid("Topic Name")


def _topic_attribute(given: _Given) -> _Problems:
    if given["AttributeName"] not in _SET:
        yield _invalid("AttributeName")


def _publish(given: _Given) -> _Problems:
    number = given.get("PhoneNumber", "+1")
    if not re.fullmatch(r"\+[1-9]\d{0,14}", number):
        yield _invalid(f"PhoneNumber Reason: {number} is not valid to publish to")
    if not {"TopicArn", "TargetArn", "PhoneNumber"} & given.keys():
        yield _invalid("TopicArn or TargetArn Reason: no value for required parameter")
    if not given["Message"]:
        yield _invalid("Empty message")
    if _size(given) > _MOST_BYTES:
        yield _invalid("Message too long")
    if not re.fullmatch(r"[^\x00-\x1f]{1,100}", given.get("Subject", "none")):
        yield _invalid("Subject")
    yield from _structure(given)
    yield from _attributes(given, "")


def _size(given: _Given) -> int:
    """Bytes of a message and of its attributes: names, types and values."""
    attributes = given.get("MessageAttributes") or {}
    texts = [str(given.get("Message", "")), *attributes]
    texts += [str(text) for value in attributes.values() for text in value.values()]
    return sum(len(text.encode()) for text in texts)


def _structure(given: _Given) -> _Problems:
    if given.get("MessageStructure") == "json":
        try:
            found = json.loads(str(given.get("Message")))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            yield _invalid("Message Structure - JSON message body failed to parse")
        elif not isinstance(found.get("default"), str):
            yield _invalid("Message Structure - No default entry in JSON message body")


def _attributes(given: _Given, where: str) -> _Problems:
    for name, value in (given.get("MessageAttributes") or {}).items():
        if not value.get("DataType"):
            yield _null(f"{where}messageAttributes.{name}.member.dataType")
        kind = str(value.get("DataType", "")).partition(".")[0]
        field = "Binary" if kind == "Binary" else "String"
        for problem in _attribute_name(name):
            yield "ParameterValueInvalid", problem
        if not any(value.get(f"{one}Value") for one in ("Binary", "String")):
            yield (
                "ParameterValueInvalid",
                f"The message attribute '{name}' must contain non-empty message attribute value for "
                f"message attribute type '{kind}'.",
            )
        if kind not in ("Binary", "Number", "String"):
            yield (
                "ParameterValueInvalid",
                f"The message attribute '{name}' has an invalid message attribute type, the set of "
                "supported type prefixes is Binary, Number, and String.",
            )
        elif f"{field}Value" not in value:
            yield (
                "ParameterValueInvalid",
                f"The message attribute '{name}' with type '{kind}' must use field '{field}'.",
            )
        elif kind == "Number" and not _NUMBER.fullmatch(value["StringValue"]):
            problem = f"Could not cast message attribute '{name}' value to number."
            yield "ParameterValueInvalid", problem


def _attribute_name(name: str) -> Iterator[str]:
    if len(name) > 256:
        yield "Length of message attribute name must be less than 256 bytes."
    for at, word in ((name[:1], "starting"), (name[-1:], "ending")):
        if at == ".":
            yield f"Invalid message attribute name {word} with character '.' was found."
    if ".." in name:
        yield "Message attribute name can not have successive '.' character."
    for other in re.findall(r"[^\w.-]", name):
        yield (
            f"Invalid non-alphanumeric character '#x{ord(other):X}' was found in the message attribute "
            "name. Can only include alphanumeric characters, hyphens, underscores, or dots."
        )


def _batch(given: _Given) -> _Problems:
    entries = given.get("PublishBatchRequestEntries") or []
    if sum(map(_size, entries)) > _MOST_BYTES:
        problem = "The length of all the messages put together is more than the limit."
        yield "BatchRequestTooLong", problem
    if len(entries) > 10:
        problem = "The batch request contains more entries than permissible."
        yield "TooManyEntriesInBatchRequest", problem
    if len({entry["Id"] for entry in entries}) < len(entries):
        problem = "Two or more batch entries in the request have the same Id."
        yield "BatchEntryIdsNotDistinct", problem
    for number, entry in enumerate(entries, start=1):
        yield from _structure(entry)
        yield from _attributes(entry, f"publishBatchRequestEntries.{number}.member.")
        if len(entry["Id"]) > 80:
            problem = f"The Id of a batch entry in the batch request is too long: {entry['Id']}"
            yield "InvalidBatchEntryId", problem
        if not _ENTRY.fullmatch(entry["Id"]):
            yield (
                "InvalidBatchEntryId",
                "The Id of a batch entry in the batch request contains an impermissible "
                f"character: {entry['Id']}",
            )


def _subscribe(given: _Given) -> _Problems:
    protocol = given.get("Protocol")
    if protocol not in _PROTOCOLS:
        yield _invalid(f"Amazon SNS does not support this protocol string: {protocol}")
    endpoint = given.get("Endpoint") or ""
    if protocol in ("http", "https") and not endpoint.startswith(f"{protocol}://"):
        yield _invalid("Endpoint must match the specified protocol")
    if protocol in ("email", "email-json") and not re.fullmatch(r"[^@\s]+@[^@\s]+", endpoint):
        yield _invalid("Email address")
    for name, value in (given.get("Attributes") or {}).items():
        for problem in _subscription_attribute(name, value):
            yield _invalid(f"Attributes Reason: {problem}")


def _set_subscription_attribute(given: _Given) -> _Problems:
    if given["AttributeName"] not in _SET_OF_SUBSCRIPTION:
        yield _invalid("AttributeName")
    for problem in _subscription_attribute(given["AttributeName"], given.get("AttributeValue", "")):
        yield _invalid(problem)


def _subscription_attribute(name: str, value: str) -> Iterator[str]:
    if name == "RawMessageDelivery" and value.lower() not in ("true", "false"):
        yield f"RawMessageDelivery: Invalid value [{value}]. Must be true or false."
    if name in ("FilterPolicy", "RedrivePolicy") and value:
        for problem in event_patterns.unreadable(value, rules=name == "FilterPolicy"):
            yield f"{name}: {problem}"
    if name == "RedrivePolicy":
        queue = re.search(r'"deadLetterTargetArn": *"([^"]*)"', value)
        if queue and queue[1].count(":") < 5:
            yield "RedrivePolicy: deadLetterTargetArn is an invalid arn"


def _confirm(given: _Given) -> _Problems:
    """No token is right: subscriptions of this computer need none, and no others get one."""
    if re.fullmatch(r"[0-9a-f]{64,}", given["Token"]):
        yield _invalid("Token")
    yield "InvalidParameter", "Invalid token"


def _unsubscribe(given: _Given) -> _Problems:
    if given["SubscriptionArn"].count(":") == 5:
        yield _invalid("SubscriptionId")


def _tags(given: _Given) -> _Problems:
    keys = [tag["Key"] for tag in given.get("Tags") or []]
    if len(keys) != len(set(keys)):
        yield _invalid("Duplicated keys are not allowed.")


def _sms_attributes(given: _Given) -> _Problems:
    for name, value in given["attributes"].items():
        if name not in _SET_OF_SMS:
            yield "InvalidParameter", f"{name} is not a valid attribute"
        if name == "DefaultSMSType" and value not in ("Promotional", "Transactional"):
            yield "InvalidParameter", "DefaultSMSType is invalid"


def _application(given: _Given) -> _Problems:
    name, platform = given["Name"], given["Platform"]
    if not name:
        yield _invalid(" Reason: cannot be empty")
    if len(name) > 256:
        yield _invalid(f"{name} Reason: must be at most 256 characters long")
    if re.search(r"[^\w.-]", name):
        allowed = "'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"
        yield _invalid(f"{name} Reason: must contain only characters {allowed}")
    if platform not in _PLATFORMS:
        yield _invalid(f"Platform Reason: {platform} is not supported")
    names = ("PlatformPrincipal", "PlatformCredential")
    for one, other in (names, names[::-1]):
        if one in given["Attributes"] and other not in given["Attributes"]:
            yield _invalid(f"Attributes Reason: {one} attribute provided without {other}")


_CHECKS: dict[str, Callable[[_Given], _Problems]] = {
    "ConfirmSubscription": _confirm,
    "CreatePlatformApplication": _application,
    "CreateTopic": _topic,
    "Publish": _publish,
    "PublishBatch": _batch,
    "SetSMSAttributes": _sms_attributes,
    "SetSubscriptionAttributes": _set_subscription_attribute,
    "SetTopicAttributes": _topic_attribute,
    "Subscribe": _subscribe,
    "TagResource": _tags,
    "Unsubscribe": _unsubscribe,
}
