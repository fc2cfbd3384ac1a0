"""A deployed stack, its status and overrides, and what `servable verify` compares in which order."""

import copy
import functools
import json
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError

from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from servable.plan.synthesis import SynthesisedStack
from servable.verify import command
from servable.verify.deployed import UNKNOWN, AnyCase, DeployedEvaluator, DeployedStack, read_stack
from servable.verify.difference import KEEP, Difference
from tests.batches import build_batch_example
from tests.conftest import VALID, Environment, valid
from tests.servable.verify.answering import NUMBER, REGION, AnsweringAccount, resource

STACK_ID = f"arn:aws:cloudformation:{REGION}:{NUMBER}:stack/prod-endpoint/1"
STACK = {"StackName": "prod-endpoint", "StackStatus": "UPDATE_COMPLETE", "StackId": STACK_ID}
POLICY = {
    "Topics": [{"Ref": "Topic"}],
    "Of": {"Fn::Sub": "${AWS::Region} ${AWS::AccountId} ${AWS::URLSuffix}"},
    "From": {"Fn::ImportValue": "data:bucket"},
}
NAME = {"TopicName": {"Ref": "AWS::StackName"}}
TEMPLATE = {
    "Resources": {
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": NAME},
        "Role": {"Type": "AWS::IAM::Role"},
        "Policy": {"Type": "AWS::SNS::TopicPolicy", "Properties": POLICY},
    }
}
EVERY = [
    "dependencies.compare_dependencies",
    "endpoint.compare_endpoints",
    "endpoint.compare_batch_models",
    "scaling.compare_scaling",
    "alarms.compare_alarms",
    "model.compare_archives",
    "model.check_image_patches",
    "golden.compare_responses",
    "alarms.compare_latency",
]


def account(status: str = "UPDATE_COMPLETE", **more: Any) -> AnsweringAccount:
    answers = {
        "DescribeStacks": {"Stacks": [STACK | {"StackStatus": status}]},
        "GetTemplate": {"TemplateBody": json.dumps(TEMPLATE)},
        "ListStackResources": {
            "StackResourceSummaries": [
                {"LogicalResourceId": "Topic", "PhysicalResourceId": "arn:topic"},
                {"LogicalResourceId": "Role"},
            ]
        },
        "ListExports": {"Exports": [{"Name": "data:bucket", "Value": "captures"}]},
        "DescribeStackEvents": {"StackEvents": []},
    }
    return AnsweringAccount(**{**answers, **more})


def read(**more: Any) -> DeployedStack:
    found = read_stack(account(**more), "prod-endpoint")
    assert found is not None
    return found


def test_a_deployed_stack_has_its_resources_with_resolved_properties_also_in_china() -> None:
    found = read()
    topic, role, policy = found.resources
    assert (found.name, found.status) == ("prod-endpoint", "UPDATE_COMPLETE")
    assert (topic.logical, topic.type, topic.physical) == ("Topic", "AWS::SNS::Topic", "arn:topic")
    assert topic.properties == {"TopicName": "prod-endpoint"}
    assert (role.physical, role.properties) == ("", {})
    of = f"{REGION} {NUMBER} amazonaws.com"
    assert policy.properties == {"Topics": ["arn:topic"], "Of": of, "From": "captures"}
    assert [each.logical for each in found.find_resources("AWS::IAM::Role")] == ["Role"]
    assert found.overrides == {}
    assert read_stack(account(DescribeStacks=None), "prod-endpoint") is None

    model = resource("SageMaker::Model", "arn:aws:sagemaker:r:1:model/m")
    assert (model.name, topic.name) == ("m", "arn:topic")

    chinese = STACK | {"StackId": STACK_ID.replace("arn:aws:", "arn:aws-cn:")}
    found = read(DescribeStacks={"Stacks": [chinese]})
    assert found.resources[2].properties["Of"].endswith("amazonaws.com.cn")


def test_a_stack_that_is_not_at_rest_is_a_difference_with_its_reason() -> None:
    events = [
        {"ResourceStatus": "UPDATE_COMPLETE", "ResourceStatusReason": "fine"},
        {"ResourceStatus": "UPDATE_FAILED", "ResourceStatusReason": "Resource update cancelled"},
        {"ResourceStatus": "UPDATE_FAILED"},
        {"ResourceStatus": "UPDATE_FAILED", "ResourceStatusReason": "no capacity"},
        {"ResourceStatus": "UPDATE_FAILED", "ResourceStatusReason": "older"},
    ]
    told = [{"LogicalResourceId": "Endpoint", **event} for event in events]
    failed = read(DescribeStackEvents={"StackEvents": told})
    assert failed.find_rollback_reason() == "Endpoint: no capacity"
    assert read().find_rollback_reason() == "no event gives the reason"
    rolled_back = (
        f"the reason: no event gives the reason; fix it and deploy, or keep what runs: {KEEP}"
    )
    for status, remedy in [
        ("CREATE_COMPLETE", None),
        ("UPDATE_COMPLETE", None),
        ("IMPORT_COMPLETE", None),
        ("UPDATE_IN_PROGRESS", "wait until it has finished"),
        ("UPDATE_ROLLBACK_COMPLETE", rolled_back),
    ]:
        found = list(command.check_status(read(status=status)))
        assert [each.remedy for each in found] == ([] if remedy is None else [remedy])
        assert all((each.found, each.wanted) == (status, "UPDATE_COMPLETE") for each in found)


