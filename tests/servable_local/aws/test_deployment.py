"""CloudFormation's own behaviour: order, failures, retention, names, conditions."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.cloudformation import stacks
from servable_local.aws.cloudformation.stacks import Stack
from tests.servable_local.aws.deployed_templates import alarm, serving
from tests.servable_local.aws.local_account import Account

TOPIC = {"Type": "AWS::SNS::Topic"}


def test_what_cannot_be_made_fails_by_name(account: Account) -> None:
    account.deploy({"Resources": {"Queue": {"Type": "AWS::DynamoDB::Table"}}})
    reason = account.reason("Queue", "CREATE_FAILED")
    assert reason.startswith("Resource type AWS::DynamoDB::Table is not emulated")

    account = account.another()
    one = alarm()
    one["Properties"]["Treshold"] = 1
    account.deploy({"Resources": {"Alarm": one}})
    assert "Treshold" in account.reason("Alarm", "CREATE_FAILED")

    account = account.another()
    properties = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/ranker/variant/primary",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "MinCapacity": 1,
        "MaxCapacity": 2,
    }
    kind = "AWS::ApplicationAutoScaling::ScalableTarget"
    account.deploy({"Resources": {"Target": {"Type": kind, "Properties": properties}}})
    assert "Could not find endpoint" in account.reason("Target", "CREATE_FAILED")


def test_what_depends_comes_after_what_it_depends_on(account: Account) -> None:
    first = {**TOPIC, "DependsOn": "Second"}
    account.deploy({"Resources": {"First": first, "Second": TOPIC}})
    done = [name for name, status in account.events() if status == "CREATE_COMPLETE"]
    assert done == ["Second", "First", "stack"]


def test_a_template_that_is_refused_makes_nothing(account: Account) -> None:
    template = {"Resources": {"A": {**TOPIC, "DependsOn": "B"}, "B": {**TOPIC, "DependsOn": "A"}}}
    with pytest.raises(ClientError, match=r"Circular dependency between resources: \[A, B\]"):
        account.deploy(template)
    topic = {**TOPIC, "Properties": {"DisplayName": {"Ref": "Nobody"}}}
    with pytest.raises(ClientError, match=r"Unresolved resource dependencies \[Nobody\]"):
        account.deploy({"Resources": {"Topic": topic}})
    rule = {"Assertions": [{"Assert": {"Fn::Equals": ["1", "2"]}, "AssertDescription": "too old"}]}
    with pytest.raises(ClientError, match="too old"):
        account.deploy({"Rules": {"Check": rule}, "Resources": {"Topic": TOPIC}})
    with pytest.raises(ClientError):
        account.deploy({"Resources": {"Topic": {**TOPIC, "DependsOn": "Topic"}, "X": {}}})
    assert account.client("cloudformation").describe_stacks()["Stacks"] == []


def test_what_is_retained_survives_the_stack(account: Account) -> None:
    account.deploy({"Resources": {"Topic": {**TOPIC, "DeletionPolicy": "Retain"}}})
    account.delete()
    assert [kind for kind, _ in account.inventory()] == ["AWS::SNS::Topic"]


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Retain", ["AWS::SNS::Topic"]), ("RetainExceptOnCreate", []), ("Delete", [])],
)
def test_a_rollback_keeps_what_is_retained(account: Account, policy: str, left: list[str]) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html"""
    failing = {"Type": "AWS::DynamoDB::Table", "DependsOn": "Topic"}
    account.deploy({"Resources": {"Topic": {**TOPIC, "DeletionPolicy": policy}, "No": failing}})
    assert [kind for kind, _ in account.inventory()] == left


def test_what_leaves_the_template_is_deleted(account: Account) -> None:
    account.deploy({"Resources": {"A": TOPIC, "B": TOPIC}})
    account.deploy({"Resources": {"A": TOPIC}})
    assert len(account.inventory()) == 1


