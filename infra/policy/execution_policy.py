"""Write the policies of CloudFormation's execution role, which makes what the templates name.

`cdk bootstrap` gives that role AdministratorAccess unless you name other policies. These allow the actions
that the handlers of our resource types state in CloudFormation's registry
(infra/catalog/handler_permissions.json), each on the resources whose names are known beforehand. Some names
in an account are not ours: the CDK's bootstrap, and the role that scales.
Sources, read on 2026-11-24: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-prerequisites.html;
https://docs.aws.amazon.com/autoscaling/application/userguide/services-that-can-integrate-sagemaker.html
(2026-11-28); bootstrap-template.yaml of aws-cdk 2.1148.1 (2026-11-22)
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalog.limits import load_table

BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"
"""The parameter of Systems Manager."""
BOOTSTRAP_BUCKET = "cdk-hnb659fds-assets-{account}-{region}"
SCALING_SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
SCALING_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
LINKED_ROLE = f"{SCALING_SERVICE}/{SCALING_ROLE}"
"""CloudFormation has it made where the account has none yet."""


# IAM counts no white space, and attaches ten managed policies to a role unless the quota is raised.
MOST_CHARACTERS = 6144
Statement = dict[str, Any]

# Actions of a handler for properties that no template of ours sets (tests/policy compares the templates).
LEFT_OUT = "|".join(
    (
        "(ec2|elasticfilesystem|firehose|s3files|s3tables):.*",  # metadata tables, a function's VPC and files
        "iam:.*(User|Group)Polic.*",  # our policies are on roles
        "kms:(Decrypt|Encrypt|GenerateDataKey)",  # a function's variables under a key of one's own
        "lambda:(.*ProvisionedConcurrencyConfig|GetCodeSigningConfig|GetLayerVersion|PassCapacityProvider)",
        "lambda:AssociateRuntimeAlias",  # IAM's reference does not know it
    )
)
# Needed in addition to what the handlers state: Application Auto Scaling requires it of the role that
# registers a target.
BESIDE = ("sagemaker:UpdateEndpointWeightsAndCapacities",)


# Actions -> place of their resources; the first that matches.
PLACES: Mapping[str, str] = {
    "application-autoscaling:Describe.*|kms:CreateKey": "any_resource",
    "cloudwatch:(DescribeAlarms|GetMetricData)": "any_resource",
    "application-autoscaling:.*": "scalable_targets",
    "cloudwatch:.*Dashboards?": "dashboards",
    "cloudwatch:(DeleteAlarms|Put.*Alarm)": "alarms",
    "cloudwatch:.*(Tag|Untag).*": "watching",
    "events:.*": "rules",
    "iam:(Attach|Detach)RolePolicy": "holders",
    "iam:CreateServiceLinkedRole": "linked_role",
    "iam:PassRole": "passed_roles",
    "iam:.*Role.*": "roles",
    "iam:.*": "policies",
    "kms:CreateGrant": "granted_keys",
    "kms:DescribeKey": "described_keys",
    "kms:.*": "keys",
    "lambda:.*": "functions",
    "logs:.*(LogDelivery|IndexPolic|ResourcePolic|QueryDefinition|LogGroups).*": "any_resource",
    "logs:.*": "log_groups",
    "s3:GetObject.*": "assets",
    "s3:.*Object(Acl)?": "objects",
    "s3:.*": "buckets",
    "sagemaker:.*EndpointConfig": "configurations",
    "sagemaker:(Create|Update)Endpoint": "updated",
    "sagemaker:.*Endpoint.*": "endpoints",
    "sagemaker:CreateInferenceComponent": "components_made",
    "sagemaker:.*InferenceComponent.*": "components",
    "sagemaker:.*Model": "models",
    "sagemaker:.*Tags": "hosting",
    "scheduler:.*(Group|[Tt]ag).*": "schedule_groups",
    "scheduler:.*": "schedules",
    "sns:.*": "topics",
    "ssm:GetParameters": "read_parameters",
    "ssm:.*": "parameters",
    "states:.*": "state_machines",
}


def find_partition(region: str) -> str:
    """Return the partition of a Region: aws, aws-cn, aws-us-gov, or aws-eusc."""
    own = ("cn", "us-gov", "eusc")
    return next((f"aws-{word}" for word in own if region.startswith(f"{word}-")), "aws")


@dataclass(frozen=True, kw_only=True)
class DeployedNames:
    """The account, Region, and names of one environment, as known before it is deployed."""

    account: str
    region: str
    stacks: Sequence[str]
    endpoint: str
    iam_path: str
    """IAM path of its roles and policies; / where none is given."""
    boundary: str | None
    """ARN of the permissions boundary of its roles."""
    roles: Sequence[str]
    """ARNs of roles of one's own that models take on."""
    callers: Sequence[str]
    """ARNs of the roles that get the policy that invokes the endpoint."""
    keys: Sequence[str]
    """ARNs of KMS keys of one's own on volumes."""
    batches: Sequence[str] = ()
    """Names of its batches."""
    sleeps: bool = False
    """Whether it has inference components, named after the endpoint and a variant."""

    def list_resource_arns(self) -> dict[str, list[str]]:
        """Return a dict from place, a group of resources, to ARNs.

        CloudFormation's own names begin with the stack's name, whose end it may cut off.
        """
        aws, here = f"arn:{find_partition(self.region)}", f"{self.region}:{self.account}"
        begins = [name[:24] for name in self.stacks]
        tracked = [f"{self.endpoint}-*", f"TargetTracking-endpoint/{self.endpoint}/*"]
        tracked += [f"TargetTracking-inference-component/{self.endpoint}-*"] if self.sleeps else []
        alarms = [f"{aws}:cloudwatch:{here}:alarm:{name}" for name in tracked]
        dashboards = [f"{aws}:cloudwatch::{self.account}:dashboard/{self.endpoint}-*"]
        iam = f"{aws}:iam::{self.account}"
        roles = [f"{iam}:role{self.iam_path}{begin}*" for begin in begins]
        linked = f"{iam}:role/aws-service-role/{LINKED_ROLE}"
        buckets = [f"{aws}:s3:::{begin.lower()}*" for begin in begins]
        keys = [f"{aws}:kms:{here}:key/*"]
        # Systems Manager names what has no name CFN-…
        parameters = [f"{aws}:ssm:{here}:parameter/{begin}*" for begin in ["CFN-", *begins]]
        batches = [f"{self.endpoint}-{batch}" for batch in self.batches]
        groups = [f"sagemaker/Endpoints/{self.endpoint}", f"lambda/{self.endpoint}-golden-requests"]
        groups += [f"vendedlogs/states/{one}" for one in batches]
        logs = [f"{group}{streams}" for group in groups for streams in ("", ":*")]
        logs += [f"sagemaker/InferenceComponents/{self.endpoint}-*"] if self.sleeps else []
        return self._list_hosting_arns(f"{aws}:sagemaker:{here}") | {
            # These actions take no resource, or none that is known beforehand.
            "any_resource": ["*"],
            "alarms": alarms,
            "assets": [f"{aws}:s3:::cdk-*-assets-{self.account}-{self.region}/*"],
            "buckets": buckets,
            "dashboards": dashboards,
            "described_keys": [*keys, *self.keys],
            "functions": [f"{aws}:lambda:{here}:function:{begin}*" for begin in begins],
            "granted_keys": [*keys, *self.keys],
            "holders": [*roles, *self.callers],
            "keys": keys,
            "linked_role": [linked],
            "log_groups": [f"{aws}:logs:{here}:log-group:/aws/{one}" for one in logs],
            "objects": [f"{bucket}/*" for bucket in buckets],
            "parameters": parameters,
            "passed_roles": [*roles, *self.roles, linked],
            "policies": [f"{iam}:policy{self.iam_path}{begin}*" for begin in begins],
            "read_parameters": [*parameters, f"{aws}:ssm:{here}:parameter/cdk-bootstrap/*"],
            "roles": roles,
            "rules": [f"{aws}:events:{here}:rule/{begin}*" for begin in begins],
            "scalable_targets": [f"{aws}:application-autoscaling:{here}:scalable-target/*"],
            "schedule_groups": [f"{aws}:scheduler:{here}:schedule-group/{one}" for one in batches],
            "schedules": [f"{aws}:scheduler:{here}:schedule/{one}/{one}" for one in batches],
            "state_machines": [f"{aws}:states:{here}:stateMachine:{one}" for one in batches],
            "topics": [f"{aws}:sns:{here}:{begin}*" for begin in begins],
            "watching": [*alarms, *dashboards],
        }

    def _list_hosting_arns(self, sagemaker: str) -> dict[str, list[str]]:
        """Return the places of SageMaker's resources.

        SageMaker writes ARNs in lower case, and IAM compares them as they are written.
        """
        names = list(dict.fromkeys((self.endpoint.lower(), self.endpoint)))
        endpoints = [f"{sagemaker}:endpoint/{name}" for name in names]
        configurations, models = [f"{sagemaker}:endpoint-config/*"], [f"{sagemaker}:model/*"]
        asleep = names if self.sleeps else []
        components = [f"{sagemaker}:inference-component/{name}-*" for name in asleep]
        return {
            "components": components,
            "components_made": [*endpoints, *components] if self.sleeps else [],
            "configurations": configurations,
            "endpoints": endpoints,
            "hosting": [*endpoints, *configurations, *components, *models],
            "models": models,
            "updated": [*endpoints, *configurations],
        }


