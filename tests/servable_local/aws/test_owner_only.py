"""A local AWS that runs lets its owner in, whoever signs for whatever service, and nobody else."""

import http.client
import json
import os
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import psutil
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from servable_local.aws import ACCOUNT, REGION, LocalAws, down, up
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, HEALTH_PATH
from tests.checkouts import ROOT, Ran, run_in
from tests.servable_local.aws.local_account import Account

OTHER_ACCOUNT = "222222222222"
ROLE = f"arn:aws:iam::{OTHER_ACCOUNT}:role/deploy"
INVOCATION = {"EndpointName": "e", "Body": b"1", "ContentType": "text/csv"}
# One of each protocol: what is asked, and the code that AWS has for a wrong signature.
ASKED: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "s3": ("list_buckets", {}, "SignatureDoesNotMatch"),
    "sts": ("get_caller_identity", {}, "SignatureDoesNotMatch"),
    "cloudformation": ("list_stacks", {}, "SignatureDoesNotMatch"),
    "sagemaker": ("list_models", {}, "InvalidSignatureException"),
    "sagemaker-runtime": ("invoke_endpoint", INVOCATION, "InvalidSignatureException"),
    "cloudwatch": ("list_metrics", {}, "InvalidSignatureException"),
    "lambda": ("list_functions", {}, "InvalidSignatureException"),
    "ec2": ("describe_regions", {}, "AuthFailure"),
}


def client(aws: LocalAws, service: str, **more: Any) -> Any:
    """With a wrong secret, unless another is given."""
    given = {"aws_access_key_id": ACCOUNT, "aws_secret_access_key": "guessed"} | more
    config = Config(retries={"total_max_attempts": 1}).merge(more.get("config", Config()))
    given["config"] = config
    return boto3.client(service, endpoint_url=aws.url, region_name=REGION, **given)