def test_a_role_with_a_fixed_name_is_changed_in_place(account: Account) -> None:
    sagemaker = {"Service": "sagemaker.amazonaws.com"}
    allowed = {"Effect": "Allow", "Principal": sagemaker, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [allowed]}
    arn = "arn:aws:iam::aws:policy/{}".format

    def bounded(boundary: str | None) -> Any:
        more = {"PermissionsBoundary": boundary} if boundary else {}
        role = {"RoleName": "fixed", "AssumeRolePolicyDocument": trust, **more}
        account.deploy({"Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": role}}})
        found = account.client("iam").get_role(RoleName="fixed")["Role"]
        return found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")

    given = [arn("ReadOnlyAccess"), arn("PowerUserAccess"), None]
    assert [bounded(one) for one in given] == given

    account = account.another()

    def with_path(path: str) -> dict[str, Any]:
        trust = {"Version": "2012-10-17", "Statement": []}
        properties = {"RoleName": "fixed", "Path": path, "AssumeRolePolicyDocument": trust}
        return {"Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": properties}}}

    account.deploy(with_path("/one/"))
    account.deploy(with_path("/two/"))
    assert "custom-named resource" in account.reason("Role", "UPDATE_FAILED")


def test_a_resource_whose_condition_is_false_is_not_made(account: Account) -> None:
    template = {
        "Parameters": {"Mail": {"Type": "String", "Default": "no"}},
        "Conditions": {"HasMail": {"Fn::Equals": [{"Ref": "Mail"}, "yes"]}},
        "Resources": {"Topic": TOPIC, "Mail2": {**TOPIC, "Condition": "HasMail"}},
    }
    account.deploy(template)
    assert len(account.inventory()) == 1


def test_numbers_written_as_text_are_numbers(account: Account) -> None:
    one = alarm()
    one["Properties"]["Threshold"] = "100000.5"
    account.deploy({"Resources": {"Alarm": one}})
    found = account.client("cloudwatch").describe_alarms()["MetricAlarms"][0]
    assert found["Threshold"] == 100000.5


def test_a_scaled_variants_instance_type_cannot_be_changed(account: Account) -> None:
    archive = account.put_archive(b"a")
    template = serving(archive)
    account.deploy(template)
    account.scale(least=1, most=2)
    variants = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    variants[0]["InstanceType"] = "ml.g5.xlarge"
    account.deploy(template)
    assert "must be deregistered as scalable targets" in account.reason("Endpoint", "UPDATE_FAILED")


def test_a_bucket_that_denies_what_is_not_tls_can_be_written(account: Account) -> None:
    from tests.servable_local.aws.deployed_templates import only_tls

    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": f"b-{account.number}"}}
    policy = {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": only_tls()},
    }
    account.deploy({"Resources": {"Bucket": bucket, "Policy": policy}})
    put = account.client("s3").put_object(Bucket=f"b-{account.number}", Key="k", Body=b"x")
    assert put["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_a_stack_is_of_its_region_alone(account: Account) -> None:
    account.deploy({"Resources": {"Topic": TOPIC}})
    elsewhere = account.aws.client(
        "cloudformation", account=account.number, region="eu-west-1"
    ).describe_stacks()
    assert elsewhere["Stacks"] == []

    cfn = account.aws.client("cloudformation", account=account.number, region="eu-west-1")
    body = json.dumps({"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}})
    cfn.create_stack(StackName="stack", TemplateBody=body)
    cfn.get_waiter("stack_create_complete").wait(
        StackName="stack", WaiterConfig={"Delay": 0.1, "MaxAttempts": 50}
    )
    name = cfn.describe_stack_resource(StackName="stack", LogicalResourceId="Bucket")
    physical = name["StackResourceDetail"]["PhysicalResourceId"]
    where = account.client("s3").get_bucket_location(Bucket=physical)
    assert where["LocationConstraint"] == "eu-west-1"


ONE_TOPIC = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}}}