def test_overrides_and_a_template_are_compared_in_both_directions() -> None:
    template = {**TEMPLATE, "Metadata": {"Overrides": {"a": "1", "b": "2"}}}
    live = read(GetTemplate={"TemplateBody": json.dumps(template)})
    found = list(command.compare_overrides(live, {"b": "2", "c": "3"}))
    assert [(each.key, each.wanted, each.found) for each in found] == [
        ("a", "without it", "1"), ("c", "3", "without it")
    ]  # fmt: skip

    topic = {"Type": "AWS::SNS::Topic", "Properties": {}}
    (new,) = command.compare_template(synthesised(New=topic), read())
    assert (new.resource, new.wanted, new.found) == ("prod-endpoint/New", "there", "not there")
    role = {"Type": "AWS::IAM::Role", "Properties": {"Path": "/a/"}, "Metadata": {"x": 1}}
    for changed, difference in (
        (synthesised(Role=role), ("Properties.Path", "/a/", None)),
        (synthesised(Topic=topic), ("Properties.TopicName.Ref", None, "AWS::StackName")),
    ):
        (found,) = command.compare_template(changed, read())
        assert (found.key, found.wanted, found.found) == difference
    noted = synthesised(Role={"Type": "AWS::IAM::Role", "Metadata": 1})
    assert list(command.compare_template(noted, read())) == []


@pytest.fixture
def loaded(environment: Environment) -> ValidFile:
    return valid(environment())


