"""What is deployed of an environment, as far as the next update depends on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.parameters.environment import Environment


@dataclass(frozen=True, kw_only=True)
class DeployedVariant:
    instance_type: str | None
    """None: serverless."""
    scales: bool
    """Whether it is a scalable target of Application Auto Scaling."""


def deployed_by(file: Environment) -> Mapping[str, DeployedVariant]:
    """By a file, when nothing was changed by hand since."""
    return {
        name: DeployedVariant(instance_type=one.instance_type, scales=one.scales)
        for name, one in file.variants.items()
    }


def held(variants: Mapping[str, DeployedVariant]) -> dict[str, str]:
    """The overrides with which these keep their type, and scaling lets go of them: key -> value."""
    found = {}
    for name, one in variants.items():
        found[f"variants.{name}.scaling.hold"] = "true"
        if one.instance_type is not None:
            found[f"variants.{name}.instance_type"] = one.instance_type
    return found
