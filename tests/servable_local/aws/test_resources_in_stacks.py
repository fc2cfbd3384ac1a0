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
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account

ANY = {"Effect": "Allow", "Principal": "*", "Resource": "*"}


def allow(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{**ANY, "Action": action}]}


def may(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}


TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
        }
    ],
}
OTHER_TRUST = json.loads(json.dumps(TRUST).replace("sagemaker", "lambda"))
BOUNDARY = "arn:aws:iam::aws:policy/ReadOnlyAccess"


def tags(**given: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in given.items()]


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def template(number: str, changed: bool) -> dict[str, Any]:
    """The stack's first state, and its second one."""

    def pick(before: Any, after: Any) -> Any:
        return after if changed else before

    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Key": (
            "KMS::Key",
            {
                "Description": pick("first", "second"),
                "KeyPolicy": allow(pick("kms:*", "kms:Describe*")),
                "EnableKeyRotation": pick(False, "true"),
                "PendingWindowInDays": 7,
                "Tags": pick(tags(a="1", b="2"), tags(a="3")),
            },
        ),
        "Off": ("KMS::Key", {"KeyPolicy": allow("kms:*"), "Enabled": pick(True, False)}),
        "Alias": (
            "KMS::Alias",
            {"AliasName": "alias/ranker", "TargetKeyId": ref(pick("Key", "Off"))},
        ),
        "Bucket": (
            "S3::Bucket",
            {
                "BucketName": f"bucket-{number}",
                "Tags": pick(tags(a="1"), []),
                **pick(
                    {
                        "VersioningConfiguration": {"Status": "Enabled"},
                        "PublicAccessBlockConfiguration": {"BlockPublicAcls": "true"},
                        "BucketEncryption": {
                            "ServerSideEncryptionConfiguration": [
                                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
                            ]
                        },
                        "LifecycleConfiguration": {
                            "Rules": [
                                {
                                    "Id": "old",
                                    "Status": "Enabled",
                                    "Prefix": "captured/",
                                    "ExpirationInDays": "30",
                                    "NoncurrentVersionExpirationInDays": 7,
                                }
                            ]
                        },
                    },
                    {
                        "LoggingConfiguration": {"LogFilePrefix": "access/"},
                        "CorsConfiguration": {
                            "CorsRules": [
                                {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAge": 3600}
                            ]
                        },
                    },
                ),
            },
        ),
        "BucketPolicy": (
            "S3::BucketPolicy",
            {"Bucket": ref("Bucket"), "PolicyDocument": allow(pick("s3:GetObject", "s3:List*"))},
        ),
        "Topic": (
            "SNS::Topic",
            {
                "TopicName": "alarms",
                "DisplayName": pick("first", "second"),
                "Tags": pick(tags(a="1", b="2"), tags(b="2", c="3")),
                "Subscription": [
                    {"Protocol": "email", "Endpoint": "a@example.com"},
                    *pick([], [{"Protocol": "email", "Endpoint": "b@example.com"}]),
                ],
            },
        ),
        "Subscription": (
            "SNS::Subscription",
            {
                "TopicArn": ref("Topic"),
                "Protocol": "email",
                "Endpoint": "c@example.com",
                "FilterPolicy": {"kind": [pick("a", "b")]},
            },
        ),
        "Queue": (
            "SQS::Queue",
            pick({"Tags": tags(a="1")}, {"VisibilityTimeout": "17", "Tags": tags(b="2")}),
        ),
        "QueuePolicy": (
            "SQS::QueuePolicy",
            {
                "Queues": [ref("Queue")],
                "PolicyDocument": allow(pick("sqs:SendMessage", "sqs:ReceiveMessage")),
            },
        ),
        "TopicPolicy": (
            "SNS::TopicPolicy",
            {
                "Topics": [ref("Topic")],
                "PolicyDocument": allow(pick("sns:Publish", "sns:Subscribe")),
            },
        ),
        "Group": (
            "Logs::LogGroup",
            {
                "LogGroupName": f"/ranker/{number}",
                "Tags": pick(tags(a="1", b="2"), tags(a="3")),
                **pick({"RetentionInDays": "30"}, {"KmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}),
            },
        ),
        "Query": (
            "Logs::QueryDefinition",
            {"Name": "errors", "QueryString": pick("limit 1", "limit 2")},
        ),
        "Role": (
            "IAM::Role",
            {
                "RoleName": "ranker",
                "AssumeRolePolicyDocument": pick(TRUST, OTHER_TRUST),
                "Description": pick("first", "second"),
                "ManagedPolicyArns": pick([ref("Other")], []),
                "Policies": [
                    {"PolicyName": pick("a", "b"), "PolicyDocument": may("s3:GetObject")},
                    {"PolicyName": "c", "PolicyDocument": may("s3:List*")},
                ],
                "Tags": pick(tags(a="1", b="2"), tags(a="3")),
                **pick({"PermissionsBoundary": BOUNDARY}, {}),
            },
        ),
        "Policy": (
            "IAM::Policy",
            {
                "PolicyName": pick("read", "write"),
                "PolicyDocument": may("s3:PutObject"),
                "Roles": [ref("Role")],
            },
        ),
        "Managed": (
            "IAM::ManagedPolicy",
            {
                "ManagedPolicyName": "shared",
                "PolicyDocument": may(pick("s3:GetObject", "s3:List*")),
                "Roles": pick([ref("Role")], []),
            },
        ),
        "Other": (
            "IAM::ManagedPolicy",
            {"ManagedPolicyName": "other", "PolicyDocument": may("s3:GetObject")},
        ),
        "Function": (
            "Lambda::Function",
            {
                "FunctionName": "warm",
                "Handler": "index.handler",
                "Runtime": "python3.12",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Timeout": pick(3, 9),
                "Code": {"ZipFile": pick("first = 1", "second = 2")},
                "Tags": tags(a="1"),
            },
        ),
        "Permission": (
            "Lambda::Permission",
            {
                "Action": "lambda:InvokeFunction",
                "FunctionName": ref("Function"),
                "Principal": pick("sns.amazonaws.com", "events.amazonaws.com"),
            },
        ),
        "Rule": (
            "Events::Rule",
            {
                "Name": "changes",
                "EventPattern": {"source": [pick("aws.sagemaker", "aws.s3")]},
                "State": pick("ENABLED", "DISABLED"),
                "Targets": [
                    {"Id": "both", "Arn": ref("Topic"), **pick({}, {"Input": "changed"})},
                    {"Id": pick("first", "second"), "Arn": ref("Topic")},
                ],
            },
        ),
        "Dashboard": (
            "CloudWatch::Dashboard",
            {
                "DashboardName": "ranker",
                "DashboardBody": pick('{"widgets": []}', '{"start": "-PT1H"}'),
            },
        ),
        "Filter": (
            "Logs::MetricFilter",
            {
                "FilterName": "timeouts",
                "LogGroupName": ref("Group"),
                "FilterPattern": pick("timeout", "error"),
                "MetricTransformations": [
                    {"MetricNamespace": "Own", "MetricName": "Timeouts", "MetricValue": "1"}
                ],
            },
        ),
        "Alarm": (
            "CloudWatch::Alarm",
            {
                "AlarmName": "slow",
                "Namespace": "Own",
                "MetricName": "Timeouts",
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": pick(1, 3),
                "Threshold": pick(1, 2),
                "ComparisonOperator": "GreaterThanThreshold",
                "AlarmActions": pick([ref("Topic")], []),
            },
        ),
        "Parameter": (
            "SSM::Parameter",
            {"Name": "/ranker/size", "Type": "String", "Value": pick("1", "2")},
        ),
    }
    ids = [*resources, "Key.Arn", "Bucket.Arn", "Topic.TopicName", "Role.Arn", "Managed.PolicyArn"]
    outputs = {
        name.replace(".", ""): {
            "Value": {"Fn::GetAtt": name.split(".")} if "." in name else ref(name)
        }
        for name in ids
    }
    return {
        "Resources": {
            name: {"Type": f"AWS::{kind}", "Properties": properties}
            for name, (kind, properties) in resources.items()
        },
        "Outputs": outputs,
    }


def state(account: Account) -> dict[str, Any]:
    """What every service says of the stack's resources."""
    out = {
        output["OutputKey"]: output["OutputValue"]
        for output in account.client("cloudformation").describe_stacks(StackName="stack")["Stacks"][
            0
        ]["Outputs"]
    }
    kms, s3, sns, logs, iam, functions = (
        account.client(name) for name in ("kms", "s3", "sns", "logs", "iam", "lambda")
    )
    sqs, queue = account.client("sqs"), {"QueueUrl": out["Queue"]}
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
    managed = iam.get_policy(PolicyArn=out["Managed"])["Policy"]
    document = iam.get_policy_version(
        PolicyArn=out["Managed"], VersionId=managed["DefaultVersionId"]
    )["PolicyVersion"]["Document"]
    code = unless_missing(lambda: functions.get_function(FunctionName="warm"))
    described = iam.get_role(RoleName=role)["Role"]
    statement = json.loads(functions.get_policy(FunctionName="warm")["Policy"])["Statement"]
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    return {
        "out": out,
        "key": kms.describe_key(KeyId=key)["KeyMetadata"],
        "key policy": json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"]),
        "rotation": kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"],
        "key tags": {t["TagKey"]: t["TagValue"] for t in kms.list_resource_tags(KeyId=key)["Tags"]},
        "off": kms.describe_key(KeyId=out["Off"])["KeyMetadata"]["Enabled"],
        "alias": [
            a["TargetKeyId"]
            for a in kms.list_aliases()["Aliases"]
            if a["AliasName"] == "alias/ranker"
        ],
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
            lambda: s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"][0]
        ),
        "queue": (queued["VisibilityTimeout"], json.loads(queued["Policy"])["Statement"][0]["Action"]),
        "queue tags": sqs.list_queue_tags(**queue)["Tags"],
        "cors": unless_missing(lambda: s3.get_bucket_cors(Bucket=bucket)["CORSRules"]),
        "logging": s3.get_bucket_logging(Bucket=bucket).get("LoggingEnabled"),
        "bucket tags": unless_missing(lambda: s3.get_bucket_tagging(Bucket=bucket)["TagSet"]),
        "bucket policy": json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]),
        "topic": sns.get_topic_attributes(TopicArn=topic)["Attributes"],
        "topic tags": {t["Key"]: t["Value"] for t in sns.list_tags_for_resource(ResourceArn=topic)["Tags"]},
        "subscribed": sorted(one["Endpoint"] for one in subscriptions),
        "filter": sns.get_subscription_attributes(SubscriptionArn=out["Subscription"])["Attributes"][
            "FilterPolicy"
        ],
        "group": {k: group.get(k) for k in ("logGroupName", "retentionInDays", "kmsKeyId")},
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
            iam.list_policy_versions(PolicyArn=out["Managed"])["Versions"])),
        "function": code,
        "callers": [one["Principal"] for one in statement],
        "rule": (json.loads(rule["EventPattern"])["source"], rule["State"]),
        "targets": {
            one["Id"]: one.get("Input")
            for one in events.list_targets_by_rule(Rule="changes")["Targets"]
        },
        "dashboard": json.loads(cloudwatch.get_dashboard(DashboardName="ranker")["DashboardBody"]),
        "filters": [one["filterPattern"] for one in logs.describe_metric_filters()["metricFilters"]],
        "alarm": (alarm["EvaluationPeriods"], alarm["Threshold"], len(alarm["AlarmActions"])),
        "parameter": account.client("ssm").get_parameter(Name="/ranker/size")["Parameter"]["Value"],
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
        # S3 has put access logs into the bucket, and CloudFormation deletes none that holds objects.
        s3, bucket = account.client("s3"), self.first["out"]["Bucket"]
        for version in s3.list_object_versions(Bucket=bucket)["Versions"]:
            s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
        self.statuses.append(account.delete())


