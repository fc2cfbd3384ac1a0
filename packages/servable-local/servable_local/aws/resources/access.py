"""Roles with their policies, and keys with their aliases."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceType,
    compare_items,
    is_true,
)

_AT_CREATION = ("Description", "KeySpec", "KeyUsage", "MultiRegion", "Origin")
_DEFAULT_WINDOW_DAYS = 30
_ROLE_AT_CREATION = (
    "AssumeRolePolicyDocument", "Description", "MaxSessionDuration", "Path", "PermissionsBoundary",
    "Tags",
)  # fmt: skip
_HOLDERS = (("Roles", "Role"), ("Users", "User"), ("Groups", "Group"))


class KmsKey(ResourceType):
    """A KMS key. Deleting it schedules the deletion, as on AWS: it is never gone at once."""

    type = "AWS::KMS::Key"
    unchangeable = frozenset({"KeySpec", "KeyUsage", "MultiRegion", "Origin"})  # on AWS too

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arguments: dict[str, Any] = {k: properties[k] for k in _AT_CREATION if k in properties}
        if "KeyPolicy" in properties:
            arguments["Policy"] = properties["KeyPolicy"]
        arguments["Tags"] = _convert_tags(properties.get("Tags", []))
        key = str(logical.call("kms", "CreateKey", arguments)["KeyMetadata"]["KeyId"])
        logical.exists(key)
        _apply_switches(key, {}, properties, logical)
        return _build_physical(key, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        kms, key = logical.client("kms"), {"KeyId": physical}
        if new.get("Description", "") != old.get("Description", ""):
            kms.update_key_description(**key, Description=new.get("Description", ""))
        if new.get("KeyPolicy") != old.get("KeyPolicy") and "KeyPolicy" in new:
            policy = {"PolicyName": "default", "Policy": new["KeyPolicy"]}
            logical.call("kms", "PutKeyPolicy", key | policy)
        _apply_switches(physical, old, new, logical)
        logical.update_tags("kms", key, old, new, shaped=_convert_tags)
        return _build_physical(physical, logical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        days = int(properties.get("PendingWindowInDays", _DEFAULT_WINDOW_DAYS))
        logical.client("kms").schedule_key_deletion(KeyId=physical, PendingWindowInDays=days)


def _apply_switches(key: str, old: Properties, new: Properties, logical: Logical) -> None:
    for name, default, operations in (
        ("EnableKeyRotation", False, ("DisableKeyRotation", "EnableKeyRotation")),
        ("Enabled", True, ("DisableKey", "EnableKey")),
    ):
        on = is_true(new.get(name, default))
        if on != is_true(old.get(name, default)):
            logical.call("kms", operations[on], {"KeyId": key})


def _convert_tags(tags: Sequence[Properties]) -> list[dict[str, str]]:
    """Convert tags to KMS's names of their two parts, which differ from other services'."""
    return [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags]


def _build_physical(key: str, logical: Logical) -> Physical:
    return Physical(key, {"Arn": logical.build_arn("kms", f"key/{key}"), "KeyId": key})


class KmsAlias(ResourceType):
    type = "AWS::KMS::Alias"
    deletion = ("kms", "DeleteAlias", "AliasName")
    name_property = "AliasName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        alias = {"AliasName": physical, "TargetKeyId": new["TargetKeyId"]}
        logical.call("kms", "UpdateAlias" if old else "CreateAlias", alias)
        return Physical(physical)


class IamRole(ResourceType):
    """A role with its inline and attached policies."""

    type = "AWS::IAM::Role"
    required = ("AssumeRolePolicyDocument",)
    create_only = frozenset({"Path", "RoleName"})
    name_property = "RoleName"
    longest_name = 64

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        arguments = {key: properties[key] for key in _ROLE_AT_CREATION if key in properties}
        role = logical.call("iam", "CreateRole", arguments | {"RoleName": name})["Role"]
        logical.exists(name)
        _apply_policies(name, {}, properties, logical)
        return Physical(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        iam, role = logical.client("iam"), {"RoleName": physical}
        trust = {"PolicyDocument": new["AssumeRolePolicyDocument"]}
        logical.call("iam", "UpdateAssumeRolePolicy", role | trust)
        change = {key: new[key] for key in ("Description", "MaxSessionDuration") if key in new}
        if change:
            logical.call("iam", "UpdateRole", role | change)
        if boundary := new.get("PermissionsBoundary"):
            iam.put_role_permissions_boundary(**role, PermissionsBoundary=boundary)
        elif "PermissionsBoundary" in old:
            iam.delete_role_permissions_boundary(**role)
        _apply_policies(physical, old, new, logical)
        logical.update_tags("iam", role, old, new, ("TagRole", "UntagRole"))
        updated = iam.get_role(**role)["Role"]
        return Physical(physical, {"Arn": updated["Arn"], "RoleId": updated["RoleId"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        iam, role = logical.client("iam"), {"RoleName": physical}
        for attached in iam.list_attached_role_policies(**role)["AttachedPolicies"]:
            iam.detach_role_policy(**role, PolicyArn=attached["PolicyArn"])
        for policy in iam.list_role_policies(**role)["PolicyNames"]:
            iam.delete_role_policy(**role, PolicyName=policy)
        iam.delete_role(**role)


def _apply_policies(role: str, old: Properties, new: Properties, logical: Logical) -> None:
    iam = logical.client("iam")
    for policy in new.get("Policies", []):
        logical.call("iam", "PutRolePolicy", {**policy, "RoleName": role})
    kept = {policy["PolicyName"] for policy in new.get("Policies", [])}
    for policy in old.get("Policies", []):
        if policy["PolicyName"] not in kept:
            iam.delete_role_policy(RoleName=role, PolicyName=policy["PolicyName"])
    came, went = compare_items("ManagedPolicyArns", old, new)
    for arn in came:
        iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    for arn in went:
        iam.detach_role_policy(RoleName=role, PolicyArn=arn)


class IamPolicy(ResourceType):
    """An inline policy, added to roles, users, and groups."""

    type = "AWS::IAM::Policy"
    longest_name = 128

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        policy = {key: new[key] for key in ("PolicyName", "PolicyDocument")}
        logical.exists(physical)
        for kind, name in _list_holders(new):
            logical.call("iam", f"Put{kind}Policy", policy | {f"{kind}Name": name})
        if old:
            same_name = old["PolicyName"] == new["PolicyName"]
            self._remove(old, set(_list_holders(new)) if same_name else set(), logical)
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._remove(properties, set(), logical)

    def _remove(self, old: Properties, holders: set[tuple[str, str]], logical: Logical) -> None:
        """Remove the policy from its old holders that aren't among `holders`."""
        policy = {"PolicyName": old["PolicyName"]}
        for kind, name in set(_list_holders(old)) - holders:
            # As on AWS, deletion fails without the role, user, or group.
            logical.call("iam", f"Get{kind}", {f"{kind}Name": name})
            with suppress(logical.client("iam").exceptions.NoSuchEntityException):
                logical.call("iam", f"Delete{kind}Policy", policy | {f"{kind}Name": name})


