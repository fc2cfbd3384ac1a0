"""The real CDK CLI, with its default settings, against the local AWS."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servable_local.aws import ACCOUNT, REGION, LocalAws, running
from tests.checkouts import PATH, bootstrapped, run_in, succeed_in
from tests.servable_local.aws.inventory import inventory

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

_APP = """
import sys
import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch, aws_s3 as s3, aws_sns as sns

folder, packer = sys.argv[1:]
for threshold in ("5", "7", "9"):
    app = cdk.App(outdir=f"{folder}/{threshold}", analytics_reporting=False)
    stack = cdk.Stack(app, "Try", env=cdk.Environment(account="ACCOUNT", region="REGION"))
    topic = sns.Topic(stack, "Topic", enforce_ssl=True)
    s3.Bucket(stack, "Bucket", enforce_ssl=True, removal_policy=cdk.RemovalPolicy.DESTROY)
    archive = stack.synthesizer.add_file_asset(
        source_hash="one.tar.gz", executable=[sys.executable, packer], display_name="archive"
    )
    cdk.CfnOutput(stack, "Archive", value=archive.s3_object_url)
    metric = cloudwatch.Metric(namespace="n", metric_name="m")
    cloudwatch.Alarm(stack, "Alarm", metric=metric, threshold=int(threshold), evaluation_periods=1)
    if threshold == "9":
        cdk.CfnResource(stack, "Table", type="AWS::DynamoDB::Table")
    app.synth()
"""
_KINDS = ["SNS::Topic", "SNS::TopicPolicy", "S3::Bucket", "S3::BucketPolicy", "CloudWatch::Alarm"]
_DECLARED = Counter(f"AWS::{kind}" for kind in _KINDS)


@dataclass
class Story:
    """What each command printed, and what was there after it."""

    said: dict[str, str]
    there: dict[str, list[tuple[str, str]]]
    archive: bytes = b""
    seconds_of_failing: float = 0


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("cdk")
    (folder / "app.py").write_text(_APP.replace("ACCOUNT", ACCOUNT).replace("REGION", REGION))
    (folder / "pack.py").write_text(
        f"open({str(folder / 'a')!r}, 'wb').write(b'packed')\nprint({str(folder / 'a')!r})\n"
    )
    command = [sys.executable, "app.py", str(folder), str(folder / "pack.py")]
    quick = {**os.environ, "CDK_VALIDATION": "false", "PATH": PATH}
    succeed_in(folder, *command, environment=quick)
    with running() as aws:
        yield _told(aws, folder)


def _told(aws: LocalAws, folder: Path) -> Story:
    story = Story({}, {})
    environment = aws.environment_over(os.environ) | {"PATH": PATH, "CI": "true"}

    def cdk(name: str, *arguments: str) -> None:
        done = run_in(folder, "cdk", *arguments, environment=environment, timeout_seconds=300)
        story.said[name] = done.stdout + done.stderr
        assert (done.returncode == 0) == (name != "failing"), f"{name}: {story.said[name]}"
        story.there[name] = inventory(aws)

    approve = ("--require-approval", "never")
    cdk("bootstrap", "bootstrap", f"aws://{ACCOUNT}/{REGION}")
    cdk("deploy", "--app", "5", "deploy", *approve)
    cdk("diff", "--app", "7", "diff")
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    story.archive = aws.client("s3").get_object(Bucket=bucket, Key="one.tar.gz")["Body"].read()
    cdk("destroy", "--app", "5", "destroy", "--force")
    bootstrapped(aws, region="eu-west-1")
    began = time.monotonic()
    cdk("failing", "--app", "9", "deploy", *approve)
    story.seconds_of_failing = time.monotonic() - began
    cdk("bootstrap again", "bootstrap", f"aws://{ACCOUNT}/eu-west-1")
    return story


def test_the_cli_deploys_shows_changes_and_destroys(story: Story) -> None:
    assert Counter(kind for kind, _ in story.there["bootstrap"])["AWS::IAM::Role"] == 5
    assert "eu-west-1 bootstrapped (no changes)" in story.said["bootstrap again"]
    made = Counter(story.there["deploy"]) - Counter(story.there["bootstrap"])
    assert Counter(kind for kind, _ in made.elements()) == _DECLARED
    assert story.archive == b"packed"
    assert "Could not create a change set" not in story.said["diff"]
    assert "[-] 5" in story.said["diff"]
    assert "[+] 7" in story.said["diff"]
    assert story.there["destroy"] == story.there["bootstrap"]


def test_a_failing_deploy_says_why_and_does_not_retry(story: Story) -> None:
    said = " ".join(story.said["failing"].split())
    assert "Resource type AWS::DynamoDB::Table is not emulated" in said
    assert story.seconds_of_failing < 30
