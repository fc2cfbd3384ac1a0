"""Compare alarms with their deployed thresholds and actions, and latency with its alarm."""

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, timedelta
from itertools import groupby
from typing import Any

from infra.parameters.environment import Environment
from servable.project.account import Account
from servable.verify.deployed import UNKNOWN, DeployedStack, Resource
from servable.verify.difference import (
    GO_BACK,
    RESTORE,
    Difference,
    build_missing_difference,
    find_changes,
    find_undeclared,
)

METRIC, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
_ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")
# The operations that write an alarm take the properties of its CloudFormation resource.
_WRITERS = {METRIC: "put-metric-alarm", COMPOSITE: "put-composite-alarm"}
# DescribeAlarms takes 100 names at once.
_AT_ONCE = 100


def compare_alarms(stack: DeployedStack) -> Iterator[Difference]:
    """Compare every alarm with its deployed properties.

    Metric alarms come first, because a composite alarm's rule names them.
    """
    resources = [*stack.find_resources(METRIC), *stack.find_resources(COMPOSITE)]
    names = [_find_name(resource) for resource in resources]
    there: dict[str, dict[str, Any]] = {}
    types = ["MetricAlarm", "CompositeAlarm"]
    for begin in range(0, len(names), _AT_ONCE):
        page = stack.account.client("cloudwatch").describe_alarms(
            AlarmNames=names[begin : begin + _AT_ONCE], AlarmTypes=types, MaxRecords=_AT_ONCE
        )
        there |= {alarm["AlarmName"]: alarm for kind in types for alarm in page.get(f"{kind}s", [])}
    for name, resource in zip(names, resources, strict=True):
        if name in there:
            yield from _compare_alarm(stack, resource, there[name])
        else:
            remedy = f"a deployment won't recreate it; {format_write_command(stack, resource)}"
            yield build_missing_difference("alarm", name, remedy)


def _find_name(resource: Resource) -> str:
    return str(resource.properties.get("AlarmName", resource.physical))


def format_write_command(stack: DeployedStack, resource: Resource) -> str:
    """Return the command that writes an alarm as it was deployed."""
    properties = {**resource.properties, "AlarmName": _find_name(resource)}
    text = json.dumps(properties, separators=(",", ":"))
    if json.dumps(UNKNOWN)[1:-1] in text:
        return RESTORE
    return (
        f"create it: `aws cloudwatch {_WRITERS[resource.type]} --region {stack.account.region} "
        f"--cli-input-json {shlex.quote(text)}`"
    )


def _compare_alarm(
    stack: DeployedStack, resource: Resource, actual: dict[str, Any]
) -> Iterator[Difference]:
    name, wanted = _find_name(resource), resource.properties
    shape = {key: value for key, value in wanted.items() if key not in (*_ACTIONS, "Tags")}
    again = format_write_command(stack, resource)
    remedy = f"the alarm was changed outside CloudFormation; {again}"
    yield from find_changes("alarm changed", name, shape, actual, remedy)
    # The defaults of properties that the template omits:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html and
    # API_PutCompositeAlarm.html (2026-11-29)
    defaults = {
        "TreatMissingData": "missing",
        "DatapointsToAlarm": wanted.get("EvaluationPeriods"),
        "EvaluateLowSampleCountPercentile": "evaluate",
        "ActionsSuppressor": None,
        "Unit": None,
    }
    yield from find_undeclared("alarm changed", name, wanted, actual, defaults, remedy)
    if wanted.get("ActionsEnabled", True) is not False:
        command = f"aws cloudwatch enable-alarm-actions --alarm-names {shlex.quote(name)}"
        remedy = f"enable them: `{command} --region {stack.account.region}`"
        enabled, key = actual.get("ActionsEnabled", True), "ActionsEnabled"
        yield from find_changes("alarm actions disabled", name, True, enabled, remedy, key)
    for key in _ACTIONS:
        expected, has = set(wanted.get(key, [])), set(actual.get(key, []))
        if expected != has:
            kind = "alarm actions" if has else "alarm without actions"
            remedy = f"the alarm's notifications aren't as deployed; {again}"
            yield Difference(kind, name, remedy, key, sorted(expected), sorted(has))


FIRST_MINUTES = 15
"""The number of minutes after an update whose latency is compared."""
_MICROSECONDS = 1000  # in a millisecond: CloudWatch has ModelLatency in microseconds


def compare_latency(
    account: Account, environment: Environment, measured: dict[str, Any]
) -> Iterator[Difference | str]:
    """Compare each variant's slowest minute since the last update with its alarm.

    `measured` gets the latency of that minute, in milliseconds. Also yields notes.
    """
    name, limit = environment.endpoint.name, environment.alarms.p99_latency_ms
    since = account.client("sagemaker").describe_endpoint(EndpointName=name)["LastModifiedTime"]
    for variant in environment.serving_variants:
        component = environment.components.get(variant)
        of_variant = {"EndpointName": name, "VariantName": variant}
        of = {"InferenceComponentName": component} if component else of_variant
        points = account.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName="ModelLatency",
            Dimensions=[{"Name": key, "Value": value} for key, value in of.items()],
            StartTime=since.replace(second=0, microsecond=0),
            EndTime=since + timedelta(minutes=FIRST_MINUTES),
            Period=60,
            ExtendedStatistics=["p99"],
        )["Datapoints"]
        if not points:
            at = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            yield f"{variant}: no requests in the first {FIRST_MINUTES} minutes since {at}"
            continue
        by_time = sorted(points, key=lambda point: point["Timestamp"])
        by_minute = [point["ExtendedStatistics"]["p99"] / _MICROSECONDS for point in by_time]
        worst, count = max(by_minute), len(by_minute)
        numbers = {"p99_latency_ms": round(worst, 2), "alarm_ms": limit, "minutes": count}
        measured[variant] = numbers
        if limit is None or worst <= limit:
            continue
        # Like the alarm, ignore a few slow minutes, such as that of the first request.
        needed = environment.alarms.window_minutes
        runs = groupby(latency_ms > limit for latency_ms in by_minute)
        if max(len([*run]) for slow, run in runs if slow) < needed:
            yield f"{variant}: above the alarm's {limit:g} ms, but for less than its {needed} minutes"
        else:
            yield Difference(
                "slower since the update",
                f"{name}/{variant}",
                f"roll back: {GO_BACK}; or see p99-latency in the runbook",
                key="p99_latency_ms",
                wanted=f"at most {limit:g}",
                found=f"{worst:.1f} in the worst of {count} minutes",
            )
