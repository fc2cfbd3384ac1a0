"""Requests that what is there already decides: refused where AWS refuses them, in its words.

Upstream (moto 5.2.5): a topic, a subscription or a queue that exists is returned or changed, whatever the
request says of it; roles of services may be there twice.
Codes and sentences were recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the repository has
most with date and source; of what is not there, codes are of botocore's models and some sentences ours.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.policy import Policy
from moto.core.serialize import url_encode
from moto.core.utils import camelcase_to_underscores
from moto.events.models import events_backends
from moto.iam.models import SERVICE_NAME_CONVERSION, IAMBackend
from moto.iam.responses import IamResponse
from moto.sns.models import sns_backends
from moto.ssm.models import ParameterDict
from moto.utilities.arns import parse_arn

from servable_local.aws.moto_patches import keys

_Given = Mapping[str, Any]
_Problems = Iterator[tuple[str, str]]
_ADD, _REMOVE = Policy.add_statement, Policy.del_statement
_CREATE_ROLE = IAMBackend.create_role
_VERSION = "GetPolicyVersionResponse.PolicyVersion.Document"
_DELETE_LINKED = IAMBackend.delete_service_linked_role
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-services-that-work-with-iam.html links
# each service's page, which says the name of its role and whether it has a suffix.
_WITH_SUFFIX = frozenset(
    {"autoscaling.amazonaws.com", "connect.amazonaws.com", "lexv2.amazonaws.com"}
)
_LINKED_NAMES = {
    "batch": "Batch",
    "connect": "AmazonConnect",
    "ecs": "ECS",
    "eks": "AmazonEKS",
    "elasticache": "ElastiCache",
    "elasticloadbalancing": "ElasticLoadBalancing",
    "lexv2": "LexV2Bots",
    "rds": "RDS",
    "spot": "EC2Spot",
    "spotfleet": "EC2SpotFleet",
    "support": "Support",
    "trustedadvisor": "TrustedAdvisor",
}


class _StatementError(LambdaClientError):
    """moto's kind: the status is the class's."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.code = status
        super().__init__(code, message)


def install() -> None:
    """Idempotent."""
    SERVICE_NAME_CONVERSION.update(_LINKED_NAMES)
    setattr(ParameterDict, "__missing__", lambda *named: _Versions(*named))  # noqa: B010 (mypy)
    # A new role is answered without them; GetRole has both.
    absent = IamResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER
    for member in ("MaxSessionDuration", "RoleLastUsed"):
        absent[f"CreateRoleResponse.Role.{member}"] = lambda _: None
    # Documents are encoded everywhere, so that their percent signs are theirs.
    for path in ("ListRolesResponse.Roles.Role.AssumeRolePolicyDocument", _VERSION):
        absent[path] = url_encode
    setattr(IAMBackend, "delete_service_linked_role", _delete_linked)  # noqa: B010
    setattr(IAMBackend, "create_role", _create_role)  # noqa: B010
    setattr(Policy, "add_statement", _add_statement)  # noqa: B010
    setattr(Policy, "del_statement", _remove_statement)  # noqa: B010


# --- IAM


def _linked_role(api: Any, given: _Given) -> _Problems:
    service, suffix = given.get("AWSServiceName", ""), given.get("CustomSuffix")
    if suffix and service not in _WITH_SUFFIX:
        yield "InvalidInput", f"Custom suffix is not allowed for {service}"
    linked = (role for role in api.backend.roles.values() if role._linked_service == service)
    for role in linked:
        if not suffix or role.name.endswith(f"_{suffix}"):
            yield (
                "InvalidInput",
                f"Service role name {role.name} has been taken in this account, please try a "
                "different suffix.",
            )


def _create_role(
    backend: Any, role_name: str, assume_role_policy_document: str, *more: Any, **named: Any
) -> Any:
    """A service's as AWS writes it; that of scaling has the resource's name, and not the service's."""
    trust = assume_role_policy_document
    if named.get("linked_service"):
        role_name = role_name.replace("_Sagemaker", "_SageMakerEndpoint")
        trust = re.sub(r"\[(\"[^\"]*\")\]", r"\1", trust)
    return _CREATE_ROLE(backend, role_name, trust, *more, **named)


