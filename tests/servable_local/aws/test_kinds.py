"""What each kind of endpoint does with a request, and what an update keeps and changes."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_preset import Preset

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def queue(embedded: LocalAws, launcher: Launcher) -> Preset:
    """Asynchronous, with SQS queues that hear of answers and of failures."""
    preset = Preset(embedded, launcher, "variants/asynchronous")
    for topic in preset.client("sns").list_topics()["Topics"]:
        name = topic["TopicArn"].rpartition(":")[2]
        made = preset.client("sqs").create_queue(QueueName=name)["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:{preset.account.number}:{name}"
        preset.client("sns").subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)
        assert made
    return preset


@pytest.fixture(scope="module")
def shadow(embedded: LocalAws, launcher: Launcher) -> Preset:
    return Preset(embedded, launcher, "variants/shadow")


def until(find: Callable[[], Any]) -> Any:
    """What is found, when it is there; a background thread brings it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def places(preset: Preset) -> dict[str, Any]:
    found: dict[str, Any] = preset.config["AsyncInferenceConfig"]["OutputConfig"]
    return found


def submit(preset: Preset, body: bytes | None = b"a catalogue") -> dict[str, Any]:
    """`body` None: the request names an object that is not there."""
    bucket = places(preset)["S3OutputPath"].split("/")[2]
    if body is not None:
        preset.client("s3").put_object(Bucket=bucket, Key="requests/one", Body=body)
    key = "requests/one" if body is not None else "requests/none"
    answer: dict[str, Any] = preset.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=preset.endpoint,
        InputLocation=f"s3://{bucket}/{key}",
        ContentType="application/json",
    )
    return answer


def read(preset: Preset, location: str) -> bytes:
    bucket, _, key = location.removeprefix("s3://").partition("/")

    def find() -> bytes | None:
        try:
            found: bytes = preset.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError:
            return None
        return found

    found: bytes = until(find)
    return found


def heard(preset: Preset, location: str) -> dict[str, Any]:
    """The message that names this answer or failure."""
    sqs = preset.client("sqs")

    def find() -> dict[str, Any] | None:
        for url in sqs.list_queues().get("QueueUrls", []):
            for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
                "Messages", []
            ):
                said: dict[str, Any] = json.loads(json.loads(message["Body"])["Message"])
                if said["responseParameters"].get("outputLocation") == location:
                    return said
        return None

    found: dict[str, Any] = until(find)
    return found


def test_an_answer_is_written_and_the_topic_told(queue: Preset) -> None:
    asked = submit(queue)
    assert json.loads(read(queue, asked["OutputLocation"]))["body"] == "a catalogue"
    assert submit(queue)["OutputLocation"].startswith(places(queue)["S3OutputPath"])
    said = heard(queue, asked["OutputLocation"])
    assert (said["invocationStatus"], said["inferenceId"]) == ("Completed", asked["InferenceId"])


def test_a_request_that_cannot_be_read_is_a_failure(queue: Preset) -> None:
    asked = submit(queue, None)
    assert b"Failed to download input" in read(queue, asked["FailureLocation"])
    said = heard(queue, submit(queue, None)["FailureLocation"])
    assert said["invocationStatus"] == "Failed"

    failed = submit(queue, None)
    read(queue, failed["FailureLocation"])
    listed = queue.account.client("cloudwatch").list_metrics(Namespace="AWS/SageMaker")["Metrics"]
    assert {"InvocationFailures", "RequestDownloadFailures"} <= {
        one["MetricName"] for one in listed
    }


def test_what_the_container_refuses_is_a_failure_in_s3(queue: Preset, launcher: Launcher) -> None:
    (container,) = launcher.serving(f"{queue.archive} primary".encode())
    container.status = 500
    asked = submit(queue)
    try:
        assert read(queue, asked["FailureLocation"]) == b"the model says no"
    finally:
        container.status = 200


