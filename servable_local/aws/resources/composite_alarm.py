"""AWS::CloudWatch::CompositeAlarm."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class CompositeAlarm(ResourceType):
    """Evaluated by servable_local/aws/cloudwatch."""

    type = "AWS::CloudWatch::CompositeAlarm"
    create_only = frozenset({"AlarmName"})
    name_property = "AlarmName"

    def create(self, properties: Properties, request: Request) -> Made:
        return self._put(request.name(properties, "AlarmName"), properties, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self._put(physical_id, new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])

    def _put(self, name: str, properties: Properties, request: Request) -> Made:
        wanted = {**properties, "AlarmName": name}
        request.client("cloudwatch").put_composite_alarm(
            **fit(wanted, "cloudwatch", "PutCompositeAlarm")
        )
        return Made(name, {"Arn": request.arn("cloudwatch", f"alarm:{name}")})
