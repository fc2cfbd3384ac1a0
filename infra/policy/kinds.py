"""The kinds of endpoints, by how requests come in, and everything that follows from the kind.

Several models behind one endpoint are no kind of their own: `multi_model` is a model's property.
"""

from dataclasses import dataclass

from infra.catalog import metrics
from infra.catalog.limits import documented, most


@dataclass(frozen=True, kw_only=True)
class EndpointKind:
    """What is true of every endpoint of the kind; `name` is its word in infra/catalog/metrics.json."""

    name: str
    request_bytes: int
    """Largest body of a request."""
    answer_bytes: int
    guide_bytes: int
    """Largest body of either by the developer guide, where it states another number than the API;
    else the same."""
    invoke_action: str
    """What callers must be allowed."""
    queued: bool
    """Requests wait until an instance takes them, and answers are written, not returned."""
    has_instances: bool
    """Instances run whether somebody asks or not; else a container may start while a caller waits."""
    scalable_dimension: str
    """Of Application Auto Scaling: what its numbers count."""
    scales_on: tuple[str, ...]
    """Keys of [variants.NAME.scaling] whose metric it publishes."""
    graphs: tuple[str, ...]
    """Of each variant on the dashboard: methods of `VariantGraphs`, in order."""

    @property
    def may_be_empty(self) -> bool:
        """Whether no request is lost while nothing runs."""
        return self.queued or not self.has_instances

    def publishes(self, metric: str, namespace: str) -> bool:
        """Raises KeyError for a metric that no endpoint has."""
        return metrics.publishes(self.name, metric, namespace)

    def __str__(self) -> str:
        """As a sentence says it: real-time."""
        return self.name.replace("_", "-")


_INSTANCES = "sagemaker:variant:DesiredInstanceCount"
_GRAPHS_OF_INSTANCES = ("latency", "errors", "machines", "instances", "cost")

REAL_TIME = EndpointKind(
    name="real_time",
    request_bytes=most("BodyBlob", service="sagemaker-runtime"),
    answer_bytes=documented("answer_bytes"),
    guide_bytes=documented("real_time_guide_bytes"),
    invoke_action="sagemaker:InvokeEndpoint",
    queued=False,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_rps_per_instance", "max_concurrency_per_instance", "steps"),
    graphs=("traffic", *_GRAPHS_OF_INSTANCES),
)
ASYNCHRONOUS = EndpointKind(
    name="asynchronous",
    request_bytes=documented("asynchronous_bytes"),
    answer_bytes=documented("asynchronous_bytes"),
    guide_bytes=documented("asynchronous_bytes"),
    invoke_action="sagemaker:InvokeEndpointAsync",
    queued=True,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_backlog_per_instance",),
    graphs=("queue", "failures", *_GRAPHS_OF_INSTANCES),
)
SERVERLESS = EndpointKind(
    name="serverless",
    request_bytes=documented("serverless_bytes"),
    answer_bytes=documented("serverless_bytes"),
    guide_bytes=documented("serverless_bytes"),
    invoke_action="sagemaker:InvokeEndpoint",
    queued=False,
    has_instances=False,
    scalable_dimension="sagemaker:variant:DesiredProvisionedConcurrency",
    scales_on=("provisioned_use_percent",),
    graphs=("traffic", "latency", "errors", "concurrency"),
)
KINDS = (REAL_TIME, ASYNCHRONOUS, SERVERLESS)


def kind_of(*, queued: bool, has_instances: bool) -> EndpointKind:
    """The kind of an endpoint with or without a queue, whose variants run on instances or not."""
    if queued:
        return ASYNCHRONOUS
    return REAL_TIME if has_instances else SERVERLESS
