"""What CreateEndpointConfig refuses of kinds that do not go together."""

from typing import Any

import pytest

from servable_local.aws.errors import SageMakerError
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


def test_metrics_are_published_at_a_listed_interval() -> None:
    with pytest.raises(SageMakerError, match="valid values: 10, 30, 60, 120, 180, 240, 300"):
        refuse_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": 20}})


@pytest.mark.parametrize("asked", [{}, {"MetricsConfig": {"MetricPublishFrequencyInSeconds": 10}}])
def test_a_listed_interval_is_taken(asked: dict[str, Any]) -> None:
    refuse_frequency(asked)
