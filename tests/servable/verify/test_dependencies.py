"""What an endpoint depends on against what is live: each property, what is missing, and roles' policies."""

import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from servable.verify.dependencies import compare_dependencies
from servable.verify.deployed import UNKNOWN, Resource
from servable.verify.difference import RESTORE, Difference
from tests.servable.verify.answering import AnsweringAccount, keys, resource, stack

GROUP, TOPIC = "/aws/sagemaker/Endpoints/ranker", "arn:aws:sns:us-east-1:111111111111:alarms"
ENTRY = {"Effect": "Allow", "Action": "sns:Publish"}
POLICY = {"Statement": [ENTRY]}
MACHINE = {"StartAt": "A", "States": {"A": {"Parameters": {"ModelName": "Ranker-1"}}}}
BLOCKED = {"BlockPublicAcls": True, "BlockPublicPolicy": True}
KEY_RULE = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"}
BUCKET = {
    "VersioningConfiguration": {"Status": "Enabled"},
    "PublicAccessBlockConfiguration": BLOCKED,
    "BucketEncryption": {
        "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": KEY_RULE}]
    },
}
EVENT = {"source": ["aws.sagemaker"]}
SCHEDULE = {
    "Name": "nightly",
    "GroupName": "g",
    "ScheduleExpression": "rate(1 day)",
    "ScheduleExpressionTimezone": "UTC",
    "Target": {"Arn": "arn:aws:states:1", "RoleArn": "arn:aws:iam::111111111111:role/r"},
}
DEPLOYED: dict[str, Resource] = {
    "logs": resource("Logs::LogGroup", GROUP, LogGroupName=GROUP, RetentionInDays=30, KmsKeyId="k"),
    "filter": resource("Logs::MetricFilter", "f", LogGroupName=GROUP, FilterPattern="refused"),
    "topic": resource("SNS::Topic", TOPIC, KmsMasterKeyId="k"),
    "subscription": resource("SNS::Subscription", "s", TopicArn=TOPIC, Endpoint="a@example.com"),
    "topic policy": resource("SNS::TopicPolicy", "p", Topics=[TOPIC], PolicyDocument=POLICY),
    "rule": resource("Events::Rule", "updates", EventPattern=EVENT, Targets=[{"Arn": TOPIC}]),
    "key": resource("KMS::Key", "k"),
    "dashboard": resource("CloudWatch::Dashboard", "board", DashboardBody='{"widgets": []}'),
    "bucket": resource("S3::Bucket", "samples", **BUCKET),
    "bucket policy": resource("S3::BucketPolicy", "b", Bucket="samples", PolicyDocument=POLICY),
    "machine": resource(
        "StepFunctions::StateMachine", "arn:aws:states:1", DefinitionString=json.dumps(MACHINE)
    ),
    "schedule": resource("Scheduler::Schedule", "nightly", **SCHEDULE),
}
KEPT = {"retentionInDays": 30, "kmsKeyId": "k"}
SERVER_SIDE = {"Rules": [{"ApplyServerSideEncryptionByDefault": KEY_RULE}]}
LIVE: dict[str, Any] = {
    "DescribeLogGroups": {
        "logGroups": [{"logGroupName": f"{GROUP}-other"}, KEPT | {"logGroupName": GROUP}]
    },
    "DescribeMetricFilters": {"metricFilters": [{"filterPattern": "refused"}]},
    "GetTopicAttributes": {"Attributes": {"KmsMasterKeyId": "k", "Policy": json.dumps(POLICY)}},
    "ListSubscriptionsByTopic": {"Subscriptions": [{"Endpoint": "a@example.com"}]},
    "DescribeRule": {"State": "ENABLED", "EventPattern": json.dumps(EVENT)},
    "ListTargetsByRule": {"Targets": [{"Id": "1", "Arn": TOPIC}]},
    "DescribeKey": {"KeyMetadata": {"KeyId": "k", "KeyState": "Enabled"}},
    "GetDashboard": {"DashboardBody": '{"widgets":[]}'},
    "HeadBucket": {},
    "GetBucketVersioning": {"Status": "Enabled"},
    "GetPublicAccessBlock": {"PublicAccessBlockConfiguration": BLOCKED},
    "GetBucketEncryption": {"ServerSideEncryptionConfiguration": SERVER_SIDE},
    "GetBucketPolicy": {"Policy": json.dumps(POLICY)},
    "GetSchedule": {**SCHEDULE, "State": "ENABLED"},
    "DescribeStateMachine": {"definition": json.dumps(MACHINE).replace("Ranker-1", "ranker-1")},
}
DISABLED = {"KeyId": "k", "KeyState": "Disabled"}
OPEN = {"PublicAccessBlockConfiguration": {**BLOCKED, "BlockPublicAcls": False}}
WIDER = {"Policy": json.dumps({"Statement": [{**ENTRY, "Action": "*"}]})}
NO_KEY = {"Attributes": {"Policy": json.dumps(POLICY)}}
NO_POLICY = {"Attributes": {"KmsMasterKeyId": "k"}}
OTHER_TARGET = {"Targets": [{"Id": "1", "Arn": "arn:aws:sns:other"}]}
OTHER_START = {"definition": json.dumps({**MACHINE, "StartAt": "B"})}


