"""Ours, Locust's FastHttpUser and wrk under the same load: the measurement of one run by each."""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.pace import Pace

# wrk's only program is the `done` of a script. Its body stands in a file: no text of ours can end it.
# Source: https://github.com/wg/wrk/blob/master/SCRIPTING (2026-11-22)
_SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = io.open({body!r}, "rb"):read("*a")
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\n{{"sent": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f,'
    .. ' "errors": {{"connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d}}}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000,
    latency:percentile(99) / 1000, e.connect, e.read, e.write, e.status, e.timeout))
end
"""


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


def wrk_version() -> str | None:
    """None: it is not installed."""
    if shutil.which("wrk") is None:
        return None
    # It ends with 1 after its version.
    words = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return words.partition("wrk ")[2].partition(" ")[0].removeprefix("debian/")


def wrk(url: str, body: Body, users: int, seconds: float, folder: Path) -> Any:
    """A closed loop: wrk has no other. Its seconds are whole."""
    content, script = folder / "body.json", folder / "post.lua"
    content.write_bytes(body.content)
    script.write_text(_SCRIPT.format(body=str(content)), encoding="utf-8")
    options = ["-t", "1", "-c", str(users), "-d", f"{seconds:.0f}s", "-s", str(script)]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.check_output(["wrk", *options, f"{url}/invocations"], text=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    parsed = json.loads(output.splitlines()[-1])
    errors = {kind: count for kind, count in parsed["errors"].items() if count}
    # Answers of a bad status are among its requests, broken connections are not.
    answered = parsed["sent"] - errors.get("status", 0)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "sent": parsed["sent"],
        "failed": sum(errors.values()),
        "errors": errors,
        "rps": answered / parsed["seconds"],
        "p50_ms": parsed["p50_ms"],
        "p99_ms": parsed["p99_ms"],
        "cpu_share": used / took,
    }
