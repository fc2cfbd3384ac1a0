"""CloudFormation's own behaviour: order, failures, retention, names, conditions."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.cloudformation import stacks
from servable_local.aws.cloudformation.stacks import Stack
from tests.servable_local.aws.deployed_templates import TARGET, alarm, only_tls, resource, serving
from tests.servable_local.aws.local_account import Account

TOPIC = {"Type": "AWS::SNS::Topic"}


def test_what_cannot_be_made_fails_by_name(account: Account) -> None:
    one = alarm()
    one["Properties"]["Treshold"] = 1
    account.deploy({"Resources": {"Alarm": one}})
    assert "Treshold" in account.reason("Alarm", "CREATE_FAILED")

    account = account.another()
    target = resource(
        "ApplicationAutoScaling::ScalableTarget",
        ServiceNamespace="sagemaker",
        ResourceId=TARGET,
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=1,
        MaxCapacity=2,
    )
    account.deploy({"Resources": {"Target": target}})
    assert "Could not find endpoint" in account.reason("Target", "CREATE_FAILED")


@pytest.mark.long
def test_what_depends_is_made_later_and_what_leaves_the_template_goes(account: Account) -> None:
    first = {**TOPIC, "DependsOn": "Second"}
    account.deploy({"Resources": {"First": first, "Second": TOPIC}})
    done = [name for name, status in account.events() if status == "CREATE_COMPLETE"]
    assert done == ["Second", "First", "stack"]
    account.deploy({"Resources": {"Second": TOPIC}})
    assert len(account.inventory()) == 1


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


@pytest.mark.long
def test_a_rollback_keeps_what_is_retained(account: Account) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html"""
    policies = ("Retain", "RetainExceptOnCreate", "Delete")
    topics = {
        each: {**TOPIC, "DeletionPolicy": each, "Properties": {"TopicName": each}}
        for each in policies
    }
    failing = {"Type": "AWS::DynamoDB::Table", "DependsOn": [*policies]}
    account.deploy({"Resources": {**topics, "No": failing}})
    assert [name.rpartition(":")[2] for _, name in account.inventory()] == ["Retain"]


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


@pytest.mark.long
def test_a_condition_a_number_in_text_and_a_policy_mean_what_the_template_says(
    account: Account,
) -> None:
    bucket = f"b-{account.number}"
    high = alarm()
    high["Properties"]["Threshold"] = "100000.5"
    bucket_of = {"Ref": "Bucket"}
    template = {
        "Parameters": {"Mail": {"Type": "String", "Default": "no"}},
        "Conditions": {"HasMail": {"Fn::Equals": [{"Ref": "Mail"}, "yes"]}},
        "Resources": {
            "Alarm": high,
            "Topic": {**TOPIC, "Condition": "HasMail"},
            "Bucket": resource("S3::Bucket", BucketName=bucket),
            "Policy": resource("S3::BucketPolicy", Bucket=bucket_of, PolicyDocument=only_tls()),
        },
    }
    assert account.deploy(template) == "CREATE_COMPLETE"
    assert "AWS::SNS::Topic" not in [kind for kind, _ in account.inventory()]
    (found,) = account.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert found["Threshold"] == 100000.5
    put = account.client("s3").put_object(Bucket=bucket, Key="k", Body=b"x")
    assert put["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.long
def test_a_scaled_variants_instance_type_cannot_be_changed(account: Account) -> None:
    archive = account.put_archive(b"a")
    template = serving(archive)
    account.deploy(template)
    account.scale(least=1, most=2)
    variants = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    variants[0]["InstanceType"] = "ml.g5.xlarge"
    account.deploy(template)
    assert "must be deregistered as scalable targets" in account.reason("Endpoint", "UPDATE_FAILED")


def test_a_stack_is_of_its_region_alone(account: Account) -> None:
    account.deploy({"Resources": {"Topic": TOPIC}})
    cfn = account.aws.client("cloudformation", account=account.number, region="eu-west-1")
    assert cfn.describe_stacks()["Stacks"] == []
    body = json.dumps({"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}})
    cfn.create_stack(StackName="stack", TemplateBody=body)
    cfn.get_waiter("stack_create_complete").wait(
        StackName="stack", WaiterConfig={"Delay": 0.02, "MaxAttempts": 500}
    )
    name = cfn.describe_stack_resource(StackName="stack", LogicalResourceId="Bucket")
    physical = name["StackResourceDetail"]["PhysicalResourceId"]
    where = account.client("s3").get_bucket_location(Bucket=physical)
    assert where["LocationConstraint"] == "eu-west-1"


def _plan(
    account: Account, template: dict[str, Any], kind: str = "UPDATE", name: str = "change"
) -> dict[str, Any]:
    cfn, body = account.client("cloudformation"), json.dumps(template)
    cfn.create_change_set(
        StackName="stack", ChangeSetName=name, ChangeSetType=kind, TemplateBody=body
    )
    return dict(cfn.describe_change_set(StackName="stack", ChangeSetName=name))


@pytest.mark.long
def test_a_change_set_says_what_changes_and_makes_it_when_it_is_executed(account: Account) -> None:
    cfn, template = account.client("cloudformation"), {"Resources": {"Topic": TOPIC}}
    _plan(account, template, "CREATE")
    assert account.inventory() == []
    cfn.execute_change_set(StackName="stack", ChangeSetName="change")
    assert account.settled() == "CREATE_COMPLETE"
    said = _plan(account, template)
    assert said["StatusReason"].startswith("The submitted information didn't contain changes.")
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        cfn.execute_change_set(StackName="stack", ChangeSetName="nothing")
    # --- a condition that never holds
    absent = {**TOPIC, "Condition": "Never"}
    more = {"Conditions": {"Never": {"Fn::Equals": ["a", "b"]}}}
    given: dict[str, Any] = {"DisplayName": {"Fn::GetAtt": ["Absent", "Nonsense"]}}
    wrong = {"Resources": {"Topic": {**TOPIC, "Properties": given}, "Absent": absent}, **more}
    with pytest.raises(ClientError, match=r"Unresolved resource dependencies \[Absent\]"):
        _plan(account, wrong, name="never")
    given["DisplayName"] = {"Fn::If": ["Never", {"Ref": "Absent"}, "name"]}
    assert _plan(account, wrong, name="never")["ExecutionStatus"] == "AVAILABLE"

    account = account.another()
    account.deploy(serving(account.put_archive(b"old", "old")))
    changes = _plan(account, serving(account.put_archive(b"new", "new")))["Changes"]
    assert {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"].get("Replacement")
        for change in changes
    } == {"Model": "True", "Config": "Conditional", "Endpoint": "False"}


STACK, TAG = "ranker-data", "cost-center"
OWN = [{"Key": "own", "Value": "1"}]
TEMPLATE = {
    "Resources": {
        "Bucket": resource("S3::Bucket", Tags=OWN) | {"DeletionPolicy": "Retain"},
        "Key": resource("KMS::Key", KeyPolicy={}) | {"DeletionPolicy": "Retain"},
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
