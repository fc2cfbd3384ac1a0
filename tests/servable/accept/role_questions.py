"""What IAM is asked for the calls of a run: kept as data, and held against the role of its workflow."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from infra.policy.acceptance_policy import TAG
from infra.policy.account_names import SCALING_ROLE, SCALING_SERVICE
from servable_local.aws.local_aws import ACCOUNT, REGION
from stacks.pipeline_stack import add_pipelines
from tests.conftest import VALID
from tests.servable.accept.acceptance import RecordedCall
from tests.servable_local.aws.recorded_calls import Asked, Call, asked

RECORDED = Path(__file__).with_name("role_questions.json")
"""Every question of whole and interrupted runs, and of --clean; `make accept-local` writes it."""
# The prefix of IAM's actions where it is not boto3's name of the service.
_PREFIXES = {
    "sagemaker-runtime": "sagemaker",
    "service-quotas": "servicequotas",
    "stepfunctions": "states",
}
# Operations of S3 that are no action's name, and are not in recorded_calls.py.
_OF_S3 = {
    "DeleteObjects": ("DeleteObject", "DeleteObjectVersion"),
    "GetBucketEncryption": ("GetEncryptionConfiguration",),
    "GetPublicAccessBlock": ("GetBucketPublicAccessBlock",),
    "HeadBucket": ("ListBucket",),
    "ListBuckets": ("ListAllMyBuckets",),
    "ListObjectVersions": ("ListBucketVersions",),
    "ListObjectsV2": ("ListBucket",),
}
_TAGGED = {f"aws:ResourceTag/{TAG}": "RUN"}
_KEY_OPERATIONS = {"GetObject": "Decrypt", "PutObject": "GenerateDataKey"}
# The one role of another path.
_ROLES = {SCALING_ROLE: {"Path": f"/aws-service-role/{SCALING_SERVICE}/"}}
_RANDOM = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|[0-9a-f]{32,64}"), "UNIQUE"),
    (re.compile(r"-(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12,13}(?![A-Za-z0-9-])"), "-RANDOM"),
    (re.compile(r"-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"), "-TIME"),
)


def questions(calls: Iterable[RecordedCall], tagged_keys: Iterable[str]) -> list[Asked]:
    """Return each question of the shell's own calls once, sorted, without what differs from run to run.

    `tagged_keys`: ids of the KMS keys that have the run's tag.
    """
    calls, tagged = list(calls), set(tagged_keys)
    encrypted = {
        call.arguments["Bucket"]
        for call in calls
        if call.operation == "PutBucketEncryption" and "aws:kms" in call.arguments["Body"]
    }
    found = {
        (one.action, _steady(one.resource), tuple(sorted(one.context.items())))
        for call in calls
        if call.caller == "user" and call.operation != "GetCallerIdentity"  # asked of nobody
        for one in _questions(call, tagged, encrypted)
    }
    return [Asked(action, resource, dict(context)) for action, resource, context in sorted(found)]


def _steady(text: str) -> str:
    for pattern, word in _RANDOM:
        text = pattern.sub(word, text)
    return text


def _questions(call: RecordedCall, tagged: set[str], encrypted: set[str]) -> Iterator[Asked]:
    given, service = call.arguments, _PREFIXES.get(call.service, call.service)
    here = f"arn:aws:{service}:{REGION}:{ACCOUNT}"
    if service == "s3":
        yield from _of_s3(call, encrypted)
    elif service == "cloudformation":
        name = given.get("StackName")
        resource = f"{here}:stack/{name}/00000000-0000-0000-0000-000000000000" if name else "*"
        yield Asked(f"{service}:{call.operation}", resource)
    elif "TransformJobName" in given:
        resource = f"{here}:transform-job/{given['TransformJobName']}"
        yield Asked(f"{service}:{call.operation}", resource)
    elif call.operation == "AssumeRole":
        yield Asked("sts:AssumeRole", given["RoleArn"])
    else:
        name = next(
            (
                str(given[key])
                for key in ("KeyId", "ModelName", "EndpointConfigName")
                if key in given
            ),
            "",
        )
        context: dict[str, str] = _TAGGED if name.lower() in tagged else {}
        if service == "application-autoscaling":
            context = {"application-autoscaling:service-namespace": given["ServiceNamespace"]}
        plain = Call(service, call.operation, given, ACCOUNT, REGION)
        for one in asked(plain, _ROLES):
            yield Asked(one.action, one.resource, context)


def _of_s3(call: RecordedCall, encrypted: set[str]) -> Iterator[Asked]:
    given = call.arguments
    bucket = f"arn:aws:s3:::{given['Bucket']}" if "Bucket" in given else "*"
    objects = f"{bucket}/{given.get('Key', '*')}"
    resource = objects if call.operation.endswith(("Object", "Objects")) else bucket
    for action in _OF_S3.get(call.operation, (call.operation,)):
        yield Asked(f"s3:{action}", resource)
    if given.get("Bucket") in encrypted and call.operation in _KEY_OPERATIONS:
        context = {**_TAGGED, "kms:ViaService": f"s3.{REGION}.amazonaws.com"}
        key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/of-the-bucket"
        yield Asked(f"kms:{_KEY_OPERATIONS[call.operation]}", key, context)


def write(asked_questions: Sequence[Asked]) -> None:
    rows = [json.dumps([one.action, one.resource, one.context]) for one in asked_questions]
    RECORDED.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def recorded() -> list[Asked]:
    return [Asked(*row) for row in json.loads(RECORDED.read_text(encoding="utf-8"))]


def statements(folder: Path) -> list[dict[str, Any]]:
    """What the workflow's role may do in the local AWS's account and region, as IAM reads it."""
    found: list[dict[str, Any]] = _of_role(folder, "Policy")["PolicyDocument"]["Statement"]
    return found


def role(folder: Path) -> dict[str, Any]:
    return _of_role(folder, "Role")


def _of_role(folder: Path, kind: str) -> dict[str, Any]:
    """Properties of the role, or of its policy."""
    text = VALID.replace("111111111111", ACCOUNT).replace("eu-west-1", REGION)
    (folder / "prod.toml").write_text(text)
    app = cdk.App(outdir=str(folder / "cdk.out"), builtin_cloud_formation_validation=False)
    add_pipelines(app, load(folder, folder), "me@11/mine@22", None, None, "accept")
    (stack,) = (one for one in app.node.children if isinstance(one, cdk.Stack))
    resources: Mapping[str, Any] = Template.from_stack(stack).to_json()["Resources"]
    (properties,) = (
        one["Properties"]
        for name, one in resources.items()
        if one["Type"] == f"AWS::IAM::{kind}" and name.startswith("Accepts")
    )
    found: dict[str, Any] = _resolved(properties)
    return found


def _resolved(value: Any) -> Any:
    if isinstance(value, list):
        return [_resolved(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Join" in value:
        return "".join(part if isinstance(part, str) else "aws" for part in value["Fn::Join"][1])
    return {key: _resolved(each) for key, each in value.items()}


def parts(statement: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One statement for each action on each resource."""
    actions, resources = statement["Action"], statement["Resource"]
    for action in [actions] if isinstance(actions, str) else actions:
        for resource in [resources] if isinstance(resources, str) else resources:
            yield {**statement, "Action": action, "Resource": resource}
