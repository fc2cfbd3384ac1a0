"""Configurations of kinds that SageMaker does not put together, in words like its own.

Source: API_CreateEndpointConfig.html (ShadowProductionVariants), serverless-endpoints.html (feature
exclusions) and shadow-tests-exclusions.html of SageMaker's documentation.
"""

from collections.abc import Mapping
from typing import Any

from local.aws.sagemaker.errors import ValidationException


def refuse(asked: Mapping[str, Any]) -> None:
    """Raises `ValidationException` for what CreateEndpointConfig refuses."""
    variants = asked["ProductionVariants"]
    shadows = asked.get("ShadowProductionVariants", [])
    queue = "AsyncInferenceConfig" in asked
    if any("ServerlessConfig" in one for one in [*variants, *shadows]):
        if len(variants) + len(shadows) > 1:
            raise ValidationException("A serverless endpoint has exactly one production variant.")
        for name in ("AsyncInferenceConfig", "DataCaptureConfig"):
            if name in asked:
                raise ValidationException(f"{name} is not supported with ServerlessConfig.")
        if "InstanceType" in variants[0] or "InitialInstanceCount" in variants[0]:
            raise ValidationException("Give ServerlessConfig or an instance type, and not both.")
    if shadows and (len(variants), len(shadows)) != (1, 1):
        raise ValidationException(
            "With ShadowProductionVariants there is exactly one variant in each of both lists."
        )
    if shadows and queue:
        raise ValidationException("AsyncInferenceConfig is not supported with shadow variants.")
