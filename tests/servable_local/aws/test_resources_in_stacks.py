"""Resources of a stack that is created, updated and deleted, as the services then describe them."""

import io
import json
import re
import time
import zipfile
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
from botocore.exceptions import ClientError

from servable_local.aws.resources.workflows import _build_code
from tests.servable_local.aws.boto_members import tagged as tags
from tests.servable_local.aws.deployed_templates import allow, get, only_tls, ref, resource
from tests.servable_local.aws.local_account import TRUST, Account


def may(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


OTHER_TRUST = TRUST.replace("sagemaker", "lambda")
BOUNDARY = "arn:aws:iam::aws:policy/ReadOnlyAccess"


def declare(resources: dict[str, tuple[str, Any]], **values: Any) -> dict[str, Any]:
    """A template of a type and properties each, whose outputs are all Refs and `values`."""
    outputs = {name: ref(name) for name in resources} | values
    return {
        "Resources": {name: resource(kind, **given) for name, (kind, given) in resources.items()},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }


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
                  "Queue": get("Queue", "Arn")}]}},
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
            "Role": get("Role", "Arn"), "Timeout": pick(3, 9),
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
            "EvaluationPeriods": pick(1, 3), "Threshold": pick("1.5", 2),
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
    attributes = [("Repository", "RepositoryUri"), ("Parameter", "Type"), ("Topic", "TopicName")]
    attributes += [(name, "Arn") for name in ("Repository", "Key", "Bucket", "Role", "Paging")]
    attributes.append(("Managed", "PolicyArn"))
    return declare(resources, **{f"{name}{one}": get(name, one) for name, one in attributes})