def refused(call: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("service", ASKED)
def test_a_wrong_secret_or_none_is_refused(embedded: LocalAws, service: str) -> None:
    operation, given, code = ASKED[service]
    error = refused(lambda: getattr(client(embedded, service), operation)(**given))
    assert error.response["Error"]["Code"] == code
    remedy = '`eval "$(servable local up)"`, or `servable-local up`, sets the keys of this run'
    assert remedy in str(error)

    unsigned = client(embedded, service, config=Config(signature_version=UNSIGNED))
    assert "isn't signed" in str(refused(lambda: getattr(unsigned, operation)(**given)))


def _identity(aws: LocalAws, key: Mapping[str, Any]) -> str:
    """The account for which a key that was issued speaks."""
    names = {"access_key_id": "AccessKeyId", "secret_access_key": "SecretAccessKey"}
    names["session_token"] = "SessionToken"
    sts = client(aws, "sts", **{f"aws_{name}": key.get(member) for name, member in names.items()})
    return str(sts.get_caller_identity()["Account"])


def test_a_session_acts_for_its_account_with_secrets_of_its_own(embedded: LocalAws) -> None:
    sts = embedded.client("sts")
    sessions = [
        (sts.assume_role(RoleArn=ROLE, RoleSessionName="session"), OTHER_ACCOUNT),
        (sts.get_session_token(), ACCOUNT),
        (sts.get_session_token(), ACCOUNT),
        (sts.get_federation_token(Name="name"), ACCOUNT),
    ]
    for session, account in sessions:
        assert _identity(embedded, session["Credentials"]) == account
    for part in ("AccessKeyId", "SecretAccessKey", "SessionToken"):
        assert len({session["Credentials"][part] for session, _ in sessions}) == len(sessions)


def test_a_key_of_iam_is_taken_while_it_is_active(account: Account) -> None:
    iam, inactive = account.client("iam"), "isn't an active access key"
    iam.create_user(UserName="user")
    key, other = (iam.create_access_key(UserName="user")["AccessKey"] for _ in range(2))
    assert _identity(account.aws, key) == _identity(account.aws, other) == account.number
    named = {"UserName": "user", "AccessKeyId": key["AccessKeyId"]}
    iam.update_access_key(**named, Status="Inactive")
    with pytest.raises(ClientError, match=inactive):
        _identity(account.aws, key)
    iam.delete_access_key(UserName="user", AccessKeyId=other["AccessKeyId"])
    with pytest.raises(ClientError, match=inactive):
        _identity(account.aws, other)


def test_a_caller_who_waits_before_the_body_is_told_to_continue_once(account: Account) -> None:
    account.put_archive(b"content")
    where = {"Bucket": f"archives-{account.number}", "Key": "waited-for"}
    s3 = account.client("s3")
    parts = urlsplit(s3.generate_presigned_url("put_object", Params=where))
    head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close"
    head += "\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    received = b""
    with socket.create_connection((parts.hostname, parts.port), 30) as connection:
        connection.sendall(head.encode())
        received += connection.recv(65536)
        connection.sendall(b"body")
        while piece := connection.recv(65536):
            received += piece
    lines = [line for line in received.split(b"\r\n") if line.startswith(b"HTTP/")]
    assert (len(lines), lines[0][9:12], lines[-1][9:12]) == (2, b"100", b"200")
    # boto3 presigns with what is taken.
    with urllib.request.urlopen(s3.generate_presigned_url("get_object", Params=where)) as answer:
        assert answer.read() == b"body"
    sts = account.aws.client("sts", account=OTHER_ACCOUNT)
    url = sts.generate_presigned_url("get_caller_identity", HttpMethod="GET")
    with urllib.request.urlopen(url) as answer:
        assert f"<Account>{OTHER_ACCOUNT}</Account>".encode() in answer.read()


def test_nobody_names_another_account_in_a_header_of_moto(account: Account) -> None:
    sts = account.client("sts")

    def add(request: Any, **_: Any) -> None:
        request.headers["X-Moto-Account-Id"] = OTHER_ACCOUNT

    sts.meta.events.register_first("before-send.sts.*", add, "add")
    try:
        assert sts.get_caller_identity()["Account"] == account.number
    finally:
        sts.meta.events.unregister("before-send.sts.*", add, "add")


def plain(aws: LocalAws, method: str, path: str, **headers: str) -> tuple[int, list[str]]:
    """Status and headers of what comes back to who speaks HTTP and signs nothing, unless in these."""
    connection = http.client.HTTPConnection("127.0.0.1", aws.port, timeout=10)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        return answer.status, [name.lower() for name, _ in answer.getheaders()]
    finally:
        connection.close()


def test_every_request_needs_a_signature(embedded: LocalAws) -> None:
    for method, path in [
        ("GET", "/"), ("PUT", "/bucket"), ("HEAD", "/bucket"), ("OPTIONS", "/"),
        ("GET", HEALTH_PATH), ("GET", CLOCK_PATH), ("POST", CLOCK_PATH), ("POST", FAULT_PATH),
        ("GET", "/moto-api/"), ("POST", "/moto-api/reset"), ("GET", "/moto-api/data.json"),
        ("GET", "/latest/meta-data/iam/security-credentials/x"), ("GET", "/favicon.ico"),
    ]:  # fmt: skip
        assert plain(embedded, method, path)[0] == 403, (method, path)

    # Also for a role of a web identity, which on AWS needs none.
    role = {"RoleArn": ROLE, "RoleSessionName": "session", "WebIdentityToken": "a token"}
    unsigned = client(embedded, "sts").assume_role_with_web_identity
    assert "isn't signed" in str(refused(lambda: unsigned(**role)))


def test_what_is_signed_for_one_path_does_not_move_the_clock(embedded: LocalAws) -> None:
    before = embedded.now()
    with pytest.raises(ClientError, match="NoSuchBucket"):
        embedded.client("s3").put_object(Bucket="servable", Key="clock", Body=b'{"seconds": 7200}')
    assert (embedded.now() - before).total_seconds() < 3600


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """As `servable local up` leaves it, over what an earlier release left readable by everybody."""
    folder = tmp_path_factory.mktemp("private")
    folder.chmod(0o755)
    for name in ("aws.log", "aws.json", "aws.part"):
        (folder / name).write_text("")
        (folder / name).chmod(0o644)
    (folder / "client").mkdir()
    (folder / "client" / "config").write_text("[default]\nendpoint_url = http://127.0.0.1:1\n")
    aws = up(folder=folder)
    yield aws
    down(folder=folder)


@pytest.mark.long  # it starts a process
def test_secrets_are_their_owners_only(private: LocalAws, embedded: LocalAws) -> None:
    modes = {path: path.stat().st_mode for path in (private.folder, *private.folder.rglob("*"))}
    for_others = stat.S_IRWXG | stat.S_IRWXO
    assert {path: oct(mode) for path, mode in modes.items() if mode & for_others} == {}

    process = psutil.Process(private.pid)
    names, secret = process.environ(), private.secret_access_key
    assert secret not in json.dumps([process.cmdline(), names])
    given = {"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED"}
    assert {name for name in names if name.startswith("AWS_")} == given

    private.client("sts").get_caller_identity()
    refused(lambda: client(private, "s3").list_buckets())
    assert secret not in (private.folder / "aws.log").read_text()
    assert secret not in repr(private)
    assert secret != embedded.secret_access_key


@pytest.mark.long  # the AWS CLI takes seconds
def test_the_aws_cli_and_boto3_are_let_in_with_what_up_sets(private: LocalAws) -> None:
    assert _cli(private, "sts", "get-caller-identity").returncode == 0
    private.client("s3").create_bucket(Bucket="by-cli")
    assert _cli(private, "s3", "cp", "-", "s3://by-cli/key").returncode == 0
    url = _cli(private, "s3", "presign", "s3://by-cli/key").stdout.strip()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"content"
    code = """
import boto3, urllib.request
where = {'Bucket': 'by-cli', 'Key': 'key'}
url = boto3.client('s3').generate_presigned_url('get_object', Params=where)
print(urllib.request.urlopen(url).read())
"""
    ran = _run(private, sys.executable, "-c", code)
    assert ran.stdout == "b'content'\n", ran.stderr


def _cli(aws: LocalAws, *words: str) -> Ran:
    command = Path(sys.executable).parent / "aws"
    if not command.exists():
        pytest.skip("the AWS CLI is not installed here")
    return _run(aws, str(command), *words)


def _run(aws: LocalAws, *words: str) -> Ran:
    return run_in(ROOT, *words, environment=aws.environment_over(os.environ), given="content")