def list_actions() -> list[str]:
    """Return every action that the role needs."""
    types: Mapping[str, Sequence[str]] = load_table("handler_permissions")["types"]
    stated = {action for needed in types.values() for action in needed}
    return sorted({*BESIDE, *(action for action in stated if not re.fullmatch(LEFT_OUT, action))})


def build_statements(deployed: Sequence[DeployedNames]) -> Iterator[Statement]:
    """Yield one statement per place for these environments of one account and Region."""
    places: dict[str, dict[str, None]] = {}
    for one in deployed:
        for place, arns in one.list_resource_arns().items():
            places.setdefault(place, {}).update(dict.fromkeys(arns))
    by_place: dict[str, list[str]] = {}
    for action in list_actions():
        place = next(one for pattern, one in PLACES.items() if re.fullmatch(pattern, action))
        by_place.setdefault(place, []).append(action)
    for place, allowed in sorted(by_place.items()):
        if not places[place]:
            continue  # without batches there is neither a state machine nor a schedule
        yield from _build_place_statements(place, allowed, list(places[place]), deployed)


def _build_place_statements(
    place: str, allowed: list[str], resources: list[str], deployed: Sequence[DeployedNames]
) -> Iterator[Statement]:
    """Yield the statements of one place: one, or two for roles with a permissions boundary."""
    boundaries = sorted({one.boundary for one in deployed if one.boundary})
    condition: dict[str, Any] = {}
    if place == "passed_roles":
        services = ["sagemaker", "lambda", "sagemaker.application-autoscaling"]
        if any(one.batches for one in deployed):
            services += ["scheduler", "states"]
        passed = [f"{service}.amazonaws.com" for service in services]
        condition = {"StringEquals": {"iam:PassedToService": passed}}
    elif place == "holders":
        policies = [arn for one in deployed for arn in one.list_resource_arns()["policies"]]
        condition = {"ArnLike": {"iam:PolicyARN": list(dict.fromkeys(policies))}}
    elif place == "granted_keys":
        condition = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    elif place == "roles" and all(one.boundary for one in deployed):
        bound = [action for action in allowed if re.search("Create|Put", action)]
        condition = {"StringEquals": {"iam:PermissionsBoundary": boundaries}}
        yield _build_statement("RolesWithinTheBoundary", bound, resources, condition)
        # Without the boundary they could be given anything.
        gone = {*bound, "iam:DeleteRolePermissionsBoundary"}
        allowed, condition = [one for one in allowed if one not in gone], {}
    name = "".join(word.capitalize() for word in place.split("_"))
    yield _build_statement(name, allowed, resources, condition)


def _build_statement(
    name: str, allowed: Sequence[str], resources: Sequence[str], condition: Mapping[str, Any]
) -> Statement:
    statement = {"Sid": name, "Effect": "Allow", "Action": [*allowed], "Resource": [*resources]}
    return statement | ({"Condition": dict(condition)} if condition else {})


def build_policies(deployed: Sequence[DeployedNames]) -> list[dict[str, Any]]:
    """Return documents of at most `MOST_CHARACTERS`. Raise ValueError for a longer statement."""
    documents: list[dict[str, Any]] = []
    for statement in sorted(build_statements(deployed), key=count_characters, reverse=True):
        for document in documents:
            if count_characters(document) + count_characters(statement) + 1 <= MOST_CHARACTERS:
                document["Statement"].append(statement)
                break
        else:
            document = {"Version": "2012-10-17", "Statement": [statement]}
            if count_characters(document) > MOST_CHARACTERS:
                raise ValueError(f"the statement {statement['Sid']} is too long for an IAM policy")
            documents.append(document)
    return documents


def count_characters(document: Mapping[str, Any]) -> int:
    """Return the length of a document as IAM counts it."""
    return len(json.dumps(document, separators=(",", ":")))