def _plan(account: Account, template: dict[str, Any], kind: str = "UPDATE") -> dict[str, Any]:
    cfn = account.client("cloudformation")
    cfn.create_change_set(
        StackName="stack",
        ChangeSetName="change",
        ChangeSetType=kind,
        TemplateBody=json.dumps(template),
    )
    return dict(cfn.describe_change_set(StackName="stack", ChangeSetName="change"))


def test_a_change_set_makes_what_it_said_when_it_is_executed(account: Account) -> None:
    _plan(account, ONE_TOPIC, "CREATE")
    assert account.inventory() == []
    account.client("cloudformation").execute_change_set(StackName="stack", ChangeSetName="change")
    assert account.settled() == "CREATE_COMPLETE"


def test_a_change_set_says_what_changes(account: Account) -> None:
    account.deploy(ONE_TOPIC)
    said = _plan(account, ONE_TOPIC)
    assert said["StatusReason"].startswith("The submitted information didn't contain changes.")

    account = account.another()
    account.deploy(serving(account.put_archive(b"old", "old")))
    changes = _plan(account, serving(account.put_archive(b"new", "new")))["Changes"]
    assert {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"].get("Replacement")
        for change in changes
    } == {"Model": "True", "Config": "Conditional", "Endpoint": "False"}


def test_a_change_set_is_refused_with_the_reason(account: Account) -> None:
    account.deploy(ONE_TOPIC)
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        account.client("cloudformation").execute_change_set(
            StackName="stack", ChangeSetName="nothing"
        )
    wrong = {
        "Resources": {
            "Topic": {
                "Type": "AWS::SNS::Topic",
                "Properties": {"DisplayName": {"Fn::GetAtt": ["Topic2", "Nonsense"]}},
            },
            "Topic2": {"Type": "AWS::SNS::Topic", "Condition": "Never"},
        },
        "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}},
    }
    with pytest.raises(ClientError, match=r"Unresolved resource dependencies \[Topic2\]"):
        _plan(account, wrong)
    name = {"Fn::If": ["Never", {"Ref": "Topic2"}, "name"]}
    topics = {
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": name}},
        "Topic2": {"Type": "AWS::SNS::Topic", "Condition": "Never"},
    }
    conditions = {"Never": {"Fn::Equals": ["a", "b"]}}
    found = _plan(account, {"Resources": topics, "Conditions": conditions})
    assert found["ExecutionStatus"] == "AVAILABLE"


STACK, TAG = "ranker-data", "cost-center"
TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Bucket": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"Tags": [{"Key": "own", "Value": "1"}]},
            "DeletionPolicy": "Retain",
        },
        "Key": {
            "Type": "AWS::KMS::Key",
            "Properties": {"KeyPolicy": {}},
            "DeletionPolicy": "Retain",
        },
    }
}


def test_a_retained_bucket_and_key_keep_their_own_and_the_stacks_tags(account: Account) -> None:
    deployed = account.deploy(TEMPLATE, STACK, Tags=[{"Key": TAG, "Value": "42"}])
    account.delete(STACK)
    s3, kms = account.client("s3"), account.client("kms")
    (bucket,) = s3.list_buckets()["Buckets"]
    of_bucket = s3.get_bucket_tagging(Bucket=bucket["Name"])["TagSet"]
    (key,) = kms.list_keys()["Keys"]
    of_key = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
    assert deployed == "CREATE_COMPLETE"
    assert {tag["Key"]: tag["Value"] for tag in of_bucket} == {TAG: "42", "own": "1"}
    assert {tag["TagKey"]: tag["TagValue"] for tag in of_key} == {TAG: "42"}


MOMENT = datetime(2026, 11, 23, tzinfo=UTC)


def test_events_of_one_moment_are_a_millisecond_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "utc_now", lambda: MOMENT)
    stack = Stack("arn", "prod", "111111111111", "us-east-1", "CREATE_IN_PROGRESS")
    for status in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE"):
        stack.set_status(status)
    times = [event["Timestamp"] for event in stack.events]
    assert times == [MOMENT, MOMENT + timedelta(milliseconds=1)]
