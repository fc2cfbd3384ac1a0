"""Writes recorded_requests.jsonl: what boto3, the AWS CLI and the CDK CLI really send.

Run by hand, after a client's new release: `python -m tests.servable_local.aws.record_requests`. It takes
a minute. One request of each shape is kept, whole, with the secrets that it was signed with:
they were made for the recording and open nothing.
"""

import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# Read by moto when it is imported. `cdk bootstrap` attaches policies that AWS itself manages.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

import boto3
import moto.sts.models
from moto.iam.models import iam_backends

from servable_local.aws.lifecycle import write_client_settings
from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from servable_local.aws.moto_patches import iam as patched_iam
from servable_local.aws.server import Server
from tests.checkouts import ROOT
from tests.servable_local.aws.signing import FILE, RUN_SECRET, body_form

# Of the machine and the versions that recorded, signed by nobody.
_LEFT_OUT = {"user-agent", "connection"}
_BIG_BYTES = 9 << 20  # two parts of an upload
_APP = """
import aws_cdk as cdk
from aws_cdk import aws_iam, aws_s3_assets
app = cdk.App()
where = cdk.Environment(account="123456789012", region="us-east-1")
stack = cdk.Stack(app, "recorded", env=where)
asset = aws_s3_assets.Asset(stack, "asset", path="asset.bin")
service = aws_iam.ServicePrincipal("sagemaker.amazonaws.com")
aws_iam.Role(stack, "role", assumed_by=service, description=asset.s3_object_key)
app.synth()
"""


