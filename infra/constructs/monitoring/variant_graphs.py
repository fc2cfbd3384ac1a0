"""The graphs of one variant, in milliseconds and percent, with its alarms' thresholds as lines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from infra.catalog.prices import price
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.measured import PERIOD_SECONDS, Computed, Measured, searched
from infra.constructs.monitoring.watched_endpoint import (
    EndpointMetrics,
    WatchedEndpoint,
    WatchedVariant,
)
from infra.constructs.monitoring.widget import Line, Side, Widget, graph
from infra.parameters.alarms import MILLISECONDS, PERCENT, Unit

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

    @property
    def all(self) -> dict[str, Widget]:
        """{name: graph}; the names are those of other variants of the endpoint where both have it."""
        names = [*self.endpoint.kind.graphs]
        if self.variant.shared:
            names = ["machines", "instances", "cost"]
        elif not self.variant.has("CPUUtilization") and self.endpoint.kind.has_instances:
            names = ["traffic", "latency", "errors", "copies"]
        if self.endpoint.published.by_instance:
            names.append("latency_by_instance")
            # What is 100 % differs by type, and which type an instance is of cannot be searched for.
            names += [] if self.variant.pools else ["cpu_by_instance"]
            names += ["gpu_by_accelerator"] if self.variant.gpus else []
        return {name: getattr(self, name)() for name in names}

    @property
    def _metrics(self) -> EndpointMetrics:
        return self.endpoint.metrics

    def traffic(self) -> Widget:
        name = self.variant.name
        shown = [replace(self._metrics.invocations(name), label="all")]
        if self._metrics.kind.publishes("InvocationsPerInstance"):
            per_instance = self._metrics.invocations_per_instance(name)
            shown.append(replace(per_instance, label="per instance"))
        seconds = shown[0].period_seconds
        period = "minute" if seconds == PERIOD_SECONDS else f"{seconds} s"
        return graph(
            f"{name}: requests per {period}",
            left=Side(label="requests", metrics=shown, lines=self._lines("traffic")),
        )

    def queue(self) -> Widget:
        """The queue of the endpoint, which is the same for every variant."""
        of_endpoint, age = self._metrics.of_variant, self.alarms.of(None, "queue-age")
        waiting = of_endpoint("ApproximateBacklogSize", None, "Maximum")
        each = of_endpoint("ApproximateBacklogSizePerInstance", None, "Average")
        waits = of_endpoint("ApproximateAgeOfOldestRequest", None, "Maximum")
        shown = [replace(waiting, label="all"), replace(each, label="per instance")]
        oldest = _in(waits, 60, "age of the oldest", 0)
        return graph(
            f"{self.variant.name}: requests that wait, and for how long",
            left=Side(label="requests", metrics=shown),
            right=Side(label="minutes", metrics=[oldest], lines=[age.line] if age else []),
        )

    def failures(self) -> Widget:
        """Failures of an asynchronous endpoint, which no caller sees."""
        shown = [
            replace(self._metrics.of_variant(metric, self.variant.name, "Sum"), label=label)
            for label, metric in ASYNC_FAILURES.items()
        ]
        return graph(
            f"{self.variant.name}: failures per minute",
            left=Side(label="failures", metrics=shown, lines=self._lines("failures")),
        )

    def concurrency(self) -> Widget:
        """Utilization of a serverless variant's concurrency; it publishes no CPU and no disk."""
        name, metrics = self.variant.name, self._metrics
        used = metrics.of_variant("ServerlessConcurrentExecutionsUtilization", name, "Maximum")
        provisioned = metrics.of_variant(
            "ServerlessProvisionedConcurrencyUtilization", name, "Maximum"
        )
        shown = [
            _in(used, 0.01, "concurrency", 0),
            _in(provisioned, 0.01, "provisioned concurrency", 1),
            _in(metrics.of_variant("MemoryUtilization", name, "Maximum"), 1, "memory", 2),
        ]
        return self._graph("saturation", shown, "%")

    def latency(self) -> Widget:
        name, metrics = self.variant.name, self._metrics
        percentiles = ("p50", "p90", "p99")
        shown = {percentile: metrics.model_latency(name, percentile) for percentile in percentiles}
        if metrics.kind.publishes("OverheadLatency"):
            shown["added by SageMaker, mean"] = metrics.of_variant(
                "OverheadLatency", name, "Average"
            )
        return self._graph("latency", _all_in(MILLISECONDS, shown), "ms")

    def errors(self) -> Widget:
        name, metrics = self.variant.name, self._metrics
        # Means of metrics that are 0 or 1 per request: shares, 0 to 1.
        shown = {
            label: metrics.of_variant(metric, name, "Average")
            for label, metric in ERRORS.items()
            if metrics.kind.publishes(metric)
        }
        return self._graph("errors", _all_in(PERCENT, shown), "%")

    def machines(self) -> Widget:
        """Utilization of the instances; 100 % is all cores and GPUs."""
        kinds = [("CPU", "Average"), ("Memory", "Maximum"), ("Disk", "Maximum")]
        if self.variant.gpus:
            kinds += [("GPU", "Average"), ("GPUMemory", "Maximum")]
        shown: list[Computed] = []
        for pool in self.variant.pools or (None,):
            for what, statistic in kinds:
                name = f"{what}Utilization"
                metric = self._metrics.of_variant(name, self.variant.name, statistic, pool)
                full = self.variant.full_percent(name, pool)
                mean = "mean" if statistic == "Average" else "fullest instance"
                label = f"{pool}: {what}, {mean}" if pool else f"{what}, {mean}"
                shown.append(_in(metric, full / 100, label, len(shown)))
        return self._graph("saturation", shown, "%")

    def latency_by_instance(self) -> Widget:
        """Mean latency of each instance: the slow one among several."""
        title = "latency by instance, mean"
        return self._each("ModelLatency", BY_INSTANCE, title, MILLISECONDS)

    def cpu_by_instance(self) -> Widget:
        """CPU of each instance, in percent of all its vCPUs."""
        title, full = "CPU by instance, mean", self.variant.full_percent("CPUUtilization")
        unit = Unit("%", full / 100)
        return self._each("CPUUtilization", BY_INSTANCE, title, unit)

    def gpu_by_accelerator(self) -> Widget:
        """Utilization of each GPU of each instance."""
        title, unit = "GPU by accelerator, mean", Unit("%", 1)
        return self._each("GPUUtilization", BY_ACCELERATOR, title, unit)

    def _each(
        self,
        metric: str,
        dimensions: Sequence[str],
        title: str,
        unit: Unit,
    ) -> Widget:
        # A search, because instances come and go.
        values = {"EndpointName": self.endpoint.name, "VariantName": self.variant.name}
        search = searched(metric, dimensions, "Average", **values)
        shown = Computed(expression=f"{search} / {unit.in_the_metric:g}")
        return graph(
            f"{self.variant.name}: {title} ({unit.symbol})",
            left=Side(label=unit.symbol, metrics=[shown]),
        )

    def instances(self) -> Widget:
        """Number of instances, with lines at min and max. A minute without requests has no value."""
        endpoint, variant = self.endpoint, self.variant
        each = endpoint.metrics.values_a_minute
        by_type = [
            _in(endpoint.metrics.instances_of_type(variant.name, kind), each, kind, number)
            for number, kind in enumerate(variant.pools)
        ]
        return graph(
            f"{variant.name}: instances that answer, of {', '.join(variant.instance_types)}",
            left=Side(
                label="instances",
                metrics=[endpoint.metrics.instances(variant.name), *by_type],
                lines=[
                    Line(value=variant.min_instances, label=f"min {variant.min_instances}"),
                    Line(value=variant.max_instances, label=f"max {variant.max_instances}"),
                ],
            ),
        )

    def copies(self) -> Widget:
        """Number of copies of a component that shares instances, with lines at min and max."""
        least, most = self.variant.min_instances, self.variant.max_instances
        lines = [Line(value=least, label=f"min {least}"), Line(value=most, label=f"max {most}")]
        shown = [
            replace(
                self._metrics.instances(self.variant.name), label=f"{self.variant.name}: copies"
            )
        ]
        return graph(
            f"{self.variant.name}: copies that answer",
            left=Side(label="copies", metrics=shown, lines=lines),
        )

    def cost(self) -> Widget:
        """Cost of the instances that answer; a text if no source states a price."""
        endpoint, variant = self.endpoint, self.variant
        rows, missing = [], []
        for kind in variant.instance_types:
            row = variant.prices.get(kind) or price(kind, endpoint.region)
            if row is None:
                missing.append(kind)
            else:
                rows.append(row)
        if missing or not rows:
            markdown = (
                f"**{variant.name}: cost per hour**\n\nno price of {', '.join(missing)} "
                "is known; state it as prices.instance_usd_per_hour"
            )
            return Widget(kind="text", properties={"markdown": markdown})
        usd_per_hour = [row.usd_per_hour for row in rows]
        count = endpoint.metrics.instances(variant.name)
        expression, using = f"{count.expression} * {usd_per_hour[0]:g}", dict(count.using)
        if variant.pools:
            using, terms = {}, []
            for number, (kind, usd) in enumerate(zip(variant.pools, usd_per_hour, strict=True)):
                using[f"n{number}"] = endpoint.metrics.instances_of_type(variant.name, kind)
                terms.append(f"FILL(n{number}, 0) * {usd / endpoint.metrics.values_a_minute:g}")
            expression = " + ".join(terms)
        # From all instances of the cheapest type to all of the dearest.
        least = variant.min_instances * min(usd_per_hour)
        most = variant.max_instances * max(usd_per_hour)
        cost = Computed(expression=expression, using=using, label=f"{variant.name}: USD per hour")
        return graph(
            f"{variant.name}: cost per hour (USD, {rows[0].region}, {rows[0].as_of})",
            left=Side(
                label="USD per hour",
                metrics=[cost],
                lines=[
                    Line(value=round(least, 3), label=f"min: {least:.2f}"),
                    Line(value=round(most, 3), label=f"max: {most:.2f}"),
                ],
            ),
        )

    def _lines(self, title: str) -> list[Line]:
        return [
            alarm.line
            for alarm in self.alarms.by_name.values()
            if (alarm.signal.variant, alarm.signal.graph) == (self.variant.name, title)
        ]

    def _graph(self, title: str, shown: Sequence[Computed], unit: str) -> Widget:
        return graph(
            f"{self.variant.name}: {title} ({unit})",
            left=Side(label=unit, metrics=shown, lines=self._lines(title)),
        )


def _all_in(unit: Unit, shown: dict[str, Measured]) -> list[Computed]:
    return [
        _in(metric, unit.in_the_metric, label, number)
        for number, (label, metric) in enumerate(shown.items())
    ]


def _in(metric: Measured, one_of_ours: float, label: str, number: int) -> Computed:
    """The metric in the file's unit. `number` makes the ids differ within a graph."""
    return Computed(
        expression=f"m{number} / {one_of_ours:g}", using={f"m{number}": metric}, label=label
    )