def find(*resources: Resource, **live: Any) -> list[Difference]:
    account = AnsweringAccount(**{**LIVE, **live})
    return list(compare_dependencies(stack(account, *(resources or DEPLOYED.values()))))


def test_what_is_as_deployed_or_left_out_has_no_difference() -> None:
    assert [str(each) for each in find()] == []
    assert find(resource("SageMaker::Model", "m")) == []
    bare = [
        resource("SNS::Topic", TOPIC),
        resource("S3::Bucket", "samples"),
        resource("CloudWatch::Dashboard", "board", DashboardBody=UNKNOWN),
        resource("StepFunctions::StateMachine", "arn:aws:states:1", DefinitionString=UNKNOWN),
        resource("S3::BucketPolicy", "b", Bucket=UNKNOWN, PolicyDocument=POLICY),
        resource("SNS::TopicPolicy", "p", Topics=[UNKNOWN], PolicyDocument=POLICY),
        resource("Events::Rule", "updates", Targets=[{"Arn": UNKNOWN}]),
        resource("Logs::LogGroup", GROUP, LogGroupName=GROUP),
    ]
    changed = {
        "GetDashboard": {"DashboardBody": "{}"},
        "GetTopicAttributes": {"Attributes": {}},
        "GetBucketVersioning": {},
        "ListTargetsByRule": {"Targets": [{"Id": "1", "Arn": "arn:aws:sns:other"}]},
        "DescribeLogGroups": {"logGroups": [{"logGroupName": GROUP}]},
    }
    assert [str(each) for each in find(*bare, **changed)] == []
    off = resource("Events::Rule", "updates", State="DISABLED")
    assert find(off, DescribeRule={"State": "DISABLED"}) == []


def groups(**group: Any) -> dict[str, Any]:
    return {"logGroups": [{"logGroupName": GROUP, **group}]}


def test_what_was_changed_is_named() -> None:
    cases: list[tuple[str, dict[str, Any] | None, str, str]] = [
        ("DescribeLogGroups", groups(kmsKeyId="k"), "log retention", "RetentionInDays"),
        ("DescribeLogGroups", groups(retentionInDays=30), "log key", "KmsKeyId"),
        ("DescribeLogGroups", {"logGroups": []}, "log group missing", ""),
        ("DescribeMetricFilters", {"metricFilters": [{}]}, "metric filter missing", ""),
        ("GetTopicAttributes", NO_KEY, "topic key", "KmsMasterKeyId"),
        ("ListSubscriptionsByTopic", {"Subscriptions": []}, "subscription missing", ""),
        ("GetTopicAttributes", NO_POLICY, "topic policy", "Statement"),
        ("DescribeRule", {"State": "DISABLED"}, "event rule disabled", "State"),
        ("DescribeRule", {"EventPattern": None}, "event pattern", "source"),
        ("ListTargetsByRule", OTHER_TARGET, "event target missing", ""),
        ("DescribeKey", {"KeyMetadata": DISABLED}, "key not usable", "KeyState"),
        ("GetDashboard", {"DashboardBody": '{"widgets":[1]}'}, "dashboard changed", ""),
        ("GetBucketVersioning", {"Status": None}, "bucket versioning", "Status"),
        ("GetPublicAccessBlock", OPEN, "bucket open to the public", "BlockPublicAcls"),
        ("GetBucketPolicy", WIDER, "bucket policy", "Statement[0].Action"),
        ("GetSchedule", {"State": "DISABLED"}, "schedule changed", "State"),
        ("GetSchedule", {"ScheduleExpression": "rate"}, "schedule changed", "ScheduleExpression"),
        ("DescribeStateMachine", OTHER_START, "batch changed", "StartAt"),
        ("DescribeKey", None, "KMS Key missing", ""),
        ("HeadBucket", None, "S3 Bucket missing", ""),
        ("GetSchedule", None, "Scheduler Schedule missing", ""),
    ]
    for call, change, kind, key in cases:
        answer = change and {
            name: value for name, value in (LIVE[call] | change).items() if value is not None
        }
        (found,) = find(**{call: answer})
        assert (found.kind, found.key) == (kind, key)
        restores = {
            "key not usable": "enable the key, or cancel its deletion",
            "event rule disabled": "`aws events enable-rule --name updates --region us-east-1`",
            "log retention": f"it was changed outside the stack; {RESTORE}",
            "event pattern": f"it was edited outside the stack; {RESTORE}",
        }
        assert restores.get(kind, RESTORE) in found.remedy


