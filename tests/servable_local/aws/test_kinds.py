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


def until(find: Callable[[], Any]) -> Any:
    """What is found, when it is there; a background thread brings it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def test_an_answer_or_a_failure_is_written_and_the_topic_told(
    embedded: LocalAws, launcher: Launcher
) -> None:
    queue = Preset(embedded, launcher, "variants/asynchronous")
    s3, sqs, sns = (queue.client(service) for service in ("s3", "sqs", "sns"))
    for topic in sns.list_topics()["Topics"]:
        name = topic["TopicArn"].rpartition(":")[2]
        sqs.create_queue(QueueName=name)
        arn = f"arn:aws:sqs:us-east-1:{queue.account.number}:{name}"
        sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)
    place = queue.config["AsyncInferenceConfig"]["OutputConfig"]["S3OutputPath"]
    bucket = place.split("/")[2]
    s3.put_object(Bucket=bucket, Key="requests/one", Body=b"a catalogue")

    def submit() -> dict[str, Any]:
        answer: dict[str, Any] = queue.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName=queue.endpoint,
            InputLocation=f"s3://{bucket}/requests/one",
            ContentType="application/json",
        )
        return answer

    def read(location: str) -> bytes | None:
        place, _, key = location.removeprefix("s3://").partition("/")
        try:
            return bytes(s3.get_object(Bucket=place, Key=key)["Body"].read())
        except ClientError:
            return None

    def messages() -> list[dict[str, Any]]:
        received = [
            message
            for url in sqs.list_queues()["QueueUrls"]
            for message in sqs.receive_message(QueueUrl=url).get("Messages", [])
        ]
        return [json.loads(json.loads(message["Body"])["Message"]) for message in received]

    asked = submit()
    assert asked["OutputLocation"].startswith(place)
    assert json.loads(until(lambda: read(asked["OutputLocation"])))["body"] == "a catalogue"
    (said,) = until(messages)
    assert (said["invocationStatus"], said["inferenceId"]) == ("Completed", asked["InferenceId"])

    (container,) = launcher.serving(f"{queue.archive} primary".encode())
    container.status = 500
    failed = submit()
    assert until(lambda: read(failed["FailureLocation"])) == b"the model says no"
    (said,) = until(messages)
    assert (said["invocationStatus"], said["inferenceId"]) == ("Failed", failed["InferenceId"])


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


def test_a_shadow_gets_copies_and_nobody_its_answer_or_its_failure(
    embedded: LocalAws, launcher: Launcher
) -> None:
    shadow = Preset(embedded, launcher, "variants/shadow")
    answers = [invoke(shadow) for _ in range(10)]
    assert until(lambda: (copies := asked_of(shadow, "next")) >= 5 and copies) == 5
    assert asked_of(shadow, "primary") == 10
    assert {answer["variant"] for answer in answers} == {"primary"}
    assert not any("next" in answer["archive"] for answer in answers)
    with pytest.raises(ClientError, match="Variant next not found"):
        invoke(shadow, TargetVariant="next")

    (container,) = launcher.serving(f"{shadow.archive} next".encode())
    container.hangs_up = True
    assert {invoke(shadow)["variant"] for _ in range(4)} == {"primary"}


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


def test_weights_and_counts_are_kept_and_changed(embedded: LocalAws, launcher: Launcher) -> None:
    split = Preset(embedded, launcher, "variants/ab-test")
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
