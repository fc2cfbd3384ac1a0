"""What CreateEndpointConfig refuses of kinds that do not go together."""

from typing import Any

import pytest

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.endpoint_update import reject_deployment
from servable_local.aws.sagemaker.model_api import refuse_frequency, refuse_mixed_kinds

ONE = {"VariantName": "a", "InstanceType": "ml.c5.xlarge", "InitialInstanceCount": 1}
SERVERLESS = {"VariantName": "a", "ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 1}}
QUEUE = {"OutputConfig": {"S3OutputPath": "s3://answers/"}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ProductionVariants": [SERVERLESS, ONE]}, "exactly one production variant"),
        ({"ProductionVariants": [SERVERLESS], "DataCaptureConfig": {}}, "DataCaptureConfig"),
        ({"ProductionVariants": [SERVERLESS], "AsyncInferenceConfig": QUEUE}, "AsyncInference"),
        ({"ProductionVariants": [SERVERLESS | ONE]}, "not both"),
        ({"ProductionVariants": [ONE, ONE], "ShadowProductionVariants": [ONE]}, "exactly one"),
        (
            {
                "ProductionVariants": [ONE],
                "ShadowProductionVariants": [ONE],
                "AsyncInferenceConfig": QUEUE,
            },
            "shadow variants",
        ),
    ],
    ids=["serverless-two", "serverless-capture", "serverless-queue", "both", "shadow-two", "queue"],
)
def test_what_does_not_go_together_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SageMakerError, match=said):
        refuse_mixed_kinds(asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"ProductionVariants": [SERVERLESS]},
        {"ProductionVariants": [ONE, ONE]},
        {"ProductionVariants": [ONE], "ShadowProductionVariants": [ONE]},
        {"ProductionVariants": [ONE], "AsyncInferenceConfig": QUEUE},
    ],
    ids=["serverless", "two", "shadow", "queue"],
)
def test_what_goes_together_is_taken(asked: dict[str, Any]) -> None:
    refuse_mixed_kinds(asked)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"MemorySizeInMB": 1500, "MaxConcurrency": 1}, "1500 isn't a multiple of 1024"),
        (
            {"MemorySizeInMB": 1024, "MaxConcurrency": 5, "ProvisionedConcurrency": 6},
            "ProvisionedConcurrency 6 must be at most MaxConcurrency, 5",
        ),
    ],
    ids=["memory", "provisioned"],
)
def test_a_wrong_serverless_size_is_rejected(size: dict[str, int], said: str) -> None:
    with pytest.raises(SageMakerError, match=said):
        refuse_mixed_kinds({"ProductionVariants": [{"VariantName": "a", "ServerlessConfig": size}]})
    most = {"MemorySizeInMB": 6144, "MaxConcurrency": 5, "ProvisionedConcurrency": 5}
    refuse_mixed_kinds({"ProductionVariants": [{"VariantName": "a", "ServerlessConfig": most}]})


def _blue_green(kind: str, name: str = "", size: str = "", value: int = 0) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 0}
    routing |= {name: {"Type": size, "Value": value}} if name else {}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}


def _rolling(size: str, value: int) -> dict[str, Any]:
    batch = {"Type": size, "Value": value}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": batch, "WaitIntervalInSeconds": 0}}


@pytest.mark.parametrize(
    ("deployment", "said"),
    [
        (_blue_green("CANARY", "CanarySize", "CAPACITY_PERCENT", 51), "CanarySize 51 %"),
        (_blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 6), "CanarySize 6 of 10 instances"),
        (_blue_green("CANARY"), "CanarySize is required"),
        (_blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 9), "LinearStepSize 9 %"),
        (_blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 51), "LinearStepSize 51 %"),
        (_blue_green("LINEAR"), "LinearStepSize is required"),
        (_rolling("CAPACITY_PERCENT", 4), "MaximumBatchSize 4 %"),
        (_rolling("CAPACITY_PERCENT", 51), "MaximumBatchSize 51 %"),
        (_rolling("INSTANCE_COUNT", 6), "MaximumBatchSize 6 of 10"),
        (_rolling("CAPACITY_PERCENT", 50) | _blue_green("ALL_AT_ONCE"), "not both"),
    ],
)
def test_a_batch_beyond_half_is_rejected(deployment: dict[str, Any], said: str) -> None:
    with pytest.raises(SageMakerError, match=said):
        reject_deployment(deployment, instances=10)


def test_a_batch_up_to_half_of_the_instances_is_accepted() -> None:
    cases: list[dict[str, Any] | None] = [
        None,
        _blue_green("ALL_AT_ONCE"),
        _blue_green("CANARY", "CanarySize", "CAPACITY_PERCENT", 50),
        _blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 5),
        _blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 10),
        _rolling("CAPACITY_PERCENT", 5),
    ]
    for deployment in cases:
        reject_deployment(deployment, instances=10)
    reject_deployment(_blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 1), instances=1)


def test_metrics_are_published_at_a_listed_interval() -> None:
    with pytest.raises(SageMakerError, match="valid values: 10, 30, 60, 120, 180, 240, 300"):
        refuse_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": 20}})
    cases: list[dict[str, Any]] = [{}, {"MetricsConfig": {"MetricPublishFrequencyInSeconds": 10}}]
    for asked in cases:
        refuse_frequency(asked)
