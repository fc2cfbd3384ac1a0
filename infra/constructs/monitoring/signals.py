"""The metric, threshold and window of every alarm of an endpoint, in the file's units."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import compute_minimum_samples
from infra.constructs.monitoring.watched_endpoint import (
    AlarmMetric,
    EndpointMetrics,
    WatchedEndpoint,
    WatchedVariant,
)
from infra.parameters.monitoring import OBJECTIVE, OVERHEAD, UNITS, WATCHED, Alarms, Unit

# An alarm's plain statistics; all others (such as p99) are extended statistics.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-cloudwatch-alarm.html
SIMPLE = ("Average", "Maximum", "Minimum", "SampleCount", "Sum")


@dataclass(frozen=True, kw_only=True)
class Signal:
    """The condition of one alarm. `kind` is its section of the runbook and part of its name."""

    kind: str
    variant: str | None
    """The variant; None for the whole endpoint."""
    instance_type: str | None = None
    """One of several instance types of the variant; None for all of its instances."""
    what: str
    metric: AlarmMetric
    threshold: float
    unit: Unit
    minutes: int
    """Minutes on end in which the threshold must be crossed."""
    fires: Literal["above", "below"] = "above"
    graph: str | None = None
    """The variant's graph that shows the threshold as a line."""
    breaks_objective: bool = False
    in_words: str | None = None
    """Description of the condition if threshold and unit alone are unclear."""
    missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING
    """Treatment of missing data. Without traffic there is no data, and that is not a fault."""

    @property
    def name(self) -> str:
        """A short name, unique within the endpoint."""
        return "-".join(filter(None, (self.variant, self.kind, self.instance_type)))

    @cached_property
    def period_seconds(self) -> int:
        """Period of the metric."""
        return int(self.metric.period.to_seconds())

    @cached_property
    def percentile(self) -> str | None:
        """The metric's extended statistic, such as p99; None if it has a plain one."""
        if not isinstance(self.metric, cloudwatch.Metric):
            return None
        statistic = self.metric.statistic
        return None if statistic in SIMPLE else statistic

    @property
    def periods(self) -> int:
        """Periods of the metric in `minutes`, rounded up."""
        return math.ceil(60 * self.minutes / self.period_seconds)

    @property
    def breaching(self) -> int:
        """Periods of these in which the threshold must be crossed.

        All; of periods shorter than a minute more than half, because a few seconds without a request
        have no value and would begin the window anew.
        """
        return self.periods // 2 + 1 if self.period_seconds < 60 else self.periods

    @property
    def earliest_seconds(self) -> int:
        """Seconds from the beginning of the first breaching period to the earliest alarm."""
        return self.breaching * self.period_seconds

    @property
    def window(self) -> str:
        """The time that the threshold must be crossed, in words: for 3 minutes in a row."""
        if self.period_seconds < 60:
            return f"in {self.breaching} of {self.periods} periods of {self.period_seconds} s"
        minutes = self.earliest_seconds // 60
        return "for one minute" if minutes == 1 else f"for {minutes} minutes in a row"

    @property
    def earliest(self) -> str:
        """The earliest alarm in words, for its description."""
        seconds = self.earliest_seconds
        after = f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"
        period = self.period_seconds
        first = "minute" if period == 60 else f"{period} s"
        shows = "shows it begins" if period == 60 else "show it begin"
        return f"Fires at the earliest {after} after the first {first} that {shows}. "

    @property
    def said(self) -> str:
        """The condition in words: p99 latency above 100 ms."""
        if self.in_words is not None:
            return self.in_words
        amount = f"{self.threshold:g} {self.unit.symbol}".strip()
        where = f" on {self.instance_type}" if self.instance_type else ""
        return f"{self.what}{where} {self.fires} {amount}"

    @property
    def few_samples(self) -> str:
        """A sentence for the alarm's description about few requests; empty without a percentile."""
        if self.percentile is None:
            return ""
        return (
            f"With fewer than {compute_minimum_samples(self.percentile):,} requests in that time "
            f"{self.percentile} is "
            "decided by a few of them, but is still evaluated. "
        )


# alarm -> (what it looks at, metric). The first counts failed downloads and uploads too.
_ASYNC_FAILURES = {
    "failed-requests": ("requests a minute that failed", "InvocationFailures"),
    "expired-requests": ("requests a minute that expired in the queue", "ExpiredRequests"),
    "failed-notifications": ("notifications a minute that failed", "NotificationFailures"),
}