class Recorder:
    """A WSGI application around the server's own."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.client = ""
        self.found: dict[tuple[Any, ...], dict[str, Any]] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        headers = [one for one in environ["servable.headers"] if one[0].lower() not in _LEFT_OUT]
        by_name = {name.lower(): value for name, value in headers}
        signed = by_name.get("authorization", "")
        service = signed.split("/")[3] if signed else ""
        target = environ["RAW_URI"]
        query = tuple(part.partition("=")[0] for part in target.partition("?")[2].split("&"))
        shape = (
            self.client, service, environ["REQUEST_METHOD"], tuple(sorted(by_name)), query,
            by_name.get("content-type"), "Action=AssumeRole" in body.decode("latin-1"),
            len(body) > _BIG_BYTES // 10,
        )  # fmt: skip
        record = {
            "client": self.client, "method": environ["REQUEST_METHOD"], "target": target,
            "headers": headers, "body": body_form(body),
        }  # fmt: skip
        with self._lock:
            self.found.setdefault(shape, record)
        return self._application(environ, start)


def _boto3(folder: Path) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="recorded")
    s3.put_object(
        Bucket="recorded", Key="a b+c/ü~(1).txt", Body=b"one", Metadata={"a_b": "two  spaces"}
    )
    with (folder / "small").open("rb") as file:
        s3.put_object(Bucket="recorded", Key="file", Body=file, ContentType="text/plain")
    s3.upload_file(str(folder / "big"), "recorded", "big")
    s3.upload_fileobj(io.BytesIO(b"streamed"), "recorded", "streamed")
    s3.get_object(Bucket="recorded", Key="a b+c/ü~(1).txt", Range="bytes=0-1")["Body"].read()
    s3.list_objects_v2(Bucket="recorded", Prefix="a b+", Delimiter="/")
    s3.copy_object(Bucket="recorded", Key="copy", CopySource={"Bucket": "recorded", "Key": "file"})
    s3.head_object(Bucket="recorded", Key="file")
    s3.delete_objects(Bucket="recorded", Delete={"Objects": [{"Key": "copy"}]})
    at = {"Bucket": "recorded", "Key": "file"}
    for method, data in (("get_object", None), ("put_object", b"put")):
        url = s3.generate_presigned_url(method, Params=at)
        asked = urllib.request.Request(url, data, method="PUT" if data else "GET")
        urllib.request.urlopen(asked).close()
    sts = boto3.client("sts")
    sts.get_caller_identity()
    url = sts.generate_presigned_url("get_caller_identity", HttpMethod="GET")
    urllib.request.urlopen(url).close()
    _with(sts.get_session_token()["Credentials"]).list_buckets()
    role = sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/r", RoleSessionName="session")
    of_role = _with(role["Credentials"])
    of_role.put_object(Bucket="recorded", Key="by-role", Body=b"two")
    at = {"Bucket": "recorded", "Key": "by-role"}
    urllib.request.urlopen(of_role.generate_presigned_url("get_object", Params=at)).close()
    iam = boto3.client("iam")
    iam.create_user(UserName="u")
    key = iam.create_access_key(UserName="u")["AccessKey"]
    _with(key).list_buckets()
    boto3.client("sagemaker").list_endpoints()
    try:
        boto3.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="not there", ContentType="application/json", Body=b"{}",
            CustomAttributes="trace_id=a  b", TargetVariant="v",
        )  # fmt: skip
    except Exception as refused:
        print(refused)
    boto3.client("cloudformation").list_stacks()
    boto3.client("logs").describe_log_groups()
    cloudwatch = boto3.client("cloudwatch")
    cloudwatch.list_metrics()
    metrics = [{"MetricName": "m", "Value": float(number)} for number in range(300)]
    cloudwatch.put_metric_data(Namespace="recorded", MetricData=metrics)
    boto3.client("lambda").list_functions()
    boto3.client("sqs").list_queues()
    boto3.client("sns").list_topics()
    boto3.client("events").list_rules()


def _with(key: dict[str, str]) -> Any:
    of = {"aws_session_token": key.get("SessionToken"), "aws_access_key_id": key["AccessKeyId"]}
    return boto3.client("s3", aws_secret_access_key=key["SecretAccessKey"], **of)


def _run(command: list[str], environment: dict[str, str], cwd: Path, given: bytes = b"") -> str:
    ran = subprocess.run(
        command, env=environment, cwd=cwd, input=given, capture_output=True, check=False
    )
    print("ok" if ran.returncode == 0 else "FAILED", *command[-6:], file=sys.stderr)
    if ran.returncode:
        print(ran.stderr.decode()[-500:], file=sys.stderr)
    return ran.stdout.decode()


def _aws_cli(folder: Path, environment: dict[str, str]) -> None:
    def aws(*words: str, given: bytes = b"") -> str:
        return _run([str(Path(sys.executable).parent / "aws"), *words], environment, folder, given)

    aws("s3", "cp", "small", "s3://recorded/cli one")
    aws("s3", "cp", "-", "s3://recorded/stdin", given=b"streamed" * 100)
    aws("s3", "cp", "big", "s3://recorded/cli-big")
    aws("s3", "cp", "s3://recorded/cli-big", "down")
    aws("s3", "ls", "s3://recorded/")
    aws("s3", "sync", "client", "s3://recorded/synced")
    aws("s3", "rm", "--recursive", "s3://recorded/synced")
    urllib.request.urlopen(aws("s3", "presign", "s3://recorded/stdin").strip()).close()
    aws("sts", "get-caller-identity")
    aws("sagemaker", "list-endpoints")
    words = ("--endpoint-name", "none", "--body", "fileb://small", os.devnull)
    aws("sagemaker-runtime", "invoke-endpoint", *words)
    aws("cloudwatch", "list-metrics")
    aws("logs", "describe-log-groups")
    aws("cloudformation", "list-stacks")


def _cdk(folder: Path, environment: dict[str, str]) -> None:
    project = folder / "project"
    project.mkdir()
    (project / "app.py").write_text(_APP)
    (project / "asset.bin").write_bytes(bytes(_BIG_BYTES))
    app = ["--app", f"{sys.executable} app.py"]
    cdk = str(ROOT / "node_modules" / ".bin" / "cdk")
    for words in (
        ["bootstrap", f"aws://{ACCOUNT}/{REGION}"],
        ["deploy", "--require-approval", "never", "recorded"],
        ["diff", "recorded"],
        ["destroy", "--force", "recorded"],
    ):
        _run([cdk, *words, *app], environment, project)


def main() -> None:
    numbers = itertools.count(1)

    def made(kind: str) -> Callable[[], str]:
        return lambda: f"recorded-{kind}-{next(numbers)}"

    setattr(patched_iam, "generate_secret", made("secret"))  # noqa: B010
    setattr(moto.sts.models, "random_session_token", made("token"))  # noqa: B010
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "endpoints").mkdir()
        write_client_settings(folder / "client")
        (folder / "small").write_bytes(b"small " * 100)
        (folder / "big").write_bytes(bytes(_BIG_BYTES))
        server = Server(folder=folder / "endpoints", secret_access_key=RUN_SECRET)
        server._server.app = recorder = Recorder(server._server.app)
        server.start()
        aws = LocalAws(server.url, os.getpid(), "now", folder, RUN_SECRET)
        environment = aws.environment_over(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        recorder.client = "boto3"
        _boto3(folder)
        recorder.client = "AWS CLI"
        _aws_cli(folder, environment)
        recorder.client = "CDK CLI"
        _cdk(folder, environment)
        recorder.client = "controls"
        aws.now()
        server.close()
    keys = [
        {"id": key.access_key_id, "account": account, "secret": key.secret_access_key}
        for account, partitions in iam_backends.items()
        for iam in partitions.values()
        for key in iam.access_keys.values()
    ]
    lines = [{"keys": keys}, *recorder.found.values()]
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
