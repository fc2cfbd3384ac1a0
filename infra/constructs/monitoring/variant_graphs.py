"""The graphs of one variant, in milliseconds and percent, with its alarms' thresholds as lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from infra.catalog.prices import price
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.measured import PERIOD_SECONDS, Computed, Measured, searched
from infra.constructs.monitoring.signals import MILLISECONDS, PERCENT, Unit
from infra.constructs.monitoring.watched_endpoint import (
    MACHINES,
    NAMESPACE,
    EndpointMetrics,
    WatchedEndpoint,
    WatchedVariant,
)
from infra.constructs.monitoring.widget import Line, Side, Widget, graph, text

# label -> metric of an asynchronous endpoint
ASYNC_FAILURES = {
    "requests": "InvocationFailures",
    "of these, request not read from S3": "RequestDownloadFailures",
    "of these, answer not written to S3": "ResponseUploadFailures",
    "expired in the queue": "ExpiredRequests",
    "notifications": "NotificationFailures",
}
# Dimensions that enhanced metrics add:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html (2026-11-22)
BY_INSTANCE = ("EndpointName", "InstanceId", "VariantName")
BY_ACCELERATOR = ("AcceleratorId", *BY_INSTANCE)
Graph = Callable[[int], Widget]


@dataclass(frozen=True, kw_only=True)
class VariantGraphs:
    """The graphs of a variant. Each method takes its width in columns; titles name the variant."""

    endpoint: WatchedEndpoint
    variant: WatchedVariant
    alarms: EndpointAlarms

    @property
    def all(self) -> dict[str, Graph]:
        """{name: graph}; the names are those of other variants of the endpoint where both have it."""
        names = [*self.endpoint.kind.graphs]
        if self.endpoint.published.by_instance:
            names.append("latency_by_instance")
            # What is 100 % differs by type, and which type an instance is of cannot be searched for.
            names += [] if self.variant.pools else ["cpu_by_instance"]
            names += ["gpu_by_accelerator"] if self.variant.gpus else []
        return {name: getattr(self, name) for name in names}

    @property
    def _metrics(self) -> EndpointMetrics:
        return self.endpoint.metrics

    def traffic(self, width: int) -> Widget:
        name, asked = self.variant.name, [self._metrics.invocations]
        labels = ["all", "per instance"]
        if self._metrics.publishes("InvocationsPerInstance"):
            asked.append(self._metrics.invocations_per_instance)
        shown = [
            replace(metric(name), label=label) for metric, label in zip(asked, labels, strict=False)
        ]
        seconds = shown[0].period_seconds
        period = "minute" if seconds == PERIOD_SECONDS else f"{seconds} s"
        return graph(
            f"{name}: requests per {period}",
            left=Side(label="requests", metrics=shown, lines=self._lines("traffic")),
            width=width,
        )

    def queue(self, width: int) -> Widget:
        """The queue of the endpoint, which is the same for every variant."""
        queued, age = self._metrics.queued, self.alarms.of(None, "queue-age")
        waiting = [
            replace(queued("ApproximateBacklogSize", "Maximum"), label="all"),
            replace(queued("ApproximateBacklogSizePerInstance", "Average"), label="per instance"),
        ]
        oldest = _in(queued("ApproximateAgeOfOldestRequest", "Maximum"), 60, "age of the oldest", 0)
        return graph(
            f"{self.variant.name}: requests that wait, and for how long",
            left=Side(label="requests", metrics=waiting),
            right=Side(label="minutes", metrics=[oldest], lines=[age.line] if age else []),
            width=width,
        )

    def failures(self, width: int) -> Widget:
        """Failures of an asynchronous endpoint, which no caller sees."""
        shown = [
            replace(self._metrics.of_variant(metric, self.variant.name, "Sum"), label=label)
            for label, metric in ASYNC_FAILURES.items()
        ]
        return graph(
            f"{self.variant.name}: failures per minute",
            left=Side(label="failures", metrics=shown, lines=self._lines("failures")),
            width=width,
        )

    def concurrency(self, width: int) -> Widget:
        """Utilization of a serverless variant's concurrency; it publishes no CPU and no disk."""
        name, metrics = self.variant.name, self._metrics
        used = [
            ("concurrency", metrics.serverless_use("ConcurrentExecutions", name), 0.01),
            (
                "provisioned concurrency",
                metrics.serverless_use("ProvisionedConcurrency", name),
                0.01,
            ),
            ("memory", metrics.used("Memory", name, "Maximum"), 1),
        ]
        shown = [
            _in(metric, percent, label, number)
            for number, (label, metric, percent) in enumerate(used)
        ]
        return self._graph("saturation", shown, "%", width)

    def latency(self, width: int) -> Widget:
        name, metrics = self.variant.name, self._metrics
        shown = {one: metrics.model_latency(name, one) for one in ("p50", "p90", "p99")}
        if metrics.publishes("OverheadLatency"):
            shown["added by SageMaker, mean"] = metrics.overhead_latency(name)
        return self._graph("latency", _all_in(MILLISECONDS, shown), "ms", width)

    def errors(self, width: int) -> Widget:
        name, metrics = self.variant.name, self._metrics
        shown = {
            "4xx": metrics.error_4xx_share(name),
            "5xx": metrics.error_5xx_share(name),
        }
        if metrics.publishes("InvocationModelErrors"):
            shown["not 2xx by the container"] = metrics.model_error_share(name)
        return self._graph("errors", _all_in(PERCENT, shown), "%", width)

    def machines(self, width: int) -> Widget:
        """Utilization of the instances; 100 % is all cores and GPUs."""
        kinds = [("CPU", "Average"), ("Memory", "Maximum"), ("Disk", "Maximum")]
        if self.variant.gpus:
            kinds += [("GPU", "Average"), ("GPUMemory", "Maximum")]
        every = [(pool, *kind) for pool in self.variant.pools or (None,) for kind in kinds]
        shown = [
            _in(
                self._metrics.used(what, self.variant.name, statistic, pool),
                self.variant.full_percent(f"{what}Utilization", pool) / 100,
                f"{f'{pool}: ' if pool else ''}{what}, "
                f"{'mean' if statistic == 'Average' else 'fullest instance'}",
                number,
            )
            for number, (pool, what, statistic) in enumerate(every)
        ]
        return self._graph("saturation", shown, "%", width)

    def latency_by_instance(self, width: int) -> Widget:
        """Mean latency of each instance: the slow one among several."""
        return self._each(
            NAMESPACE, "ModelLatency", BY_INSTANCE, "latency by instance, mean", MILLISECONDS, width
        )

    def cpu_by_instance(self, width: int) -> Widget:
        """CPU of each instance, in percent of all its vCPUs."""
        full = Unit("%", self.variant.full_percent("CPUUtilization") / 100)
        return self._each(
            MACHINES, "CPUUtilization", BY_INSTANCE, "CPU by instance, mean", full, width
        )

    def gpu_by_accelerator(self, width: int) -> Widget:
        """Utilization of each GPU of each instance."""
        one = Unit("%", 1)
        return self._each(
            MACHINES, "GPUUtilization", BY_ACCELERATOR, "GPU by accelerator, mean", one, width
        )

    def _each(
        self,
        namespace: str,
        metric: str,
        dimensions: Sequence[str],
        title: str,
        unit: Unit,
        width: int,
    ) -> Widget:
        # A search, because instances come and go.
        known = {"EndpointName": self.endpoint.name, "VariantName": self.variant.name}
        found = searched(namespace, metric, dimensions, "Average", **known)
        shown = Computed(expression=f"{found} / {unit.in_the_metric:g}")
        return graph(
            f"{self.variant.name}: {title} ({unit.symbol})",
            left=Side(label=unit.symbol, metrics=[shown]),
            width=width,
        )

    def instances(self, width: int) -> Widget:
        return instances_graph(self.endpoint, self.variant, width=width)

    def cost(self, width: int) -> Widget:
        return cost_graph(self.endpoint, self.variant, width=width)

    def _lines(self, title: str) -> list[Line]:
        return [
            one.line
            for one in self.alarms.by_name.values()
            if (one.signal.variant, one.signal.graph) == (self.variant.name, title)
        ]

    def _graph(self, title: str, shown: Sequence[Computed], unit: str, width: int) -> Widget:
        return graph(
            f"{self.variant.name}: {title} ({unit})",
            left=Side(label=unit, metrics=shown, lines=self._lines(title)),
            width=width,
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


def instances_graph(endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int) -> Widget:
    """Number of instances, with lines at min and max. A minute without requests has no value."""
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
            lines=[Line(value=number, label=f"{word} {number}") for word, number in _ends(variant)],
        ),
        width=width,
    )


