"""The first minutes after the last update: p99 latency against its alarm."""

from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from itertools import groupby
from typing import Any

from infra.parameters.environment import Environment
from servable.project.account import Account
from servable.verify.difference import Difference

FIRST_MINUTES = 15
"""The number of minutes after an update whose latency is compared."""
_MICROSECONDS = 1000  # in a millisecond: CloudWatch holds ModelLatency in microseconds


def look(
    account: Account,
    environment: Environment,
    measured: dict[str, Any],
    note: Callable[[str], None],
) -> Iterator[Difference]:
    """Compare each variant's worst minute with its alarm; `measured` gets it, in milliseconds."""
    name, limit = environment.endpoint.name, environment.alarms.p99_latency_ms
    since = account.client("sagemaker").describe_endpoint(EndpointName=name)["LastModifiedTime"]
    until = since + timedelta(minutes=FIRST_MINUTES)
    for variant in environment.served:
        component = environment.components.get(variant)
        of_variant = {"EndpointName": name, "VariantName": variant}
        of = {"InferenceComponentName": component} if component else of_variant
        points = account.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName="ModelLatency",
            Dimensions=[{"Name": key, "Value": value} for key, value in of.items()],
            StartTime=since.replace(second=0, microsecond=0),
            EndTime=until,
            Period=60,
            ExtendedStatistics=["p99"],
        )["Datapoints"]
        if not points:
            at = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            note(f"{variant}: nobody called in the first {FIRST_MINUTES} minutes since {at}")
            continue
        by_minute = sorted(
            (point["Timestamp"], point["ExtendedStatistics"]["p99"] / _MICROSECONDS)
            for point in points
        )
        worst = max(latency_ms for _, latency_ms in by_minute)
        measured[variant] = {
            "p99_latency_ms": round(worst, 2),
            "alarm_ms": limit,
            "minutes": len(points),
        }
        if limit is None or worst <= limit:
            continue
        # As the alarm itself: one slow minute, as of the very first request, wakes nobody.
        needed = environment.alarms.window_minutes
        runs = groupby(latency_ms > limit for _, latency_ms in by_minute)
        if max(len([*run]) for slow, run in runs if slow) < needed:
            note(f"{variant}: above the alarm's {limit:g} ms, for less than its {needed} minutes")
        else:
            yield Difference(
                kind="slow since the update",
                resource=f"{name}/{variant}",
                key="p99_latency_ms",
                wanted=f"at most {limit:g}",
                found=f"{worst:.1f} in the worst of {len(points)} minutes",
                remedy="see the runbook's section p99-latency, or go back: `servable history`",
            )
