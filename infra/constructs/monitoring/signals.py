"""The metric, threshold, and window of every alarm of an endpoint, in the file's units."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import compute_minimum_samples
from infra.constructs.monitoring.watched_endpoint import (
    AlarmMetric,
    WatchedEndpoint,
    WatchedVariant,
    build_expression,
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
    what: str = ""
    metric: AlarmMetric
    threshold: float
    unit: Unit
    minutes: int
    """Consecutive minutes in which the threshold must be crossed."""
    fires: Literal["above", "below"] = "above"
    graph: str | None = None
    """The variant's graph that shows the threshold as a line."""
    breaks_objective: bool = False
    in_words: str | None = None
    """Description of the condition if threshold and unit alone are unclear."""
    missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING
    """Treatment of missing data. Missing data isn't a fault: without traffic there is none."""

    @property
    def name(self) -> str:
        """Return a short name, unique within the endpoint."""
        return "-".join(filter(None, (self.variant, self.kind, self.instance_type)))

    @cached_property
    def period_seconds(self) -> int:
        """Return the period of the metric in seconds."""
        return int(self.metric.period.to_seconds())

    @cached_property
    def percentile(self) -> str | None:
        """Return the metric's extended statistic, such as p99, or None if it has a plain one."""
        if not isinstance(self.metric, cloudwatch.Metric):
            return None
        statistic = self.metric.statistic
        return None if statistic in SIMPLE else statistic

    @property
    def periods(self) -> int:
        """Return the number of the metric's periods in `minutes`, rounded up."""
        return math.ceil(60 * self.minutes / self.period_seconds)

    @property
    def breaching_periods(self) -> int:
        """Return the number of `periods` that must cross the threshold: all, or more than half if short.

        A few seconds without a request have no value, and would restart the window.
        """
        return self.periods // 2 + 1 if self.period_seconds < 60 else self.periods

    @property
    def earliest_seconds(self) -> int:
        """Return the seconds from the first breaching period's start to the earliest alarm."""
        return self.breaching_periods * self.period_seconds

    @property
    def window(self) -> str:
        """Return how long the threshold must be crossed, for example "for 3 minutes in a row"."""
        if (seconds := self.period_seconds) < 60:
            return f"in {self.breaching_periods} of {self.periods} periods of {seconds} s"
        minutes = self.earliest_seconds // 60
        return "for one minute" if minutes == 1 else f"for {minutes} minutes in a row"

    @property
    def earliest_alarm_note(self) -> str:
        """Return the sentence for the alarm's description that says how early it can fire."""
        seconds = self.earliest_seconds
        after = f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"
        period = self.period_seconds
        first = "minute" if period == 60 else f"{period} s"
        shows = "shows it begins" if period == 60 else "show it begin"
        return f"Fires at the earliest {after} after the first {first} that {shows}. "

    @property
    def condition(self) -> str:
        """Return the condition in words. For example: "p99 latency above 100 ms"."""
        if self.in_words is not None:
            return self.in_words
        amount = f"{self.threshold:g} {self.unit.symbol}".strip()
        where = f" on {self.instance_type}" if self.instance_type else ""
        return f"{self.what}{where} {self.fires} {amount}"

    @property
    def few_samples_note(self) -> str:
        """Return the description's sentence about few requests, empty without a percentile."""
        if self.percentile is None:
            return ""
        return (
            f"With fewer than {compute_minimum_samples(self.percentile):,} requests in that time "
            f"{self.percentile} depends on a few of them, but is still evaluated. "
        )


# alarm -> (what it watches, metric). The first counts failed downloads and uploads too.
_ASYNC_FAILURES = {
    "failed-requests": ("requests a minute that failed", "InvocationFailures"),
    "expired-requests": ("requests a minute that expired in the queue", "ExpiredRequests"),
    "failed-notifications": ("notifications a minute that failed", "NotificationFailures"),
}


