"""Roles of a stack against those that are live: trust, boundary, and every policy."""

import json
from collections.abc import Mapping
from typing import Any

from servable.verify.dependencies import compare_dependencies
from servable.verify.deployed import UNKNOWN, Resource
from servable.verify.difference import RESTORE, Difference
from tests.servable.verify.answering import AnsweringAccount, resource, stack

TRUST = {
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
        }
    ]
}
READ = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
WRITE = {"Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "*"}]}
ATTACHED, OWN = "arn:aws:iam::aws:policy/Stated", "arn:aws:iam::111111111111:policy/own"
BOUNDARY = "arn:aws:iam::aws:policy/Boundary"


def role(**more: Any) -> Resource:
    properties = {
        "AssumeRolePolicyDocument": TRUST,
        "PermissionsBoundary": BOUNDARY,
        "Policies": [{"PolicyName": "inside", "PolicyDocument": READ}],
        "ManagedPolicyArns": [ATTACHED],
        **more,
    }
    return resource("IAM::Role", "ranker", **properties)


INLINE = resource("IAM::Policy", "x", PolicyName="put", PolicyDocument=READ, Roles=["ranker"])
MANAGED = resource("IAM::ManagedPolicy", OWN, PolicyDocument=WRITE, Roles=["ranker"])


class Live:
    """What IAM answers; as deployed until a test changes it."""

    def __init__(self) -> None:
        self.role: Any = {
            "AssumeRolePolicyDocument": TRUST,
            "PermissionsBoundary": {"PermissionsBoundaryArn": BOUNDARY},
        }
        self.inline: dict[str, Any] = {"inside": READ, "put": READ}
        self.attached = [ATTACHED, OWN]
        self.managed: Any = WRITE
        self.holders = ["ranker"]

    def find(self, *resources: Resource) -> list[Difference]:
        documents = self.inline

        def inline(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
            document = documents.get(asked["PolicyName"])
            return document and {"PolicyDocument": json.dumps(document)}

        account = AnsweringAccount(
            GetRole=self.role
            and {
                "Role": self.role
                | {"AssumeRolePolicyDocument": json.dumps(self.role["AssumeRolePolicyDocument"])}
            },
            GetRolePolicy=inline,
            ListRolePolicies={"PolicyNames": list(documents)},
            ListAttachedRolePolicies={
                "AttachedPolicies": [{"PolicyName": "a", "PolicyArn": arn} for arn in self.attached],
            },
            GetPolicy=self.managed and {"Policy": {"DefaultVersionId": "v2"}},
            GetPolicyVersion=lambda asked: {
                "PolicyVersion": {
                    "Document": json.dumps(self.managed if asked["VersionId"] == "v2" else {})
                }
            },
            ListEntitiesForPolicy={"PolicyRoles": [{"RoleName": name} for name in self.holders]},
        )  # fmt: skip
        return list(compare_dependencies(stack(account, *(resources or (role(), INLINE, MANAGED)))))


def keys(found: list[Difference]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.resource, each.key) for each in found]


def test_roles_as_deployed_or_not_known_have_no_difference() -> None:
    live = Live()
    assert live.find() == []
    assert live.find(role(PermissionsBoundary=None), INLINE, MANAGED) == []
    unknown = resource("IAM::Policy", "x", PolicyName="p", PolicyDocument=READ, Roles=[UNKNOWN])
    managed = resource("IAM::ManagedPolicy", OWN, PolicyDocument=WRITE, Roles=[UNKNOWN])
    assert live.find(unknown, managed) == []
    stated = role(ManagedPolicyArns=[UNKNOWN])
    live.attached = ["arn:aws:iam::aws:policy/One"]
    live.inline = {"inside": READ}
    assert live.find(stated) == []
    live.attached.append("arn:aws:iam::aws:policy/Two")
    assert len(live.find(stated)) == 2
    live.attached = []
    assert live.find(stated) == []


def test_a_policy_that_nobody_deployed_is_named_with_the_command_that_removes_it() -> None:
    live = Live()
    administrator = "arn:aws:iam::aws:policy/AdministratorAccess"
    live.attached.append(administrator)
    (found,) = live.find()
    assert (found.kind, found.resource, found.key) == ("role permissions", "ranker", administrator)
    assert (found.wanted, found.found) == ("no such policy", "attached")
    command = f"aws iam detach-role-policy --role-name ranker --policy-arn {administrator}"
    assert found.remedy == f"the role's permissions were extended: `{command}`"

    live = Live()
    live.inline["wider"] = WRITE
    (found,) = live.find()
    assert (found.key, found.found) == ("wider", "an inline policy")
    assert "aws iam delete-role-policy --role-name ranker --policy-name wider" in found.remedy


def test_what_is_missing_or_changed_is_named() -> None:
    live = Live()
    live.inline, live.attached, live.holders = {}, [OWN], ["another"]
    assert keys(live.find()) == [
        ("IAM Policy missing", "ranker/inside", ""),
        ("policy on role missing", f"ranker: {ATTACHED}", ""),
        ("IAM Policy missing", "ranker/put", ""),
        ("policy on role missing", f"ranker: {OWN}", ""),
    ]
    live.role = live.managed = None
    assert keys(live.find(role(), MANAGED)) == [
        ("IAM Role missing", "ranker", ""),
        ("IAM ManagedPolicy missing", OWN, ""),
    ]

    live = Live()
    live.role["PermissionsBoundary"] = {}
    live.inline |= {"put": WRITE, "inside": WRITE}
    live.managed = READ
    action = "Statement[0].Action"
    assert keys(live.find()) == [
        ("role boundary", "ranker", "PermissionsBoundary"),
        ("role permissions", "ranker/inside", action),
        ("role permissions", "ranker/put", action),
        ("role permissions", OWN, action),
    ]
    assert RESTORE in live.find()[0].remedy


def test_a_statement_or_principal_that_was_added_widens_a_policy() -> None:
    live = Live()
    wider = {
        **TRUST["Statement"][0],
        "Principal": {"Service": "sagemaker.amazonaws.com", "AWS": "*"},
    }
    live.role["AssumeRolePolicyDocument"] = {"Statement": [wider]}
    live.inline["put"] = {"Statement": [*READ["Statement"], *WRITE["Statement"]]}
    trust, permissions = live.find()
    assert (trust.kind, trust.key, trust.found) == ("role trust", "Statement[0].Principal.AWS", "*")
    assert (permissions.wanted, permissions.found) == ("1 statements", "2 statements")