@pytest.fixture(scope="module")
def lives(embedded: LocalAws, launcher: Launcher) -> Lives:
    return Lives(Account(embedded, launcher))


def test_the_stack_lives_and_its_resources_keep_their_identity(lives: Lives) -> None:
    updated = ["UPDATE_COMPLETE"] * 2
    assert lives.statuses == ["CREATE_COMPLETE", *updated, "DELETE_COMPLETE"]

    out, number = lives.first["out"], lives.account.number
    assert (out["Bucket"], out["BucketArn"]) == (
        f"bucket-{number}",
        f"arn:aws:s3:::bucket-{number}",
    )
    assert (out["Topic"], out["TopicTopicName"]) == (
        f"arn:aws:sns:us-east-1:{number}:alarms",
        "alarms",
    )
    assert out["KeyArn"] == f"arn:aws:kms:us-east-1:{number}:key/{out['Key']}"
    assert (out["Role"], out["RoleArn"]) == ("ranker", f"arn:aws:iam::{number}:role/ranker")
    assert out["ManagedPolicyArn"] == out["Managed"] == f"arn:aws:iam::{number}:policy/shared"
    assert (out["Group"], out["Parameter"]) == (f"/ranker/{number}", "/ranker/size")
    names = ("Key", "Bucket", "Topic", "Subscription", "Group", "Role", "Managed", "Function")
    assert [lives.first["out"][name] for name in names] == [
        lives.second["out"][name] for name in names
    ]


