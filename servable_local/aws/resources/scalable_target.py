"""AWS::ApplicationAutoScaling::ScalableTarget."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit

_SERVICE = "application-autoscaling"
_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")


class ScalableTarget(ResourceType):
    """Registered and described, with its schedule; nothing scales (docs/local.md)."""

    type = "AWS::ApplicationAutoScaling::ScalableTarget"
    create_only = frozenset(_KEY)

    def create(self, properties: Properties, request: Request) -> Made:
        client = request.client(_SERVICE)
        wanted = {name: one for name, one in properties.items() if name != "ScheduledActions"}
        client.register_scalable_target(**fit(wanted, _SERVICE, "RegisterScalableTarget"))
        key = {name: properties[name] for name in _KEY}
        for action in properties.get("ScheduledActions", []):
            client.put_scheduled_action(**fit({**key, **action}, _SERVICE, "PutScheduledAction"))
        name = "|".join(
            (
                properties["ResourceId"],
                properties["ScalableDimension"],
                properties["ServiceNamespace"],
            )
        )
        return Made(name, {"Id": name})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        client = request.client(_SERVICE)
        kept = [one["ScheduledActionName"] for one in new.get("ScheduledActions", [])]
        for action in old.get("ScheduledActions", []):
            if action["ScheduledActionName"] not in kept:
                name, key = action["ScheduledActionName"], {one: old[one] for one in _KEY}
                client.delete_scheduled_action(ScheduledActionName=name, **key)
        return self.create(new, request)  # registering again changes what is registered

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        resource_id, dimension, namespace = physical_id.split("|")
        client = request.client(_SERVICE)
        try:
            client.deregister_scalable_target(
                ServiceNamespace=namespace, ResourceId=resource_id, ScalableDimension=dimension
            )
        except client.exceptions.ObjectNotFoundException:
            pass  # its endpoint went first and took it along
