"""The graphs of one variant, in milliseconds and percent, with its alarms' thresholds as lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import check_metric, find_namespace
from infra.catalog.prices import find_price
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.watched_endpoint import (
    PERIOD_SECONDS,
    WatchedEndpoint,
    WatchedVariant,
    build_expression,
    create_period,
)
from infra.parameters.monitoring import MILLISECONDS, PERCENT, WATCHED, Unit

# label -> metric of an asynchronous endpoint
ASYNC_FAILURES = {
    "requests": "InvocationFailures",
    "of these, request not read from S3": "RequestDownloadFailures",
    "of these, response not written to S3": "ResponseUploadFailures",
    "expired in the queue": "ExpiredRequests",
    "notifications": "NotificationFailures",
}
# label -> metric of an endpoint that answers its callers
ERRORS = {
    "4xx": "Invocation4XXErrors",
    "5xx": "Invocation5XXErrors",
    "container responses other than 2xx": "InvocationModelErrors",
}
# Dimensions that enhanced metrics add:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html (2026-11-22)
BY_INSTANCE = ("EndpointName", "InstanceId", "VariantName")
BY_ACCELERATOR = ("AcceleratorId", *BY_INSTANCE)
Lines = list[cloudwatch.HorizontalAnnotation]
Shown = Sequence[cloudwatch.IMetric]


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
        """Return the graphs by name, which is the same for every variant that has the graph."""
        names = [*self.endpoint.kind.graphs]
        if self.variant.shared:
            names = ["machines", "instances", "cost"]
        elif not self.variant.has_metric("CPUUtilization") and self.endpoint.kind.has_instances:
            names = ["traffic", "latency", "errors", "copies"]
        graphs = {name: getattr(self, name)() for name in names}
        return graphs | (self._draw_searches() if self.endpoint.published.by_instance else {})

    def traffic(self) -> cloudwatch.IWidget:
        labels = {"Invocations": "all", "InvocationsPerInstance": "per instance"}
        shown = [
            self._build_metric(metric, "Sum", label=label)
            for metric, label in labels.items()
            if self.endpoint.kind.has_metric(metric)
        ]
        period_seconds = int(shown[0].period.to_seconds())
        period = "minute" if period_seconds == PERIOD_SECONDS else f"{period_seconds} s"
        return self._draw(f"requests per {period}", "requests", shown, "traffic")

    def queue(self) -> cloudwatch.IWidget:
        """Draw the queue of the endpoint, which is the same for every variant."""
        build, age = self.endpoint.build_metric, self.alarms.of(None, "queue-age")
        each = "ApproximateBacklogSizePerInstance"
        waits = build("ApproximateAgeOfOldestRequest", None, "Maximum")
        every = build("ApproximateBacklogSize", None, "Maximum", label="all")
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: waiting requests and their age",
            width=self.width,
            left=[every, build(each, None, "Average", label="per instance")],
            left_y_axis=make_axis("requests"),
            right=[_convert(waits, 60, "age of the oldest", 0)],
            right_annotations=[age.line] if age else None,
            right_y_axis=make_axis("minutes"),
        )

    def failures(self) -> cloudwatch.IWidget:
        """Draw the failures of an asynchronous endpoint, which no caller sees."""
        counts = ASYNC_FAILURES.items()
        shown = [self._build_metric(metric, "Sum", label=label) for label, metric in counts]
        return self._draw("failures per minute", "failures", shown, "failures")

    def concurrency(self) -> cloudwatch.IWidget:
        """Draw the utilization of a serverless variant, which has no CPU or disk metrics."""
        used = {
            "ServerlessConcurrentExecutionsUtilization": (0.01, "concurrency"),
            "ServerlessProvisionedConcurrencyUtilization": (0.01, "provisioned concurrency"),
            "MemoryUtilization": (1, "memory"),
        }
        shown = [
            _convert(self._build_metric(metric, "Maximum"), *unit, number)
            for number, (metric, unit) in enumerate(used.items())
        ]
        return self._draw("saturation (%)", "%", shown, "saturation")

    def latency(self) -> cloudwatch.IWidget:
        shown = {
            statistic: self._build_metric(metric, statistic)
            for _, metric, statistic, _ in WATCHED["latency"].values()
            if metric == "ModelLatency"
        }
        if self.endpoint.kind.has_metric("OverheadLatency"):
            shown["added by SageMaker, mean"] = self._build_metric("OverheadLatency", "Average")
        return self._draw("latency (ms)", "ms", _convert_all(shown, MILLISECONDS), "latency")

    def errors(self) -> cloudwatch.IWidget:
        # Means of metrics that are 0 or 1 per request: shares, 0 to 1.
        shown = {
            label: self._build_metric(metric, "Average")
            for label, metric in ERRORS.items()
            if self.endpoint.kind.has_metric(metric)
        }
        return self._draw("errors (%)", "%", _convert_all(shown, PERCENT), "errors")

    def machines(self) -> cloudwatch.IWidget:
        """Draw the utilization of the instances; 100 % is all cores and GPUs."""
        kinds = [("CPU", "Average"), ("Memory", "Maximum"), ("Disk", "Maximum")]
        if self.variant.gpus:
            kinds += [("GPU", "Average"), ("GPUMemory", "Maximum")]
        shown: list[cloudwatch.MathExpression] = []
        for pool in self.variant.pools or (None,):
            for what, statistic in kinds:
                name = f"{what}Utilization"
                full = self.variant.compute_full_percent(name, pool)
                mean = "mean" if statistic == "Average" else "fullest instance"
                label = f"{pool}: {what}, {mean}" if pool else f"{what}, {mean}"
                metric = self._build_metric(name, statistic, pool)
                shown.append(_convert(metric, full / 100, label, len(shown)))
        return self._draw("saturation (%)", "%", shown, "saturation")

    def _draw_searches(self) -> dict[str, cloudwatch.IWidget]:
        """Draw means of each instance and GPU. They come and go, so that only a search finds them."""
        variant = self.variant
        searches: list[tuple[str, str, Sequence[str], Unit]] = [
            ("latency by instance", "ModelLatency", BY_INSTANCE, MILLISECONDS)
        ]
        if not variant.pools:  # 100 % differs by instance type, which a search can't filter by
            full = Unit("%", variant.compute_full_percent("CPUUtilization") / 100)
            searches.append(("CPU by instance", "CPUUtilization", BY_INSTANCE, full))
        if variant.gpus:
            each = Unit("%", 1)
            searches.append(("GPU by accelerator", "GPUUtilization", BY_ACCELERATOR, each))
        values = {"EndpointName": self.endpoint.name, "VariantName": variant.name}
        graphs = {}
        for what, metric, dimensions, unit in searches:
            shown = build_search(metric, dimensions, "Average", unit, **values)
            graphs[what] = self._draw(f"{what}, mean ({unit.symbol})", unit.symbol, [shown])
        return graphs

    def instances(self) -> cloudwatch.IWidget:
        """Draw the number of instances; a minute without requests has no value."""
        variant, endpoint = self.variant, self.endpoint
        by_type = [
            _convert(self._build_count_metric(kind), endpoint.values_a_minute, kind, number)
            for number, kind in enumerate(variant.pools)
        ]
        shown = [endpoint.build_instance_count(variant.name), *by_type]
        title = f"responding instances, of {', '.join(variant.instance_types)}"
        return self._draw(title, "instances", shown, self._list_bounds())

    def copies(self) -> cloudwatch.IWidget:
        """Draw the number of copies of a component that shares instances."""
        name = self.variant.name
        shown = build_expression(*self.endpoint.build_count_terms(name), f"{name}: copies")
        return self._draw("copies that answer", "copies", [shown], self._list_bounds())

    def cost(self) -> cloudwatch.IWidget:
        """Draw the cost of the instances that respond, or a text if a price is unknown."""
        variant, endpoint = self.variant, self.endpoint
        found = {
            kind: variant.prices.get(kind) or find_price(kind, endpoint.region)
            for kind in variant.instance_types
        }
        rows = [row for row in found.values() if row is not None]
        missing = [kind for kind, row in found.items() if row is None]
        if missing or not rows:
            markdown = (
                f"**{variant.name}: cost per hour**\n\nno price of {', '.join(missing)} "
                "is known; set it as prices.instance_usd_per_hour"
            )
            return cloudwatch.TextWidget(markdown=markdown, width=self.width, height=6)
        usd_per_hour = [row.usd_per_hour for row in rows]
        using: dict[str, cloudwatch.Metric] = {}
        if not variant.pools:
            count, using = endpoint.build_count_terms(variant.name)
            expression = f"{count} * {usd_per_hour[0]:g}"
        else:
            terms = []
            for number, (kind, usd) in enumerate(zip(variant.pools, usd_per_hour, strict=True)):
                using[f"n{number}"] = self._build_count_metric(kind)
                terms.append(f"FILL(n{number}, 0) * {usd / endpoint.values_a_minute:g}")
            expression = " + ".join(terms)
        # From all instances of the cheapest type to all of the most expensive one.
        least = variant.min_instances * min(usd_per_hour)
        most = variant.max_instances * max(usd_per_hour)
        lines = [
            cloudwatch.HorizontalAnnotation(value=round(usd, 3), label=f"{name}: {usd:.2f}")
            for name, usd in (("min", least), ("max", most))
        ]
        shown = build_expression(expression, using, f"{variant.name}: USD per hour")
        title = f"cost per hour (USD, {rows[0].region}, {rows[0].as_of})"
        return self._draw(title, "USD per hour", [shown], lines)

    def _build_metric(
        self, name: str, statistic: str, pool: str | None = None, label: str | None = None
    ) -> cloudwatch.Metric:
        return self.endpoint.build_metric(name, self.variant.name, statistic, pool, label=label)

    def _build_count_metric(self, instance_type: str) -> cloudwatch.Metric:
        """Return the metric with `values_a_minute` samples for each instance of a type."""
        return self._build_metric("CPUUtilization", "SampleCount", instance_type)

    def _list_bounds(self) -> Lines:
        """Return lines at the minimum and maximum number of instances."""
        bounds = {"min": self.variant.min_instances, "max": self.variant.max_instances}
        return [
            cloudwatch.HorizontalAnnotation(value=value, label=f"{name} {value}")
            for name, value in bounds.items()
        ]

    def _draw(
        self, title: str, unit: str, shown: Shown, lines: Lines | str | None = None
    ) -> cloudwatch.IWidget:
        """Draw a graph with these lines, or those of the alarms whose signals name this graph."""
        if isinstance(lines, str):
            drawn, alarms = (self.variant.name, lines), self.alarms.by_name.values()
            lines = [
                each.line for each in alarms if (each.signal.variant, each.signal.graph) == drawn
            ]
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: {title}",
            width=self.width,
            left=shown,
            left_annotations=lines,
            left_y_axis=make_axis(unit),
        )


def make_axis(label: str) -> cloudwatch.YAxisProps:
    """Return an axis that begins at 0."""
    return cloudwatch.YAxisProps(label=label, min=0, show_units=False)


def build_search(
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


def _convert_all(shown: dict[str, cloudwatch.Metric], unit: Unit) -> Shown:
    return [
        _convert(metric, unit.in_the_metric, label, number)
        for number, (label, metric) in enumerate(shown.items())
    ]


def _convert(
    metric: cloudwatch.Metric, divisor: float, label: str, number: int
) -> cloudwatch.MathExpression:
    """Return the metric in the file's unit. `number` keeps the IDs unique within a graph."""
    return build_expression(f"m{number} / {divisor:g}", {f"m{number}": metric}, label)