# What is described, and how it reads before and after the update.
EXPECTED: dict[str, tuple[Any, Any]] = {
    "rotation": (False, True),
    "key tags": ({"a": "1", "b": "2"}, {"a": "3"}),
    "off": (True, False),
    "versioning": ("Enabled", "Suspended"),
    "encryption": ("aws:kms", "AES256"),
    "logging": (None, "access/"),
    "cors": (
        None,
        [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 3600}],
    ),
    "queue": (("30", "sqs:SendMessage"), ("17", "sqs:ReceiveMessage")),
    "queue tags": ({"a": "1"}, {"b": "2"}),
    "bucket tags": (tags(a="1"), None),
    "topic tags": ({"a": "1", "b": "2"}, {"b": "2", "c": "3"}),
    "subscribed": (
        ["a@example.com", "c@example.com"],
        ["a@example.com", "b@example.com", "c@example.com"],
    ),
    "filter": ('{"kind": ["a"]}', '{"kind": ["b"]}'),
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
    "parameter": ("1", "2"),
}


@pytest.mark.parametrize("what", EXPECTED)
def test_each_service_describes_what_the_template_says(lives: Lives, what: str) -> None:
    def read(found: Any) -> Any:
        return found["TargetPrefix"] if what == "logging" and found else found

    assert (read(lives.first[what]), read(lives.second[what])) == EXPECTED[what]