def list_variant_signals(
    endpoint: WatchedEndpoint, variant: WatchedVariant, alarms: Alarms
) -> Iterator[Signal]:
    """Yield every alarm of a variant that is configured and has a published metric."""
    for graph, watched in WATCHED.items():
        for kind, (what, metric, statistic, key) in watched.items():
            threshold = getattr(alarms, key)
            published = endpoint.kind.has_metric(metric) and variant.has_metric(metric)
            if threshold is None or not published:
                continue
            if kind == OVERHEAD and (variant.shadow or not endpoint.kind.has_instances):
                continue  # cold starts count as overhead, and are usual if no instance runs
            if metric.startswith("GPU") and not variant.gpus:
                continue
            for instance_type in _select_types(graph, metric, variant):
                full = variant.compute_full_percent(metric, instance_type)
                alone = variant.shadow or instance_type is not None
                yield Signal(
                    kind=kind,
                    variant=variant.name,
                    instance_type=instance_type,
                    what=what,
                    metric=endpoint.build_metric(metric, variant.name, statistic, instance_type),
                    threshold=threshold,
                    unit=UNITS.get(graph) or Unit("%", full / 100),
                    minutes=alarms.window_minutes,
                    # One line for all types: their thresholds of latency are the same.
                    graph=None if graph == "latency" and instance_type else graph,
                    breaks_objective=kind in OBJECTIVE and not alone,
                )
    yield from _list_traffic_signals(endpoint, variant, alarms)
    for kind, (what, metric) in _ASYNC_FAILURES.items():
        if endpoint.kind.has_metric(metric):
            yield Signal(
                kind=kind,
                variant=variant.name,
                what=what,
                metric=endpoint.build_metric(metric, variant.name, "Sum"),
                threshold=alarms.async_failures_per_minute,
                unit=Unit("", 1),
                # One minute and not the window: requests are rare, and failed ones are not repeated.
                minutes=1,
                graph="failures",
            )


def _select_types(graph: str, metric: str, variant: WatchedVariant) -> Sequence[str | None]:
    """Return the instance types that each have an alarm; None is one alarm on all instances.

    The full value of utilization differs by type, so a mean over several types has none. A slow
    type that gets few requests doesn't show in the latency of all.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (CPUUtilization, Invocations and ModelLatency by InstanceType, 2026-11-22)
    """
    if graph == "saturation":
        return variant.pools or (None,)
    return (None, *variant.pools) if metric == "ModelLatency" else (None,)


def _list_traffic_signals(
    endpoint: WatchedEndpoint, variant: WatchedVariant, alarms: Alarms
) -> Iterator[Signal]:
    counted = endpoint.kind.has_metric("Invocations") and not (variant.shadow or variant.shared)
    if alarms.no_traffic_minutes is not None and counted:
        # SageMaker publishes nothing in a minute without requests.
        requests = {"requests": endpoint.build_metric("Invocations", variant.name, "Sum")}
        label = f"{variant.name}: requests"
        yield Signal(
            kind="no-traffic",
            variant=variant.name,
            what="requests a minute",
            in_words="no request",
            graph="traffic",
            metric=build_expression("FILL(requests, 0)", requests, label),
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
            metric=endpoint.build_instance_count(variant.name),
            # The threshold is half an instance lower: in the minute of a change the mean is a fraction.
            threshold=variant.max_instances - 0.5,
            unit=Unit("", 1),
            minutes=alarms.at_max_minutes,
        )


def list_endpoint_signals(endpoint: WatchedEndpoint, alarms: Alarms) -> Iterator[Signal]:
    """Yield every alarm of an endpoint: of its variants, and of their shared queue and log."""
    for variant in endpoint.variants:
        yield from list_variant_signals(endpoint, variant, alarms)
    if endpoint.kind.has_metric("ApproximateAgeOfOldestRequest") and alarms.oldest_request_minutes:
        yield Signal(
            kind="queue-age",
            variant=None,
            what="age of the oldest request",
            metric=endpoint.build_metric("ApproximateAgeOfOldestRequest", None, "Maximum"),
            threshold=alarms.oldest_request_minutes,
            unit=Unit("min", 60),
            minutes=alarms.window_minutes,
            breaks_objective=True,
        )
    if endpoint.log_is_counted:
        yield Signal(
            kind="queue-refused",
            variant=None,
            what="requests a minute rejected by a full queue",
            metric=endpoint.build_log_metric("RefusedRequests"),
            threshold=alarms.refused_per_minute,
            unit=Unit("", 1),
            minutes=alarms.window_minutes,
        )
