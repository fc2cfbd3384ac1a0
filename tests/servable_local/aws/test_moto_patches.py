"""Where moto answers otherwise than AWS, the local AWS answers as AWS does."""

import base64
import json
import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import Any, cast

import botocore.session
import pytest
from botocore.exceptions import ClientError
from moto.iam.access_control import PermissionResult
from moto.iam.models import IAMBackend, ManagedPolicy, Role
from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML

from servable_local.aws import loopback
from servable_local.aws.contents import ObjectContent
from servable_local.aws.moto_patches import events, every_service, s3
from tests.checkouts import ROOT
from tests.servable_local.aws.local_account import Account, Queue

MINE = {"EventPattern": json.dumps({"source": ["own.service"]})}
OTHERS = {"EventPattern": json.dumps({"source": ["another"]})}


class Heard(Queue):
    """A topic, a queue that hears it, and rules of the account that name one of them."""

    def __init__(self, account: Account) -> None:
        super().__init__(account)
        self.account, self.events, sns = account, account.client("events"), account.client("sns")
        self.topic = sns.create_topic(Name="news")["TopicArn"]
        raw = {"Protocol": "sqs", "Attributes": {"RawMessageDelivery": "true"}}
        sns.subscribe(TopicArn=self.topic, Endpoint=self.arn, **raw)

    def rule(self, *targets: dict[str, Any], **rule: Any) -> None:
        name = uuid.uuid4().hex
        self.events.put_rule(Name=name, **rule)
        given = [{"Id": str(number), **target} for number, target in enumerate(targets)]
        self.events.put_targets(Rule=name, Targets=given)

    def send(self) -> list[str]:
        """Messages after one event of `own.service`."""
        entry = {"Source": "own.service", "DetailType": "News", "Detail": '{"name": "ranker"}'}
        self.events.put_events(Entries=[entry])
        got = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10)
        return [message["Body"] for message in got.get("Messages", [])]


@pytest.fixture
def heard(account: Account) -> Heard:
    return Heard(account)


def test_an_event_reaches_the_topic_of_its_rule_alone(heard: Heard) -> None:
    transformer = {"InputPathsMap": {"name": "$.detail.name"}, "InputTemplate": '"<name> is up"'}
    heard.rule({"Arn": heard.topic, "InputTransformer": transformer}, **MINE)
    assert heard.send() == ["ranker is up"]
    heard = Heard(heard.account.another())
    heard.rule({"Arn": heard.topic}, **OTHERS)
    assert heard.send() == []
    heard = Heard(heard.account.another())
    heard.rule({"Arn": heard.topic}, State="DISABLED", **MINE)
    assert heard.send() == []


def test_an_event_reaches_every_target_or_its_dead_letter_queue(heard: Heard) -> None:
    heard.rule({"Arn": heard.topic}, {"Arn": heard.arn}, **MINE)
    assert [json.loads(message)["detail"] for message in heard.send()] == [{"name": "ranker"}] * 2
    assert (len(heard.send()), len(heard.send())) == (2, 2)

    heard = Heard(heard.account.another())
    gone = {"Arn": f"{heard.arn}-gone", "DeadLetterConfig": {"Arn": heard.arn}}
    heard.rule(gone, **MINE)
    assert [json.loads(message)["source"] for message in heard.send()] == ["own.service"]


def test_a_local_endpoint_is_confirmed(account: Account) -> None:
    sns = account.client("sns")
    topic = {"TopicArn": sns.create_topic(Name="confirmed")["TopicArn"], "Protocol": "http"}
    for endpoint, pending in [("http://127.0.0.1:1/", "false"), ("http://example.com/", "true")]:
        subscribed = sns.subscribe(**topic, Endpoint=endpoint, ReturnSubscriptionArn=True)
        arn = subscribed["SubscriptionArn"]
        found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        assert found["PendingConfirmation"] == pending


