"""Application Auto Scaling refuses a target that does not exist, and forgets its policies.

Upstream (moto 5.2.5): `register_scalable_target` looks only at ECS; a SageMaker variant
need not exist, its capacities may cross, and instances outside the bounds stay as they are.
`put_scaling_policy` needs no target, and deregistering one leaves its policies. AWS:
RegisterScalableTarget fails, or moves the capacity inside the bounds at once; PutScalingPolicy
answers ObjectNotFoundException, DeregisterScalableTarget deletes the policies and the scheduled
actions. The list of dimensions lacks the provisioned concurrency of serverless variants.
Sources: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_DeregisterScalableTarget.html,
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
"""

from enum import Enum
from typing import ClassVar

from moto.applicationautoscaling import models, responses
from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.core.exceptions import JsonRESTError

from servable_local.aws.loopback import Regions
from servable_local.aws.sagemaker.endpoint import specified_variants
from servable_local.aws.sagemaker.hosting import RegionalHosting

INSTANCES = "sagemaker:variant:DesiredInstanceCount"
PROVISIONED = "sagemaker:variant:DesiredProvisionedConcurrency"


def install() -> None:
    """Once for a process is enough; again does no harm."""
    if PROVISIONED in [one.value for one in models.ScalableDimensionValueSet]:
        return
    known = [(one.name, one.value) for one in models.ScalableDimensionValueSet]
    more = Enum("more", [*known, ("SAGEMAKER_PROVISIONED", PROVISIONED)])  # type: ignore[misc]
    for module in (models, responses):
        setattr(module, "ScalableDimensionValueSet", more)  # noqa: B010 (a type of its own)


class ScalingApi(ApplicationAutoScalingResponse):
    """`hostings` is set when the server is built."""

    hostings: ClassVar[Regions[RegionalHosting]]

    def register_scalable_target(self) -> str:
        if self._get_param("ServiceNamespace") == "sagemaker":
            self._check_variant(self._get_param("ResourceId"))
            self._check_capacities()
        answer = super().register_scalable_target()
        if self._get_param("ScalableDimension") == INSTANCES:
            self._move_inside()
        return answer

    def put_scaling_policy(self) -> str:
        if self._get_param("ServiceNamespace") == "sagemaker":
            self._check_registered()
        return super().put_scaling_policy()

    def deregister_scalable_target(self) -> str:
        self._check_registered()
        answer = super().deregister_scalable_target()
        backend = self.applicationautoscaling_backend
        backend.policies = {
            key: policy
            for key, policy in backend.policies.items()
            if (policy.resource_id, policy.scalable_dimension) != self._target()
        }
        backend.scheduled_actions = [
            action
            for action in backend.scheduled_actions
            if (action.resource_id, action.scalable_dimension) != self._target()
        ]
        return answer

    def delete_scaling_policy(self) -> str:
        name = self._get_param("PolicyName")
        policies = self.applicationautoscaling_backend.policies.values()
        if not any(
            p.policy_name == name and (p.resource_id, p.scalable_dimension) == self._target()
            for p in policies
        ):
            raise JsonRESTError(
                "ObjectNotFoundException", f"No scaling policy found for policy name: {name}"
            )
        return super().delete_scaling_policy()

    def _target(self) -> tuple[str, str]:
        return self._get_param("ResourceId"), self._get_param("ScalableDimension")

    def _check_registered(self) -> None:
        resource_id, dimension = self._target()
        if resource_id not in self.applicationautoscaling_backend.targets.get(dimension, {}):
            raise JsonRESTError(
                "ObjectNotFoundException",
                "No scalable target registered for service namespace: "
                f"{self._get_param('ServiceNamespace')}, resource ID: {resource_id}, "
                f"scalable dimension: {dimension}",
            )

    def _check_capacities(self) -> None:
        lowest, highest = self._get_param("MinCapacity"), self._get_param("MaxCapacity")
        if lowest is not None and highest is not None and int(lowest) > int(highest):
            raise JsonRESTError(
                "ValidationException", "Maximum capacity cannot be less than minimum capacity"
            )

    def _move_inside(self) -> None:
        resource_id, dimension = self._target()
        target = self.applicationautoscaling_backend.targets[dimension][resource_id]
        _, name, _, variant_name = resource_id.split("/")
        endpoint = self.hostings.of(self.current_account, self.region).endpoints.get(name.lower())
        if endpoint is None or endpoint.fleet is None or endpoint.in_progress:
            return  # scaling is blocked while an update is in progress
        for variant in endpoint.fleet.everybody():
            if variant.name == variant_name:
                lowest, highest = int(target.min_capacity or 0), int(target.max_capacity or 0)
                variant.instance_count = min(max(variant.instance_count, lowest), highest)

    def _check_variant(self, resource_id: str) -> None:
        parts = resource_id.split("/")
        if len(parts) != 4 or parts[0] != "endpoint" or parts[2] != "variant":
            return  # moto refuses what is not endpoint/NAME/variant/NAME
        here = self.hostings.of(self.current_account, self.region)
        endpoint = here.endpoints.get(parts[1].lower())
        if endpoint is None:
            raise JsonRESTError(
                "ValidationException",
                f'Could not find endpoint "{here.arn("endpoint", parts[1])}".',
            )
        variants = [variant["VariantName"] for variant in specified_variants(endpoint.config)]
        if parts[3] not in variants:
            raise JsonRESTError(
                "ValidationException",
                f"The endpoint {parts[1]} has no variant {parts[3]}; it has {', '.join(variants)}.",
            )
