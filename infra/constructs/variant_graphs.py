"""The graphs of one variant, in milliseconds and percent, under its alarms' lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import full_percent
from infra.constructs.alarm_signal import MILLISECONDS, PERCENT, Unit
from infra.constructs.capacity_graphs import HEIGHT, axis, cost_graph, instances_graph
from infra.constructs.endpoint_alarms import EndpointAlarms
from infra.constructs.endpoint_metrics import MACHINES, PERIOD, EndpointMetrics
from infra.constructs.watched_endpoint import WatchedEndpoint, WatchedVariant

Graph = Callable[[int], cloudwatch.IWidget]


@dataclass(frozen=True, kw_only=True)
class VariantGraphs:
    """Each method takes its width in columns. Titles name the variant: they stand side by side."""

    endpoint: WatchedEndpoint
    variant: WatchedVariant
    alarms: EndpointAlarms

    @property
    def all(self) -> list[Graph]:
        """The same ones, in the same order, for every variant of the endpoint."""
        kind = self.endpoint.kind
        if kind == "serverless":
            return [self.traffic, self.latency, self.errors, self.concurrency]
        first = self.queue if kind == "asynchronous" else self.traffic
        return [first, self.latency, self.errors, self.machines, self.instances, self.cost]

    @property
    def _metrics(self) -> EndpointMetrics:
        return self.endpoint.metrics

    def traffic(self, width: int) -> cloudwatch.IWidget:
        name, asked = self.variant.name, [self._metrics.invocations]
        labels = ["all", "per instance"]
        if self._metrics.publishes("InvocationsPerInstance"):
            asked.append(self._metrics.invocations_per_instance)
        return cloudwatch.GraphWidget(
            title=f"{name}: requests per minute",
            left=[
                metric(name).with_(label=label)
                for metric, label in zip(asked, labels, strict=False)
            ],
            left_y_axis=axis("requests"),
            left_annotations=self._lines("no-traffic"),
            width=width,
            height=HEIGHT,
        )

    def queue(self, width: int) -> cloudwatch.IWidget:
        """Of the endpoint, whichever variant is behind."""
        age = self.alarms.of(None, "queue-age")
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: requests that wait, and for how long",
            left=[
                self._metrics.queued("ApproximateBacklogSize", "Maximum").with_(label="all"),
                self._metrics.queued("ApproximateBacklogSizePerInstance", "Average").with_(
                    label="per instance"
                ),
            ],
            left_y_axis=axis("requests"),
            right=[
                _in(
                    self._metrics.queued("ApproximateAgeOfOldestRequest", "Maximum"),
                    60,
                    "age of the oldest",
                    0,
                )
            ],
            right_y_axis=axis("minutes"),
            right_annotations=[age.line] if age else [],
            width=width,
            height=HEIGHT,
        )

    def concurrency(self, width: int) -> cloudwatch.IWidget:
        """What is used of it; a serverless container shows no CPU and no disk."""
        name, metrics = self.variant.name, self._metrics
        shown = [
            ("concurrency", metrics.serverless_use("ConcurrentExecutions", name), 0.01),
            (
                "provisioned concurrency",
                metrics.serverless_use("ProvisionedConcurrency", name),
                0.01,
            ),
            ("memory", metrics.used("Memory", name, "Maximum"), 1),
        ]
        return cloudwatch.GraphWidget(
            title=f"{name}: saturation (%)",
            left=[
                _in(metric, percent, label, number)
                for number, (label, metric, percent) in enumerate(shown)
            ],
            left_y_axis=axis("%"),
            left_annotations=self._lines("memory"),
            width=width,
            height=HEIGHT,
        )

    def latency(self, width: int) -> cloudwatch.IWidget:
        name, metrics = self.variant.name, self._metrics
        shown = {one: metrics.model_latency(name, one) for one in ("p50", "p90", "p99")}
        if metrics.publishes("OverheadLatency"):
            shown["added by SageMaker, mean"] = metrics.overhead_latency(name)
        kinds = ("p50-latency", "p90-latency", "p99-latency", "overhead-latency")
        return self._graph("latency", shown, MILLISECONDS, self._lines(*kinds), width)

    def errors(self, width: int) -> cloudwatch.IWidget:
        name, metrics = self.variant.name, self._metrics
        shown = {
            "4xx": metrics.error_4xx_share(name),
            "5xx": metrics.error_5xx_share(name),
        }
        if metrics.publishes("InvocationModelErrors"):
            shown["not 2xx by the container"] = metrics.model_error_share(name)
        return self._graph(
            "errors", shown, PERCENT, self._lines("4xx", "5xx", "model-errors"), width
        )

    def machines(self, width: int) -> cloudwatch.IWidget:
        """100 % is the whole machine, however many cores and GPUs it has."""
        kinds = [("CPU", "Average"), ("Memory", "Maximum"), ("Disk", "Maximum")]
        if self.variant.instance.gpus:
            kinds += [("GPU", "Average"), ("GPUMemory", "Maximum")]
        shown = [
            _in(
                self._metrics.used(what, self.variant.name, statistic),
                full_percent(MACHINES, f"{what}Utilization", self.variant.instance) / 100,
                f"{what}, {'mean' if statistic == 'Average' else 'fullest instance'}",
                number,
            )
            for number, (what, statistic) in enumerate(kinds)
        ]
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: saturation (%)",
            left=shown,
            left_y_axis=axis("%"),
            left_annotations=self._lines("cpu", "memory", "disk", "gpu", "gpu-memory"),
            width=width,
            height=HEIGHT,
        )

    def instances(self, width: int) -> cloudwatch.IWidget:
        return instances_graph(self.endpoint, self.variant, width=width)

    def cost(self, width: int) -> cloudwatch.IWidget:
        return cost_graph(self.endpoint, self.variant, width=width)

    def _lines(self, *kinds: str) -> list[cloudwatch.HorizontalAnnotation]:
        found = [self.alarms.of(self.variant.name, kind) for kind in kinds]
        return [one.line for one in found if one is not None]

    def _graph(
        self,
        title: str,
        shown: dict[str, cloudwatch.Metric],
        unit: Unit,
        lines: Sequence[cloudwatch.HorizontalAnnotation],
        width: int,
    ) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(
            title=f"{self.variant.name}: {title} ({unit.symbol})",
            left=[
                _in(metric, unit.in_the_metric, label, number)
                for number, (label, metric) in enumerate(shown.items())
            ],
            left_y_axis=axis(unit.symbol),
            left_annotations=list(lines),
            width=width,
            height=HEIGHT,
        )


def _in(
    metric: cloudwatch.Metric, one_of_ours: float, label: str, number: int
) -> cloudwatch.MathExpression:
    """The metric in the person's unit. Ids must differ within a graph."""
    return cloudwatch.MathExpression(
        expression=f"m{number} / {one_of_ours:g}",
        using_metrics={f"m{number}": metric},
        label=label,
        period=PERIOD,
    )
