"""What an endpoint depends on against what is live: each property by its name, and what is missing."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable.verify.dependencies import compare_dependencies
from servable.verify.deployed import UNKNOWN, Resource
from servable.verify.difference import RESTORE, Difference
from tests.servable.verify.answering import AnsweringAccount, resource, stack

GROUP, TOPIC = "/aws/sagemaker/Endpoints/ranker", "arn:aws:sns:us-east-1:111111111111:alarms"
ENTRY = {"Effect": "Allow", "Action": "sns:Publish"}
POLICY = {"Statement": [ENTRY]}
MACHINE = {"StartAt": "A", "States": {"A": {"Parameters": {"ModelName": "Ranker-1"}}}}
BLOCKED = {"BlockPublicAcls": True, "BlockPublicPolicy": True}
KEY_RULE = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"}
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
    "rule": resource(
        "Events::Rule",
        "updates",
        EventPattern={"source": ["aws.sagemaker"]},
        Targets=[{"Arn": TOPIC}],
    ),
    "key": resource("KMS::Key", "k"),
    "dashboard": resource("CloudWatch::Dashboard", "board", DashboardBody='{"widgets": []}'),
    "bucket": resource(
        "S3::Bucket",
        "samples",
        VersioningConfiguration={"Status": "Enabled"},
        PublicAccessBlockConfiguration=BLOCKED,
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": KEY_RULE}]
        },
    ),
    "bucket policy": resource("S3::BucketPolicy", "b", Bucket="samples", PolicyDocument=POLICY),
    "machine": resource(
        "StepFunctions::StateMachine", "arn:aws:states:1", DefinitionString=json.dumps(MACHINE)
    ),
    "schedule": resource("Scheduler::Schedule", "nightly", **SCHEDULE),
}
SERVER_SIDE = {"Rules": [{"ApplyServerSideEncryptionByDefault": KEY_RULE}]}
LIVE: dict[str, Any] = {
    "DescribeLogGroups": {
        "logGroups": [
            {"logGroupName": f"{GROUP}-other"},
            {"logGroupName": GROUP, "retentionInDays": 30, "kmsKeyId": "k"},
        ]
    },
    "DescribeMetricFilters": {"metricFilters": [{"filterPattern": "refused"}]},
    "GetTopicAttributes": {"Attributes": {"KmsMasterKeyId": "k", "Policy": json.dumps(POLICY)}},
    "ListSubscriptionsByTopic": {"Subscriptions": [{"Endpoint": "a@example.com"}]},
    "DescribeRule": {"State": "ENABLED", "EventPattern": '{"source": ["aws.sagemaker"]}'},
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


def find(*resources: Resource, **live: Any) -> list[Difference]:
    account = AnsweringAccount(**{**LIVE, **live})
    return list(compare_dependencies(stack(account, *(resources or DEPLOYED.values()))))


def test_what_is_as_deployed_or_left_out_has_no_difference() -> None:
    assert [str(each) for each in find()] == []
    unrelated = resource("SageMaker::Model", "m")
    assert find(unrelated) == []

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


def key_state(state: str) -> dict[str, Any]:
    return {"KeyMetadata": {"KeyId": "k", "KeyState": state}}


OPEN = {"PublicAccessBlockConfiguration": {**BLOCKED, "BlockPublicAcls": False}}
WIDER = {"Policy": json.dumps({"Statement": [{**ENTRY, "Action": "*"}]})}
NO_KEY = {"Attributes": {"Policy": json.dumps(POLICY)}}
NO_POLICY = {"Attributes": {"KmsMasterKeyId": "k"}}
OTHER_TARGET = {"Targets": [{"Id": "1", "Arn": "arn:aws:sns:other"}]}
OTHER_START = {"definition": json.dumps({**MACHINE, "StartAt": "B"})}


@pytest.mark.parametrize(
    ("call", "change", "kind", "key"),
    [
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
        ("DescribeKey", key_state("Disabled"), "key not usable", "KeyState"),
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
    ],
)
def test_what_was_changed_is_named(
    call: str, change: dict[str, Any] | None, kind: str, key: str
) -> None:
    answer = change and {**LIVE[call], **change}
    if answer is not None:
        answer = {name: value for name, value in answer.items() if value is not None}
    (found,) = find(**{call: answer})
    assert (found.kind, found.key) == (kind, key)
    restores = {
        "key not usable": "enable the key, or cancel its deletion",
        "event rule disabled": "`aws events enable-rule --name updates --region us-east-1`",
        "log retention": f"it was changed outside the stack; {RESTORE}",
        "event pattern": f"it was edited outside the stack; {RESTORE}",
    }
    assert restores.get(kind, RESTORE) in found.remedy


def test_an_open_bucket_and_retention_for_ever_are_said_and_no_error_is_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = find(DEPLOYED["bucket"], GetPublicAccessBlock=None, GetBucketEncryption=None)
    kinds = ["bucket open to the public"] * 2 + ["bucket encryption"] * 2
    assert [each.kind for each in found] == kinds
    (found,) = find(DEPLOYED["logs"], DescribeLogGroups=groups(kmsKeyId="k"))
    assert (found.wanted, found.found) == (30, "for ever")

    def deny(asked: object) -> None:
        error = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}
        raise ClientError(error, "DescribeKey")

    with pytest.raises(ClientError, match="AccessDenied"):
        find(DEPLOYED["key"], DescribeKey=deny)
