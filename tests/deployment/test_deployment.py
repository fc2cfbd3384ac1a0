"""What is deployed is what the template says, answers as TensorFlow does, and can be changed.

One file, for one deployment: a worker takes whole files.
"""

import collections
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.checkouts import ROOT, run_in
from tests.deployment.conftest import Deployment

# A deployment and a container start in one test's fixtures.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

GOLDEN = ROOT / "examples" / "ranker" / "golden"
REGISTERED = f"""\
account = "{ACCOUNT}"
region = "{REGION}"
production = false
[endpoint]
name = "registered"
[models.ranker]
artifact = {{ model_package = "ranker/1" }}
[variants.primary]
model = "ranker"
instance_type = "ml.c5.xlarge"
"""


def test_every_resource_of_the_template_exists_beside_environments_that_are_refused(
    deployment: Deployment,
) -> None:
    wanted = collections.Counter(
        resource["Type"] for resource in deployment.template()["Resources"].values()
    )
    assert collections.Counter(kind for kind, _ in deployment.made()) == wanted
    for name in ("staging", "torn"):
        assert f"{name}.toml is rejected" in deployment.first.stderr


def invoke(deployment: Deployment, body: dict[str, Any]) -> dict[str, Any]:
    answer = deployment.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker-local", ContentType="application/json", Body=json.dumps(body).encode()
    )
    return dict(json.loads(answer["Body"].read()))


def test_golden_requests_get_golden_answers_and_a_refusal_arrives_as_sagemaker_sends_it(
    deployment: Deployment,
) -> None:
    forms = ("rows", "columnar")
    files = [f"{what}-{form}.json" for what in ("answer", "request") for form in forms]
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(files)
    for form in forms:
        request = json.loads((GOLDEN / f"request-{form}.json").read_text())
        (wanted,) = json.loads((GOLDEN / f"answer-{form}.json").read_text()).values()
        (got,) = invoke(deployment, request).values()
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    # The deployed code says how many there must be.
    runtime = deployment.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ModelError, match="39") as raised:
        invoke(deployment, {"inputs": {"feat_ids": [[1]], "feat_vals": [[1.0]]}})
    assert raised.value.response["OriginalStatusCode"] == 400


def test_the_archive_in_the_bucket_is_one_that_was_packed_in_the_containers_layout(
    deployment: Deployment,
) -> None:
    archive = deployment.archive()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert {"code/inference.py", "ranker/1/saved_model.pb"} <= set(opened.getnames())
    packed = (deployment.project / ".servable" / "archives").glob("*.tar.gz")
    assert archive in [file.read_bytes() for file in packed]


def test_the_endpoint_is_in_service_and_alarm_and_scaling_read_back_in_their_units(
    deployment: Deployment,
) -> None:
    assert status(deployment) == "InService"
    alarms = deployment.client("cloudwatch").describe_alarms()["MetricAlarms"]
    (threshold,) = (
        alarm["Threshold"] for alarm in alarms if alarm.get("MetricName") == "ModelLatency"
    )
    assert threshold == 100_000
    scaling = deployment.client("application-autoscaling")
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 100 * 0.5 * 60


def status(deployment: Deployment) -> str:
    sagemaker = deployment.client("sagemaker")
    return str(sagemaker.describe_endpoint(EndpointName="ranker-local")["EndpointStatus"])


def test_a_failed_update_is_rolled_back_while_the_old_endpoint_answers_every_request(
    deployment: Deployment,
) -> None:
    done, outcomes = threading.Event(), list[str]()

    def ask() -> None:
        request = json.loads((GOLDEN / "request-rows.json").read_text())
        while not done.wait(0.05):
            try:
                invoke(deployment, request)
                outcomes.append("answered")
            except Exception as error:
                outcomes.append(str(error))

    caller = threading.Thread(target=ask)
    caller.start()
    try:
        ran = deployment.fail()
    finally:
        done.set()
        caller.join()
    said = ran.stdout + ran.stderr
    assert (ran.returncode, "UPDATE_ROLLBACK_COMPLETE:" in said) == (1, True), said
    cloudformation = deployment.client("cloudformation")
    (stack,) = cloudformation.describe_stacks(StackName="ranker-local-endpoint")["Stacks"]
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert set(outcomes) == {"answered"}
    assert status(deployment) == "InService"


def test_a_model_package_is_served_on_this_computer_from_its_kept_archive(
    deployment: Deployment, tmp_path: Path
) -> None:
    sagemaker, made = deployment.client("sagemaker"), deployment.container()
    container = {key: made[key] for key in ("Image", "ModelDataUrl")}
    sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
    sagemaker.create_model_package(
        ModelPackageGroupName="ranker",
        ModelApprovalStatus="Approved",
        InferenceSpecification={
            "Containers": [container],
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
        },
    )
    folder = deployment.project / "registry"
    folder.mkdir()
    (folder / "registered.toml").write_text(REGISTERED)
    environment = {**deployment.environment, "XDG_CACHE_HOME": str(tmp_path)}
    command = (sys.executable, "-m", "servable")
    named = ("registered", "--environments", "registry")
    ran = run_in(deployment.project, *command, "pin", *named, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    process = subprocess.Popen(
        [*command, "serve", *named, "--json", "--port", "0", "--log", tmp_path / "log"],
        cwd=deployment.project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        body = (GOLDEN / "request-rows.json").read_bytes()
        headers = {"Content-Type": "application/json"}
        answer = requests.post(f"{url}/invocations", body, headers=headers, timeout=30).json()
    finally:
        process.terminate()
        process.communicate()
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())
    np.testing.assert_allclose(answer["predictions"], wanted["predictions"], atol=1e-5)
    (kept,) = (tmp_path / "servable" / "archives").glob("*.tar.gz")
    assert kept.name == f"{hashlib.sha256(deployment.archive()).hexdigest()}.tar.gz"
