"""How long rehearsed days take: `make bench-rehearse`. Writes result.json and docs/performance.md.

One day with up to 200 instances; then 50 policies over 20 random days each, on two cores. `--small` tries
the second with 4 policies over 2 days, and writes nothing.
"""

import math
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.command import Told, clock, machine, main
from benchmarks.rehearse import report
from benchmarks.rehearse.report import RESULT
from servable_scaling.rehearsal.day import RehearsedDay, rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import Scenario

POLICIES, DAYS, CORES, REPEATS = 50, 20, 2, 5
SMALL = "--small"
MINUTES, MOST_INSTANCES = 24 * 60, 200
RATE_RPS = 164.0
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


def day(seed: int, model: InstanceModel, share: float) -> RehearsedDay:
    """A random day whose peak needs most of the instances. `share` of the rate: what the policy tracks."""
    source = random.Random(seed)
    requests = [
        60 * RATE_RPS * 0.7 * MOST_INSTANCES * source.uniform(0.9, 1.1) * _shape(minute)
        for minute in range(MINUTES)
    ]
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
    scenario = Scenario(
        requests=requests,
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
    return rehearse(scenario)


def _shape(minute: int) -> float:
    return 0.55 - 0.45 * math.cos(2 * math.pi * minute / MINUTES)


def fresh() -> InstanceModel:
    """Without what was computed before."""
    return InstanceModel(RATE_RPS, Service(0.02, 0.06), queue=2048)


def policy(share: float, days: int) -> int:
    """Minutes outside of the objective of one policy."""
    model = fresh()
    return sum(len(day(seed, model, share).broken) for seed in range(days))


def compared(policies: int, days: int, told: Told) -> float:
    """Seconds of all policies over all days."""
    begun = time.perf_counter()
    with ProcessPoolExecutor(CORES) as pool:
        shares = [0.3 + 0.6 * number / policies for number in range(policies)]
        running = [pool.submit(policy, share, days) for share in shares]
        for number, one in enumerate(as_completed(running), 1):
            told(f"policy {number} of {policies}: {one.result()} minutes outside of the objective")
    return time.perf_counter() - begun


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before, seconds, most = machine(), [], 0
    for seed in range(REPEATS):
        begun = time.perf_counter()
        found = day(seed, fresh(), 0.7)
        seconds.append(time.perf_counter() - begun)
        most = max(most, *(one.answering for one in found.minutes))
        told(f"a day with up to {most} instances: {seconds[-1]:.2f} s")
    many = compared(POLICIES, DAYS, told)
    return {"machine": before, "most_instances": most, "day_seconds": seconds, "many_seconds": many}


if __name__ == "__main__":
    if SMALL in sys.argv:
        told = clock()
        told(f"{compared(4, 2, told):.1f} s for 4 policies over 2 days")
        sys.exit(0)
    sys.exit(main(measured, RESULT) or int(not report.met()))
