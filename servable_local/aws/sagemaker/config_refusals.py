"""Configurations of kinds that SageMaker does not put together, in words like its own.

Source: API_CreateEndpointConfig.html (ShadowProductionVariants), serverless-endpoints.html (feature
exclusions) and shadow-tests-exclusions.html of SageMaker's documentation.
"""

from collections.abc import Mapping
from typing import Any

from servable_local.aws.sagemaker.errors import ValidationError


def refuse(asked: Mapping[str, Any]) -> None:
    """Raises `ValidationError` for what CreateEndpointConfig refuses."""
    variants = asked["ProductionVariants"]
    shadows = asked.get("ShadowProductionVariants", [])
    queue = "AsyncInferenceConfig" in asked
    if any("ServerlessConfig" in one for one in [*variants, *shadows]):
        if len(variants) + len(shadows) > 1:
            raise ValidationError("A serverless endpoint has exactly one production variant.")
        for name in ("AsyncInferenceConfig", "DataCaptureConfig"):
            if name in asked:
                raise ValidationError(f"{name} is not supported with ServerlessConfig.")
        if "InstanceType" in variants[0] or "InitialInstanceCount" in variants[0]:
            raise ValidationError("Give ServerlessConfig or an instance type, and not both.")
    if shadows and (len(variants), len(shadows)) != (1, 1):
        raise ValidationError(
            "With ShadowProductionVariants there is exactly one variant in each of both lists."
        )
    if shadows and queue:
        raise ValidationError("AsyncInferenceConfig is not supported with shadow variants.")