def _delete_linked(backend: Any, role_name: str) -> str:
    path = backend.get_role(role_name).path
    return f"task{path}{role_name}/{_DELETE_LINKED(backend, role_name)}"


def _delete_user(api: Any, given: _Given) -> _Problems:
    user, groups = api.backend.users.get(given.get("UserName")), api.backend.groups.values()
    if user and user.access_keys:
        yield "DeleteConflict", "Cannot delete entity, must delete access keys first."
    if user and user.password:
        yield "DeleteConflict", "Cannot delete entity, must delete login profile first."
    if user and any(user in group.users for group in groups):
        yield "DeleteConflict", "Cannot delete entity, must remove users from group first."


def _delete_group(api: Any, given: _Given) -> _Problems:
    group = api.backend.groups.get(given.get("GroupName"))
    if group and group.users:
        yield "DeleteConflict", "Cannot delete entity, must remove users from group first."


def _delete_policy(api: Any, given: _Given) -> _Problems:
    policy = api.backend.managed_policies.get(given.get("PolicyArn"))
    if policy and policy.attachment_count:
        yield "DeleteConflict", "Cannot delete a policy attached to entities."
    if policy and len(policy.versions) > 1:
        yield (
            "DeleteConflict",
            "This policy has more than one version. Before you delete a policy, you must delete the "
            "policy's versions. The default version is deleted with the policy.",
        )


# --- SNS, SQS, SSM


class _Versions(list[Any]):
    """No version of a parameter that is not there: it is kept with its first one, and not because it was
    asked for, which no list of parameters would survive."""

    def __init__(self, parameters: Any, name: str) -> None:
        super().__init__()
        self._keep = parameters.setdefault, name

    def append(self, version: Any) -> None:
        super().append(version)
        setdefault, name = self._keep
        setdefault(name, self)


def _here(api: Any, given: _Given) -> _Problems:
    arn = given.get("TopicArn")
    if arn and arn.count(":") > 4 and parse_arn(arn).region != api.region:
        yield "InvalidParameter", "Invalid parameter: TopicArn"


def _publication(api: Any, given: _Given) -> _Problems:
    """To a topic; what is sent to a phone or an application's endpoint has none."""
    yield from _here(api, given)
    arn = given.get("TopicArn") or given.get("TargetArn")
    if not arn:
        return
    topic = sns_backends[arn.split(":")[4]][api.region].topics.get(arn)
    if "/" in arn:  # of an application, and there are none
        missing = "TargetArn Reason: No endpoint found for the target arn specified"
        yield "InvalidParameter", f"Invalid parameter: {missing}"
    elif not topic:
        yield "NotFound", "Topic does not exist"
    elif topic.fifo_topic:
        for entry in given.get("PublishBatchRequestEntries", [given]):
            if not entry.get("MessageGroupId"):
                need = "The MessageGroupId parameter is required for FIFO topics"
                yield "InvalidParameter", f"Invalid parameter: {need}"
            if not (topic.content_based_deduplication or entry.get("MessageDeduplicationId")):
                need = "ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
                message = f"Invalid parameter: The topic should either have {need}"
                yield "InvalidParameter", message


def _dead_letters(api: Any, given: _Given) -> _Problems:
    subscription = api.backend.subscriptions.get(given["SubscriptionArn"])
    if given["AttributeName"] == "RedrivePolicy" and subscription:
        queue = json.loads(given.get("AttributeValue") or "{}").get("deadLetterTargetArn", ".fifo")
        if subscription.endpoint.endswith(".fifo") and not queue.endswith(".fifo"):
            need = "must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
            yield "InvalidParameter", f"Invalid parameter: RedrivePolicy: {need}"


def _topic(api: Any, given: _Given) -> _Problems:
    topics = (topic for topic in api.backend.topics.values() if topic.name == given.get("Name"))
    for topic in topics:
        tags = given.get("Tags")
        given_tags = {tag["Key"]: tag["Value"] for tag in tags or []}
        if not given_tags.items() <= topic._tags.items():
            yield _different("Tags", "Topic already exists with different tags")
        attributes = given.get("Attributes") or {}
        there = {name: getattr(topic, camelcase_to_underscores(name), "") for name in attributes}
        if attributes != _shown(there):
            yield _different("Attributes", "Topic already exists with different attributes")


