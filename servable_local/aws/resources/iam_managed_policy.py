"""AWS::IAM::ManagedPolicy."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class IamManagedPolicy(ResourceType):
    type = "AWS::IAM::ManagedPolicy"
    create_only = frozenset({"ManagedPolicyName", "Description", "Path"})
    name_property = "ManagedPolicyName"

    def create(self, properties: Properties, request: Request) -> Made:
        iam = request.client("iam")
        arn = iam.create_policy(
            PolicyName=request.name(properties, "ManagedPolicyName", longest=128),
            PolicyDocument=json.dumps(properties["PolicyDocument"]),
            Description=properties.get("Description", ""),
            Path=properties.get("Path", "/"),
        )["Policy"]["Arn"]
        request.exists(arn)
        _attach(iam, arn, {}, properties)
        return Made(arn, {"PolicyArn": arn})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        iam = request.client("iam")
        if old["PolicyDocument"] != new["PolicyDocument"]:
            iam.create_policy_version(
                PolicyArn=physical_id,
                PolicyDocument=json.dumps(new["PolicyDocument"]),
                SetAsDefault=True,
            )
            _drop_old_versions(iam, physical_id)
        _attach(iam, physical_id, old, new)
        return Made(physical_id, {"PolicyArn": physical_id})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        iam = request.client("iam")
        _attach(iam, physical_id, properties, {})
        _drop_old_versions(iam, physical_id)
        iam.delete_policy(PolicyArn=physical_id)


def _attach(iam: Any, arn: str, old: Properties, new: Properties) -> None:
    for role in new.get("Roles", []):
        if role not in old.get("Roles", []):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    for role in old.get("Roles", []):
        if role not in new.get("Roles", []):
            try:
                iam.detach_role_policy(RoleName=role, PolicyArn=arn)
            except iam.exceptions.NoSuchEntityException:
                pass  # the role went first


def _drop_old_versions(iam: Any, arn: str) -> None:
    """IAM keeps five at most, and deletes no policy that has more than one."""
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
