"""An endpoint as alarms and dashboards see it, ours or anybody's: its metrics and its instances."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import aws_cdk as cdk

from infra.catalog import metrics
from infra.catalog.instances import instances
from infra.constructs.monitoring.measured import Computed, Measured
from infra.policy.kinds import REAL_TIME, EndpointKind

NAMESPACE = "AWS/SageMaker"
MACHINES = "/aws/sagemaker/Endpoints"


@dataclass(frozen=True, kw_only=True)
class EndpointMetrics:
    """The metrics of one endpoint, per variant, over one minute.

    What is not in the catalog raises `UnpublishedMetricError`: nothing here can be asked for
    that nobody publishes.
    """

    endpoint_name: str
    extra_dimensions: Mapping[str, str] = field(default_factory=dict)
    """EndpointConfigName, to look at the new fleet alone while an update runs."""
    kind: EndpointKind = REAL_TIME

    def publishes(self, name: str, namespace: str = NAMESPACE) -> bool:
        return self.kind.publishes(name, namespace)

    def model_latency(self, variant: str, statistic: str) -> Measured:
        """Time the container took to answer one request. Unit: microseconds."""
        return self.of_variant("ModelLatency", variant, statistic)

    def overhead_latency(self, variant: str) -> Measured:
        """Mean time SageMaker added to one request; it publishes no percentiles. Unit: microseconds."""
        return self.of_variant("OverheadLatency", variant, "Average")

    def error_4xx_share(self, variant: str) -> Measured:
        """Share of requests answered 4xx, 0 to 1: the mean of a metric that is 0 or 1 per request."""
        return self.of_variant("Invocation4XXErrors", variant, "Average")

    def error_5xx_share(self, variant: str) -> Measured:
        """Share of requests answered 5xx, 0 to 1."""
        return self.of_variant("Invocation5XXErrors", variant, "Average")

    def model_error_share(self, variant: str) -> Measured:
        """Share of requests that the container did not answer 2xx, 0 to 1."""
        return self.of_variant("InvocationModelErrors", variant, "Average")

    def invocations(self, variant: str) -> Measured:
        """Requests in one minute."""
        return self.of_variant("Invocations", variant, "Sum")

    def invocations_per_instance(self, variant: str) -> Measured:
        """Requests in one minute and instance: what scaling tracks."""
        return self.of_variant("InvocationsPerInstance", variant, "Sum")

    def used(self, what: str, variant: str, statistic: str) -> Measured:
        """`what`Utilization: CPU, Memory, Disk, GPU, GPUMemory. Unit: percent, of each core and GPU."""
        return self.of_variant(f"{what}Utilization", variant, statistic, MACHINES)

    def instances(self, variant: str) -> Computed:
        """Instances that answer. SageMaker publishes no count; each request adds one over it to
        InvocationsPerInstance. No data without traffic. Of an asynchronous endpoint: each sends its
        CPU once a minute.
        Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-troubleshooting.html"""
        if not self.publishes("Invocations"):
            return Computed(
                expression="counted",
                using={"counted": self.used("CPU", variant, "SampleCount")},
                label=f"{variant}: instances",
            )
        return Computed(
            expression="requests / per_instance",
            using={
                "requests": self.invocations(variant),
                "per_instance": self.invocations_per_instance(variant),
            },
            label=f"{variant}: instances",
        )

    def queued(self, name: str, statistic: str) -> Measured:
        """Of the queue of an asynchronous endpoint, which is the endpoint's and no variant's.
        ApproximateBacklogSize[PerInstance], HasBacklogWithoutCapacity; ApproximateAgeOfOldestRequest
        in seconds."""
        return self.of_variant(name, None, statistic)

    def serverless_use(self, what: str, variant: str) -> Measured:
        """`what`: ConcurrentExecutions, ProvisionedConcurrency; the share in use, 0 to 1."""
        return self.of_variant(f"Serverless{what}Utilization", variant, "Maximum")

    def requests_or_zero(self, variant: str) -> Computed:
        """Requests in one minute; 0 where there were none, for which SageMaker publishes nothing."""
        return Computed(
            expression="FILL(requests, 0)",
            using={"requests": self.invocations(variant)},
            label=f"{variant}: requests",
        )

    def counted_in_log(self, name: str) -> Measured:
        """Lines of the log that a filter of log_filters.json counts, in one minute, of all variants."""
        namespace = f"{metrics.OWN}{self.endpoint_name}"
        metrics.check(namespace, name, "Sum", [], self.kind.name)
        return Measured(namespace=namespace, name=name, statistic="Sum")

    def of_variant(
        self, name: str, variant: str | None, statistic: str, namespace: str = NAMESPACE
    ) -> Measured:
        """Any metric that SageMaker publishes; `variant` None: of the whole endpoint."""
        dimensions = {
            "EndpointName": self.endpoint_name,
            **({} if variant is None else {"VariantName": variant}),
            **self.extra_dimensions,
        }
        metrics.check(namespace, name, statistic, dimensions, self.kind.name)
        return Measured(
            namespace=namespace,
            name=name,
            dimensions=dimensions,
            statistic=statistic,
        )


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
    def gpus(self) -> int:
        """Of one instance. Raises KeyError for a type that the catalog does not know."""
        return instances()[self.instance_type].gpus if self.instance_type else 0

    def full_percent(self, metric: str) -> int:
        """The metric's own number for an instance that is fully used. Errors as of `gpus`."""
        instance = instances()[self.instance_type] if self.instance_type else None
        return metrics.full_percent(MACHINES, metric, instance)


@dataclass(frozen=True, kw_only=True)
class WatchedEndpoint:
    name: str
    region: str
    variants: tuple[WatchedVariant, ...]
    log_is_counted: bool = False
    """Whether `EndpointLogs` counts lines of its log: else nobody publishes refused requests."""
    resource: cdk.CfnResource | None = None
    """What alarms are made after; None for an endpoint of another stack."""
    kind: EndpointKind = REAL_TIME

    @property
    def metrics(self) -> EndpointMetrics:
        return EndpointMetrics(endpoint_name=self.name, kind=self.kind)
