"""AWS::CloudWatch::Dashboard."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class Dashboard(ResourceType):
    type = "AWS::CloudWatch::Dashboard"
    create_only = frozenset({"DashboardName"})
    name_property = "DashboardName"

    def create(self, properties: Properties, request: Request) -> Made:
        return self._put(request.name(properties, "DashboardName"), properties, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self._put(physical_id, new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])

    def _put(self, name: str, properties: Properties, request: Request) -> Made:
        request.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=properties["DashboardBody"]
        )
        return Made(name)
