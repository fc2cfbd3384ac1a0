"""The metrics and instances of an endpoint of any stack, as alarms and dashboards use them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Protocol

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import IConstruct, IDependable

from infra.catalog import metrics
from infra.catalog.instances import load_instances
from infra.catalog.prices import Price
from infra.parameters.monitoring import BY_THE_MINUTE, PublishIntervals
from infra.parameters.table import Table
from infra.policy.hosting import REAL_TIME, EndpointKind

MACHINES = "/aws/sagemaker/Endpoints"
COUNTS = ("Sum", "SampleCount")
PERIOD_SECONDS = 60  # as often as SageMaker publishes unless [metrics] says otherwise
AlarmMetric = cloudwatch.Metric | cloudwatch.MathExpression


@cache
def create_period(count: int) -> cdk.Duration:
    """Return a CDK duration of `count` seconds, cached because creating one calls CDK's process."""
    return cdk.Duration.seconds(count)


def build_expression(
    expression: str, using: Mapping[str, cloudwatch.Metric], label: str | None = None
) -> cloudwatch.MathExpression:
    """Return an expression of metrics that share one period. `using` maps its variables to them."""
    period = next(iter(using.values())).period
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=dict(using), label=label, period=period
    )


@dataclass(frozen=True, kw_only=True)
class WatchedVariant:
    """A variant's instance types and range of instances."""

    name: str
    instance_type: str | None = None
    """The (preferred) instance type; None for a serverless variant."""
    pools: tuple[str, ...] = ()
    """All instance types in order of preference if there are several; each then has metrics of its own."""
    component: str | None = None
    """The inference component whose copies run on it, or which this is; None if it has a model itself."""
    shared: bool = False
    """Whether several components share its instances, and are watched by themselves."""
    min_instances: int = 1
    max_instances: int = 1
    scales: bool = False
    """Whether the number of instances scales; not a serverless variant's provisioned concurrency."""
    shadow: bool = False
    """Whether it is a shadow, which gets copies of requests and whose answers are discarded."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Price of an instance by type; a type that is left out has the catalog's."""

    def has_metric(self, metric: str) -> bool:
        """Return whether it publishes a metric. Components publish requests, shared instances the rest."""
        if metrics.find_namespace(metric) == MACHINES:
            return self.component is None or self.instance_type is not None
        return not self.shared

    @property
    def gpus(self) -> int:
        """Return the most GPUs of an instance among its types. Raises KeyError for an unknown type."""
        return max((load_instances()[kind].gpus for kind in self.instance_types), default=0)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Return the instance types in order of preference; empty for a serverless variant."""
        return self.pools or ((self.instance_type,) if self.instance_type else ())

    def compute_full_percent(self, metric: str, instance_type: str | None = None) -> int:
        """Return the metric's value for a fully used instance of this type or the preferred one."""
        kind = instance_type or self.instance_type
        instance = None if kind is None else load_instances()[kind]
        return metrics.compute_full_percent(metric, instance)


Tables = dict[str, tuple[IConstruct, Table]]
"""Dotted key of a table of an environment file, to the construct that stands for it and its values."""


class Watchable(Protocol):
    """An endpoint that alarms and dashboards can be created for: an `Endpoint` or an imported one."""

    @property
    def watched(self) -> "WatchedEndpoint": ...


