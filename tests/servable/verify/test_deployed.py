"""A deployed stack, its status and overrides, and what `servable verify` compares in which order."""

import copy
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError

from infra.parameters.loading import ValidFile, load
from model_packaging.refusal import PackagingError
from servable.plan.synthesis import SynthesisedStack
from servable.verify import command
from servable.verify.deployed import DeployedStack, read_stack
from servable.verify.difference import KEEP, Difference
from tests.batches import build_batch_example
from tests.conftest import VALID, valid
from tests.servable.verify.answering import NUMBER, REGION, AnsweringAccount

STACK = {
    "StackName": "prod-endpoint",
    "StackStatus": "UPDATE_COMPLETE",
    "StackId": f"arn:aws:cloudformation:{REGION}:{NUMBER}:stack/prod-endpoint/1",
}
TEMPLATE = {
    "Resources": {
        "Topic": {
            "Type": "AWS::SNS::Topic",
            "Properties": {"TopicName": {"Ref": "AWS::StackName"}},
        },
        "Role": {"Type": "AWS::IAM::Role"},
        "Policy": {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {
                "Topics": [{"Ref": "Topic"}],
                "Of": {"Fn::Sub": "${AWS::Region} ${AWS::AccountId} ${AWS::URLSuffix}"},
                "From": {"Fn::ImportValue": "data:bucket"},
            },
        },
    }
}


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

    topic, *_ = read().resources
    model = topic.__class__(
        logical="M", type="t", physical="arn:aws:sagemaker:r:1:model/m", properties={}
    )
    assert (model.name, topic.name) == ("m", "arn:topic")

    chinese = STACK | {"StackId": STACK["StackId"].replace("arn:aws:", "arn:aws-cn:")}
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
    for status, remedy in [
        ("CREATE_COMPLETE", None),
        ("UPDATE_COMPLETE", None),
        ("IMPORT_COMPLETE", None),
        ("UPDATE_IN_PROGRESS", "wait until it has finished"),
        (
            "UPDATE_ROLLBACK_COMPLETE",
            f"the reason: no event gives the reason; fix it and deploy, or keep what runs: {KEEP}",
        ),
    ]:
        found = list(command.check_status(read(status=status)))
        assert [each.remedy for each in found] == ([] if remedy is None else [remedy])
        assert all((each.found, each.wanted) == (status, "UPDATE_COMPLETE") for each in found)


def test_overrides_and_a_template_are_compared_in_both_directions() -> None:
    template = {**TEMPLATE, "Metadata": {"Overrides": {"a": "1", "b": "2"}}}
    live = read(GetTemplate={"TemplateBody": json.dumps(template)})
    found = list(command.compare_overrides(live, {"b": "2", "c": "3"}))
    assert [(each.key, each.wanted, each.found) for each in found] == [
        ("a", "without it", "1"),
        ("c", "3", "without it"),
    ]

    extra = {"Type": "AWS::SNS::Topic", "Properties": {}}
    found = list(command.compare_template(synthesised(New=extra), read()))
    assert [(each.resource, each.wanted, each.found) for each in found] == [
        ("prod-endpoint/New", "there", "not there")
    ]
    role = {"Type": "AWS::IAM::Role", "Properties": {"Path": "/a/"}, "Metadata": {"x": 1}}
    (changed,) = command.compare_template(synthesised(Role=role), read())
    assert (changed.key, changed.wanted, changed.found) == ("Properties.Path", "/a/", None)
    topic = {"Type": "AWS::SNS::Topic", "Properties": {}}
    (gone,) = command.compare_template(synthesised(Topic=topic), read())
    name = ("Properties.TopicName.Ref", None, "AWS::StackName")
    assert (gone.key, gone.wanted, gone.found) == name
    noted = synthesised(Role={"Type": "AWS::IAM::Role", "Metadata": 1})
    assert list(command.compare_template(noted, read())) == []


@pytest.fixture
def loaded(project: Path) -> ValidFile:
    (project / "environments" / "prod.toml").write_text(VALID)
    (found,) = load(project, project / "environments")
    return valid(found)


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
    with pytest.raises(PackagingError, match="cannot read the deployed resources: .*no route"):
        verify(
            "tags.team",
            ListExports=Mock(side_effect=EndpointConnectionError(endpoint_url="no route")),
        )


def synthesised(kind: str = "endpoint", **changes: Any) -> SynthesisedStack:
    template = copy.deepcopy(TEMPLATE)
    template["Resources"] |= changes
    return SynthesisedStack(kind=kind, name="prod-endpoint", template=template)


class Compared:
    """`compare`, where each part finds what a test says, and notes that it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, loaded: ValidFile) -> None:
        self.loaded, self.asked = loaded, list[str]()
        self.found: dict[str, list[Difference]] = {}

        def part(name: str) -> Any:
            def look(*_: Any, **__: Any) -> list[Difference]:
                self.asked.append(name)
                return self.found.get(name, [])

            return look

        for name in EVERY:
            patch.setattr(f"servable.verify.{name}", part(name))

    def report(self, *stacks: SynthesisedStack, invoke: bool = True, **answers: Any) -> Any:
        self.asked.clear()
        live = account(**answers)
        return command.compare_stacks(
            self.loaded, list(stacks or (synthesised(),)), live, meant={}, invoke=invoke
        )


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


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, loaded: ValidFile) -> Compared:
    return Compared(monkeypatch, loaded)


def difference(kind: str) -> Difference:
    return Difference(kind=kind, resource="ranker", remedy="fix")


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
    assert [str(each) for each in report.differences] == [
        "prod-endpoint: not deployed; `cdk deploy 'prod/*'`"
    ] * 2
    assert compared.asked == []
    broken = compared.report(status="UPDATE_ROLLBACK_COMPLETE")
    assert [each.kind for each in broken.differences] == ["stack status"]


def test_an_environment_of_batches_alone_has_no_endpoint_to_ask(compared: Compared) -> None:
    root = compared.loaded.root
    batches = f"{build_batch_example()}\n{VALID[: VALID.index('[variants.')]}"
    (root / "environments" / "prod.toml").write_text(batches)
    (found,) = load(root, root / "environments")
    compared.loaded = valid(found)
    report = compared.report()
    assert (report.invoke, report.patchable) == (False, None)
    assert report.notes == ["there is no endpoint, so no golden request was sent"]
    assert compared.asked == [name for name in EVERY[:-2] if name != "scaling.compare_scaling"]
