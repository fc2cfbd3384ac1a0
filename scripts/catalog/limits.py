"""limits.json: the ranges that AWS's own service models state."""

from importlib import metadata
from typing import Any

import botocore.session

SHAPES = {
    "sagemaker": (
        "CapacitySizeValue",
        "ContainerImage",
        "EndpointName",
        "EnvironmentKey",
        "EnvironmentMap",
        "EnvironmentValue",
        "KmsKeyId",
        "AlarmList",
        "MaxConcurrentInvocationsPerInstance",
        "MaximumExecutionTimeoutInSeconds",
        "ProductionVariantContainerStartupHealthCheckTimeoutInSeconds",
        "ProductionVariantInferenceAmiVersion",
        "ProductionVariantList",
        "ProductionVariantModelDataDownloadTimeoutInSeconds",
        "ProductionVariantVolumeSizeInGB",
        "ServerlessMaxConcurrency",
        "ServerlessMemorySizeInMB",
        "ServerlessProvisionedConcurrency",
        "TerminationWaitInSeconds",
        "VariantName",
        "WaitIntervalInSeconds",
    ),
    "sagemaker-runtime": ("BodyBlob",),
    "cloudwatch": ("AlarmName",),
}


def limits() -> dict[str, Any]:
    """service -> shape -> min, max, pattern, enum; those that the shape has."""
    session = botocore.session.get_session()
    found: dict[str, Any] = {}
    for service, names in SHAPES.items():
        model = session.get_service_model(service)
        for name in names:
            shape = model.shape_for(name)
            stated = {
                word: shape.metadata[word]
                for word in ("min", "max", "pattern", "enum")
                if word in shape.metadata
            }
            found.setdefault(service, {})[name] = stated
    return {
        "source": f"botocore {metadata.version('botocore')}, the service models",
        "services": found,
    }
