"""What is deployed is what the template says, answers as TensorFlow does, and can be changed.

One file, for one deployment: a worker takes whole files.
"""

import collections
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkouts import ROOT
from tests.deployment.conftest import OVERRIDE, Deployment, maximum

pytestmark = pytest.mark.long

GOLDEN = ROOT / "examples" / "ranker" / "golden"


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
    refused = [f"{name}.toml is refused" in deployment.first.stderr for name in ("staging", "torn")]
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


def test_an_override_is_deployed_and_read_back(deployment: Deployment) -> None:
    deployment.deploy("-c", OVERRIDE)
    assert maximum(deployment) == 4