@pytest.mark.parametrize(
    "what", sorted({*EXPECTED, "group", "block", "lifecycle"} - {"subscribed"})
)
def test_an_update_back_restores_the_first_template(lives: Lives, what: str) -> None:
    assert lives.third[what] == lives.first[what]


def test_settings_of_each_resource_are_updated(lives: Lives) -> None:
    states = (lives.first, lives.second)
    assert [one["key"]["Description"] for one in states] == ["first", "second"]
    actions = [one["key policy"]["Statement"][0]["Action"] for one in states]
    assert actions == ["kms:*", "kms:Describe*"]
    assert [lives.first["alias"], lives.second["alias"]] == [
        [lives.first["out"]["Key"]],
        [lives.second["out"]["Off"]],
    ]
    bucket = [one["bucket policy"]["Statement"][0]["Action"] for one in states]
    topic = [json.loads(one["topic"]["Policy"])["Statement"][0]["Action"] for one in states]
    assert (bucket, topic) == (["s3:GetObject", "s3:List*"], ["sns:Publish", "sns:Subscribe"])

    assert lives.first["block"]["BlockPublicAcls"] is True
    rule = lives.first["lifecycle"]
    assert (rule["ID"], rule["Filter"], rule["Expiration"]) == (
        "old", {"Prefix": "captured/"}, {"Days": 30},
    )  # fmt: skip
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == 7
    assert (lives.second["block"], lives.second["lifecycle"]) == (None, None)
    assert [one["topic"]["DisplayName"] for one in (lives.first, lives.second)] == [
        "first",
        "second",
    ]
    name = f"/ranker/{lives.account.number}"
    assert (lives.first["group"], lives.second["group"]) == (
        {"logGroupName": name, "retentionInDays": 30, "kmsKeyId": None},
        {
            "logGroupName": name,
            "retentionInDays": None,
            "kmsKeyId": "arn:aws:kms:us-east-1:1:key/k",
        },
    )

    (first,), (second,) = lives.first["query"], lives.second["query"]
    assert (first["queryString"], second["queryString"]) == ("limit 1", "limit 2")
    assert first["queryDefinitionId"] == second["queryDefinitionId"]

    timeouts = [one["function"]["Configuration"]["Timeout"] for one in (lives.first, lives.second)]
    codes = [one["function"]["Configuration"]["CodeSha256"] for one in (lives.first, lives.second)]
    assert (timeouts, codes[0] != codes[1]) == ([3, 9], True)


