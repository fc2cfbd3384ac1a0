"""The kinds of endpoints (real-time, asynchronous, serverless), and what follows from the kind.

A multi-model endpoint is not a kind of its own: `multi_model` is a model's property.
"""

from dataclasses import dataclass, replace

from infra.catalog import metrics
from infra.catalog.limits import documented, most


@dataclass(frozen=True, kw_only=True)
class EndpointKind:
    """The properties of a kind of endpoint; `name` is its key in infra/catalog/metrics.json."""

    name: str
    request_bytes: int
    """Largest request body in bytes."""
    answer_bytes: int
    guide_bytes: int
    """Largest body by the developer guide, in bytes, if it states another number than the API;
    else the same."""
    invoke_action: str
    """The IAM action that callers need."""
    queued: bool
    """Whether requests wait in a queue and answers are written to S3 instead of returned."""
    has_instances: bool
    """Whether instances run without traffic; else a container may start while a caller waits."""
    scalable_dimension: str
    """The scalable dimension of Application Auto Scaling, which says what its numbers count."""
    scales_on: tuple[str, ...]
    """Keys of [variants.NAME.scaling] whose metric the kind publishes."""
    graphs: tuple[str, ...]
    """Graphs of each variant on the dashboard: methods of `VariantGraphs`, in order."""

    @property
    def may_be_empty(self) -> bool:
        """Whether zero instances are possible without losing requests."""
        return self.queued or not self.has_instances

    def publishes(self, metric: str) -> bool:
        """Whether the kind publishes the metric. Raises KeyError for a metric that no endpoint has."""
        return metrics.publishes(self.name, metric)

    def __str__(self) -> str:
        """The name in a sentence: real-time."""
        return self.name.replace("_", "-")


COPIES = "sagemaker:inference-component:DesiredCopyCount"
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
# Copies of inference components are scaled, and their instances follow.
OF_COPIES = replace(REAL_TIME, scalable_dimension=COPIES)
KINDS = (REAL_TIME, ASYNCHRONOUS, SERVERLESS)


def kind_of(*, queued: bool, has_instances: bool, copies: bool = False) -> EndpointKind:
    """The kind of an endpoint with or without a queue, on instances or not, of copies or not."""
    if queued:
        return ASYNCHRONOUS
    if copies and has_instances:
        return OF_COPIES
    return REAL_TIME if has_instances else SERVERLESS
