"""Members of boto3's requests that many tests send, and a wait for what happens in the background."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

_Found = TypeVar("_Found")
SCALING = "application-autoscaling"


def until(find: Callable[[], _Found], seconds: float = 30) -> _Found:
    """Call it until what it returns is true, and return that. Fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(0.01)
    return found


def named(**values: str) -> list[dict[str, str]]:
    """Dimensions, each with its value."""
    return [{"Name": name, "Value": value} for name, value in values.items()]


def tagged(**values: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.items()]


def scalable(variant: str = "primary", counts: str = "InstanceCount") -> dict[str, str]:
    """The key of a variant of the endpoint `ranker` as a target of Application Auto Scaling."""
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/ranker/variant/{variant}",
        "ScalableDimension": f"sagemaker:variant:Desired{counts}",
    }


def tracking(target: float, metric: str = "InvocationsPerInstance", **more: Any) -> dict[str, Any]:
    """The configuration of a policy that tracks a predefined metric of a variant."""
    predefined = {"PredefinedMetricType": f"SageMakerVariant{metric}"}
    return {"TargetValue": target, "PredefinedMetricSpecification": predefined, **more}
