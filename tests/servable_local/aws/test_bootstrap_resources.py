"""What `cdk bootstrap` deploys besides a bucket and roles, and the inventory of an account."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account


def policy(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def expiring(days: int) -> str:
    rule = {
        "rulePriority": 1,
        "selection": {
            "tagStatus": "untagged",
            "countType": "sinceImagePushed",
            "countUnit": "days",
            "countNumber": days,
        },
        "action": {"type": "expire"},
    }
    return json.dumps({"rules": [rule]})


def template(changed: bool) -> dict[str, Any]:
    """The stack's first state, and its second one."""
    repository: dict[str, Any] = {
        "RepositoryName": "assets",
        "ImageTagMutability": "IMMUTABLE",
        "LifecyclePolicy": {"LifecyclePolicyText": expiring(9 if changed else 5)},
        "RepositoryPolicyText": policy("ecr:*" if changed else "ecr:GetDownloadUrlForLayer"),
        "ImageScanningConfiguration": {"ScanOnPush": "false" if changed else "true"},
        "EmptyOnDelete": "true",
        "Tags": [{"Key": "a", "Value": "1"}],
    }
    plain: dict[str, Any] = {"ImageScanningConfiguration": {}} if changed else {}
    version = {"Type": "String", "Name": "/version", "Value": "21" if changed else "20"}
    outputs = {
        "Repository": {"Ref": "Repository"},
        "Uri": {"Fn::GetAtt": ["Repository", "RepositoryUri"]},
        "Arn": {"Fn::GetAtt": ["Repository", "Arn"]},
        "Version": {"Fn::GetAtt": ["Version", "Value"]},
        "Type": {"Fn::GetAtt": ["Version", "Type"]},
    }
    endpoint = {"Protocol": "email", "Endpoint": "a@example.com", "TopicArn": {"Ref": "Topic"}}
    source = "topic.amazonaws.com"
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": source}}
    role = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}}
    may = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
    }
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Repository": ("ECR::Repository", repository),
        "Plain": ("ECR::Repository", plain),
        "Version": ("SSM::Parameter", version | ({} if changed else {"Tags": {"a": "1"}})),
        "Usage": ("CDK::Metadata", {"Analytics": "x"}),
        "Key": ("KMS::Key", {"KeyPolicy": policy("kms:*"), "PendingWindowInDays": 7}),
        "Alias": ("KMS::Alias", {"AliasName": "alias/ranker", "TargetKeyId": {"Ref": "Key"}}),
        "Topic": ("SNS::Topic", {"TopicName": "with-policy"}),
        "Bare": ("SNS::Topic", {"TopicName": "without"}),
        "TopicPolicy": (
            "SNS::TopicPolicy",
            {"Topics": [{"Ref": "Topic"}], "PolicyDocument": policy("sns:Publish")},
        ),
        "Subscription": ("SNS::Subscription", endpoint),
        "Bucket": ("S3::Bucket", {"BucketName": {"Fn::Sub": "with-policy-${AWS::AccountId}"}}),
        "Other": ("S3::Bucket", {"BucketName": {"Fn::Sub": "without-${AWS::AccountId}"}}),
        "BucketPolicy": (
            "S3::BucketPolicy",
            {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": policy("s3:*")},
        ),
        "Role": ("IAM::Role", {"RoleName": "ranker", **role}),
        "Inline": (
            "IAM::Policy",
            {"PolicyName": "inline", "PolicyDocument": may, "Roles": [{"Ref": "Role"}]},
        ),
        "Managed": (
            "IAM::ManagedPolicy",
            {
                "ManagedPolicyName": "managed",
                "PolicyDocument": may | ({"Id": "other"} if changed else {}),
            },
        ),
        "Group": ("Logs::LogGroup", {"LogGroupName": "/ranker"}),
        "Query": ("Logs::QueryDefinition", {"Name": "q", "QueryString": "limit 1"}),
        "Dashboard": (
            "CloudWatch::Dashboard",
            {"DashboardName": "ranker", "DashboardBody": '{"widgets": []}'},
        ),
        "Composite": (
            "CloudWatch::CompositeAlarm",
            {"AlarmName": "both", "AlarmRule": "FALSE"},
        ),
    }
    return {
        "Resources": {
            name: {"Type": f"AWS::{kind}", "Properties": properties}
            for name, (kind, properties) in resources.items()
        },
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }


@dataclass
class State:
    """Settings that ECR and SSM describe, and everything that is there."""

    repository: dict[str, Any]
    plain: dict[str, Any]
    lifecycle: str
    policy: str
    parameter: dict[str, Any]
    inventory: list[tuple[str, str]]


@dataclass
class Lives:
    account: Account
    first: State
    second: State
    statuses: list[str]
    outputs: dict[str, str]
    after: list[tuple[str, str]]


def state(account: Account) -> State:
    ecr = account.client("ecr")
    repositories = {
        one["repositoryName"]: one for one in ecr.describe_repositories()["repositories"]
    }
    assets = repositories.pop("assets")
    (plain,) = repositories.values()
    return State(
        assets,
        plain,
        ecr.get_lifecycle_policy(repositoryName="assets")["lifecyclePolicyText"],
        ecr.get_repository_policy(repositoryName="assets")["policyText"],
        account.client("ssm").get_parameter(Name="/version")["Parameter"],
        account.inventory(),
    )