def test_an_open_bucket_and_retention_for_ever_are_said_and_no_error_is_swallowed() -> None:
    found = find(DEPLOYED["bucket"], GetPublicAccessBlock=None, GetBucketEncryption=None)
    assert [each.kind for each in found] == [
        *["bucket open to the public"] * 2, *["bucket encryption"] * 2
    ]  # fmt: skip
    (found,) = find(DEPLOYED["logs"], DescribeLogGroups=groups(kmsKeyId="k"))
    assert (found.wanted, found.found) == (30, "for ever")

    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeKey")
    with pytest.raises(ClientError, match="AccessDenied"):
        find(DEPLOYED["key"], DescribeKey=Mock(side_effect=denied))


# --- roles: trust, boundary, and every policy

SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}
TRUSTED = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": SAGEMAKER}
TRUST = {"Statement": [TRUSTED]}
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
        self.role: Any = {"PermissionsBoundary": {"PermissionsBoundaryArn": BOUNDARY}}
        self.trust: Any = TRUST
        self.inline: dict[str, Any] = {"inside": READ, "put": READ}
        self.attached = [ATTACHED, OWN]
        self.managed: Any = WRITE
        self.holders = ["ranker"]

    def find(self, *resources: Resource) -> list[Difference]:
        def inline(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
            document = self.inline.get(asked["PolicyName"])
            return document and {"PolicyDocument": json.dumps(document)}

        def version(asked: Mapping[str, Any]) -> Mapping[str, Any]:
            document = self.managed if asked["VersionId"] == "v2" else {}
            return {"PolicyVersion": {"Document": json.dumps(document)}}

        trust = {"AssumeRolePolicyDocument": json.dumps(self.trust)}
        attached = [{"PolicyName": "a", "PolicyArn": arn} for arn in self.attached]
        account = AnsweringAccount(
            GetRole=self.role and {"Role": self.role | trust},
            GetRolePolicy=inline,
            ListRolePolicies={"PolicyNames": list(self.inline)},
            ListAttachedRolePolicies={"AttachedPolicies": attached},
            GetPolicy=self.managed and {"Policy": {"DefaultVersionId": "v2"}},
            GetPolicyVersion=version,
            ListEntitiesForPolicy={"PolicyRoles": [{"RoleName": name} for name in self.holders]},
        )
        return list(compare_dependencies(stack(account, *(resources or (role(), INLINE, MANAGED)))))


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
    live.role, live.managed = {"PermissionsBoundary": {}}, READ
    live.inline |= {"put": WRITE, "inside": WRITE}
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
    live.trust = {"Statement": [TRUSTED | {"Principal": SAGEMAKER | {"AWS": "*"}}]}
    live.inline["put"] = {"Statement": [*READ["Statement"], *WRITE["Statement"]]}
    trust, permissions = live.find()
    assert (trust.kind, trust.key, trust.found) == ("role trust", "Statement[0].Principal.AWS", "*")
    assert (permissions.wanted, permissions.found) == ("1 statements", "2 statements")
