"""Every alarm that a variant gets, from what the environment file asks."""

from collections.abc import Iterator

from infra.catalog.metrics import full_percent
from infra.constructs.endpoint.watched_endpoint import WatchedVariant
from infra.constructs.monitoring.alarm_signal import MILLISECONDS, PERCENT, Signal, Unit
from infra.constructs.monitoring.endpoint_metrics import MACHINES, EndpointMetrics
from infra.constructs.monitoring.measured import Measured
from infra.parameters.alarms import Alarms


def variant_signals(
    metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms
) -> Iterator[Signal]:
    yield from _latency(metrics, variant, alarms)
    yield from _errors(metrics, variant, alarms)
    yield from _machines(metrics, variant, alarms)
    yield from _traffic(metrics, variant, alarms)


def _latency(metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms) -> Iterator[Signal]:
    objectives = {
        "p50": alarms.p50_latency_ms,
        "p90": alarms.p90_latency_ms,
        "p99": alarms.p99_latency_ms,
    }
    for percentile, threshold in objectives.items():
        if threshold is not None:
            yield Signal(
                kind=f"{percentile}-latency",
                variant=variant.name,
                what=f"{percentile} latency",
                metric=metrics.model_latency(variant.name, percentile),
                threshold=threshold,
                unit=MILLISECONDS,
                minutes=alarms.window_minutes,
                breaks_objective=not variant.shadow,
            )
    # A cold start is overhead too, and the way of serverless: no news.
    if not metrics.publishes("OverheadLatency") or variant.instance_type is None or variant.shadow:
        return
    yield Signal(
        kind="overhead-latency",
        variant=variant.name,
        what="mean latency that SageMaker adds",
        metric=metrics.overhead_latency(variant.name),
        threshold=alarms.overhead_latency_ms,
        unit=MILLISECONDS,
        minutes=alarms.window_minutes,
    )


def _errors(metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms) -> Iterator[Signal]:
    name = variant.name
    watched: list[tuple[str, str, Measured, float | None]] = [
        ("4xx", "requests answered 4xx", metrics.error_4xx_share(name), alarms.error_4xx_percent),
        ("5xx", "requests answered 5xx", metrics.error_5xx_share(name), alarms.error_5xx_percent),
    ]
    if metrics.publishes("InvocationModelErrors"):
        what, share = "requests that the container failed", metrics.model_error_share(name)
        watched.append(("model-errors", what, share, alarms.model_error_percent))
    for kind, what, metric, threshold in watched:
        if threshold is not None:
            yield Signal(
                kind=kind,
                variant=name,
                what=what,
                metric=metric,
                threshold=threshold,
                unit=PERCENT,
                minutes=alarms.window_minutes,
                breaks_objective=kind == "5xx" and not variant.shadow,
            )


def _machines(
    metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms
) -> Iterator[Signal]:
    if variant.instance_type is None:
        yield Signal(
            kind="memory",
            variant=variant.name,
            what="memory",
            metric=metrics.used("Memory", variant.name, "Maximum"),
            threshold=alarms.memory_percent,
            unit=Unit("%", 1),
            minutes=alarms.window_minutes,
        )
        return
    # The mean is what scaling can mend; memory and disk are lost on the fullest instance first.
    watched = [
        ("cpu", "CPU", "CPU", "Average", alarms.cpu_percent),
        ("memory", "memory", "Memory", "Maximum", alarms.memory_percent),
        ("disk", "disk", "Disk", "Maximum", alarms.disk_percent),
    ]
    if variant.instance.gpus:
        watched += [("gpu", "GPU", "GPU", "Average", alarms.gpu_percent)]
        if alarms.gpu_memory_percent is not None:
            watched += [
                ("gpu-memory", "GPU memory", "GPUMemory", "Maximum", alarms.gpu_memory_percent)
            ]
    for kind, what, metric, statistic, threshold in watched:
        full = full_percent(MACHINES, f"{metric}Utilization", variant.instance)
        yield Signal(
            kind=kind,
            variant=variant.name,
            what=what,
            metric=metrics.used(metric, variant.name, statistic),
            threshold=threshold,
            unit=Unit("%", full / 100),
            minutes=alarms.window_minutes,
        )


def _traffic(metrics: EndpointMetrics, variant: WatchedVariant, alarms: Alarms) -> Iterator[Signal]:
    counted = metrics.publishes("Invocations") and not variant.shadow
    if alarms.no_traffic_minutes is not None and counted:
        yield Signal(
            kind="no-traffic",
            variant=variant.name,
            what="requests a minute",
            in_words="no request",
            metric=metrics.requests_or_zero(variant.name),
            threshold=1,
            unit=Unit("", 1),
            minutes=alarms.no_traffic_minutes,
            fires="below",
            # An endpoint that never had a request has no metric that could be filled.
            missing="breaching",
        )
    # Where nothing can be added on purpose, all in use is every day.
    if variant.scales and variant.max_instances > variant.min_instances:
        yield Signal(
            kind="at-max",
            variant=variant.name,
            what="instances",
            in_words=f"all {variant.max_instances} instances in use",
            metric=metrics.instances(variant.name),
            # Half of one below: the mean of a minute in which the last one came is a fraction.
            threshold=variant.max_instances - 0.5,
            unit=Unit("", 1),
            minutes=alarms.at_max_minutes,
        )


def queue_signals(metrics: EndpointMetrics, alarms: Alarms) -> Iterator[Signal]:
    """Of the queue of an asynchronous endpoint, whichever variant is behind."""
    if metrics.publishes("ApproximateAgeOfOldestRequest") and alarms.oldest_request_minutes:
        yield Signal(
            kind="queue-age",
            variant=None,
            what="age of the oldest request",
            metric=metrics.queued("ApproximateAgeOfOldestRequest", "Maximum"),
            threshold=alarms.oldest_request_minutes,
            unit=Unit("min", 60),
            minutes=alarms.window_minutes,
            breaks_objective=True,
        )