def _list_holders(properties: Properties) -> Iterator[tuple[str, str]]:
    for key, kind in _HOLDERS:
        for name in properties.get(key, []):
            yield kind, name


class IamManagedPolicy(ResourceType):
    type = "AWS::IAM::ManagedPolicy"
    required = ("PolicyDocument",)
    create_only = frozenset({"ManagedPolicyName", "Description", "Path"})
    name_property = "ManagedPolicyName"
    longest_name = 128

    def create(self, properties: Properties, logical: Logical) -> Physical:
        keys = ("PolicyDocument", "Description", "Path")
        policy = {key: properties[key] for key in keys if key in properties}
        policy["PolicyName"] = self.choose_name(properties, logical)
        arn = logical.call("iam", "CreatePolicy", policy)["Policy"]["Arn"]
        logical.exists(arn)
        _update_attachments(arn, {}, properties, logical)
        return Physical(arn, {"PolicyArn": arn})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        if old["PolicyDocument"] != new["PolicyDocument"]:
            version = {"PolicyDocument": new["PolicyDocument"], "SetAsDefault": True}
            logical.call("iam", "CreatePolicyVersion", version | {"PolicyArn": physical})
            _delete_old_versions(logical.client("iam"), physical)
        _update_attachments(physical, old, new, logical)
        return Physical(physical, {"PolicyArn": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        iam = logical.client("iam")
        _update_attachments(physical, properties, {}, logical)
        _delete_old_versions(iam, physical)
        iam.delete_policy(PolicyArn=physical)


def _update_attachments(arn: str, old: Properties, new: Properties, logical: Logical) -> None:
    iam = logical.client("iam")
    came, went = compare_items("Roles", old, new)
    for role in came:
        iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    for role in went:
        with suppress(iam.exceptions.NoSuchEntityException):  # the role is already deleted
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)


def _delete_old_versions(iam: Any, arn: str) -> None:
    """Delete old versions: IAM keeps at most five and deletes no policy with more than one."""
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
