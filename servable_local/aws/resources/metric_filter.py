"""AWS::Logs::MetricFilter."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class MetricFilter(ResourceType):
    """Kept; the log group here stays empty, so nothing is counted (docs/local.md)."""

    type = "AWS::Logs::MetricFilter"
    create_only = frozenset({"FilterName", "LogGroupName"})
    name_property = "FilterName"

    def create(self, properties: Properties, request: Request) -> Made:
        return self._put(request.name(properties, "FilterName"), properties, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self._put(physical_id, new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("logs").delete_metric_filter(
            filterName=physical_id, logGroupName=properties["LogGroupName"]
        )

    def _put(self, name: str, properties: Properties, request: Request) -> Made:
        wanted = {_lower(key): value for key, value in properties.items()}
        wanted["metricTransformations"] = [
            {_lower(key): value for key, value in one.items()}
            for one in properties["MetricTransformations"]
        ]
        request.client("logs").put_metric_filter(
            **fit({**wanted, "filterName": name}, "logs", "PutMetricFilter")
        )
        return Made(name)


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]