TAGS = "sort(Tags[].join('=', [Key, Value]))"
ACTION = "Policy > Statement[0].Action"
BOTH, ONE = ["a=1", "b=2"], ["a=3"]
EXPIRING = [
    {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "captured/"},
     "Expiration": {"Days": 30}, "Transitions": [{"StorageClass": "GLACIER", "Days": 9}],
     "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
     "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "NoncurrentDays": 2}]},
    {"Status": "Enabled", "Expiration": {"Days": 1},
     "Filter": {"And": {"Prefix": "tmp/", "Tags": [{"Key": "kind", "Value": "scratch"}]}}},
]  # fmt: skip
BLOCKED = dict.fromkeys(("IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), False)
SHARED = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 3600}]
NOTIFIED = [[["s3:ObjectCreated:*"], [{"Name": "prefix", "Value": "in/"}]]]
# A call ($NAME: an output), a JMESPath in its response (after `>`: in JSON that is a text of it), and the
# value before and after the update; None: also if the service answers that there is none.
FACTS: list[tuple[str, str, Any, Any]] = [
    ("kms.describe_key KeyId=$Key", "KeyMetadata.Description", "first", "second"),
    ("kms.get_key_policy KeyId=$Key PolicyName=default", ACTION, "kms:*", "kms:Describe*"),
    ("kms.get_key_rotation_status KeyId=$Key", "KeyRotationEnabled", False, True),
    ("kms.list_resource_tags KeyId=$Key", "sort(Tags[].join('=', [TagKey, TagValue]))", BOTH, ONE),
    ("kms.describe_key KeyId=$Off", "KeyMetadata.Enabled", True, False),
    ("kms.list_aliases", "Aliases[?contains(AliasName, 'rank')].TargetKeyId", ["$Key"], ["$Off"]),
    ("s3.get_bucket_versioning Bucket=$Bucket", "Status", "Enabled", "Suspended"),
    ("s3.get_public_access_block Bucket=$Bucket", "PublicAccessBlockConfiguration",
     {"BlockPublicAcls": True, **BLOCKED}, None),
    ("s3.get_bucket_encryption Bucket=$Bucket", "ServerSideEncryptionConfiguration.Rules[0]."
     "ApplyServerSideEncryptionByDefault.SSEAlgorithm", "aws:kms", "AES256"),
    ("s3.get_bucket_lifecycle_configuration Bucket=$Bucket", "Rules", EXPIRING, None),
    ("s3.get_bucket_website Bucket=$Bucket", "[IndexDocument.Suffix, ErrorDocument.Key, "
     "RoutingRules[].[Condition.KeyPrefixEquals, Redirect.ReplaceKeyPrefixWith]]",
     None, ["index.html", "error.html", [["a/", "b/"]]]),
    ("s3.get_bucket_ownership_controls Bucket=$Bucket", "OwnershipControls.Rules",
     [{"ObjectOwnership": "BucketOwnerPreferred"}], None),
    ("s3.get_bucket_notification_configuration Bucket=$Bucket",
     "QueueConfigurations[].[Events, Filter.Key.FilterRules]", NOTIFIED, None),
    ("s3.get_bucket_cors Bucket=$Bucket", "CORSRules", None, SHARED),
    ("s3.get_bucket_logging Bucket=$Bucket", "LoggingEnabled.TargetPrefix", None, "access/"),
    ("s3.get_bucket_tagging Bucket=$Bucket", "TagSet", tags(a="1"), None),
    ("s3.get_bucket_policy Bucket=$Bucket", ACTION, "s3:GetObject", "s3:List*"),
    ("sqs.get_queue_attributes QueueUrl=$Queue AttributeNames=VisibilityTimeout,Policy",
     "Attributes.VisibilityTimeout", "30", "17"),
    ("sqs.get_queue_attributes QueueUrl=$Queue AttributeNames=VisibilityTimeout,Policy",
     f"Attributes.{ACTION}", "sqs:SendMessage", "sqs:ReceiveMessage"),
    ("sqs.list_queue_tags QueueUrl=$Queue", "Tags", {"a": "1"}, {"b": "2"}),
    ("sns.get_topic_attributes TopicArn=$Topic", "Attributes.DisplayName", "first", "second"),
    ("sns.get_topic_attributes TopicArn=$Topic", f"Attributes.{ACTION}",
     "sns:Publish", "sns:Subscribe"),
    ("sns.list_tags_for_resource ResourceArn=$Topic", TAGS, BOTH, ["b=2", "c=3"]),
    ("sns.list_subscriptions_by_topic TopicArn=$Topic", "sort(Subscriptions[].Endpoint)",
     [f"{name}@example.com" for name in "abc"], [f"{name}@example.com" for name in "bc"]),
    ("sns.get_subscription_attributes SubscriptionArn=$Subscription", "Attributes.FilterPolicy",
     '{"kind": ["a"]}', '{"kind": ["b"]}'),
    ("logs.describe_log_groups", "logGroups[0].[retentionInDays, kmsKeyId]",
     [30, None], [None, "arn:aws:kms:us-east-1:1:key/k"]),
    ("logs.list_tags_log_group logGroupName=$Group", "tags", {"a": "1", "b": "2"}, {"a": "3"}),
    ("logs.describe_query_definitions", "queryDefinitions[].queryString", ["limit 1"], ["limit 2"]),
    ("logs.describe_metric_filters", "metricFilters[].filterPattern", ["timeout"], ["error"]),
    ("iam.get_role RoleName=$Role", "Role.AssumeRolePolicyDocument.Statement[0].Principal.Service",
     "sagemaker.amazonaws.com", "lambda.amazonaws.com"),
    ("iam.get_role RoleName=$Role", "Role.Description", "first", "second"),
    ("iam.get_role RoleName=$Role", "Role.PermissionsBoundary.PermissionsBoundaryArn",
     BOUNDARY, None),
    ("iam.get_role RoleName=$Role", TAGS.replace("Tags", "Role.Tags"), BOTH, ONE),
    ("iam.list_role_policies RoleName=$Role", "sort(PolicyNames)",
     ["a", "c", "read"], ["b", "c", "write"]),
    ("iam.list_attached_role_policies RoleName=$Role", "sort(AttachedPolicies[].PolicyName)",
     ["other", "shared"], []),
    ("iam.list_policy_versions PolicyArn=$Managed", "Versions[].Document.Statement[0].Action",
     ["s3:GetObject"], ["s3:List*"]),
    ("lambda.get_function FunctionName=warm", "[Configuration.[Timeout, Description, "
     "Environment.Variables], Concurrency.ReservedConcurrentExecutions, Tags]",
     [[3, "first", {"A": "1"}], 2, {"a": "1", "b": "2"}], [[9, "", None], None, {"a": "3"}]),
    ("lambda.get_policy FunctionName=warm", "Policy > Statement[].Principal.Service",
     ["sns.amazonaws.com"], ["events.amazonaws.com"]),
    ("events.describe_rule Name=changes", "EventPattern > source", ["aws.sagemaker"], ["aws.s3"]),
    ("events.describe_rule Name=changes", "State", "ENABLED", "DISABLED"),
    ("events.list_targets_by_rule Rule=changes", "sort_by(Targets, &Id)[].[Id, Input]",
     [["both", None], ["first", None]], [["both", "changed"], ["second", None]]),
    ("cloudwatch.get_dashboard DashboardName=ranker", "DashboardBody > @",
     {"widgets": []}, {"start": "-PT1H"}),
    ("cloudwatch.describe_alarms", "MetricAlarms[].[EvaluationPeriods, Threshold, "
     "length(AlarmActions)]", [[1, 1.5, 1]], [[3, 2.0, 0]]),
    ("cloudwatch.list_tags_for_resource ResourceARN=$PagingArn", TAGS, BOTH, ONE),
    ("ssm.get_parameter Name=/ranker/size", "Parameter.Value", "1", "2"),
    ("ssm.list_tags_for_resource ResourceType=Parameter ResourceId=/ranker/size",
     TAGS.replace("Tags", "TagList"), BOTH, ONE),
    ("ecr.describe_repositories", "repositories[].[imageTagMutability, "
     "imageScanningConfiguration.scanOnPush]", [["IMMUTABLE", True]], [["MUTABLE", False]]),
    ("ecr.get_lifecycle_policy repositoryName=$Repository",
     "lifecyclePolicyText > rules[0].selection.countNumber", 5, None),
    ("ecr.get_repository_policy repositoryName=$Repository",
     "policyText > Statement[0].Action", "ecr:GetDownloadUrlForLayer", None),
    ("ecr.list_tags_for_resource resourceArn=$RepositoryArn", TAGS.replace("Tags", "tags"),
     BOTH, ONE),
]  # fmt: skip


