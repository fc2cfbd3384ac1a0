"""`servable-local`, installed alone, takes a CDK app that knows nothing of Servable."""

import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws, status
from tests.checkouts import PATH, assert_predicts, succeed_in
from tests.conftest import RANKER
from tests.wheels.environment import make

pytestmark = pytest.mark.long
APP = Path(__file__).parent / "other_app" / "app.py"


def test_its_endpoint_alarm_and_bucket_work(wheels: Path, tmp_path: Path) -> None:
    program = make(tmp_path / "environment", wheels, ["servable-local[run]"]) / "servable-local"
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(APP, project)
    with tarfile.open(project / "model.tar.gz", "w:gz") as tar:
        tar.add(RANKER, "ranker")
    (project / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} -P app.py"}))
    ran = succeed_in(project, program, "up", "--json")
    try:
        environment = {**os.environ, "PATH": PATH, **json.loads(ran.stdout)["environment"]}
        deploy = ("cdk", "deploy", "--require-approval", "never")
        succeed_in(project, *deploy, environment=environment)
        aws = status(folder=project / ".servable")
        assert aws is not None
        check_deployed(aws)
    finally:
        succeed_in(project, program, "down")


def check_deployed(aws: LocalAws) -> None:
    assert_predicts(aws, "others")
    client = aws.client("application-autoscaling")
    (target,) = client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 3)

    (topic,) = aws.client("sns").list_topics()["Topics"]
    alarms: list[dict[str, Any]] = aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    (failing,) = [one for one in alarms if one["MetricName"] == "Invocation5XXErrors"]
    assert failing["AlarmActions"] == [topic["TopicArn"]]

    s3 = aws.client("s3")
    buckets = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    (bucket,) = [name for name in buckets if name.startswith("other")]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
