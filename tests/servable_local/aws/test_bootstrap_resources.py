"""What `cdk bootstrap` deploys besides a bucket and roles: a repository of images and a version."""

import json
from typing import Any

import pytest

from tests.servable_local.aws.local_account import Account, refused

TAGS = [{"Key": "a", "Value": "1"}]


def policy(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def expiring(days: int) -> str:
    selection = {
        "tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days",
        "countNumber": days,
    }  # fmt: skip
    rule = {"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}
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
        "Tags": [{"Key": "b", "Value": "2"}] if changed else TAGS,
    }
    of_plain = ("LifecyclePolicy", "RepositoryPolicyText")
    plain = {key: repository[key] for key in of_plain} if not changed else {}
    version = {"Type": "String", "Name": "/version", "Value": "21" if changed else "20"}
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Repository": ("ECR::Repository", repository),
        "Plain": ("ECR::Repository", plain),
        "Version": ("SSM::Parameter", version | ({} if changed else {"Tags": {"a": "1"}})),
        "Usage": ("CDK::Metadata", {"Analytics": "x"}),
    }
    outputs = {
        "Repository": {"Ref": "Repository"},
        "Uri": {"Fn::GetAtt": ["Repository", "RepositoryUri"]},
        "Arn": {"Fn::GetAtt": ["Repository", "Arn"]},
        "Version": {"Fn::GetAtt": ["Version", "Value"]},
        "Type": {"Fn::GetAtt": ["Version", "Type"]},
    }
    return {
        "Resources": {
            name: {"Type": f"AWS::{kind}", "Properties": properties}
            for name, (kind, properties) in resources.items()
        },
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }


def settings(account: Account) -> tuple[Any, ...]:
    """What ECR and SSM describe: scans, days until an image expires, who may pull, and the version."""
    ecr = account.client("ecr")
    (found,) = ecr.describe_repositories(repositoryNames=["assets"])["repositories"]
    lifecycle = ecr.get_lifecycle_policy(repositoryName="assets")["lifecyclePolicyText"]
    allowed = ecr.get_repository_policy(repositoryName="assets")["policyText"]
    parameter = account.client("ssm").get_parameter(Name="/version")["Parameter"]
    return (
        found["imageScanningConfiguration"]["scanOnPush"],
        json.loads(lifecycle)["rules"][0]["selection"]["countNumber"],
        json.loads(allowed)["Statement"][0]["Action"],
        (parameter["Value"], parameter["Version"]),
    )


@pytest.mark.long
def test_the_repository_and_the_version_are_made_changed_and_deleted(account: Account) -> None:
    number, ecr, ssm = account.number, account.client("ecr"), account.client("ssm")
    assert account.deploy(template(changed=False)) == "CREATE_COMPLETE"
    arn = f"arn:aws:ecr:us-east-1:{number}:repository/assets"
    assert {
        name: account.output(name) for name in ("Repository", "Uri", "Arn", "Version", "Type")
    } == {
        "Repository": "assets",
        "Uri": f"{number}.dkr.ecr.us-east-1.amazonaws.com/assets",
        "Arn": arn,
        "Version": "20",
        "Type": "String",
    }
    found = {one["repositoryName"]: one for one in ecr.describe_repositories()["repositories"]}
    assets = found.pop("assets")
    ((name, plain),) = found.items()
    assert (assets["repositoryArn"], assets["imageTagMutability"]) == (arn, "IMMUTABLE")
    assert (plain["imageTagMutability"], plain["imageScanningConfiguration"]["scanOnPush"]) == (
        "MUTABLE", False,
    )  # fmt: skip
    assert (name.startswith("stack-plain-"), name == name.lower()) == (True, True)
    assert settings(account) == (True, 5, "ecr:GetDownloadUrlForLayer", ("20", 1))
    of_parameter = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId="/version")
    of_repository = ecr.list_tags_for_resource(resourceArn=arn)["tags"]
    assert (of_repository, of_parameter["TagList"]) == (TAGS, TAGS)
    assert account.inventory() == [
        ("AWS::ECR::Repository", "assets"),
        ("AWS::ECR::Repository", name),
        ("AWS::SSM::Parameter", "/version"),
    ]
    assert account.deploy(template(changed=True)) == "UPDATE_COMPLETE"
    assert settings(account) == (False, 9, "ecr:*", ("21", 2))
    assert ecr.list_tags_for_resource(resourceArn=arn)["tags"] == [{"Key": "b", "Value": "2"}]
    assert not ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId="/version")[
        "TagList"
    ]
    # --- policies that are no longer in the template are removed
    for call in (ecr.get_lifecycle_policy, ecr.get_repository_policy):
        refused(call, repositoryName=name)
    media = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": media, "config": {"digest": "sha256:0"}}
    )
    ecr.put_image(repositoryName="assets", imageManifest=manifest, imageTag="one")
    assert (account.delete(), account.inventory()) == ("DELETE_COMPLETE", [])