class State:
    """The stack's outputs, and what every service says of its resources."""

    def __init__(self, account: Account) -> None:
        (stack,) = account.client("cloudformation").describe_stacks(StackName="stack")["Stacks"]
        self.out = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        self.facts = {f"{call} {path}": self._find(account, call, path) for call, path, *_ in FACTS}
        function = account.client("lambda").get_function(FunctionName="warm")
        self.code = function["Configuration"]["CodeSha256"]

    def _find(self, account: Account, call: str, path: str) -> Any:
        named, *given = call.split()
        service, operation = named.split(".")
        arguments: dict[str, Any] = dict(pair.split("=") for pair in given)
        arguments = {name: self.fill(value) for name, value in arguments.items()}
        if "AttributeNames" in arguments:
            arguments["AttributeNames"] = arguments["AttributeNames"].split(",")
        try:
            found = getattr(account.client(service), operation)(**arguments)
        except ClientError as error:
            if re.search("NoSuch|NotFound", error.response["Error"]["Code"]):
                return None
            raise
        outer, _, inner = path.partition(" > ")
        found = jmespath.search(outer, found)
        return jmespath.search(inner, json.loads(found)) if inner else found

    def fill(self, value: Any) -> Any:
        """The value with the outputs that it names."""
        if isinstance(value, list):
            return [self.fill(one) for one in value]
        return self.out[value[1:]] if isinstance(value, str) and value.startswith("$") else value


class Lives:
    """The stack's states, one after the other, and what is left when it is deleted."""

    def __init__(self, account: Account) -> None:
        self.account, self.statuses, self.states = account, list[str](), list[State]()
        for changed in (False, True, False):
            self.statuses.append(account.deploy(template(account.number, changed)))
            self.states.append(State(account))
        self.out = self.states[0].out
        media = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = {"schemaVersion": 2, "mediaType": media, "config": {"digest": "sha256:0"}}
        image = {"imageManifest": json.dumps(manifest), "imageTag": "one"}
        account.client("ecr").put_image(repositoryName=self.out["Repository"], **image)
        # S3 has put access logs into the bucket, and CloudFormation deletes none that holds objects.
        s3, bucket = account.client("s3"), self.out["Bucket"]
        for version in s3.list_object_versions(Bucket=bucket)["Versions"]:
            s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
        self.statuses.append(account.delete())