@pytest.fixture(scope="module")
def lives(embedded: LocalAws, launcher: Launcher) -> Lives:
    """One stack, created, updated and deleted; `after`: the inventory in the end."""
    account = Account(embedded, launcher)
    created = account.deploy(template(changed=False))
    outputs = {
        name: account.output(name) for name in ("Repository", "Uri", "Arn", "Version", "Type")
    }
    first = state(account)
    updated = account.deploy(template(changed=True))
    second = state(account)
    ecr = account.client("ecr")
    media = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": media, "config": {"digest": "sha256:0"}}
    )
    ecr.put_image(repositoryName="assets", imageManifest=manifest, imageTag="one")
    deleted = account.delete()
    statuses = [created, updated, deleted]
    return Lives(account, first, second, statuses, outputs, account.inventory())


def test_it_is_deployed_changed_and_deleted_and_is_in_the_inventory(lives: Lives) -> None:
    assert lives.statuses == ["CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"]

    number = lives.account.number
    arn = f"arn:aws:sns:us-east-1:{number}:"
    generated = (
        "AWS::KMS::Key", "AWS::SNS::Subscription", "AWS::Logs::QueryDefinition",
    )  # fmt: skip
    named = [item for item in lives.first.inventory if item[0] not in generated]
    kinds = [item[0] for item in lives.first.inventory if item[0] in generated]
    plain = str(lives.first.plain["repositoryName"])
    assert sorted(kinds) == sorted(generated)
    assert named == sorted(
        [
            ("AWS::CloudWatch::CompositeAlarm", "both"),
            ("AWS::CloudWatch::Dashboard", "ranker"),
            ("AWS::ECR::Repository", "assets"),
            ("AWS::ECR::Repository", plain),
            ("AWS::IAM::ManagedPolicy", f"arn:aws:iam::{number}:policy/managed"),
            ("AWS::IAM::Policy", "inline"),
            ("AWS::IAM::Role", "ranker"),
            ("AWS::KMS::Alias", "alias/ranker"),
            ("AWS::Logs::LogGroup", "/ranker"),
            ("AWS::S3::Bucket", f"with-policy-{number}"),
            ("AWS::S3::Bucket", f"without-{number}"),
            ("AWS::S3::BucketPolicy", f"with-policy-{number}"),
            ("AWS::SNS::Topic", f"{arn}with-policy"),
            ("AWS::SNS::Topic", f"{arn}without"),
            ("AWS::SNS::TopicPolicy", f"{arn}with-policy"),
            ("AWS::SSM::Parameter", "/version"),
        ]
    )
    assert lives.after == []


def test_a_repository_has_its_settings_and_gets_others(lives: Lives) -> None:
    number = lives.account.number
    assert {name: lives.outputs[name] for name in ("Repository", "Uri", "Arn")} == {
        "Repository": "assets",
        "Uri": f"{number}.dkr.ecr.us-east-1.amazonaws.com/assets",
        "Arn": f"arn:aws:ecr:us-east-1:{number}:repository/assets",
    }
    assert lives.first.repository["repositoryArn"] == lives.outputs["Arn"]

    scans = [
        one.repository["imageScanningConfiguration"]["scanOnPush"]
        for one in (lives.first, lives.second)
    ]
    assert (scans, lives.first.repository["imageTagMutability"]) == ([True, False], "IMMUTABLE")
    days = [
        json.loads(one.lifecycle)["rules"][0]["selection"]["countNumber"]
        for one in (lives.first, lives.second)
    ]
    actions = [
        json.loads(one.policy)["Statement"][0]["Action"] for one in (lives.first, lives.second)
    ]
    assert (days, actions) == ([5, 9], ["ecr:GetDownloadUrlForLayer", "ecr:*"])

    plain = lives.first.plain
    assert (plain["imageTagMutability"], plain["imageScanningConfiguration"]["scanOnPush"]) == (
        "MUTABLE", False,
    )  # fmt: skip
    name = plain["repositoryName"]
    assert (name.startswith("stack-plain-"), name == name.lower()) == (True, True)


def test_a_parameter_has_its_value_and_gets_another(lives: Lives) -> None:
    assert (lives.outputs["Type"], lives.outputs["Version"]) == ("String", "20")
    versions = [
        (one.parameter["Value"], one.parameter["Version"]) for one in (lives.first, lives.second)
    ]
    assert versions == [("20", 1), ("21", 2)]


def test_tags_are_given_at_creation(lives: Lives) -> None:
    with_tags = template(changed=False)
    resources = {name: with_tags["Resources"][name] for name in ("Repository", "Version")}
    assert lives.account.deploy({"Resources": resources}, "tagged") == "CREATE_COMPLETE"
    arn = f"arn:aws:ecr:us-east-1:{lives.account.number}:repository/assets"
    of_repository = lives.account.client("ecr").list_tags_for_resource(resourceArn=arn)["tags"]
    of_parameter = lives.account.client("ssm").list_tags_for_resource(
        ResourceType="Parameter", ResourceId="/version"
    )["TagList"]
    lives.account.delete("tagged")
    assert (of_repository, of_parameter) == ([{"Key": "a", "Value": "1"}],) * 2


def test_a_property_that_is_not_emulated_is_named(lives: Lives) -> None:
    unknown = {"Type": "AWS::ECR::Repository", "Properties": {"Absent": 1}}
    assert lives.account.deploy({"Resources": {"A": unknown}}, "unknown") == "ROLLBACK_COMPLETE"
    assert lives.account.reason("A", "CREATE_FAILED", "unknown") == (
        "AWS::ECR::Repository: Absent is not emulated"
    )