def invoke(preset: Preset, **more: str) -> dict[str, Any]:
    answer = preset.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=preset.endpoint, Body=b"x", **more
    )
    return {
        "variant": answer["InvokedProductionVariant"],
        "archive": json.loads(answer["Body"].read())["archive"],
    }


def asked_of(preset: Preset, variant: str) -> float:
    """Requests that CloudWatch counted."""
    found = preset.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="Invocations",
        Dimensions=[
            {"Name": "EndpointName", "Value": preset.endpoint},
            {"Name": "VariantName", "Value": variant},
        ],
        StartTime="2000-01-01T00:00:00Z",
        EndTime="2100-01-01T00:00:00Z",
        Period=86400 * 365,
        Statistics=["Sum"],
    )["Datapoints"]
    return float(sum(one["Sum"] for one in found))


def test_a_shadow_gets_copies_and_nobody_its_answer(shadow: Preset) -> None:
    before = asked_of(shadow, "primary"), asked_of(shadow, "next")
    for _ in range(10):
        invoke(shadow)
    copies = until(lambda: (n := asked_of(shadow, "next") - before[1]) >= 5 and n)
    assert (asked_of(shadow, "primary") - before[0], copies) == (10, 5)

    answers = [invoke(shadow) for _ in range(4)]
    assert {answer["variant"] for answer in answers} == {"primary"}
    assert not any("next" in answer["archive"] for answer in answers)
    with pytest.raises(ClientError, match="Variant next not found"):
        invoke(shadow, TargetVariant="next")


def test_a_shadow_that_fails_hurts_nobody(shadow: Preset, launcher: Launcher) -> None:
    (container,) = launcher.serving(f"{shadow.archive} next".encode())
    container.hangs_up = True
    try:
        assert {invoke(shadow)["variant"] for _ in range(4)} == {"primary"}
    finally:
        container.hangs_up = False


@pytest.fixture
def split(embedded: LocalAws, launcher: Launcher) -> Preset:
    return Preset(embedded, launcher, "variants/ab-test")


def live(preset: Preset) -> dict[str, dict[str, Any]]:
    found = preset.client("sagemaker").describe_endpoint(EndpointName=preset.endpoint)
    return {variant["VariantName"]: variant for variant in found["ProductionVariants"]}


def changed(preset: Preset, key: str, values: dict[str, object]) -> str:
    """The same stack, with another value of one key for each variant."""
    for resource in preset.resources("AWS::SageMaker::EndpointConfig"):
        for variant in resource["ProductionVariants"]:
            if variant["VariantName"] in values:
                variant[key] = values[variant["VariantName"]]
    return preset.deploy()


def test_weights_and_counts_are_kept_and_changed(split: Preset) -> None:
    answered = [invoke(split)["variant"] for _ in range(20)]
    assert answered.count("challenger") == 2

    status = changed(split, "InitialVariantWeight", {"primary": 1, "challenger": 1})
    weights = {name: one["CurrentWeight"] for name, one in live(split).items()}
    assert (status, weights) == ("UPDATE_COMPLETE", {"primary": 1.0, "challenger": 1.0})

    split.account.change_capacities(split.endpoint, VariantName="primary", DesiredInstanceCount=7)
    status = changed(split, "ContainerStartupHealthCheckTimeoutInSeconds", {"primary": 120})
    assert (status, live(split)["primary"]["CurrentInstanceCount"]) == ("UPDATE_COMPLETE", 7)


def test_with_scaling_on_hold_the_count_survives(embedded: LocalAws, launcher: Launcher) -> None:
    held = Preset(embedded, launcher, "scaling/hold")
    client = held.client("application-autoscaling")
    assert client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
    held.account.change_capacities(held.endpoint, VariantName="primary", DesiredInstanceCount=5)
    status = changed(held, "ContainerStartupHealthCheckTimeoutInSeconds", {"primary": 120})
    assert (status, live(held)["primary"]["CurrentInstanceCount"]) == ("UPDATE_COMPLETE", 5)
