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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.checkouts import ROOT, run_in
from tests.deployment.conftest import OVERRIDE, Deployment, maximum

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


def test_every_resource_of_the_template_exists_type_by_type_and_count_by_count(
    deployment: Deployment,
) -> None:
    wanted = collections.Counter(
        resource["Type"] for resource in deployment.template()["Resources"].values()
    )
    assert collections.Counter(kind for kind, _ in deployment.made()) == wanted


def test_one_environment_is_deployed_beside_others_that_are_refused(
    deployment: Deployment,
) -> None:
    refused = [
        f"{name}.toml is rejected" in deployment.first.stderr for name in ("staging", "torn")
    ]
    assert refused == [True, True]


def invoke(deployment: Deployment, body: dict[str, Any]) -> dict[str, Any]:
    answer = deployment.aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker-local", ContentType="application/json", Body=json.dumps(body).encode()
    )
    found: dict[str, Any] = json.loads(answer["Body"].read())
    return found


def test_the_prediction_equals_tensorflows_own_to_float32_precision(
    deployment: Deployment,
) -> None:
    import tensorflow as tf

    random = np.random.default_rng(7)
    ids = random.integers(0, 1_000_000, size=(5, 39))
    values = random.random((5, 39), dtype=np.float32)
    loaded = tf.saved_model.load(str(ROOT / "examples" / "ranker" / "model" / "1"))
    signature = loaded.signatures["serving_default"]
    wanted = signature(feat_ids=tf.constant(ids), feat_vals=tf.constant(values))["prob"].numpy()
    columns = {"feat_ids": ids.tolist(), "feat_vals": values.tolist()}
    got = np.array(invoke(deployment, {"inputs": columns})["outputs"], dtype=np.float32)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("form", ["rows", "columnar"])
def test_the_golden_request_gets_the_golden_answer(deployment: Deployment, form: str) -> None:
    request = json.loads((GOLDEN / f"request-{form}.json").read_text())
    (wanted,) = json.loads((GOLDEN / f"answer-{form}.json").read_text()).values()
    (got,) = invoke(deployment, request).values()
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_the_deployed_code_runs(deployment: Deployment) -> None:
    runtime = deployment.aws.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ModelError, match="39"):
        invoke(deployment, {"inputs": {"feat_ids": [[1]], "feat_vals": [[1.0]]}})


def test_a_refusal_of_the_model_arrives_as_sagemaker_sends_it(deployment: Deployment) -> None:
    runtime = deployment.aws.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ModelError) as raised:
        invoke(deployment, {"inputs": {"feat_ids": [[1]], "feat_vals": [[1.0]]}})
    assert raised.value.response["OriginalStatusCode"] == 400


def test_the_archive_in_the_bucket_has_the_containers_layout(deployment: Deployment) -> None:
    with tarfile.open(fileobj=io.BytesIO(deployment.archive())) as archive:
        names = archive.getnames()
    assert {"code/inference.py", "ranker/1/saved_model.pb"} <= set(names)


def test_the_archive_in_the_bucket_is_the_one_that_was_packed(deployment: Deployment) -> None:
    (packed,) = (deployment.project / ".servable" / "archives").glob("*.tar.gz")
    assert deployment.archive() == packed.read_bytes()


def test_the_endpoint_is_in_service(deployment: Deployment) -> None:
    described = deployment.aws.client("sagemaker").describe_endpoint(EndpointName="ranker-local")
    assert described["EndpointStatus"] == "InService"


def test_the_latency_alarm_reads_back_in_microseconds(deployment: Deployment) -> None:
    alarms = deployment.aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    (threshold,) = (
        alarm["Threshold"] for alarm in alarms if alarm.get("MetricName") == "ModelLatency"
    )
    assert threshold == 100_000


def test_the_scaling_target_reads_back_per_minute(deployment: Deployment) -> None:
    scaling = deployment.aws.client("application-autoscaling")
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 100 * 0.5 * 60


def test_what_a_readme_promises_of_the_golden_files_is_there() -> None:
    assert sorted(path.name for path in Path(GOLDEN).iterdir()) == [
        "answer-columnar.json",
        "answer-rows.json",
        "request-columnar.json",
        "request-rows.json",
    ]


def test_a_second_deployment_changes_nothing(deployment: Deployment) -> None:
    deployment.be_plain()
    ran = deployment.deploy()
    assert "(no changes)" in ran.stdout + ran.stderr


def test_diff_shows_what_an_override_would_change(deployment: Deployment) -> None:
    deployment.be_plain()
    ran = deployment.cdk("diff", "local/*", "-c", OVERRIDE)
    lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines()]
    assert any("MaxCapacity" in line for line in lines)


@pytest.fixture(scope="module")
def overridden(deployment: Deployment) -> int:
    """`max_instances` that is live after a deployment with an override."""
    deployment.deploy("-c", OVERRIDE)
    return maximum(deployment)


def test_an_override_is_deployed_and_read_back(overridden: int) -> None:
    assert overridden == 4


@pytest.mark.usefixtures("overridden")
def test_a_deployment_without_the_override_takes_it_back(deployment: Deployment) -> None:
    deployment.be_plain()
    assert maximum(deployment) == 2


@pytest.fixture(scope="module")
def served(
    deployment: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """URL of `servable serve` for a model package with the deployed archive, and its cache."""
    sagemaker = deployment.aws.client("sagemaker")
    model = sagemaker.describe_model(ModelName=sagemaker.list_models()["Models"][0]["ModelName"])
    container = {key: model["PrimaryContainer"][key] for key in ("Image", "ModelDataUrl")}
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
    folder, cache = deployment.project / "registry", tmp_path_factory.mktemp("cache")
    folder.mkdir()
    (folder / "registered.toml").write_text(REGISTERED)
    environment = {**deployment.environment, "XDG_CACHE_HOME": str(cache)}
    command = (sys.executable, "-m", "servable")
    named = ("registered", "--environments", "registry")
    ran = run_in(deployment.project, *command, "pin", *named, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    process = subprocess.Popen(
        [*command, "serve", *named, "--json", "--port", "0", "--log", cache / "log"],
        cwd=deployment.project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], cache
    finally:
        process.terminate()
        process.communicate()


def test_a_model_package_is_served_on_this_computer(served: tuple[str, Path]) -> None:
    body = (GOLDEN / "request-rows.json").read_bytes()
    headers = {"Content-Type": "application/json"}
    answer = requests.post(f"{served[0]}/invocations", body, headers=headers, timeout=30).json()
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())
    np.testing.assert_allclose(answer["predictions"], wanted["predictions"], atol=1e-5)


def test_its_archive_is_kept_under_its_hash(
    served: tuple[str, Path], deployment: Deployment
) -> None:
    (kept,) = (served[1] / "servable" / "archives").glob("*.tar.gz")
    digest = hashlib.sha256(deployment.archive()).hexdigest()
    assert kept.name == f"{digest}.tar.gz"
