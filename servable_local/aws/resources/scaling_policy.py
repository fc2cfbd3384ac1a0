"""AWS::ApplicationAutoScaling::ScalingPolicy."""

from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit

_SERVICE = "application-autoscaling"


class ScalingPolicy(ResourceType):
    """Kept and described; nothing scales (docs/local.md)."""

    type = "AWS::ApplicationAutoScaling::ScalingPolicy"
    create_only = frozenset(
        {"PolicyName", "ServiceNamespace", "ResourceId", "ScalableDimension", "ScalingTargetId"}
    )

    def create(self, properties: Properties, request: Request) -> Made:
        made = request.client(_SERVICE).put_scaling_policy(
            **fit(_resolved(properties), _SERVICE, "PutScalingPolicy")
        )
        arn = made["PolicyARN"]
        return Made(arn, {"Arn": arn, "PolicyName": properties["PolicyName"]})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self.create(new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        client = request.client(_SERVICE)
        known = _resolved(properties)
        key = {k: known[k] for k in ("PolicyName", "ServiceNamespace", "ResourceId")}
        try:
            client.delete_scaling_policy(**key, ScalableDimension=known["ScalableDimension"])
        except client.exceptions.ObjectNotFoundException:
            pass  # its target went first and took it along


def _resolved(properties: Properties) -> dict[str, Any]:
    """`ScalingTargetId` says in one string what the API takes in three."""
    found = dict(properties)
    if target := found.pop("ScalingTargetId", None):
        resource_id, dimension, namespace = target.split("|")
        found |= {
            "ResourceId": resource_id,
            "ScalableDimension": dimension,
            "ServiceNamespace": namespace,
        }
    return found