@dataclass(frozen=True, kw_only=True)
class WatchedEndpoint:
    """The variants and metrics of an endpoint of any stack.

    A metric that isn't published raises `UnpublishedMetricError`.
    """

    name: str
    region: str
    variants: tuple[WatchedVariant, ...]
    log_is_counted: bool = False
    """Whether `EndpointLogs` counts log lines; otherwise there is no metric of rejected requests."""
    resource: IDependable | None = None
    """The resource that alarms depend on; None for an endpoint of another stack."""
    kind: EndpointKind = REAL_TIME
    published: PublishIntervals = BY_THE_MINUTE
    tables: Tables | None = None
    """Receives the alarms' thresholds for the checks; None for an endpoint of another stack."""
    extra_dimensions: Mapping[str, str] = field(default_factory=dict)
    """EndpointConfigName, to see only the new fleet while an update runs."""
    shortest_period_seconds: int = 0
    """Shortest period of a metric, for graphs. Default: as often as it is published."""

    @cached_property
    def components(self) -> Mapping[str, str]:
        """Return the inference components of variants and copies, by their names in the endpoint."""
        return {each.name: each.component for each in self.variants if each.component}

    def build_instance_count(self, variant: str) -> cloudwatch.MathExpression:
        """Return the number of instances that respond, which SageMaker doesn't publish."""
        return build_expression(*self.build_count_terms(variant), f"{variant}: instances")

    def build_count_terms(self, variant: str) -> tuple[str, dict[str, cloudwatch.Metric]]:
        """Return the expression of the number of instances, and its metrics.

        It is Invocations divided by InvocationsPerInstance, without data if there is no traffic.
        For an asynchronous endpoint, and for instances that components share, it counts the
        values of CPUUtilization, one per instance and minute.
        Source:
        https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-troubleshooting.html
        """
        shared = self.components and variant not in self.components
        if shared or not self.kind.has_metric("Invocations"):
            share = "" if self.values_a_minute == 1 else f" / {self.values_a_minute}"
            counted = self.build_metric("CPUUtilization", variant, "SampleCount")
            return f"counted{share}", {"counted": counted}
        return "requests / per_instance", {
            "requests": self.build_metric("Invocations", variant, "Sum"),
            "per_instance": self.build_metric("InvocationsPerInstance", variant, "Sum"),
        }

    @property
    def values_a_minute(self) -> int:
        """Return how many utilization values an instance publishes in one count period."""
        return max(1, PERIOD_SECONDS // self.published.utilization_seconds)

    def build_log_metric(self, name: str, statistic: str = "Sum") -> cloudwatch.Metric:
        """Return the metric that counts log lines of all variants that match a filter, per minute.

        `name` is in log_filters.json, or GoldenRequestErrors of the function with golden requests.
        """
        namespace, dimensions = f"{metrics.OWN}{self.name}", self.extra_dimensions
        metrics.check_metric(namespace, name, statistic, dimensions, self.kind.name)
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            statistic=statistic,
            dimensions_map=dict(dimensions),
            period=create_period(PERIOD_SECONDS),
        )

    def build_metric(
        self,
        name: str,
        variant: str | None,
        statistic: str,
        instance_type: str | None = None,
        *,
        label: str | None = None,
    ) -> cloudwatch.Metric:
        """Return any metric that SageMaker publishes; without `variant` that of the whole endpoint.

        `instance_type` is one of several of a variant. Utilization is in percent of each core and
        GPU; that of a serverless variant's concurrency is a share, 0 to 1.
        """
        component = self.components.get(variant or "")
        if component is not None and metrics.find_namespace(name) != MACHINES:
            # A component has the metrics of its requests under its own name alone.
            # https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (2026-11-23)
            name = name.replace("PerInstance", "PerCopy")
            namespace, dimensions = "AWS/SageMaker", {"InferenceComponentName": component}
            metrics.check_metric(namespace, name, statistic, dimensions)
            period_seconds = PERIOD_SECONDS
        else:
            of = {"EndpointName": self.name, "VariantName": variant, "InstanceType": instance_type}
            known = {key: value for key, value in of.items() if value is not None}
            dimensions = known | dict(self.extra_dimensions)
            namespace = metrics.find_namespace(name)
            metrics.check_metric(namespace, name, statistic, dimensions, self.kind.name)
            each = self.published.requests_seconds
            if namespace == MACHINES:
                each = self.published.utilization_seconds
            # Counts are per minute, as in thresholds and graphs.
            shortest = PERIOD_SECONDS if statistic in COUNTS else self.shortest_period_seconds
            period_seconds = max(each, shortest)
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            label=label,
            period=create_period(period_seconds),
        )