def test_a_source_in_the_template_becomes_index_py() -> None:
    from servable_local.aws.resources.workflows import _build_code

    packed = _build_code({"Code": {"ZipFile": "first = 1"}})["ZipFile"]
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read("index.py") == b"first = 1"


def test_a_stack_that_is_deleted_leaves_nothing_but_keys_that_wait_for_it(lives: Lives) -> None:
    client = lives.account.client
    key = client("kms").describe_key(KeyId=lives.first["out"]["Key"])["KeyMetadata"]
    assert key["KeyState"] == "PendingDeletion"
    assert (key["DeletionDate"].timestamp() - time.time()) / 86_400 == pytest.approx(7, abs=0.1)
    assert client("s3").list_buckets()["Buckets"] == []
    assert client("sns").list_topics()["Topics"] == []
    assert client("logs").describe_log_groups()["logGroups"] == []
    assert client("logs").describe_query_definitions()["queryDefinitions"] == []
    assert client("iam").list_roles()["Roles"] == []
    assert client("iam").list_policies(Scope="Local")["Policies"] == []
    assert client("lambda").list_functions()["Functions"] == []
    assert client("ssm").describe_parameters()["Parameters"] == []
    assert "QueueUrls" not in client("sqs").list_queues()
    assert client("events").list_rules()["Rules"] == []
    assert client("cloudwatch").list_dashboards()["DashboardEntries"] == []
    assert client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert [a for a in client("kms").list_aliases()["Aliases"] if "ranker" in a["AliasName"]] == []


def test_the_tags_of_a_composite_alarm_follow_its_template(account: Account) -> None:
    for value in ("old", "new"):
        composite = {
            "AlarmName": "paging",
            "AlarmRule": "FALSE",
            "Tags": [{"Key": "team", "Value": value}],
        }
        account.deploy(
            {
                "Resources": {
                    "A": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": composite}
                }
            }
        )
    arn = f"arn:aws:cloudwatch:us-east-1:{account.number}:alarm:paging"
    tags = account.client("cloudwatch").list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "new"}]
