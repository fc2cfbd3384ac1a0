"""Presets live as their templates say, and no call of their lives lies outside the generated policies."""

import copy
import fnmatch
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from infra.catalog.limits import load_table
from infra.parameters.environment import build_stack_name
from infra.policy.execution_policy import build_policies
from servable.permissions.command import collect_policy_inputs
from servable.verify.deployed import read_stack
from servable.verify.difference import Difference
from servable.verify.endpoint import compare_endpoints
from servable.verify.scaling import compare_scaling
from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudformation import operations
from servable_local.aws.cloudformation.resource_calls import ResourceCalls
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.local_aws import REGION
from servable_local.aws.loopback import Loopback
from tests.presets import environments, templates
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long
Context = Mapping[str, str]


@dataclass(frozen=True)
class Asked:
    """One question to IAM."""

    action: str
    resource: str
    context: Context = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Call:
    service: str
    operation: str
    arguments: Mapping[str, Any]
    account: str
    region: str


class _Client:
    """A client of boto3 that tells of its calls."""

    def __init__(self, client: Any, tell: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._client, self._tell = client, tell

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        operation = self._client.meta.method_to_api_mapping.get(name)
        if operation is None:
            return found

        def called(**arguments: Any) -> Any:
            self._tell(operation, arguments)
            return found(**arguments)

        return called


def record(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Every call of every resource type from now on, in a list that grows."""
    calls: list[Call] = []

    class Recorded(Loopback):
        def client(self, service: str, region: str | None = None) -> Any:
            prefix = {"stepfunctions": "states"}.get(service, service)  # that of IAM's actions

            def tell(operation: str, arguments: Mapping[str, Any]) -> None:
                where = region or self.region
                calls.append(Call(prefix, operation, arguments, self.account, where))

            return _Client(super().client(service, region), tell)

    class Recording(ResourceCalls):
        def __init__(self, stack: Stack, aws: Loopback) -> None:
            own = Recorded(aws._access, account=aws.account, region=aws.region)
            super().__init__(stack, own)

    monkeypatch.setattr(operations, "ResourceCalls", Recording)
    return calls


# The operations whose name is no action's.
_ACTIONS = {
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketTagging": "PutBucketTagging",
    "HeadBucket": "ListBucket",
    # The action of the newer form: CloudFormation does not call the older one.
    "TagLogGroup": "TagResource",
    "UntagLogGroup": "UntagResource",
}
_TAGS = {
    "cloudwatch": "TagResource", "events": "TagResource", "iam": "TagRole", "kms": "TagResource",
    "lambda": "TagResource", "logs": "TagResource", "sagemaker": "AddTags", "sns": "TagResource",
    "scheduler": "TagResource", "ssm": "AddTagsToResource", "states": "TagResource",
}  # fmt: skip
# Service -> the argument that names its resource -> the rest of that resource's ARN.
_NAMED: Mapping[str, Mapping[str, str]] = {
    "cloudwatch": {"AlarmName": "alarm:{}", "AlarmNames": "alarm:{}"},
    "events": {"Rule": "rule/{}", "Name": "rule/{}"},
    "kms": {"KeyId": "key/{}"},
    "lambda": {"FunctionName": "function:{}"},
    "states": {"name": "stateMachine:{}"},
    "logs": {"logGroupName": "log-group:{}", "logGroupNames": "*"},
    "sagemaker": {
        "EndpointName": "endpoint/{}",
        "EndpointConfigName": "endpoint-config/{}",
        "InferenceComponentName": "inference-component/{}",
        "ModelName": "model/{}",
    },
    "sns": {"Name": "{}"},
    "ssm": {"Name": "parameter/{}"},
}


def asked(call: Call, roles: Mapping[str, Mapping[str, Any]]) -> Iterator[Asked]:
    """Every question: the action itself, tags that are given with it, and roles that are passed.

    `roles`: name -> the arguments with which a role was made, whose path and boundary IAM knows later on.
    """
    operation = _ACTIONS.get(call.operation, call.operation)
    role = roles.get(call.arguments.get("RoleName", ""), {})
    boundary = role.get("PermissionsBoundary")
    context = {"iam:PermissionsBoundary": boundary} if boundary else {}
    if operation in ("AttachRolePolicy", "DetachRolePolicy"):
        context["iam:PolicyARN"] = call.arguments["PolicyArn"]
    for resource in _resources(call, role.get("Path", "/")):
        yield Asked(f"{call.service}:{operation}", resource, context)
        if call.arguments.get("Tags") or call.arguments.get("tags"):
            yield Asked(f"{call.service}:{_TAGS[call.service]}", resource)
    scaling = "sagemaker." if call.service == "application-autoscaling" else ""
    to = {"iam:PassedToService": f"{scaling}{call.service}.amazonaws.com"}
    for name in {"ExecutionRoleArn", "Role", "RoleARN", "RoleArn", "roleArn"} & {*call.arguments}:
        yield Asked("iam:PassRole", call.arguments[name], to)


def _resources(call: Call, path: str) -> Iterator[str]:
    """ARNs of what the call is about; an operation that names nothing is about everything.

    `path`: that of the role that it names.
    """
    service, given = call.service, call.arguments
    names = ("ResourceArn", "TopicArn", "SubscriptionArn", "PolicyArn", "stateMachineArn")
    arns = [given[name] for name in names if name in given]
    if service == "s3":
        yield f"arn:aws:s3:::{given['Bucket']}"
    elif service == "iam" and "RoleName" in given:
        yield f"arn:aws:iam::{call.account}:role{path}{given['RoleName']}"
    elif service == "iam":
        named = f"arn:aws:iam::{call.account}:policy{given.get('Path', '/')}{{}}"
        yield given.get("PolicyArn") or named.format(given["PolicyName"])
    elif service == "application-autoscaling":
        yield f"arn:aws:{service}:{call.region}:{call.account}:scalable-target/made-up"
    elif service == "scheduler":
        group, name = given.get("GroupName"), given["Name"]
        what = f"schedule/{group}/{name}" if group else f"schedule-group/{name}"
        yield f"arn:aws:scheduler:{call.region}:{call.account}:{what}"
    elif "DashboardName" in given or "DashboardNames" in given:
        for name in given.get("DashboardNames") or [given["DashboardName"]]:
            yield f"arn:aws:cloudwatch::{call.account}:dashboard/{name}"
    elif arns:
        yield arns[0]
    else:
        here = f"arn:aws:{service}:{call.region}:{call.account}"
        named = [
            f"{here}:{form.format(name.removeprefix('/') if service == 'ssm' else name)}"
            for argument, form in _NAMED.get(service, {}).items()
            if argument in given
            for name in ([given[argument]] if isinstance(given[argument], str) else given[argument])
        ]
        if call.operation == "CreateEndpointConfig":
            named = named[:1]
        yield from named or ["*"]


def allowed(question: Asked, documents: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a statement allows it; there are only such as allow.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    """
    return any(
        _any(statement["Action"], question.action, any_case=True)
        and _any(statement["Resource"], question.resource)
        and _holds(statement.get("Condition", {}), question.context)
        for document in documents
        for statement in document["Statement"]
    )


def _any(patterns: str | Sequence[str], value: str, *, any_case: bool = False) -> bool:
    listed = [patterns] if isinstance(patterns, str) else patterns
    flags = re.IGNORECASE if any_case else 0
    return any(
        re.fullmatch(fnmatch.translate(pattern.replace("[", "[[]")), value, flags)
        for pattern in listed
    )


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """A key that the request lacks is equal to nothing."""
    return all(
        key in context and _any(wanted, context[key])
        for by_key in condition.values()
        for key, wanted in by_key.items()
    )


def outside(calls: Sequence[Call], documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the policies do not allow, each question once."""
    created = (call.arguments for call in calls if call.operation == "CreateRole")
    roles = {arguments["RoleName"]: arguments for arguments in created}
    questions = dict.fromkeys(question for call in calls for question in asked(call, roles))
    return [
        json.dumps({"action": one.action, "resource": one.resource, **one.context})
        for one in questions
        if not allowed(one, documents)
    ]


# Together every resource type; `make every-preset` tries them all.
NAMES = sorted(environments()) if "EVERY_PRESET" in os.environ else [
    "environments/prod", "scaling/steps", "updates/canary", "variants/asynchronous",
    "variants/batch", "variants/customer-keys", "variants/sleeping",
]  # fmt: skip


class Preset:
    """An environment in an account of its own: both its stacks, with the names that they have in AWS."""

    def __init__(self, account: Account, name: str) -> None:
        self.account, self.loaded = account, environments()[name]
        account.create_roles(self.loaded.environment)
        account.bootstrap()
        text = json.dumps(templates(name)).replace("111111111111", account.number)
        self.templates = json.loads(text)
        for stack in sorted(self.templates):  # data, then endpoint
            assert self.deploy(stack) == "CREATE_COMPLETE", self.account.events(self.name(stack))

    def name(self, stack: str) -> str:
        return build_stack_name(self.loaded.name, self.loaded.environment, stack)

    def deploy(self, stack: str = "endpoint") -> str:
        template = copy.deepcopy(self.templates[stack])
        for name, one in template["Resources"].items():
            if one["Type"] == "AWS::SageMaker::Model":
                self._fill(name, one["Properties"]["PrimaryContainer"])
        return self.account.deploy(template, self.name(stack))

    def _fill(self, name: str, container: dict[str, Any]) -> None:
        """Put what stands in for the model's data where the template then says."""
        if container.get("Mode") == "MultiModel":
            url = self.account.put_archive(b"a model", f"{name}/berlin.tar.gz")
            container["ModelDataUrl"] = url.removesuffix("berlin.tar.gz")
        elif "ModelDataSource" in container:
            url = self.account.put_archive(b"a model", f"{name}/1/model.pb")
            container["ModelDataSource"]["S3DataSource"]["S3Uri"] = url.removesuffix("1/model.pb")
        else:
            url = self.account.put_archive(b"a model", f"{name}.tar.gz")
            if "ModelPackageName" in container:
                package = self.account.register_version({"Image": IMAGE, "ModelDataUrl": url})
                container["ModelPackageName"] = package
            else:
                container["ModelDataUrl"] = url

    def resources(self, kind: str) -> list[dict[str, Any]]:
        """Their properties, as the endpoint's template has them."""
        resources = self.templates["endpoint"]["Resources"].values()
        return [one["Properties"] for one in resources if one["Type"] == f"AWS::{kind}"]

    def documents(self) -> list[dict[str, Any]]:
        """The policies for this environment, in the account and region that it is deployed to."""
        number, owner = self.account.number, self.loaded.environment.account
        own = replace(collect_policy_inputs(self.loaded), account=number, region=REGION)
        text = json.dumps(build_policies([own])).replace(f":{owner}:", f":{number}:")
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def live(self) -> None:
        """An update in place, one that replaces the fleet, one that is taken back, and the deletion."""

        def change(kind: str, name: str, value: str) -> None:
            for properties in self.resources(kind):
                properties[name] = value

        change("CloudWatch::Alarm", "AlarmDescription", "changed")
        change("IAM::Role", "Description", "changed")
        change("SNS::Topic", "DisplayName", "changed")
        for config in self.resources("SageMaker::EndpointConfig"):
            config["ProductionVariants"][0]["ContainerStartupHealthCheckTimeoutInSeconds"] = 3600
        assert self.deploy() == "UPDATE_COMPLETE"
        change("SSM::Parameter", "Value", "")  # which Parameter Store refuses
        change("CloudWatch::Alarm", "AlarmDescription", "changed again")
        assert self.deploy() == "UPDATE_ROLLBACK_COMPLETE"
        for stack in sorted(self.templates, reverse=True):
            self.account.delete(self.name(stack))


@pytest.mark.parametrize("name", sorted(environments()))
def test_what_is_live_is_the_template_s(name: str, account: Account) -> None:
    preset = Preset(account, name)
    live = read_stack(account.open(), preset.name("endpoint"))
    assert live is not None
    found = [*compare_endpoints(live)]
    if preset.loaded.environment.variants:
        found += compare_scaling(live)
    assert [str(one) for one in found if isinstance(one, Difference)] == []
    made = [(kind, one.rpartition(":")[2]) for kind, one in account.inventory()]
    for kind, key in (
        ("SageMaker::Endpoint", "EndpointName"),
        ("StepFunctions::StateMachine", "StateMachineName"),
        ("Scheduler::Schedule", "Name"),
    ):
        names = [name for each, name in made if each == f"AWS::{kind}"]
        assert names == sorted(one[key] for one in preset.resources(kind))


@pytest.mark.parametrize("name", NAMES)
def test_no_call_lies_outside(
    name: str, account: Account, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record(monkeypatch)
    preset = Preset(account, name)
    with ThreadPoolExecutor() as pool:
        life = pool.submit(preset.live)
        while not life.done():
            clock.advance(minutes=1)  # so that a rollout bakes and ends
            time.sleep(0.02)
        life.result()
    assert outside(calls, preset.documents()) == []


def test_these_make_every_type_that_the_policies_are_for() -> None:
    made = [one for name in NAMES for one in templates(name).values()]
    types = {resource["Type"] for one in made for resource in one["Resources"].values()}
    assert types == set(load_table("handler_permissions")["types"])


def test_a_call_that_the_policies_lack_is_found() -> None:
    call = Call("sagemaker", "DeleteEndpoint", {"EndpointName": "another"}, "123456789012", REGION)
    inputs = collect_policy_inputs(environments()[NAMES[0]])
    own = replace(inputs, account=call.account, region=REGION)
    assert len(outside([call], build_policies([own]))) == 1