def variant_signals(
    metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms
) -> Iterator[Signal]:
    """Every alarm of a variant that the file configures and whose metric its endpoint publishes."""
    for graph, watched in WATCHED.items():
        for kind, (what, metric, statistic, key) in watched.items():
            threshold = getattr(alarms, key)
            if threshold is None or not metrics.kind.has_metric(metric) or not variant.has(metric):
                continue
            if kind == OVERHEAD and (variant.shadow or not metrics.kind.has_instances):
                continue  # cold starts count as overhead, and are usual if no instance runs
            if metric.startswith("GPU") and not variant.gpus:
                continue
            for instance_type in _instance_types(graph, metric, variant):
                unit = UNITS.get(graph)
                unit = unit or Unit("%", variant.full_percent(metric, instance_type) / 100)
                yield Signal(
                    kind=kind,
                    variant=variant.name,
                    instance_type=instance_type,
                    what=what,
                    metric=metrics.of_variant(metric, variant.name, statistic, instance_type),
                    threshold=threshold,
                    unit=unit,
                    minutes=alarms.window_minutes,
                    # One line for all types: their thresholds of latency are the same.
                    graph=None if graph == "latency" and instance_type else graph,
                    breaks_objective=kind in OBJECTIVE
                    and not variant.shadow
                    and instance_type is None,
                )
    yield from _traffic(metrics, variant, alarms)
    for kind, (what, metric) in _ASYNC_FAILURES.items():
        if metrics.kind.has_metric(metric):
            yield Signal(
                kind=kind,
                variant=variant.name,
                what=what,
                metric=metrics.of_variant(metric, variant.name, "Sum"),
                threshold=alarms.async_failures_per_minute,
                unit=Unit("", 1),
                # One minute and not the window: requests are rare, and failed ones are not repeated.
                minutes=1,
                graph="failures",
            )


def _instance_types(graph: str, metric: str, variant: WatchedVariant) -> Sequence[str | None]:
    """The instance types of which each has an alarm of its own; None: one alarm on all instances.

    What an instance can use differs by type: a mean over several types has no full value. A slow type
    with few of the requests does not show in the latency of all.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (CPUUtilization, Invocations and ModelLatency by InstanceType, 2026-11-22)
    """
    if graph == "saturation":
        return variant.pools or (None,)
    return (None, *variant.pools) if metric == "ModelLatency" else (None,)


def _traffic(metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms) -> Iterator[Signal]:
    counted = metrics.kind.has_metric("Invocations") and not (variant.shadow or variant.shared)
    if alarms.no_traffic_minutes is not None and counted:
        yield Signal(
            kind="no-traffic",
            variant=variant.name,
            what="requests a minute",
            in_words="no request",
            graph="traffic",
            metric=metrics.requests_or_zero(variant.name),
            threshold=1,
            unit=Unit("", 1),
            minutes=alarms.no_traffic_minutes,
            fires="below",
            # An endpoint without any request so far has no metric that FILL could fill.
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
    # If the number of instances is fixed on purpose, all of them are always in use.
    if variant.scales and variant.max_instances > variant.min_instances:
        what = "instances" if variant.instance_types else "copies"
        yield Signal(
            kind="at-max",
            variant=variant.name,
            what=what,
            in_words=f"all {variant.max_instances} {what} in use",
            metric=metrics.instances(variant.name),
            # The threshold is half an instance lower: in the minute of a change the mean is a fraction.
            threshold=variant.max_instances - 0.5,
            unit=Unit("", 1),
            minutes=alarms.at_max_minutes,
        )


def endpoint_signals(endpoint: WatchedEndpoint, alarms: Alarms) -> Iterator[Signal]:
    """Every alarm of an endpoint: those of its variants, and of its queue and log, which they share."""
    metrics = endpoint.metrics
    for variant in endpoint.variants:
        yield from variant_signals(metrics, variant, alarms)
    if metrics.kind.has_metric("ApproximateAgeOfOldestRequest") and alarms.oldest_request_minutes:
        yield Signal(
            kind="queue-age",
            variant=None,
            what="age of the oldest request",
            metric=metrics.of_variant("ApproximateAgeOfOldestRequest", None, "Maximum"),
            threshold=alarms.oldest_request_minutes,
            unit=Unit("min", 60),
            minutes=alarms.window_minutes,
            breaks_objective=True,
        )
    if endpoint.log_is_counted:
        yield Signal(
            kind="queue-refused",
            variant=None,
            what="requests a minute turned away by a full queue",
            metric=metrics.counted_in_log("RefusedRequests"),
            threshold=alarms.refused_per_minute,
            unit=Unit("", 1),
            minutes=alarms.window_minutes,
        )
