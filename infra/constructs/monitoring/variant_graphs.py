"""The graphs of one variant, in milliseconds and percent, with its alarms' thresholds as lines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import check_metric, find_namespace
from infra.catalog.prices import find_price
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.watched_endpoint import (
    PERIOD_SECONDS,
    EndpointMetrics,
    WatchedEndpoint,
    WatchedVariant,
    build_expression,
    create_period,
)
from infra.parameters.monitoring import MILLISECONDS, PERCENT, Unit

# label -> metric of an asynchronous endpoint
ASYNC_FAILURES = {
    "requests": "InvocationFailures",
    "of these, request not read from S3": "RequestDownloadFailures",
    "of these, answer not written to S3": "ResponseUploadFailures",
    "expired in the queue": "ExpiredRequests",
    "notifications": "NotificationFailures",
}
# label -> metric of an endpoint that answers its callers
ERRORS = {
    "4xx": "Invocation4XXErrors",
    "5xx": "Invocation5XXErrors",
    "not 2xx by the container": "InvocationModelErrors",
}
# Dimensions that enhanced metrics add:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html (2026-11-22)
BY_INSTANCE = ("EndpointName", "InstanceId", "VariantName")
BY_ACCELERATOR = ("AcceleratorId", *BY_INSTANCE)


@dataclass(frozen=True, kw_only=True)
class VariantGraphs:
    """The graphs of a variant. Titles name the variant."""

    endpoint: WatchedEndpoint
    variant: WatchedVariant
    alarms: EndpointAlarms
    width: int
    """Columns of each graph."""

    @property
    def graphs(self) -> dict[str, cloudwatch.IWidget]:
        """Return the graphs by name.

        A graph that two variants of the endpoint both have has the same name for both.
        """
        names = [*self.endpoint.kind.graphs]
        if self.variant.shared:
            names = ["machines", "instances", "cost"]
        elif not self.variant.has_metric("CPUUtilization") and self.endpoint.kind.has_instances:
            names = ["traffic", "latency", "errors", "copies"]
        if self.endpoint.published.by_instance:
            names.append("latency_by_instance")
            # What is 100 % differs by type, and which type an instance is of cannot be searched for.
            names += [] if self.variant.pools else ["cpu_by_instance"]
            names += ["gpu_by_accelerator"] if self.variant.gpus else []
        return {name: getattr(self, name)() for name in names}

    @cached_property
    def _metrics(self) -> EndpointMetrics:
        # Shorter periods are kept for three hours only, and a dashboard shows more: the page above.
        return replace(self.endpoint.metrics, shortest_period_seconds=PERIOD_SECONDS)

    def traffic(self) -> cloudwatch.IWidget:
        name, metrics = self.variant.name, self._metrics
        shown = [metrics.build_metric("Invocations", name, "Sum", label="all")]
        if metrics.kind.has_metric("InvocationsPerInstance"):
            per_instance = "InvocationsPerInstance", name, "Sum"
            shown.append(metrics.build_metric(*per_instance, label="per instance"))
        period_seconds = int(shown[0].period.to_seconds())
        period = "minute" if period_seconds == PERIOD_SECONDS else f"{period_seconds} s"
        title = f"{name}: requests per {period}"
        return self._draw(title, "requests", shown, self._list_threshold_lines("traffic"))

    def queue(self) -> cloudwatch.IWidget:
        """Draw the queue of the endpoint, which is the same for every variant."""
        of_endpoint, age = self._metrics.build_metric, self.alarms.of(None, "queue-age")
        each = "ApproximateBacklogSizePerInstance"
        waits = of_endpoint("ApproximateAgeOfOldestRequest", None, "Maximum")
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: requests that wait, and for how long",
            width=self.width,
            left=[
                of_endpoint("ApproximateBacklogSize", None, "Maximum", label="all"),
                of_endpoint(each, None, "Average", label="per instance"),
            ],
            left_y_axis=make_axis("requests"),
            right=[_convert(waits, 60, "age of the oldest", 0)],
            right_annotations=[age.line] if age else None,
            right_y_axis=make_axis("minutes"),
        )

    def failures(self) -> cloudwatch.IWidget:
        """Draw the failures of an asynchronous endpoint, which no caller sees."""
        shown = [
            self._metrics.build_metric(metric, self.variant.name, "Sum", label=label)
            for label, metric in ASYNC_FAILURES.items()
        ]
        title = f"{self.variant.name}: failures per minute"
        return self._draw(title, "failures", shown, self._list_threshold_lines("failures"))

    def concurrency(self) -> cloudwatch.IWidget:
        """Draw the utilization of a serverless variant's concurrency and memory.

        A serverless variant publishes no CPU or disk metrics.
        """
        name, metrics = self.variant.name, self._metrics
        used = metrics.build_metric("ServerlessConcurrentExecutionsUtilization", name, "Maximum")
        provisioned = metrics.build_metric(
            "ServerlessProvisionedConcurrencyUtilization", name, "Maximum"
        )
        shown = [
            _convert(used, 0.01, "concurrency", 0),
            _convert(provisioned, 0.01, "provisioned concurrency", 1),
            _convert(metrics.build_metric("MemoryUtilization", name, "Maximum"), 1, "memory", 2),
        ]
        return self._draw_with_thresholds("saturation", shown, "%")

    def latency(self) -> cloudwatch.IWidget:
        name, metrics = self.variant.name, self._metrics
        percentiles = ("p50", "p90", "p99")
        shown = {
            percentile: metrics.build_latency_metric(name, percentile) for percentile in percentiles
        }
        if metrics.kind.has_metric("OverheadLatency"):
            shown["added by SageMaker, mean"] = metrics.build_metric(
                "OverheadLatency", name, "Average"
            )
        return self._draw_with_thresholds("latency", _convert_all(MILLISECONDS, shown), "ms")

    def errors(self) -> cloudwatch.IWidget:
        name, metrics = self.variant.name, self._metrics
        # Means of metrics that are 0 or 1 per request: shares, 0 to 1.
        shown = {
            label: metrics.build_metric(metric, name, "Average")
            for label, metric in ERRORS.items()
            if metrics.kind.has_metric(metric)
        }
        return self._draw_with_thresholds("errors", _convert_all(PERCENT, shown), "%")

    def machines(self) -> cloudwatch.IWidget:
        """Draw the utilization of the instances; 100 % is all cores and GPUs."""
        kinds = [("CPU", "Average"), ("Memory", "Maximum"), ("Disk", "Maximum")]
        if self.variant.gpus:
            kinds += [("GPU", "Average"), ("GPUMemory", "Maximum")]
        shown: list[cloudwatch.MathExpression] = []
        for pool in self.variant.pools or (None,):
            for what, statistic in kinds:
                name = f"{what}Utilization"
                metric = self._metrics.build_metric(name, self.variant.name, statistic, pool)
                full = self.variant.compute_full_percent(name, pool)
                mean = "mean" if statistic == "Average" else "fullest instance"
                label = f"{pool}: {what}, {mean}" if pool else f"{what}, {mean}"
                shown.append(_convert(metric, full / 100, label, len(shown)))
        return self._draw_with_thresholds("saturation", shown, "%")

    def latency_by_instance(self) -> cloudwatch.IWidget:
        """Draw the mean latency of each instance, to show a slow one among several."""
        title = "latency by instance, mean"
        return self._draw_search("ModelLatency", BY_INSTANCE, title, MILLISECONDS)

    def cpu_by_instance(self) -> cloudwatch.IWidget:
        """Draw the CPU utilization of each instance, in percent of all its vCPUs."""
        title, full = "CPU by instance, mean", self.variant.compute_full_percent("CPUUtilization")
        unit = Unit("%", full / 100)
        return self._draw_search("CPUUtilization", BY_INSTANCE, title, unit)

    def gpu_by_accelerator(self) -> cloudwatch.IWidget:
        """Draw the utilization of each GPU of each instance."""
        title, unit = "GPU by accelerator, mean", Unit("%", 1)
        return self._draw_search("GPUUtilization", BY_ACCELERATOR, title, unit)

    def _draw_search(
        self,
        metric: str,
        dimensions: Sequence[str],
        title: str,
        unit: Unit,
    ) -> cloudwatch.IWidget:
        # A search, because instances come and go.
        values = {"EndpointName": self.endpoint.name, "VariantName": self.variant.name}
        shown = build_search_expression(metric, dimensions, "Average", unit, **values)
        return self._draw(f"{self.variant.name}: {title} ({unit.symbol})", unit.symbol, [shown])

    def instances(self) -> cloudwatch.IWidget:
        """Draw the number of instances, with lines at the minimum and maximum.

        A minute without requests has no value.
        """
        variant, metrics = self.variant, self._metrics
        by_type = [
            _convert(
                metrics.build_type_count_metric(variant.name, kind),
                metrics.values_a_minute,
                kind,
                number,
            )
            for number, kind in enumerate(variant.pools)
        ]
        return self._draw(
            f"{variant.name}: instances that answer, of {', '.join(variant.instance_types)}",
            "instances",
            [metrics.build_instance_count(variant.name), *by_type],
            self._bounds,
        )

    def copies(self) -> cloudwatch.IWidget:
        """Draw the number of copies of a component that shares instances.

        It has lines at the minimum and maximum.
        """
        name = self.variant.name
        shown = build_expression(*self._metrics.build_count_terms(name), f"{name}: copies")
        return self._draw(f"{name}: copies that answer", "copies", [shown], self._bounds)

    @property
    def _bounds(self) -> list[cloudwatch.HorizontalAnnotation]:
        """Return lines at the minimum and maximum number of instances."""
        bounds = {"min": self.variant.min_instances, "max": self.variant.max_instances}
        return [
            cloudwatch.HorizontalAnnotation(value=value, label=f"{name} {value}")
            for name, value in bounds.items()
        ]

    def cost(self) -> cloudwatch.IWidget:
        """Draw the cost of the instances that respond, or a text if a price is unknown."""
        endpoint, variant = self.endpoint, self.variant
        rows, missing = [], []
        for kind in variant.instance_types:
            row = variant.prices.get(kind) or find_price(kind, endpoint.region)
            if row is None:
                missing.append(kind)
            else:
                rows.append(row)
        if missing or not rows:
            markdown = (
                f"**{variant.name}: cost per hour**\n\nno price of {', '.join(missing)} "
                "is known; state it as prices.instance_usd_per_hour"
            )
            return cloudwatch.TextWidget(markdown=markdown, width=self.width, height=6)
        usd_per_hour = [row.usd_per_hour for row in rows]
        metrics = self._metrics
        using: dict[str, cloudwatch.Metric] = {}
        if not variant.pools:
            count, using = metrics.build_count_terms(variant.name)
            expression = f"{count} * {usd_per_hour[0]:g}"
        else:
            terms = []
            for number, (kind, usd) in enumerate(zip(variant.pools, usd_per_hour, strict=True)):
                using[f"n{number}"] = metrics.build_type_count_metric(variant.name, kind)
                terms.append(f"FILL(n{number}, 0) * {usd / metrics.values_a_minute:g}")
            expression = " + ".join(terms)
        # From all instances of the cheapest type to all of the dearest.
        bounds = {
            "min": variant.min_instances * min(usd_per_hour),
            "max": variant.max_instances * max(usd_per_hour),
        }
        return self._draw(
            f"{variant.name}: cost per hour (USD, {rows[0].region}, {rows[0].as_of})",
            "USD per hour",
            [build_expression(expression, using, f"{variant.name}: USD per hour")],
            [
                cloudwatch.HorizontalAnnotation(value=round(usd, 3), label=f"{name}: {usd:.2f}")
                for name, usd in bounds.items()
            ],
        )

    def _list_threshold_lines(self, title: str) -> list[cloudwatch.HorizontalAnnotation]:
        return [
            alarm.line
            for alarm in self.alarms.by_name.values()
            if (alarm.signal.variant, alarm.signal.graph) == (self.variant.name, title)
        ]

    def _draw_with_thresholds(
        self, title: str, shown: Sequence[cloudwatch.IMetric], unit: str
    ) -> cloudwatch.IWidget:
        lines = self._list_threshold_lines(title)
        return self._draw(f"{self.variant.name}: {title} ({unit})", unit, shown, lines)

    def _draw(
        self,
        title: str,
        label: str,
        shown: Sequence[cloudwatch.IMetric],
        lines: Sequence[cloudwatch.HorizontalAnnotation] | None = None,
    ) -> cloudwatch.IWidget:
        return cloudwatch.GraphWidget(
            title=title,
            width=self.width,
            left=shown,
            left_annotations=lines,
            left_y_axis=make_axis(label),
        )


def make_axis(label: str) -> cloudwatch.YAxisProps:
    """Return an axis that begins at 0."""
    return cloudwatch.YAxisProps(label=label, min=0, show_units=False)


def build_search_expression(
    name: str, dimensions: Sequence[str], statistic: str, unit: Unit, **values: str
) -> cloudwatch.MathExpression:
    """Return the expression that finds each metric of this name with these dimensions, in `unit`.

    `values` has the values of some of the dimensions.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
    (2026-11-23)
    """
    namespace = find_namespace(name)
    check_metric(namespace, name, statistic, dimensions)
    terms = " ".join(f'{key}="{value}"' for key, value in {**values, "MetricName": name}.items())
    schema = ",".join((namespace, *dimensions))
    search = f"SEARCH('{{{schema}}} {terms}', '{statistic}', {PERIOD_SECONDS})"
    return cloudwatch.MathExpression(
        expression=f"{search} / {unit.in_the_metric:g}",
        label="",  # CDK's default is the expression, as the label of every series
        period=create_period(PERIOD_SECONDS),
    )


def _convert_all(
    unit: Unit, shown: dict[str, cloudwatch.Metric]
) -> list[cloudwatch.MathExpression]:
    return [
        _convert(metric, unit.in_the_metric, label, number)
        for number, (label, metric) in enumerate(shown.items())
    ]


def _convert(
    metric: cloudwatch.Metric, divisor: float, label: str, number: int
) -> cloudwatch.MathExpression:
    """Return the metric in the file's unit. `number` keeps the IDs unique within a graph."""
    return build_expression(f"m{number} / {divisor:g}", {f"m{number}": metric}, label)