def test_a_message_is_posted_to_addresses_of_this_computer_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published: list[Any] = []
    monkeypatch.setattr(events, "_PUBLISH", lambda *given, **more: published.append(given))
    for protocol, endpoint, posted in [
        ("https", "https://events.example.com/on-call", False),
        ("http", "http://example.com/", False),
        ("https", "https://127.0.0.1:1/", True),
        ("http", "http://localhost:1/", True),
        ("sqs", "arn:aws:sqs:us-east-1:123456789012:inbox", True),
    ]:
        published.clear()
        subscription: Any = SimpleNamespace(protocol=protocol, endpoint=endpoint, attributes={})
        events._publish(subscription, "words")
        assert published == ([(subscription, "words")] if posted else [])


def test_messages_stay_on_this_computer(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[str] = []
    monkeypatch.setattr("moto.sns.models.requests.post", lambda url, **_: posted.append(url))
    sns = account.client("sns")
    topic = sns.create_topic(Name="paged")["TopicArn"]
    for url in ("https://on-call.example.com/", "https://127.0.0.1:1/"):
        sns.subscribe(TopicArn=topic, Protocol="https", Endpoint=url)
    sns.publish(TopicArn=topic, Message="wake up")
    assert posted == ["https://127.0.0.1:1/"]


def permission(*statements: dict[str, Any], alone: bool = False) -> Any:
    document = {"Version": "2012-10-17", "Statement": statements[0] if alone else statements}
    bucket: Any = SimpleNamespace(policy=json.dumps(document))
    return s3._evaluate_permission(bucket, "s3:GetObject", "arn:aws:s3:::b/key")


def denied(condition: dict[str, Any] | None = None) -> dict[str, Any]:
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}
    return statement if condition is None else {**statement, "Condition": condition}


def test_a_statement_or_a_condition_on_tls_holds() -> None:
    bucket: Any = SimpleNamespace(policy=None)
    assert s3._evaluate_permission(bucket, "s3:GetObject", "arn") == PermissionResult.NEUTRAL
    for alone in [True, False]:
        assert permission(denied(), alone=alone) == PermissionResult.DENIED
    secure = {"aws:SecureTransport": "true"}
    cases: list[tuple[dict[str, Any], PermissionResult]] = [
        ({"Bool": {"aws:SecureTransport": "false"}}, PermissionResult.NEUTRAL),
        ({"Bool": secure}, PermissionResult.DENIED),
        ({"Bool": {"AWS:securetransport": ["false", True]}}, PermissionResult.DENIED),
        ({"Bool": {"aws:ViaAWSService": "true"}}, PermissionResult.NEUTRAL),
        ({"Null": secure}, PermissionResult.NEUTRAL),
        ({"Bool": secure, "StringEquals": {"aws:username": "a"}}, PermissionResult.NEUTRAL),
    ]
    for condition, result in cases:
        assert permission(denied(condition)) == result


def test_a_key_is_named_by_its_arn(account: Account) -> None:
    kms = account.client("kms")
    arn = kms.create_key()["KeyMetadata"]["Arn"]
    for operation, state in [
        ("disable_key", "Disabled"),
        ("enable_key", "Enabled"),
        ("schedule_key_deletion", "PendingDeletion"),
        ("cancel_key_deletion", "Disabled"),
    ]:
        getattr(kms, operation)(KeyId=arn)
        assert kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"] == state


