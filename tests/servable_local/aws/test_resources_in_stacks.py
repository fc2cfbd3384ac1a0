"""Resources of a stack that is created, updated and deleted, as the services then describe them."""

import io
import json
import time
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.local_aws import LocalAws
from servable_local.aws.resources.workflows import _build_code
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import TRUST, Account

ANY = {"Effect": "Allow", "Principal": "*", "Resource": "*"}


def allow(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{**ANY, "Action": action}]}


def may(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


OTHER_TRUST = TRUST.replace("sagemaker", "lambda")
BOUNDARY = "arn:aws:iam::aws:policy/ReadOnlyAccess"


def tags(**given: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in given.items()]


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def template(number: str, changed: bool) -> dict[str, Any]:
    """The stack's first state, and its second one."""

    def pick(before: Any, after: Any) -> Any:
        return after if changed else before

    encrypted = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
    expired = {"Id": "old", "Status": "Enabled", "Prefix": "captured/", "ExpirationInDays": "30",
               "NoncurrentVersionExpirationInDays": 7,
               "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": "9"}],
               "NoncurrentVersionTransitions": [
                   {"StorageClass": "GLACIER", "TransitionInDays": 2}]}  # fmt: skip
    scratch = {"Status": "Enabled", "Prefix": "tmp/", "ExpirationInDays": 1,
               "TagFilters": [{"Key": "kind", "Value": "scratch"}]}  # fmt: skip
    below = {"S3Key": {"Rules": [{"Name": "prefix", "Value": "in/"}]}}
    redirect = {"RoutingRuleCondition": {"KeyPrefixEquals": "a/"},
                "RedirectRule": {"ReplaceKeyPrefixWith": "b/"}}  # fmt: skip
    bucket = pick(
        {"VersioningConfiguration": {"Status": "Enabled"},
         "PublicAccessBlockConfiguration": {"BlockPublicAcls": "true"},
         "BucketEncryption": {"ServerSideEncryptionConfiguration": [encrypted]},
         "LifecycleConfiguration": {"Rules": [expired, scratch]},
         "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]},
         "NotificationConfiguration": {
             "QueueConfigurations": [
                 {"Event": "s3:ObjectCreated:*", "Filter": below,
                  "Queue": {"Fn::GetAtt": ["Queue", "Arn"]}}]}},
        {"LoggingConfiguration": {"LogFilePrefix": "access/"},
         "WebsiteConfiguration": {"IndexDocument": "index.html", "ErrorDocument": "error.html",
                                  "RoutingRules": [redirect]},
         "CorsConfiguration": {"CorsRules": [
             {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAge": 3600}]}},
    )  # fmt: skip
    kept, two = pick(tags(a="1", b="2"), tags(a="3")), pick("first", "second")
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Key": ("KMS::Key", {
            "Description": two, "KeyPolicy": allow(pick("kms:*", "kms:Describe*")),
            "EnableKeyRotation": pick(False, "true"), "PendingWindowInDays": 7, "Tags": kept}),
        "Off": ("KMS::Key", {"KeyPolicy": allow("kms:*"), "Enabled": pick(True, False)}),
        "Alias": ("KMS::Alias", {
            "AliasName": "alias/ranker", "TargetKeyId": ref(pick("Key", "Off"))}),
        "Bucket": ("S3::Bucket", {
            "BucketName": f"bucket-{number}", "Tags": pick(tags(a="1"), []), **bucket}),
        "BucketPolicy": ("S3::BucketPolicy", {
            "Bucket": ref("Bucket"), "PolicyDocument": allow(pick("s3:GetObject", "s3:List*"))}),
        "Topic": ("SNS::Topic", {
            "TopicName": "alarms", "DisplayName": two,
            "Tags": pick(tags(a="1", b="2"), tags(b="2", c="3")),
            "Subscription": [
                {"Protocol": "email", "Endpoint": f"{name}@example.com"}
                for name in pick("ab", "b")]}),
        "Subscription": ("SNS::Subscription", {
            "TopicArn": ref("Topic"), "Protocol": "email", "Endpoint": "c@example.com",
            "FilterPolicy": {"kind": [pick("a", "b")]}}),
        "Queue": ("SQS::Queue", pick(
            {"Tags": tags(a="1")}, {"VisibilityTimeout": "17", "Tags": tags(b="2")})),
        "QueuePolicy": ("SQS::QueuePolicy", {
            "Queues": [ref("Queue")],
            "PolicyDocument": allow(pick("sqs:SendMessage", "sqs:ReceiveMessage"))}),
        "TopicPolicy": ("SNS::TopicPolicy", {
            "Topics": [ref("Topic")],
            "PolicyDocument": allow(pick("sns:Publish", "sns:Subscribe"))}),
        "Group": ("Logs::LogGroup", {
            "LogGroupName": f"/ranker/{number}", "Tags": kept,
            **pick({"RetentionInDays": "30"}, {"KmsKeyId": "arn:aws:kms:us-east-1:1:key/k"})}),
        "Query": ("Logs::QueryDefinition", {
            "Name": "errors", "QueryString": pick("limit 1", "limit 2")}),
        "Role": ("IAM::Role", {
            "RoleName": "ranker", "Description": two, "Tags": kept,
            "AssumeRolePolicyDocument": json.loads(pick(TRUST, OTHER_TRUST)),
            "ManagedPolicyArns": pick([ref("Other")], []),
            "Policies": [
                {"PolicyName": pick("a", "b"), "PolicyDocument": may("s3:GetObject")},
                {"PolicyName": "c", "PolicyDocument": may("s3:List*")}],
            **pick({"PermissionsBoundary": BOUNDARY}, {})}),
        "Policy": ("IAM::Policy", {
            "PolicyName": pick("read", "write"), "PolicyDocument": may("s3:PutObject"),
            "Roles": [ref("Role")]}),
        "Managed": ("IAM::ManagedPolicy", {
            "ManagedPolicyName": "shared", "Roles": pick([ref("Role")], []),
            "PolicyDocument": may(pick("s3:GetObject", "s3:List*"))}),
        "Other": ("IAM::ManagedPolicy", {
            "ManagedPolicyName": "other", "PolicyDocument": may("s3:GetObject")}),
        "Function": ("Lambda::Function", {
            "FunctionName": "warm", "Handler": "index.handler", "Runtime": "python3.12",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Timeout": pick(3, 9),
            "Code": {"ZipFile": pick("first = 1", "second = 2")}, "Tags": kept,
            "Architectures": ["x86_64"],
            **pick({"ReservedConcurrentExecutions": 2, "Description": "first",
                    "Environment": {"Variables": {"A": "1"}}}, {})}),
        "Permission": ("Lambda::Permission", {
            "Action": "lambda:InvokeFunction", "FunctionName": ref("Function"),
            "Principal": pick("sns.amazonaws.com", "events.amazonaws.com")}),
        "Rule": ("Events::Rule", {
            "Name": "changes", "State": pick("ENABLED", "DISABLED"),
            "EventPattern": {"source": [pick("aws.sagemaker", "aws.s3")]},
            "Targets": [
                {"Id": "both", "Arn": ref("Topic"), **pick({}, {"Input": "changed"})},
                {"Id": two, "Arn": ref("Topic")}]}),
        "Dashboard": ("CloudWatch::Dashboard", {
            "DashboardName": "ranker",
            "DashboardBody": pick('{"widgets": []}', '{"start": "-PT1H"}')}),
        "Filter": ("Logs::MetricFilter", {
            "FilterName": "timeouts", "LogGroupName": ref("Group"),
            "FilterPattern": pick("timeout", "error"),
            "MetricTransformations": [
                {"MetricNamespace": "Own", "MetricName": "Timeouts", "MetricValue": "1"}]}),
        "Alarm": ("CloudWatch::Alarm", {
            "AlarmName": "slow", "Namespace": "Own", "MetricName": "Timeouts",
            "Statistic": "Sum", "Period": 60, "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": pick(1, 3), "Threshold": pick(1, 2),
            "AlarmActions": pick([ref("Topic")], [])}),
        "Paging": ("CloudWatch::CompositeAlarm", {
            "AlarmName": "paging", "AlarmRule": "FALSE", "Tags": kept}),
        "Parameter": ("SSM::Parameter", {
            "Name": "/ranker/size", "Type": "String", "Value": pick("1", "2"),
            "Tags": {tag["Key"]: tag["Value"] for tag in kept}}),
    }  # fmt: skip
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days",
                 "countNumber": 5}  # fmt: skip
    expiring = {"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}
    resources["Repository"] = ("ECR::Repository", {
        "EmptyOnDelete": "true", "Tags": kept, "ImageTagMutability": pick("IMMUTABLE", "MUTABLE"),
        "ImageScanningConfiguration": {"ScanOnPush": pick("true", "false")},
        **pick({"LifecyclePolicy": {"LifecyclePolicyText": json.dumps({"rules": [expiring]})},
                "RepositoryPolicyText": allow("ecr:GetDownloadUrlForLayer")}, {})})  # fmt: skip
    resources["Usage"] = ("CDK::Metadata", {"Analytics": "x"})
    attributes = [
        "Repository.RepositoryUri",
        "Parameter.Type",
        "Topic.TopicName",
        "Managed.PolicyArn",
    ]
    attributes += [f"{name}.Arn" for name in ("Repository", "Key", "Bucket", "Role", "Paging")]
    values: dict[str, Any] = {name: ref(name) for name in resources}
    values |= {name.replace(".", ""): {"Fn::GetAtt": name.split(".")} for name in attributes}
    return {
        "Resources": {
            name: {"Type": f"AWS::{kind}", "Properties": properties}
            for name, (kind, properties) in resources.items()
        },
        "Outputs": {name: {"Value": value} for name, value in values.items()},
    }


def read_action(policy: str) -> str:
    return str(json.loads(policy)["Statement"][0]["Action"])


def read_website(found: dict[str, Any]) -> list[str]:
    (rule,) = found["RoutingRules"]
    named = [found["IndexDocument"]["Suffix"], found["ErrorDocument"]["Key"]]
    return [*named, rule["Condition"]["KeyPrefixEquals"], rule["Redirect"]["ReplaceKeyPrefixWith"]]


def state(account: Account) -> dict[str, Any]:
    """What every service says of the stack's resources."""
    (stack,) = account.client("cloudformation").describe_stacks(StackName="stack")["Stacks"]
    out = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    kms, s3, sns, logs, iam, functions, ssm, ecr = (
        account.client(name) for name in ("kms", "s3", "sns", "logs", "iam", "lambda", "ssm", "ecr")
    )
    sqs, queue = account.client("sqs"), {"QueueUrl": out["Queue"]}
    images = {"repositoryName": out["Repository"]}
    (repository,) = ecr.describe_repositories()["repositories"]
    queued = sqs.get_queue_attributes(**queue, AttributeNames=["All"])["Attributes"]
    key, bucket, topic, role = out["Key"], out["Bucket"], out["Topic"], out["Role"]

    def unless_missing(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ClientError:
            return None

    group = logs.describe_log_groups()["logGroups"][0]
    events, cloudwatch = account.client("events"), account.client("cloudwatch")
    rule, (alarm,) = (
        events.describe_rule(Name="changes"),
        cloudwatch.describe_alarms()["MetricAlarms"],
    )
    managed = {"PolicyArn": out["Managed"]}
    version = iam.get_policy(**managed)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(**managed, VersionId=version)["PolicyVersion"]["Document"]
    code = functions.get_function(FunctionName="warm")
    described = iam.get_role(RoleName=role)["Role"]
    statement = json.loads(functions.get_policy(FunctionName="warm")["Policy"])["Statement"]
    attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    return {
        "out": out,
        "key": kms.describe_key(KeyId=key)["KeyMetadata"],
        "key policy": read_action(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"]),
        "rotation": kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"],
        "key tags": {t["TagKey"]: t["TagValue"] for t in kms.list_resource_tags(KeyId=key)["Tags"]},
        "off": kms.describe_key(KeyId=out["Off"])["KeyMetadata"]["Enabled"],
        "alias": [a["TargetKeyId"] for a in kms.list_aliases()["Aliases"] if "rank" in a["AliasName"]],
        "versioning": s3.get_bucket_versioning(Bucket=bucket).get("Status"),
        "block": unless_missing(
            lambda: s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        ),
        "encryption": unless_missing(
            lambda: s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"][
                "Rules"
            ][0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
        ),
        "lifecycle": unless_missing(
            lambda: s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        ),
        "website": unless_missing(lambda: read_website(s3.get_bucket_website(Bucket=bucket))),
        "owner": unless_missing(
            lambda: s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"][0]
        ),
        "notified": s3.get_bucket_notification_configuration(Bucket=bucket),
        "queue": (queued["VisibilityTimeout"], read_action(queued["Policy"])),
        "queue tags": sqs.list_queue_tags(**queue)["Tags"],
        "cors": unless_missing(lambda: s3.get_bucket_cors(Bucket=bucket)["CORSRules"]),
        "logging": s3.get_bucket_logging(Bucket=bucket).get("LoggingEnabled"),
        "bucket tags": unless_missing(lambda: s3.get_bucket_tagging(Bucket=bucket)["TagSet"]),
        "bucket policy": read_action(s3.get_bucket_policy(Bucket=bucket)["Policy"]),
        "topic": (attributes["DisplayName"], read_action(attributes["Policy"])),
        "topic tags": {t["Key"]: t["Value"] for t in sns.list_tags_for_resource(ResourceArn=topic)["Tags"]},
        "subscribed": sorted(one["Endpoint"] for one in subscriptions),
        "filter": sns.get_subscription_attributes(SubscriptionArn=out["Subscription"])["Attributes"][
            "FilterPolicy"
        ],
        "group": [group.get("retentionInDays"), group.get("kmsKeyId")],
        "group tags": logs.list_tags_log_group(logGroupName=group["logGroupName"])["tags"],
        "query": logs.describe_query_definitions()["queryDefinitions"],
        "trusted": described["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"],
        "description": described["Description"],
        "boundary": described.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
        "role tags": {t["Key"]: t["Value"] for t in described.get("Tags", [])},
        "inline": sorted(iam.list_role_policies(RoleName=role)["PolicyNames"]),
        "attached": sorted(
            p["PolicyName"]
            for p in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        ),
        "managed": (document["Statement"][0]["Action"], len(
            iam.list_policy_versions(**managed)["Versions"])),
        "function": code,
        "function settings": [
            code["Configuration"]["Timeout"], code["Configuration"].get("Description"),
            code["Configuration"].get("Environment", {}).get("Variables"),
            code.get("Concurrency", {}).get("ReservedConcurrentExecutions"), code["Tags"]],
        "callers": [one["Principal"] for one in statement],
        "rule": (json.loads(rule["EventPattern"])["source"], rule["State"]),
        "targets": {
            one["Id"]: one.get("Input")
            for one in events.list_targets_by_rule(Rule="changes")["Targets"]
        },
        "dashboard": json.loads(cloudwatch.get_dashboard(DashboardName="ranker")["DashboardBody"]),
        "filters": [one["filterPattern"] for one in logs.describe_metric_filters()["metricFilters"]],
        "alarm": (alarm["EvaluationPeriods"], alarm["Threshold"], len(alarm["AlarmActions"])),
        "paging tags": cloudwatch.list_tags_for_resource(ResourceARN=out["PagingArn"])["Tags"],
        "parameter": ssm.get_parameter(Name="/ranker/size")["Parameter"]["Value"],
        "repository": [
            repository["imageTagMutability"], repository["imageScanningConfiguration"]["scanOnPush"],
            unless_missing(lambda: json.loads(ecr.get_lifecycle_policy(**images)["lifecyclePolicyText"])[
                "rules"][0]["selection"]["countNumber"]),
            unless_missing(lambda: read_action(ecr.get_repository_policy(**images)["policyText"]))],
        "repository tags": {t["Key"]: t["Value"] for t in ecr.list_tags_for_resource(
            resourceArn=repository["repositoryArn"])["tags"]},
        "parameter tags": {t["Key"]: t["Value"] for t in ssm.list_tags_for_resource(
            ResourceType="Parameter", ResourceId="/ranker/size")["TagList"]},
    }  # fmt: skip


class Lives:
    """The stack's states, one after the other, and what is left when it is deleted."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.statuses = [account.deploy(template(account.number, False))]
        self.first = state(account)
        self.statuses.append(account.deploy(template(account.number, True)))
        self.second = state(account)
        self.statuses.append(account.deploy(template(account.number, False)))
        self.third = state(account)
        media = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = {"schemaVersion": 2, "mediaType": media, "config": {"digest": "sha256:0"}}
        image = {"imageManifest": json.dumps(manifest), "imageTag": "one"}
        repository = self.third["out"]["Repository"]
        account.client("ecr").put_image(repositoryName=repository, **image)
        # S3 has put access logs into the bucket, and CloudFormation deletes none that holds objects.
        s3, bucket = account.client("s3"), self.first["out"]["Bucket"]
        for version in s3.list_object_versions(Bucket=bucket)["Versions"]:
            s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
        self.statuses.append(account.delete())


@pytest.fixture(scope="module")
def lives(embedded: LocalAws, launcher: Launcher) -> Lives:
    return Lives(Account(embedded, launcher))


def test_the_stack_lives_and_its_resources_keep_their_identity(lives: Lives) -> None:
    assert lives.statuses == ["CREATE_COMPLETE", *["UPDATE_COMPLETE"] * 2, "DELETE_COMPLETE"]
    out, number = lives.first["out"], lives.account.number
    expected = {
        "Bucket": f"bucket-{number}",
        "BucketArn": f"arn:aws:s3:::bucket-{number}",
        "Topic": f"arn:aws:sns:us-east-1:{number}:alarms",
        "TopicTopicName": "alarms",
        "KeyArn": f"arn:aws:kms:us-east-1:{number}:key/{out['Key']}",
        "Role": "ranker",
        "RoleArn": f"arn:aws:iam::{number}:role/ranker",
        "Managed": f"arn:aws:iam::{number}:policy/shared",
        "ManagedPolicyArn": f"arn:aws:iam::{number}:policy/shared",
        "Group": f"/ranker/{number}",
        "Parameter": "/ranker/size",
        "ParameterType": "String",
        "RepositoryRepositoryUri": f"{number}.dkr.ecr.us-east-1.amazonaws.com/{out['Repository']}",
        "RepositoryArn": f"arn:aws:ecr:us-east-1:{number}:repository/{out['Repository']}",
    }
    assert {name: out[name] for name in expected} == expected
    assert out["Repository"].startswith("stack-repository-")
    for name in (
        "Repository",
        "Key",
        "Bucket",
        "Topic",
        "Subscription",
        "Group",
        "Role",
        "Managed",
        "Function",
    ):
        assert out[name] == lives.second["out"][name]


# What is described, and how it reads before and after the update.
EXPECTED: dict[str, tuple[Any, Any]] = {
    "key policy": ("kms:*", "kms:Describe*"),
    "bucket policy": ("s3:GetObject", "s3:List*"),
    "topic": (("first", "sns:Publish"), ("second", "sns:Subscribe")),
    "rotation": (False, True),
    "key tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "off": (True, False),
    "versioning": ("Enabled", "Suspended"),
    "encryption": ("aws:kms", "AES256"),
    "logging": (None, "access/"),
    "cors": (None, [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 3600}]),
    "queue": (("30", "sqs:SendMessage"), ("17", "sqs:ReceiveMessage")),
    "queue tags": ({"a": "1"}, {"b": "2"}),
    "bucket tags": (tags(a="1"), None),
    "topic tags": ({"a": "1", "b": "2"}, {"b": "2", "c": "3"}),
    "subscribed": (
        ["a@example.com", "b@example.com", "c@example.com"],
        ["b@example.com", "c@example.com"],
    ),
    "filter": ('{"kind": ["a"]}', '{"kind": ["b"]}'),
    "group": ([30, None], [None, "arn:aws:kms:us-east-1:1:key/k"]),
    "group tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "trusted": ("sagemaker.amazonaws.com", "lambda.amazonaws.com"),
    "description": ("first", "second"),
    "boundary": (BOUNDARY, None),
    "role tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "inline": (["a", "c", "read"], ["b", "c", "write"]),
    "attached": (["other", "shared"], []),
    "managed": (("s3:GetObject", 1), ("s3:List*", 1)),
    "callers": ([{"Service": "sns.amazonaws.com"}], [{"Service": "events.amazonaws.com"}]),
    "rule": ((["aws.sagemaker"], "ENABLED"), (["aws.s3"], "DISABLED")),
    "targets": ({"both": None, "first": None}, {"both": "changed", "second": None}),
    "dashboard": ({"widgets": []}, {"start": "-PT1H"}),
    "filters": (["timeout"], ["error"]),
    "alarm": ((1, 1.0, 1), (3, 2.0, 0)),
    "paging tags": (tags(a="1", b="2"), tags(a="3")),
    "parameter": ("1", "2"),
    "repository": (
        ["IMMUTABLE", True, 5, "ecr:GetDownloadUrlForLayer"],
        ["MUTABLE", False, None, None],
    ),
    "repository tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "parameter tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "function settings": (
        [3, "first", {"A": "1"}, 2, {"a": "1", "b": "2"}],
        [9, "", None, None, {"a": "3"}],
    ),
    "website": (None, ["index.html", "error.html", "a/", "b/"]),
    "owner": ({"ObjectOwnership": "BucketOwnerPreferred"}, None),
}


def test_each_service_describes_what_the_template_says(lives: Lives) -> None:
    def read(state: dict[str, Any]) -> dict[str, Any]:
        logging = state["logging"] and state["logging"]["TargetPrefix"]
        return {what: state[what] for what in EXPECTED} | {"logging": logging}

    assert read(lives.first) == {what: before for what, (before, _) in EXPECTED.items()}
    assert read(lives.second) == {what: after for what, (_, after) in EXPECTED.items()}
    # An update back restores the first template.
    for what in {*EXPECTED, "block", "lifecycle"}:
        assert lives.third[what] == lives.first[what], what


def test_settings_of_each_resource_are_updated(lives: Lives) -> None:
    states = (lives.first, lives.second)
    assert [one["key"]["Description"] for one in states] == ["first", "second"]
    assert lives.first["alias"] == [lives.first["out"]["Key"]]
    assert lives.second["alias"] == [lives.second["out"]["Off"]]
    assert lives.first["block"]["BlockPublicAcls"] is True
    rule, scratch = lives.first["lifecycle"]
    assert (rule["ID"], rule["Filter"], rule["Expiration"]) == (
        "old", {"Prefix": "captured/"}, {"Days": 30},
    )  # fmt: skip
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == 7
    assert rule["Transitions"] == [{"StorageClass": "GLACIER", "Days": 9}]
    (transition,) = rule["NoncurrentVersionTransitions"]
    assert transition == {"StorageClass": "GLACIER", "NoncurrentDays": 2}
    assert scratch["Filter"] == {
        "And": {"Prefix": "tmp/", "Tags": [{"Key": "kind", "Value": "scratch"}]}
    }
    (notified,) = lives.first["notified"]["QueueConfigurations"]
    assert (notified["Events"], notified["Filter"]["Key"]["FilterRules"]) == (
        ["s3:ObjectCreated:*"], [{"Name": "prefix", "Value": "in/"}],
    )  # fmt: skip
    assert "QueueConfigurations" not in lives.second["notified"]
    assert (lives.second["block"], lives.second["lifecycle"]) == (None, None)
    (first,), (second,) = (one["query"] for one in states)
    assert (first["queryString"], second["queryString"]) == ("limit 1", "limit 2")
    assert first["queryDefinitionId"] == second["queryDefinitionId"]
    first, second = (one["function"]["Configuration"] for one in states)
    assert first["CodeSha256"] != second["CodeSha256"]


def test_a_source_in_the_template_becomes_index_py() -> None:
    packed = _build_code({"Code": {"ZipFile": "first = 1"}})["ZipFile"]
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read("index.py") == b"first = 1"


def test_a_stack_that_is_deleted_leaves_nothing_but_keys_that_wait_for_it(lives: Lives) -> None:
    kms = lives.account.client("kms")
    key = kms.describe_key(KeyId=lives.first["out"]["Key"])["KeyMetadata"]
    assert key["KeyState"] == "PendingDeletion"
    assert (key["DeletionDate"].timestamp() - time.time()) / 86_400 == pytest.approx(7, abs=0.1)
    assert lives.account.inventory() == []
    assert "QueueUrls" not in lives.account.client("sqs").list_queues()


def test_an_object_is_notified_of_to_a_queue_and_to_the_rules(account: Account) -> None:
    arn = {"Fn::GetAtt": ["Queue", "Arn"]}
    to_rules = {"EventBridgeEnabled": "true"}
    to_queue = {"Event": "s3:ObjectCreated:*", "Queue": arn}
    rule = {"EventPattern": {"source": ["aws.s3"]}, "Targets": [{"Id": "a", "Arn": arn}]}
    notified = {"EventBridgeConfiguration": to_rules, "QueueConfigurations": [to_queue]}
    resources = {
        "Queue": ("SQS::Queue", {}),
        "Rule": ("Events::Rule", rule),
        "Bucket": ("S3::Bucket", {"NotificationConfiguration": notified}),
    }
    declared = {k: {"Type": f"AWS::{t}", "Properties": p} for k, (t, p) in resources.items()}
    outputs = {name: {"Value": ref(name)} for name in resources}
    account.deploy({"Resources": declared, "Outputs": outputs})
    bucket, queue = account.output("Bucket"), {"QueueUrl": account.output("Queue")}
    account.client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")
    messages = account.client("sqs").receive_message(**queue, MaxNumberOfMessages=10)["Messages"]
    received = [json.loads(one["Body"]) for one in messages]
    assert [one["Event"] for one in received if "Event" in one] == ["s3:TestEvent"]
    (records,) = (one["Records"] for one in received if "Records" in one)
    assert records[0]["s3"]["object"]["key"] == "a"
    created = [one for one in received if one.get("detail-type") == "Object Created"]
    events = [one["detail"] for one in created]
    assert [(one["bucket"]["name"], one["object"]["key"]) for one in events] == [(bucket, "a")]


HTTPS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
OPEN = [("-1", "0.0.0.0/0")]


def build_network(changed: bool) -> dict[str, Any]:
    """The first state of a stack with a network, and its second one."""

    def pick(before: Any, after: Any) -> Any:
        return after if changed else before

    own = [{**HTTPS, "CidrIp": "10.0.0.0/16"}]
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "A": ("Subnet", {"CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-east-1a"}),
        "B": ("Subnet", {"CidrBlock": "10.0.1.0/24", "AvailabilityZone": "us-east-1b"}),
        **{name: ("RouteTable", {}) for name in ("Kept", "Old", "New")},
        "Open": ("SecurityGroup", {
            "GroupDescription": "a", "SecurityGroupIngress": [{**HTTPS, "CidrIpv6": "::/0"}]}),
        "Closed": ("SecurityGroup", {
            "GroupDescription": "b", **pick({"SecurityGroupEgress": own}, {})}),
        "S3": ("VPCEndpoint", {
            "ServiceName": "com.amazonaws.us-east-1.s3", **pick({"PolicyDocument": allow("s3:Get*")}, {}),
            "RouteTableIds": [ref("Kept"), ref(pick("Old", "New"))]}),
        "Logs": ("VPCEndpoint", {
            "ServiceName": "com.amazonaws.us-east-1.logs", "VpcEndpointType": "Interface",
            "SubnetIds": [ref(pick("A", "B"))], "SecurityGroupIds": [ref(pick("Open", "Closed"))],
            "PrivateDnsEnabled": pick(True, False)}),
    }  # fmt: skip
    for _, properties in resources.values():
        properties["VpcId"] = ref("Vpc")
    resources["Vpc"] = ("VPC", {"CidrBlock": "10.0.0.0/16"})
    outputs: dict[str, Any] = {name: ref(name) for name in resources}
    for name in ("DnsEntries", "NetworkInterfaceIds"):
        outputs[name] = {"Fn::Select": [0, {"Fn::GetAtt": ["Logs", name]}]}
    declared = {k: {"Type": f"AWS::EC2::{t}", "Properties": p} for k, (t, p) in resources.items()}
    return {"Resources": declared, "Outputs": {k: {"Value": v} for k, v in outputs.items()}}


@pytest.mark.long
def test_endpoints_and_rules_follow_the_template(account: Account) -> None:
    ec2, output = account.client("ec2"), account.output

    def describe(logical: str) -> Any:
        return ec2.describe_vpc_endpoints(VpcEndpointIds=[output(logical)])["VpcEndpoints"][0]

    def list_routed() -> list[str]:
        tables = ec2.describe_route_tables()["RouteTables"]
        gateways = {t["RouteTableId"]: [r.get("GatewayId") for r in t["Routes"]] for t in tables}
        return [n for n in ("Kept", "Old", "New") if output("S3") in gateways[output(n)]]

    def find_group(logical: str) -> Any:
        return ec2.describe_security_groups(GroupIds=[output(logical)])["SecurityGroups"][0]

    def list_egress(logical: str) -> list[tuple[str, str]]:
        rules = find_group(logical)["IpPermissionsEgress"]
        return [
            (rule["IpProtocol"], block["CidrIp"]) for rule in rules for block in rule["IpRanges"]
        ]

    assert account.deploy(build_network(changed=False)) == "CREATE_COMPLETE"
    before, logs = [output("S3"), output("Logs")], describe("Logs")
    assert list_routed() == ["Kept", "Old"]
    assert '"s3:Get*"' in describe("S3")["PolicyDocument"]
    assert logs["SubnetIds"] == [output("A")]
    assert output("DnsEntries").endswith(f":{logs['DnsEntries'][0]['DnsName']}")
    assert output("NetworkInterfaceIds") == logs["NetworkInterfaceIds"][0]
    assert (list_egress("Open"), list_egress("Closed")) == (OPEN, [("tcp", "10.0.0.0/16")])
    assert find_group("Open")["IpPermissions"][0]["Ipv6Ranges"] == [{"CidrIpv6": "::/0"}]

    assert account.deploy(build_network(changed=True)) == "UPDATE_COMPLETE"
    logs = describe("Logs")
    assert [output("S3"), output("Logs")] == before
    assert (list_routed(), list_egress("Closed")) == (["Kept", "New"], OPEN)
    assert '"Action": "*"' in describe("S3")["PolicyDocument"]
    assert (logs["SubnetIds"], logs["PrivateDnsEnabled"]) == ([output("B")], False)
    assert [one["GroupId"] for one in logs["Groups"]] == [output("Closed")]

    assert account.deploy(build_network(changed=False)) == "UPDATE_COMPLETE"
    assert (list_routed(), describe("Logs")["PrivateDnsEnabled"]) == (["Kept", "Old"], True)
    assert account.delete() == "DELETE_COMPLETE"
    assert {one["State"] for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]} == {"deleted"}
