"""Application Auto Scaling: targets with their schedules, and policies."""

from contextlib import suppress
from typing import Any

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, tags_as_map
from servable_local.aws.resources.shapes import Properties

_SERVICE = "application-autoscaling"
# In the order in which a target's physical name has them.
_KEY = ("ResourceId", "ScalableDimension", "ServiceNamespace")


class ScalableTarget(ResourceType):
    type = "AWS::ApplicationAutoScaling::ScalableTarget"
    create_only = frozenset(_KEY)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        key = {name: new[name] for name in _KEY}
        actions = new.get("ScheduledActions", [])
        names = {action["ScheduledActionName"] for action in actions}
        for action in old.get("ScheduledActions", []):
            if (name := action["ScheduledActionName"]) not in names:
                logical.call(_SERVICE, "DeleteScheduledAction", key | {"ScheduledActionName": name})
        # Registering again changes what is registered.
        settings = {name: value for name, value in new.items() if name != "ScheduledActions"}
        if tags := new.get("Tags"):
            settings["Tags"] = tags_as_map(tags)
        logical.call(_SERVICE, "RegisterScalableTarget", settings)
        for action in actions:
            logical.call(_SERVICE, "PutScheduledAction", {**key, **action})
        target = "|".join(key.values())
        return Physical(target, {"Id": target})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        client = logical.client(_SERVICE)
        with suppress(client.exceptions.ObjectNotFoundException):
            # Else its endpoint went first and took it along.
            client.deregister_scalable_target(**_key_of(physical))


class ScalingPolicy(ResourceType):
    type = "AWS::ApplicationAutoScaling::ScalingPolicy"
    create_only = frozenset({"PolicyName", *_KEY, "ScalingTargetId"})

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.call(_SERVICE, "PutScalingPolicy", _resolved(new))["PolicyARN"]
        return Physical(arn, {"Arn": arn, "PolicyName": new["PolicyName"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        client, policy = logical.client(_SERVICE), _resolved(properties)
        with suppress(client.exceptions.ObjectNotFoundException):
            # Else its target went first and took it along.
            client.delete_scaling_policy(**{name: policy[name] for name in ("PolicyName", *_KEY)})


def _resolved(properties: Properties) -> dict[str, Any]:
    """`ScalingTargetId` says in one string what the API takes in three."""
    policy = dict(properties)
    target = policy.pop("ScalingTargetId", None)
    return policy | _key_of(target) if target else policy


def _key_of(target: str) -> dict[str, str]:
    return dict(zip(_KEY, target.split("|"), strict=True))