@pytest.fixture(scope="module")
def lives(accounts: Account) -> Lives:
    return Lives(accounts.another())


def test_the_stack_lives_and_its_resources_keep_their_identity(lives: Lives) -> None:
    assert lives.statuses == ["CREATE_COMPLETE", *["UPDATE_COMPLETE"] * 2, "DELETE_COMPLETE"]
    out, number = lives.out, lives.account.number
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
    kept = "Bucket Function Group Key Managed Query Repository Role Subscription Topic"
    for name in kept.split():
        assert lives.states[1].out[name] == out[name], name


def test_each_service_describes_what_the_template_says(lives: Lives) -> None:
    for state, side in zip(lives.states, (0, 1, 0), strict=True):
        expected = {f"{call} {path}": state.fill(values[side]) for call, path, *values in FACTS}
        assert state.facts == expected


def test_a_source_in_the_template_becomes_index_py(lives: Lives) -> None:
    assert lives.states[0].code != lives.states[1].code
    packed = _build_code({"Code": {"ZipFile": "first = 1"}})["ZipFile"]
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read("index.py") == b"first = 1"


def test_a_stack_that_is_deleted_leaves_nothing_but_keys_that_wait_for_it(lives: Lives) -> None:
    kms = lives.account.client("kms")
    key = kms.describe_key(KeyId=lives.out["Key"])["KeyMetadata"]
    assert key["KeyState"] == "PendingDeletion"
    assert (key["DeletionDate"].timestamp() - time.time()) / 86_400 == pytest.approx(7, abs=0.1)
    assert lives.account.inventory() == []
    assert "QueueUrls" not in lives.account.client("sqs").list_queues()


def test_an_object_is_notified_of_to_a_queue_and_to_the_rules(account: Account) -> None:
    arn = get("Queue", "Arn")
    to_rules = {"EventBridgeEnabled": "true"}
    to_queue = {"Event": "s3:ObjectCreated:*", "Queue": arn}
    rule = {"EventPattern": {"source": ["aws.s3"]}, "Targets": [{"Id": "a", "Arn": arn}]}
    notified = {"EventBridgeConfiguration": to_rules, "QueueConfigurations": [to_queue]}
    resources = {
        "Queue": ("SQS::Queue", {}),
        "Rule": ("Events::Rule", rule),
        "Bucket": ("S3::Bucket", {"NotificationConfiguration": notified}),
        "Policy": ("S3::BucketPolicy", {"Bucket": ref("Bucket"), "PolicyDocument": only_tls()}),
    }
    account.deploy(declare(resources))
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
OPEN = [["-1", ["0.0.0.0/0"]]]


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
    listed = ("DnsEntries", "NetworkInterfaceIds")
    first = {name: {"Fn::Select": [0, get("Logs", name)]} for name in listed}
    return declare({k: (f"EC2::{kind}", given) for k, (kind, given) in resources.items()}, **first)


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

    def list_egress(logical: str) -> Any:
        blocks = "IpPermissionsEgress[].[IpProtocol, IpRanges[].CidrIp]"
        return jmespath.search(blocks, find_group(logical))

    assert account.deploy(build_network(changed=False)) == "CREATE_COMPLETE"
    before, logs = [output("S3"), output("Logs")], describe("Logs")
    assert list_routed() == ["Kept", "Old"]
    assert '"s3:Get*"' in describe("S3")["PolicyDocument"]
    assert logs["SubnetIds"] == [output("A")]
    assert output("DnsEntries").endswith(f":{logs['DnsEntries'][0]['DnsName']}")
    assert output("NetworkInterfaceIds") == logs["NetworkInterfaceIds"][0]
    assert (list_egress("Open"), list_egress("Closed")) == (OPEN, [["tcp", ["10.0.0.0/16"]]])
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