def _subscription(api: Any, given: _Given) -> _Problems:
    yield from _here(api, given)
    asked = [given.get(name) for name in ("TopicArn", "Endpoint", "Protocol")]
    there = api.backend._find_subscription(*asked)
    attributes = dict(given.get("Attributes") or {})
    if "RawMessageDelivery" in attributes:
        attributes["RawMessageDelivery"] = attributes["RawMessageDelivery"].lower()
    default = {"FilterPolicyScope": "MessageAttributes"}
    if there and not attributes.items() <= (default | _shown(there.attributes)).items():
        yield _different("Attributes", "Subscription already exists with different attributes")


def _different(name: str, reason: str) -> tuple[str, str]:
    return "InvalidParameter", f"Invalid parameter: {name} Reason: {reason}"


def _shown(attributes: Mapping[str, Any]) -> dict[str, str]:
    """As they are on the wire: moto keeps some as booleans and numbers."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in attributes.items()
    }


def _queue(api: Any, given: _Given) -> _Problems:
    queue = api.sqs_backend.queues.get(given.get("QueueName"))
    there = _shown(queue.attributes) if queue else {}
    for name, value in (given.get("Attributes") or {}).items():
        if queue and _form(value) != _form(there.get(name, "")):
            yield (
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for attribute "
                f"{name}",
            )


def _form(value: str) -> Any:
    """A document is the same with other spaces."""
    return json.loads(value) if value.startswith("{") else value


# --- CloudWatch Logs, Lambda


def _subscription_filter(api: Any, given: _Given) -> _Problems:
    """Nothing is sent anywhere (501): only what AWS refuses before it."""
    _, _, vendor, _, account, *_ = [*str(given.get("destinationArn")).split(":"), *[""] * 5]
    if vendor == "lambda" and account != api.current_account:
        yield (
            "AccessDeniedException",
            "Cross-account lambda invocation passing is not allowed. You must use DestinationPolicies "
            "to create cross account lambda triggers.",
        )
    if vendor in ("firehose", "kinesis") and not given.get("roleArn"):
        yield (
            "InvalidParameterException",
            f"destinationArn for vendor {vendor} cannot be used without roleArn",
        )


def _add_statement(policy: Any, raw: str, qualifier: str | None = None) -> Any:
    name = json.loads(raw).get("StatementId")
    if name in [statement.get("Sid") for statement in policy.statements]:
        raise _StatementError(
            409,
            "ResourceConflictException",
            f"The statement id ({name}) provided already exists. Please provide a new statement id, "
            "or remove the existing statement.",
        )
    return _ADD(policy, raw, qualifier)


def _remove_statement(policy: Any, name: str, revision: str = "") -> None:
    sids = [statement.get("Sid") for statement in policy.statements]
    if sids and name not in sids:
        raise _StatementError(
            404,
            "ResourceNotFoundException",
            f"Statement {name} is not found in resource policy.",
        )
    _REMOVE(policy, name, revision)


def _of_bus(api: Any, given: _Given) -> _Problems:
    kind, _, name = str(given.get("ResourceARN", "")).rpartition(":")[2].partition("/")
    backend = events_backends[api.current_account][api.region]
    if kind == "event-bus" and name not in backend.event_buses:
        yield "ResourceNotFoundException", f"Event bus {name} does not exist."


def _of_rule(api: Any, given: _Given) -> _Problems:
    bus = str(given.get("EventBusName") or "default").rpartition("/")[2]
    buses = events_backends[api.current_account][api.region].event_buses
    rule = given.get("Rule") or given.get("Name")
    if bus in buses and rule not in buses[bus].rules:
        message = f"Rule {rule} does not exist on EventBus {bus}."
        yield "ResourceNotFoundException", message


def _arns(kept: Iterable[Any]) -> set[str]:
    return {one.arn for one in kept}


def _tagged_logs(api: Any) -> set[str]:
    kinds = ("deliveries", "delivery_destinations", "delivery_sources", "destinations", "groups")
    return _arns(one for kind in kinds for one in vars(api.logs_backend)[kind].values())


# How a service refuses what is not there; codes are of botocore's models.
_NOT_THERE = {
    "awslambda": ("ResourceNotFoundException", "The resource you requested does not exist."),
    "iam": ("NoSuchEntity", "{} cannot be found."),
    "logs": ("ResourceNotFoundException", "The specified resource does not exist."),
    "scheduler": ("ResourceNotFoundException", "The specified resource does not exist."),
    "sns": ("InvalidParameter", "Invalid parameter: Token"),
    "ssm": ("ParameterNotFound", ""),
    "stepfunctions": ("ResourceNotFound", "Resource not found: '{}'"),
}
_TAGS = ("ListTagsForResource", "TagResource", "UntagResource")
_There = Callable[[Any], Container[str]]
# A request's member, and what there is of it, where moto would say of all else that it is done.
_MISSING: Mapping[tuple[str, str], tuple[str, _There]] = {
    ("awslambda", "DeleteEventSourceMapping"): ("UUID", lambda api: ()),  # none is made here: 501
    ("iam", "DeleteAccountAlias"): ("AccountAlias", lambda api: api.backend.account_aliases),
    ("iam", "DeleteSAMLProvider"): ("SAMLProviderArn", lambda api: api.backend.saml_providers),
    ("iam", "EnableMFADevice"): ("SerialNumber", lambda api: api.backend.virtual_mfa_devices),
    ("iam", "ListEntitiesForPolicy"): ("PolicyArn", lambda api: api.backend.managed_policies),
    ("iam", "UpdateGroup"): ("GroupName", lambda api: api.backend.groups),
    ("sns", "ConfirmSubscription"): ("Token", lambda api: ()),  # none is sent: all are confirmed
    ("ssm", "GetParameterHistory"): ("Name", lambda api: api.ssm_backend._parameters),
    **dict.fromkeys([("logs", name) for name in _TAGS], ("resourceArn", _tagged_logs)),
    **dict.fromkeys(
        [("scheduler", name) for name in _TAGS],
        ("ResourceArn", lambda api: _arns(api.scheduler_backend.schedule_groups.values())),
    ),
    **dict.fromkeys(
        [("stepfunctions", name) for name in _TAGS],
        ("resourceArn", lambda api: _arns(api.stepfunction_backend.state_machines)),
    ),
}


def _missing(api: Any, given: _Given) -> _Problems:
    member, there = _MISSING[api.service_name, api._get_action()]
    if given.get(member) not in there(api):
        code, words = _NOT_THERE[api.service_name]
        yield code, words.format(given.get(member))


CONFLICTS: Mapping[tuple[str, str], Callable[[Any, _Given], _Problems]] = {
    ("iam", "CreateServiceLinkedRole"): _linked_role,
    **dict.fromkeys(_MISSING, _missing),
    ("iam", "DeleteGroup"): _delete_group,
    ("iam", "DeletePolicy"): _delete_policy,
    ("iam", "DeleteUser"): _delete_user,
    ("sns", "CreateTopic"): _topic,
    **{
        ("events", name): _of_bus
        for name in ("ListTagsForResource", "TagResource", "UntagResource")
    },
    **{
        ("events", name): _of_rule
        for name in (
            "DescribeRule",
            "DisableRule",
            "EnableRule",
            "ListTargetsByRule",
            "RemoveTargets",
        )
    },
    ("sns", "ListSubscriptionsByTopic"): _here,
    **{
        ("sns", name): _here for name in ("DeleteTopic", "GetTopicAttributes", "SetTopicAttributes")
    },
    ("sns", "Publish"): _publication,
    ("sns", "PublishBatch"): _publication,
    ("sns", "SetSubscriptionAttributes"): _dead_letters,
    ("sns", "Subscribe"): _subscription,
    ("sqs", "CreateQueue"): _queue,
    ("logs", "PutSubscriptionFilter"): _subscription_filter,
    **{("kms", operation): keys.enabled for operation in keys.OF_ENABLED},
    **{("kms", operation): keys.pending for operation in keys.OF_NOT_PENDING},
    **{("kms", operation): keys.grant for operation in keys.OF_GRANTS},
    ("kms", "CancelKeyDeletion"): keys.of_its_kind,
    ("kms", "GetKeyRotationStatus"): keys.of_its_kind,
    ("kms", "GetPublicKey"): keys.of_its_kind,
    **{("kms", operation): keys.imported for operation in keys.OF_IMPORTED},
}
