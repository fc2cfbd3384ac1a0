"""An endpoint as alarms and dashboards see it: ours, or anybody's."""

from dataclasses import dataclass

import aws_cdk as cdk

from infra.catalog.instances import Instance, instances
from infra.constructs.monitoring.endpoint_metrics import EndpointMetrics
from infra.parameters.environment import Kind


@dataclass(frozen=True, kw_only=True)
class WatchedVariant:
    """What its machines can do, and how many there may be."""

    name: str
    instance_type: str | None = None
    """None: it is serverless."""
    min_instances: int = 1
    max_instances: int = 1
    scales: bool = False
    """Its number of instances; not a serverless variant's provisioned concurrency."""
    shadow: bool = False
    """It gets copies of requests, and nobody its answers."""

    @property
    def instance(self) -> Instance:
        """Raises KeyError for a type that the catalog does not know, and for serverless."""
        return instances()[self.instance_type or ""]


@dataclass(frozen=True, kw_only=True)
class WatchedEndpoint:
    name: str
    region: str
    variants: tuple[WatchedVariant, ...]
    log_is_counted: bool = False
    """Whether `EndpointLogs` counts lines of its log: else nobody publishes refused requests."""
    resource: cdk.CfnResource | None = None
    """What alarms are made after; None for an endpoint of another stack."""
    kind: Kind = "real_time"

    @property
    def metrics(self) -> EndpointMetrics:
        return EndpointMetrics(endpoint_name=self.name, kind=self.kind)
