"""Ours and Locust's FastHttpUser under the same load: the measurement of one run by each."""

import json
import subprocess
import sys
from typing import Any

from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.pace import Pace


def ours(
    generator: LoadGenerator, url: str, body: Body, loop: Loop, load: float, pace: Pace
) -> Any:
    generator.aim(container(url), [body], loop=loop)
    step = generator.step(load, pace)
    return {
        "sent": step.sent,
        "failed": step.failed,
        "errors": step.errors | ({"timeout": step.timeouts} if step.timeouts else {}),
        "rps": step.throughput_rps.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
        "send_lag_p50_ms": step.send_lags.p50_ms,
        "send_lag_p99_ms": step.send_lag_p99_ms,
        "cpu_share": step.generator_cpu_share,
    }


def locust(url: str, body: Body, users: int, rate_rps: float | None, seconds: float) -> Any:
    """`rate_rps` None: a closed loop."""
    module = [sys.executable, "-m", "benchmarks.load.fast_http_user"]
    command = [*module, url, f"{seconds:g}", str(users), *([f"{rate_rps:g}"] if rate_rps else [])]
    return json.loads(subprocess.check_output(command, input=body.content))
