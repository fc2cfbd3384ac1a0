"""Captured requests replayed: `make bench-replay`. Writes result.json and docs/performance.md.

100,000 requests of 2 KB as fast as a server that does nothing answers, with the memory of all processes of
the command; then 500 requests per second at the captured pace. `--small` tries both, and writes nothing.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks import workload
from benchmarks.command import Told, clock, machine, main
from benchmarks.replay import report
from benchmarks.replay.report import RESULT
from servable.replay.capture_lines import write_line
from servable.replay.captured import CapturedRequest, RecordedAnswer

REQUESTS, ROUNDS = 100_000, 3
RATE_RPS, PACE_REQUESTS = 500.0, 15_000
SMALL = "--small"
# The null server's answer.
ANSWER = RecordedAnswer(body=b'{"outputs":[0.5]}', content_type=workload.JSON, status=200)
VARIANTS = ("primary", "canary")
_LOOK_SECONDS = 0.1


def captured(folder: Path, count: int, rate_rps: float) -> Path:
    """Write captured requests of one body each, in a file for each variant and hour."""
    body = workload.body(workload.JSON, 1)
    begin = 1795251600.0  # 2026-11-21 09:00 UTC
    files: dict[Path, Any] = {}
    for number in range(count):
        moment = begin + number / rate_rps
        hour = time.strftime("%Y/%m/%d/%H", time.gmtime(moment))
        path = folder / "ranker" / VARIANTS[number % len(VARIANTS)] / hour / "00-00.jsonl"
        if path not in files:
            path.parent.mkdir(parents=True)
            files[path] = path.open("wb")
        request = CapturedRequest(
            event_id=f"event-{number}",
            time=moment,
            content_type=workload.JSON,
            body=body,
            answer=ANSWER,
            file=str(path),
            line=0,
        )
        files[path].write(write_line(request) + b"\n")
    for file in files.values():
        file.close()
    return folder


@contextmanager
def null_server() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.null_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def run(url: str, place: Path, project: Path, *options: str) -> dict[str, Any]:
    """Return what the command printed, its seconds, and its most memory in MB, all processes together."""
    (project / "environments").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "servable", "--project", str(project), "replay", url]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--captured", str(place), "--new", "--json", *options], stdout=subprocess.PIPE
    )
    most = [0.0]
    watch = threading.Thread(target=_watch, args=(process.pid, most), daemon=True)
    watch.start()
    out, _ = process.communicate()
    seconds = time.perf_counter() - begun
    watch.join()
    found = json.loads(out)
    return {
        "seconds": seconds,
        "memory_mb": most[0],
        "answered": found["answered"],
        "failed": sum(found["failures"].values()),
        "send_lag_ms": found["send_lag_ms"],
    }


def _watch(pid: int, most: list[float]) -> None:
    try:
        head = psutil.Process(pid)
        while head.is_running() and head.status() != psutil.STATUS_ZOMBIE:
            memory = 0.0
            for process in (head, *head.children(recursive=True)):
                try:
                    memory += process.memory_info().rss / 1e6
                except psutil.Error:
                    pass  # it has ended
            most[0] = max(most[0], memory)
            time.sleep(_LOOK_SECONDS)
    except psutil.Error:
        pass  # the command has ended


def compared(folder: Path, told: Told, *, requests: int, paced: int, rounds: int) -> dict[str, Any]:
    many = captured(folder / "many", requests, 5000.0)
    pace = captured(folder / "pace", paced, RATE_RPS)
    told(f"{requests:,} and {paced:,} captured requests are written")
    found: dict[str, Any] = {"requests": requests, "rate_rps": RATE_RPS, "fast": [], "paced": []}
    with null_server() as url:
        for number in range(rounds):
            for name, place, options in (("fast", many, ("--as-fast",)), ("paced", pace, ())):
                one = run(url, place, folder / f"{name}-{number}", *options)
                found[name].append(one)
                lag = one["send_lag_ms"]
                told(
                    f"{name}: {one['answered']:,} in {one['seconds']:.1f} s, {one['memory_mb']:.0f} MB, "
                    f"failed {one['failed']}, sent late p50 {lag['p50']:.2f} ms, p99 {lag['p99']:.2f} ms"
                )
    return found


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    found = compared(folder, told, requests=REQUESTS, paced=PACE_REQUESTS, rounds=ROUNDS)
    return {"machine": before, "body_bytes": len(workload.body(workload.JSON, 1))} | found


if __name__ == "__main__":
    if SMALL in sys.argv:
        with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as small:
            compared(Path(small), clock(), requests=REQUESTS // 100, paced=1000, rounds=1)
        sys.exit(0)
    sys.exit(main(measured, RESULT) or int(not report.met()))
