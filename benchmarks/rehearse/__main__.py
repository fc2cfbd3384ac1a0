"""Duration and accuracy of rehearsed days: `make bench-rehearse`. Writes docs/performance.md.

One day with up to 200 instances; 50 policies over 20 random days each, on two cores; one instance beside the
local container at three loads. `--small` tries the last two in half a minute, and writes nothing.
"""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.frame import Log, Result, machine, main
from benchmarks.rehearse import container
from benchmarks.tables import Bound, row
from servable.rehearse.alternatives import Alternative
from servable.rehearse.comparison import PolicyTrial, computed
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day

POLICIES, DAYS, CORES, REPEATS = 50, 20, 2, 5
SHOWN_SECONDS, LOAD_SECONDS = 10.0, 40.0
MINUTES, MOST_INSTANCES = 24 * 60, 200
RATE_RPS = 164.0
# Of the computed mean, as a share of the measured one. Source: the requirements of this project.
MOST_ERROR = 0.15
RESOURCE = "endpoint/ranker/variant/primary"
ALARM = {
    "Namespace": "AWS/SageMaker",
    "Period": 60,
    "EvaluationPeriods": 3,
    "ComparisonOperator": "GreaterThanThreshold",
    "TreatMissingData": "notBreaching",
}
LATENCY = ALARM | {
    "AlarmName": "p99", "MetricName": "ModelLatency", "ExtendedStatistic": "p99", "Threshold": 1e5,
}  # fmt: skip
ERRORS = ALARM | {
    "AlarmName": "5xx", "MetricName": "Invocation5XXErrors", "Statistic": "Average", "Threshold": 0.01,
}  # fmt: skip


def scenario(model: InstanceModel, share: float) -> Scenario:
    """A day whose peak needs most of the instances. `share` of the rate: what the policy tracks."""
    most_rps = RATE_RPS * 0.7 * MOST_INSTANCES

    def shape(minute: int) -> float:
        return 0.55 - 0.45 * math.cos(2 * math.pi * minute / MINUTES)

    tracking = {
        "PolicyName": "track",
        "ScalingTargetId": "target",
        "TargetTrackingScalingPolicyConfiguration": {
            "TargetValue": 60 * RATE_RPS * share,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
        },
    }
    target = {
        "ResourceId": RESOURCE,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ServiceNamespace": "sagemaker",
        "MinCapacity": 2,
        "MaxCapacity": MOST_INSTANCES,
    }
    return Scenario(
        requests=[60 * most_rps * shape(minute) for minute in range(MINUTES)],
        model=model,
        routing="least_outstanding_requests",
        resource=RESOURCE,
        instances=20,
        start_minutes=4,
        targets={"target": target},
        policies={"track": tracking},
        alarms=[LATENCY, ERRORS],
        page='ALARM("p99") OR ALARM("5xx")',
        p99_ms=100,
    )


def fresh() -> InstanceModel:
    """A model of an instance that has computed nothing yet."""
    return InstanceModel(RATE_RPS, Service(0.02, 0.06), queue=2048)


def compared(policies: int, days: int, log: Log) -> float:
    """Seconds of all policies over all days, as `servable rehearse --compare` computes them."""
    begun = shown = time.perf_counter()

    def progress(done: int, whole: int, seconds_left: float) -> None:
        nonlocal shown
        if time.perf_counter() - shown > SHOWN_SECONDS or done == whole:
            shown = time.perf_counter()
            log(f"{done:,} of {whole:,} days; about {seconds_left:.0f} s left")

    trials = []
    for number in range(policies):
        share = 0.3 + 0.6 * number / policies
        alternative = Alternative(label=f"{share:.0%}", sets={})
        planned = scenario(fresh(), share)
        trials.append(PolicyTrial(alternative=alternative, scenario=planned, per_hour=1.0))
    computed(trials, range(days), progress, cores=CORES)
    return time.perf_counter() - begun


def measure(folder: Path, log: Log) -> Result:
    before, day_seconds, most = machine(), [], 0
    for seed in range(REPEATS):
        planned, begun = scenario(fresh(), 0.7), time.perf_counter()
        day = rehearse(replace(planned, requests=random_day(planned.requests, seed)))
        day_seconds.append(time.perf_counter() - begun)
        most = max(most, *(minute.answering for minute in day.minutes))
        log(f"a day with up to {most} instances: {day_seconds[-1]:.2f} s")
    return {
        "machine": before,
        "most_instances": most,
        "day_seconds": day_seconds,
        "many_seconds": compared(POLICIES, DAYS, log),
        "container": container.measured(folder, log, seconds=LOAD_SECONDS),
    }


def small(folder: Path, log: Log) -> Result:
    return {
        "many_seconds": compared(4, 2, log),
        "container": container.measured(folder, log, seconds=4.0),
    }


def fields(result: Result) -> dict[str, Any]:
    measured = result["container"]
    lines = [
        "| of the highest rate | mean | computed | p50 | computed | p99 | computed |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in measured["loads"]:
        cells = [
            f"{run[side][name]:.1f} ms"
            for name in ("mean_ms", "p50_ms", "p99_ms")
            for side in ("measured", "computed")
        ]
        lines.append(row(f"{run['share']:.0%}", *cells))
    verdict = "met" if met(result) else "**not met**"
    return {"container": measured, "verdict": verdict, "loads": lines}


def met(result: Result) -> bool:
    """Whether the computed mean is near the measured one at each load."""
    pairs = [
        (load["computed"]["mean_ms"], load["measured"]["mean_ms"])
        for load in result["container"]["loads"]
    ]
    return all(abs(computed / measured - 1) <= MOST_ERROR for computed, measured in pairs)


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    day, policies = f"a day, up to {result['most_instances']} instances", result["many_seconds"]
    label = "50 policies over 20 random days, two cores"
    yield Bound(label=day, values=result["day_seconds"], most=2.0, unit=" s")
    yield Bound(label=label, values=[policies], most=120.0, form=".0f", unit=" s")


if __name__ == "__main__":
    sys.exit(main("rehearse", measure, small=small))
