"""Application Auto Scaling knows the provisioned concurrency of serverless variants.

Upstream (moto 5.2.5): the list of dimensions lacks it, and refuses it.
Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from enum import Enum

from moto.applicationautoscaling import models, responses

PROVISIONED = "sagemaker:variant:DesiredProvisionedConcurrency"


def install() -> None:
    """Once for a process is enough; again does no harm."""
    if PROVISIONED in [one.value for one in models.ScalableDimensionValueSet]:
        return
    known = [(one.name, one.value) for one in models.ScalableDimensionValueSet]
    more = Enum("more", [*known, ("SAGEMAKER_PROVISIONED", PROVISIONED)])  # type: ignore[misc]
    for module in (models, responses):
        setattr(module, "ScalableDimensionValueSet", more)  # noqa: B010 (a type of its own)