def cost_graph(endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int) -> Widget:
    """Cost of the instances that answer; a text if no source states a price."""
    prices = {
        kind: variant.prices.get(kind) or price(kind, endpoint.region)
        for kind in variant.instance_types
    }
    missing = [kind for kind, row in prices.items() if row is None]
    rows = [row for row in prices.values() if row is not None]
    if missing or not rows:
        return text(
            f"**{variant.name}: cost per hour**\n\nno price of {', '.join(missing)} "
            "is known; state it as prices.instance_usd_per_hour",
            width=width,
        )
    each = [row.usd_per_hour for row in rows]
    # From all instances of the cheapest type to all of the dearest.
    ends = [
        (word, number * usd)
        for (word, number), usd in zip(_ends(variant), (min(each), max(each)), strict=True)
    ]
    known, cost = rows[0], _cost(endpoint.metrics, variant, each)
    return graph(
        f"{variant.name}: cost per hour (USD, {known.region}, {known.as_of})",
        left=Side(
            label="USD per hour",
            metrics=[cost],
            lines=[Line(value=round(usd, 3), label=f"{word}: {usd:.2f}") for word, usd in ends],
        ),
        width=width,
    )


def _cost(metrics: EndpointMetrics, variant: WatchedVariant, usd_per_hour: list[float]) -> Computed:
    """`usd_per_hour` is of each instance type."""
    label = f"{variant.name}: USD per hour"
    if not variant.pools:
        count = metrics.instances(variant.name)
        expression = f"{count.expression} * {usd_per_hour[0]:g}"
        return Computed(expression=expression, using=count.using, label=label)
    counts = {
        f"n{number}": metrics.instances_of_type(variant.name, one)
        for number, one in enumerate(variant.pools)
    }
    parts = [
        f"FILL({n}, 0) * {usd / metrics.values_a_minute:g}"
        for n, usd in zip(counts, usd_per_hour, strict=True)
    ]
    return Computed(expression=" + ".join(parts), using=counts, label=label)


def _ends(variant: WatchedVariant) -> list[tuple[str, int]]:
    return [("min", variant.min_instances), ("max", variant.max_instances)]
