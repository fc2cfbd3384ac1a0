"""One instance of a rehearsal beside the local container: what callers wait at three loads.

The handler waits for a random time and computes nothing, in so many workers as answer at once: what is
compared is the queue, and not how this computer's cores are shared with the load generator.
"""

from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.frame import Log
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.pace import Pace
from servable_local.container.launch import launch
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service

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
    "SAGEMAKER_GUNICORN_WORKERS": str(WORKERS),
    "SAGEMAKER_GUNICORN_WORKER_CLASS": "sync",
}


def measured(folder: Path, log: Log, *, seconds: float) -> dict[str, Any]:
    """{"rate_rps", "p50_ms", "p99_ms" of one caller; "loads": what was measured and what is computed}."""
    models = {"small": workload.model(folder / "model")}
    archive = workload.pack(folder / "coded.tar.gz", models, {"inference.py": HANDLER})
    with launch(archive, VARIABLES) as process:
        alone = _step(process.url, "closed", 1, seconds)
        rate = _step(process.url, "closed", 4 * WORKERS, seconds / 2)["rps"]
        log(f"one caller: p50 {alone['p50_ms']:.1f} ms; at most {rate:.0f} requests/s")
        loads = []
        for share in LOADS:
            step = _step(process.url, "open", share * rate, seconds)
            computed = predicted(rate, alone["p50_ms"], alone["p99_ms"], step["rps"] / rate)
            loads.append({"share": share, "measured": step, "computed": computed})
            log(f"at {share:.0%}: {step['mean_ms']:.1f} ms, computed {computed['mean_ms']:.1f}")
    return {"rate_rps": rate, "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"], "loads": loads}


def predicted(rate: float, p50_ms: float, p99_ms: float, use: float) -> dict[str, float]:
    """Mean, p50 and p99 in ms at this utilisation, as a rehearsed minute has them."""
    model = InstanceModel(rate, Service(p50_ms / 1000, p99_ms / 1000), queue=2048)
    part = model.steady(use, 1)
    return {
        "mean_ms": 1000 * (model.service.mean_seconds + part[2] * part[3]),
        "p50_ms": 1000 * model.at([part], 0.5),
        "p99_ms": 1000 * model.at([part], 0.99),
    }


def _step(url: str, loop: Loop, load: float, seconds: float) -> dict[str, float]:
    body = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
    pace = Pace(least_seconds=seconds, most_seconds=seconds)
    with LoadGenerator(container(url), [body], loop=loop) as generator:
        step = generator.step(load, pace)
    latencies = step.latencies
    if step.failed or not latencies.count:
        raise RuntimeError(f"{step.failed} requests failed at {loop} {load:g}")
    return {
        "rps": step.throughput_rps.value,
        "mean_ms": latencies.sum_ms / latencies.count,
        "p50_ms": latencies.p50_ms,
        "p99_ms": latencies.p99_ms,
        "late_ms": step.send_lag_p99_ms,
    }
