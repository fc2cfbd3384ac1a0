"""AWS::IAM::Role, with its inline and attached policies."""

import json
from typing import Any

from servable_local.aws.resources import tags
from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit

_AT_CREATION = (
    "AssumeRolePolicyDocument",
    "Description",
    "MaxSessionDuration",
    "Path",
    "PermissionsBoundary",
    "Tags",
)


class IamRole(ResourceType):
    type = "AWS::IAM::Role"
    create_only = frozenset({"Path", "RoleName"})
    name_property = "RoleName"

    def create(self, properties: Properties, request: Request) -> Made:
        iam = request.client("iam")
        name = request.name(properties, "RoleName", longest=64)
        wanted = {key: properties[key] for key in _AT_CREATION if key in properties}
        made = iam.create_role(**fit(wanted | {"RoleName": name}, "iam", "CreateRole"))["Role"]
        request.exists(name)
        _settle_policies(iam, name, {}, properties)
        return Made(name, {"Arn": made["Arn"], "RoleId": made["RoleId"]})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        iam = request.client("iam")
        iam.update_assume_role_policy(
            RoleName=physical_id, PolicyDocument=json.dumps(new["AssumeRolePolicyDocument"])
        )
        change = {key: new[key] for key in ("Description", "MaxSessionDuration") if key in new}
        if change:
            iam.update_role(**fit(change | {"RoleName": physical_id}, "iam", "UpdateRole"))
        _settle_policies(iam, physical_id, old, new)
        wanted, gone = tags.difference(old, new)
        if wanted:
            iam.tag_role(RoleName=physical_id, Tags=wanted)
        if gone:
            iam.untag_role(RoleName=physical_id, TagKeys=gone)
        made = iam.get_role(RoleName=physical_id)["Role"]
        return Made(physical_id, {"Arn": made["Arn"], "RoleId": made["RoleId"]})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        iam = request.client("iam")
        for attached in iam.list_attached_role_policies(RoleName=physical_id)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=attached["PolicyArn"])
        for policy in iam.list_role_policies(RoleName=physical_id)["PolicyNames"]:
            iam.delete_role_policy(RoleName=physical_id, PolicyName=policy)
        iam.delete_role(RoleName=physical_id)


def _settle_policies(iam: Any, role: str, old: Properties, new: Properties) -> None:
    for policy in new.get("Policies", []):
        iam.put_role_policy(
            RoleName=role,
            PolicyName=policy["PolicyName"],
            PolicyDocument=json.dumps(policy["PolicyDocument"]),
        )
    kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
    for policy in old.get("Policies", []):
        if policy["PolicyName"] not in kept:
            iam.delete_role_policy(RoleName=role, PolicyName=policy["PolicyName"])
    before, after = old.get("ManagedPolicyArns", []), new.get("ManagedPolicyArns", [])
    for arn in after:
        if arn not in before:
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    for arn in before:
        if arn not in after:
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)