def test_a_bucket_is_encrypted_unless_told_otherwise(account: Account) -> None:
    """Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html."""
    client, bucket = account.client("s3"), {"Bucket": f"encrypted-{account.number}"}

    def algorithm() -> str:
        found = client.get_bucket_encryption(**bucket)["ServerSideEncryptionConfiguration"]
        (rule,) = found["Rules"]
        return str(rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"])

    client.create_bucket(**bucket)
    assert algorithm() == "AES256"
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
    client.put_bucket_encryption(**bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert algorithm() == "aws:kms"
    client.delete_bucket_encryption(**bucket)
    assert algorithm() == "AES256"


def part(body: bytes) -> Any:
    """A part with the attributes of moto's."""
    content = ObjectContent.from_bytes(body)
    etag = f'"{content.compute_digest("MD5").hex()}"'
    return SimpleNamespace(
        servable_content=content, etag=etag, contentsize=len(body), value=body, lock=None
    )


def upload(*bodies: bytes, **metadata: str) -> Any:
    parts = {number: part(body) for number, body in enumerate(bodies, start=1)}
    names = {f"x-amz-checksum-{name}": value for name, value in metadata.items()}
    return SimpleNamespace(parts=parts, metadata=names)


def numbered(of: Any) -> list[tuple[int, str]]:
    return [(number, part.etag) for number, part in of.parts.items()]


@pytest.fixture
def minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts but the last have at least 3 bytes."""
    monkeypatch.setattr("moto.settings.S3_UPLOAD_PART_MIN_SIZE", 3)


@pytest.mark.usefixtures("minimum")
def test_only_the_last_part_may_be_small_and_all_are_those_that_were_sent() -> None:
    given = upload(b"abc", b"d")
    assert bytes(s3._complete_upload(given, numbered(given))[0]) == b"abcd"
    small = upload(b"ab", b"d")
    with pytest.raises(EntityTooSmall):
        s3._complete_upload(small, numbered(small))
    with pytest.raises(InvalidPart):
        s3._complete_upload(upload(b"abc"), [(1, "0" * 32)])
    with pytest.raises(MalformedXML):
        s3._complete_upload(upload(b"abc"), [])


@pytest.mark.usefixtures("minimum")
def test_a_checksum_is_of_the_parts_digests_or_of_all_bytes() -> None:
    def digest(body: bytes, algorithm: str) -> bytes:
        return ObjectContent.from_bytes(body).compute_digest(algorithm)

    digests = b"".join(digest(body, "SHA256") for body in (b"abc", b"def"))
    for metadata, summed, kind, parts in [
        ({"algorithm": "SHA256"}, digests, "COMPOSITE", 2),
        ({"algorithm": "CRC32", "type": "FULL_OBJECT"}, b"abcdef", "FULL_OBJECT", 1),
    ]:
        given = upload(b"abc", b"def", **metadata)
        _, _, checksum = s3._complete_upload(given, numbered(given))
        expected = base64.b64encode(digest(summed, metadata["algorithm"])).decode()
        assert checksum == (kind, expected, parts)


def test_a_checksum_is_that_of_all_bytes() -> None:
    """moto asks with either; in base64 or not."""
    content = ObjectContent.from_bytes(b"abc")
    for encoded in (True, False):
        sums = [s3._compute_checksum(body, "SHA256", encoded) for body in (content, b"abc")]
        assert sums[0] == sums[1]
    given = upload(b"abc", algorithm="CRC64NVME")
    assert s3._complete_upload(given, numbered(given))[2] is None


def test_a_copy_of_an_object_in_parts_has_the_checksum_of_its_bytes(account: Account) -> None:
    """boto3 compares it when it reads the copy."""
    client = account.client("s3")
    client.create_bucket(Bucket="copies")
    named = {"Bucket": "copies", "Key": "parts"}
    upload = client.create_multipart_upload(**named, ChecksumAlgorithm="SHA256")["UploadId"]
    sent = client.upload_part(
        **named, UploadId=upload, PartNumber=1, Body=b"abc", ChecksumAlgorithm="SHA256"
    )
    part = {key: sent[key] for key in ("ETag", "ChecksumSHA256")} | {"PartNumber": 1}
    client.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": [part]})
    client.copy_object(Bucket="copies", Key="copy", CopySource=named)
    copy = client.get_object(Bucket="copies", Key="copy", ChecksumMode="ENABLED")
    assert copy["Body"].read() == b"abc"


# --- logs
def test_what_logs_do_not_have_or_understand_is_refused(account: Account) -> None:
    logs, group = account.client("logs"), {"logGroupName": "g"}
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        logs.delete_query_definition(queryDefinitionId="absent")
    logs.create_log_group(**group)
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        logs.delete_metric_filter(**group, filterName="absent")
    metric = {"metricName": "Calls", "metricNamespace": "Own", "metricValue": "1"}
    wrong = {"filterName": "f", "filterPattern": "%a%", "metricTransformations": [metric]}
    with pytest.raises(ClientError, match="InvalidParameterException.*aren't supported"):
        logs.put_metric_filter(**group, **wrong)


# --- models, Regions and policies that are shared

# As moto and botocore alone read, before any test installs the patch.
MODEL, REGIONS, PARTITIONS = every_service._MODEL, every_service._REGIONS, every_service._PARTITIONS
POLICIES = every_service._POLICIES
SHARED = ["ssm", "iam", "ecr", "sns", "sts", "cloudwatch", "application-autoscaling", "sagemaker"]
WITH_EXTRAS = ["s3", "sqs"]


def of_clients(service: str) -> Any:
    loader: Any = loopback.load_botocore_session().get_component("data_loader")
    return loader.load_service_model(service, "service-2")


@pytest.mark.long
def test_a_model_is_read_once_and_is_the_one_that_moto_would_read() -> None:
    load = every_service._load_service_model
    for service in [*SHARED, *WITH_EXTRAS]:
        assert load(service, "service-2") == MODEL(service, "service-2")
    for service in SHARED:
        assert load(service, "service-2") is of_clients(service)
    for service in WITH_EXTRAS:
        load(service, "service-2")
        assert of_clients(service) != MODEL(service, "service-2")


def test_regions_and_partitions_are_those_that_any_session_says() -> None:
    own = botocore.session.Session()
    for service in ("ssm", "s3", "no-such-service"):
        for partition in ("aws", "aws-cn"):
            found = every_service._list_regions(own, service, partition)
            assert found == REGIONS(own, service, partition)
    found = every_service._list_regions(own, "s3", allow_non_regional=True)
    assert found == REGIONS(own, "s3", allow_non_regional=True)
    own = botocore.session.Session()
    assert every_service._list_partitions(own) == PARTITIONS(own)


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> list[IAMBackend]:
    """IAM of two accounts, with AWS's managed policies."""
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    every_service.install()
    return [IAMBackend("aws", "1" * 12), IAMBackend("aws", "2" * 12)]


def test_accounts_have_motos_managed_policies_each_its_own(backends: list[IAMBackend]) -> None:
    def shown(policies: list[ManagedPolicy]) -> list[dict[str, object]]:
        return [
            vars(policy)  # an id is drawn by moto
            | {"id": "", "arn": policy.arn, "versions": [*map(vars, policy.versions)]}
            for policy in policies
        ]

    assert shown(backends[1].aws_managed_policies) == shown(POLICIES(backends[1]))

    first, second = ({p.name: p for p in one.aws_managed_policies} for one in backends)
    role = SimpleNamespace(managed_policies={})
    first["ReadOnlyAccess"].attach_to(cast(Role, role))
    assert second["ReadOnlyAccess"].attachment_count == 0


# --- moto's EC2 is imported by who asks for it

BEGINNING = """
import sys
from servable_local.aws.moto_patches.every_service import import_without_ec2
for module in ("moto.ssm.urls", "moto.applicationautoscaling.urls"):
    import_without_ec2(module)
"""


def printed(code: str) -> str:
    command = [sys.executable, "-c", BEGINNING + code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.long
def test_ec2_is_imported_for_who_asks_alone() -> None:
    assert printed("""
print("moto.ec2.models" in sys.modules, "moto.ec2" in sys.modules)
import moto.ssm.models as ssm
from moto.ec2 import ec2_backends
print(ssm.ec2_backends["1" * 12]["us-east-1"] is ec2_backends["1" * 12]["us-east-1"])
import moto.ec2 as ec2
import_without_ec2("moto.ssm.urls")
print(sys.modules["moto.ec2"] is ec2)
""").split() == ["False", "False", "True", "True"]


@pytest.mark.long
def test_a_server_that_starts_imports_no_service_that_nobody_asked_for() -> None:
    code = """
import sys, tempfile
from pathlib import Path
from servable_local.aws.server import Server
Server(folder=Path(tempfile.mkdtemp())).close()
names = "awslambda dynamodb ec2 ecr kms scheduler sns.models sqs stepfunctions sts"
print([name for name in names.split() if f"moto.{name}" in sys.modules])
"""
    assert printed(code) == "[]"
