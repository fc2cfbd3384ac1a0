"""Duration and accuracy of rehearsed days: `make bench-rehearse`. Writes docs/performance.md."""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.frame import ROOT, Log, Result, machine, main
from benchmarks.load.__main__ import ours
from benchmarks.tables import Bound, row
from infra.parameters.loading import ValidFile, load_one
from infra.parameters.rehearsal_scenario import MeasuredInstance, scenario
from infra.policy.container import variable_of
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.pace import Pace
from servable.rehearse.alternatives import Alternative
from servable.rehearse.comparison import PolicyTrial, computed
from servable.rehearse.rehearsal import variant_of
from servable_local.container.launch import launch
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day

POLICIES, DAYS, REPEATS = 50, 20, 5
LOAD_SECONDS = 40.0
MINUTES, MOST_INSTANCES = 24 * 60, 200
INSTANCE = MeasuredInstance(rate_rps=164.0, p50_ms=20.0, p99_ms=60.0, source="an example")
# Error of the computed mean, as a share of the measured one. Source: our requirements.
MOST_ERROR = 0.15
# An instance: so many workers as answer at once, whose handler waits and computes nothing. The queue is
# compared, and not how this computer's cores are shared with the load generator.
WORKERS = 4
LOADS = (0.5, 0.7, 0.85)
HANDLER = b"""\
import random
import time


def handler(data, context):
    time.sleep(random.lognormvariate(-3.9, 0.4))
    return b"{}", "application/json"
"""
VARIABLES = {
    variable_of("gunicorn_workers"): str(WORKERS),
    variable_of("gunicorn_worker_class"): "sync",
}


def beside_a_container(folder: Path, log: Log) -> dict[str, Any]:
    """{"rate_rps", "p50_ms", "p99_ms" of one caller; "loads": measured and computed}."""
    models = {"small": workload.model(folder / "model")}
    archive = workload.pack(folder / "coded.tar.gz", models, {"inference.py": HANDLER})
    body = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
    pace = Pace(least_seconds=LOAD_SECONDS, most_seconds=LOAD_SECONDS)
    with (
        launch(archive, VARIABLES) as process,
        LoadGenerator(container(process.url), [body], loop="closed") as generator,
    ):
        step = partial(ours, generator, process.url, body)
        alone, full = step("closed", 1, pace), step("closed", 4 * WORKERS, pace)
        log(f"one caller: p50 {alone['p50_ms']:.1f} ms; at most {full['rps']:.0f} requests/s")
        loads = []
        for share in LOADS:
            run = step("open", share * full["rps"], pace)
            if run["failed"]:
                raise RuntimeError(f"{run['failed']} requests failed at {share:.0%}")
            use = run["rps"] / full["rps"]
            rehearsed = predicted(full["rps"], alone["p50_ms"], alone["p99_ms"], use)
            loads.append({"share": share, "measured": run, "computed": rehearsed})
            log(f"at {share:.0%}: {run['mean_ms']:.1f} ms, computed {rehearsed['mean_ms']:.1f}")
    about = {"rate_rps": full["rps"], "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"]}
    return {**about, "loads": loads}


def predicted(rate: float, p50_ms: float, p99_ms: float, use: float) -> dict[str, float]:
    """Mean, p50 and p99 in ms at this utilisation, as a rehearsed minute has them."""
    model = InstanceModel(rate, Service(p50_ms / 1000, p99_ms / 1000), queue=2048)
    part = model.steady(use, 1)
    return {
        "mean_ms": 1000 * (model.service.mean_seconds + part[2] * part[3]),
        "p50_ms": 1000 * model.at([part], 0.5),
        "p99_ms": 1000 * model.at([part], 0.99),
    }


def planned(safety_factor: float) -> Scenario:
    """A day of environment `prod` with up to 200 instances, whose peak needs most of them."""
    sets = {
        "variants.primary.max_instances": str(MOST_INSTANCES),
        "variants.primary.scaling.safety_factor": str(safety_factor),
    }
    loaded = load_one(ROOT, ROOT / "environments", "prod", sets, "--set")
    assert isinstance(loaded, ValidFile)  # `make check` reads it
    peak = 60 * INSTANCE.rate_rps * 0.7 * MOST_INSTANCES
    requests = [
        peak * (0.55 - 0.45 * math.cos(2 * math.pi * minute / MINUTES)) for minute in range(MINUTES)
    ]
    return scenario(loaded.environment, variant_of(loaded, "primary"), requests, INSTANCE)


def compared() -> float:
    """Seconds of all policies over all days, as `servable rehearse --compare` computes them."""
    trials = []
    for number in range(POLICIES):
        share = 0.3 + 0.6 * number / POLICIES
        alternative = Alternative(label=f"{share:.0%}", sets={})
        day = planned(share)
        trials.append(PolicyTrial(alternative=alternative, scenario=day, per_hour=1.0))
    begun = time.perf_counter()
    computed(trials, DAYS, 0, lambda *_: None)
    return time.perf_counter() - begun


def measure(folder: Path, log: Log) -> Result:
    before, day_seconds, most = machine(), [], 0
    for seed in range(REPEATS):
        usual, begun = planned(0.7), time.perf_counter()
        day = rehearse(replace(usual, requests=random_day(usual.requests, seed)))
        day_seconds.append(time.perf_counter() - begun)
        most = max(most, *(minute.answering for minute in day.minutes))
        log(f"a day with up to {most} instances: {day_seconds[-1]:.2f} s")
    return {
        "machine": before,
        "most_instances": most,
        "day_seconds": day_seconds,
        "many_seconds": compared(),
        "container": beside_a_container(folder, log),
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
    sys.exit(main("rehearse", measure))