def test_the_file_is_compared_with_the_overrides_in_force(
    loaded: ValidFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = Mock()
    monkeypatch.setattr(command, "synthesise_stacks", Mock(return_value=[]))
    monkeypatch.setattr(command, "compare_stacks", compare)

    def verify(key: str, **answers: Any) -> Any:
        template = {**TEMPLATE, "Metadata": {"Overrides": {key: "ml"}}}
        answers = {"GetTemplate": {"TemplateBody": json.dumps(template)}} | answers
        live = account(GetCallerIdentity={"Account": NUMBER}, **answers)
        command.compare_environment(loaded, loaded.root / "environments", live)
        return compare.call_args

    call = verify("tags.team")
    assert (call.args[0].environment.tags, call.kwargs["meant"]) == ({"team": "ml"}, {})
    assert verify("tags.team", DescribeStacks=None).args[0].environment.tags == {}
    with pytest.raises(PackagingError, match="errors with the deployed overrides: .*endpoint.size"):
        verify("endpoint.size")
    away = Mock(side_effect=EndpointConnectionError(endpoint_url="no route"))
    with pytest.raises(PackagingError, match="cannot read the deployed resources: .*no route"):
        verify("tags.team", ListExports=away)


def synthesised(kind: str = "endpoint", **changes: Any) -> SynthesisedStack:
    template = copy.deepcopy(TEMPLATE)
    template["Resources"] |= changes
    return SynthesisedStack(kind=kind, name="prod-endpoint", template=template)


class Compared:
    """`compare`, where each part finds what a test says, and notes that it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, loaded: ValidFile) -> None:
        self.loaded, self.asked = loaded, list[str]()
        self.found: dict[str, list[Difference]] = {}

        def look(name: str, *_: Any, **__: Any) -> list[Difference]:
            self.asked.append(name)
            return self.found.get(name, [])

        for name in EVERY:
            patch.setattr(f"servable.verify.{name}", functools.partial(look, name))

    def report(self, *stacks: SynthesisedStack, invoke: bool = True, **answers: Any) -> Any:
        self.asked.clear()
        live = account(**answers)
        return command.compare_stacks(
            self.loaded, list(stacks or (synthesised(),)), live, meant={}, invoke=invoke
        )


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, loaded: ValidFile) -> Compared:
    return Compared(monkeypatch, loaded)


def difference(kind: str) -> Difference:
    return Difference(kind, "ranker", "fix")


def test_every_part_is_asked_and_without_invoking_no_request_is_sent(compared: Compared) -> None:
    assert compared.report().differences == []
    assert compared.asked == EVERY
    compared.found = {name: [difference(name)] for name in EVERY}
    report = compared.report()
    assert sorted(each.kind for each in report.differences) == sorted(EVERY)
    assert compared.report().patchable.startswith("yes")
    compared.found = {}

    report = compared.report(invoke=False)
    assert (report.invoke, report.verdict) == (False, "holds")
    assert compared.asked == [name for name in EVERY if name != "golden.compare_responses"]


def test_an_endpoint_that_is_not_compared_or_absent_is_neither_asked_nor_called_patchable(
    compared: Compared,
) -> None:
    for kind in ["endpoint missing", "inference components"]:
        compared.found = {"endpoint.compare_endpoints": [difference(kind)]}
        report = compared.report()
        assert (report.patchable, [each.kind for each in report.differences]) == (None, [kind])
        assert compared.asked == EVERY[:-2]
    compared.found = {}

    compared.report(synthesised("data"))
    assert compared.asked == ["dependencies.compare_dependencies"]
    report = compared.report(synthesised("data"), synthesised(), DescribeStacks=None)
    missing = "prod-endpoint: not deployed; `cdk deploy 'prod/*'`"
    assert ([str(each) for each in report.differences], compared.asked) == ([missing] * 2, [])
    broken = compared.report(status="UPDATE_ROLLBACK_COMPLETE")
    assert [each.kind for each in broken.differences] == ["stack status"]


def test_an_environment_of_batches_alone_has_no_endpoint_to_ask(
    compared: Compared, environment: Environment
) -> None:
    batches = f"{build_batch_example()}\n{VALID[: VALID.index('[variants.')]}"
    compared.loaded = valid(environment(batches))
    report = compared.report()
    assert (report.invoke, report.patchable) == (False, None)
    assert report.notes == ["there is no endpoint, so no golden request was sent"]
    assert compared.asked == [name for name in EVERY[:-2] if name != "scaling.compare_scaling"]


# --- a template's references, as the resources that CloudFormation made answer them

MODEL_ARN = "arn:aws:sagemaker:eu-west-1:1:model/ranker-1"
_DEPLOYED = DeployedEvaluator(
    physical={"Role": "ranker-role", "Filed": "filed", "Model": MODEL_ARN},
    resources={
        "Role": {"Type": "AWS::IAM::Role"},
        "Filed": {"Type": "AWS::IAM::Role", "Properties": {"Path": "/service/ranker/"}},
        "Model": {"Type": "AWS::SageMaker::Model"},
    },
    pseudo={"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "1"},
    exports={"data:bucket": "captures"},
)


def test_what_the_stack_says_takes_the_place_of_its_function() -> None:
    cases: list[tuple[Any, Any]] = [
        ({"Ref": "Role"}, "ranker-role"),
        ({"Fn::GetAtt": ["Role", "Arn"]}, "arn:aws:iam::1:role/ranker-role"),
        ({"Fn::GetAtt": ["Filed", "Arn"]}, "arn:aws:iam::1:role/service/ranker/filed"),
        ({"Fn::GetAtt": ["Model", "ModelName"]}, "RANKER-1"),
        ({"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::b/*"]]}, "arn:aws:s3:::b/*"),
        ({"Fn::Sub": "${AWS::Region}/${!Literal}"}, "eu-west-1/${Literal}"),
        ({"Fn::ImportValue": "data:bucket"}, "captures"),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"Condition": {"Bool": {}}}, {"Condition": {"Bool": {}}}),
    ]
    for part, said in cases:
        assert _DEPLOYED.evaluate(part) == said

    name = _DEPLOYED.evaluate({"Fn::GetAtt": ["Model", "ModelName"]})
    assert hash(name) == hash(AnyCase("RANKER-1"))
    assert (name == "Ranker-1", name != "Ranker-1") == (True, False)
    assert (name == "ranker-2", name != "ranker-2", name == 1) == (False, True, False)
    assert _DEPLOYED.find_attribute("Model", "Arn") == MODEL_ARN
    for unknown in (("Absent", "Arn"), ("Model", "ModelArn"), ("Role", "EndpointName")):
        assert _DEPLOYED.find_attribute(*unknown) is UNKNOWN


def test_what_only_cloudformation_knows_is_unknown_as_a_whole() -> None:
    unknown: list[Any] = [
        {"Ref": "Parameter"},
        {"Fn::GetAtt": ["Role", "RoleId"]},
        {"Fn::Join": ["", ["a", {"Ref": "Parameter"}]]},
        {"Fn::Join": [",", {"Ref": "Subnets"}]},
        {"Fn::Sub": "a/${Parameter}"},
        {"Fn::ImportValue": "of another"},
        {"Fn::If": ["Condition", 1, 2]},
        {"Fn::GetAZs": ""},
        "{{resolve:ssm:/name}}",
    ]
    for part in unknown:
        assert _DEPLOYED.evaluate({"Key": part})["Key"] is UNKNOWN
