"""Captured requests replayed: `make bench-replay`. Writes result.json and docs/performance.md.

100,000 requests of 2 KB as fast as a server that does nothing answers, with the memory of all processes of
the command; then 500 requests per second at the captured pace. `--small` tries both, and writes nothing.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import workload
from benchmarks.frame import Log, Result, machine, main
from benchmarks.load.null_server import null_server
from benchmarks.tables import Bound
from servable.replay.capture_lines import write_line
from servable.replay.captured import CapturedRequest, RecordedAnswer

REQUESTS, PACED, ROUNDS = 100_000, 15_000, 3
RATE_RPS = 500.0
# The null server's answer.
ANSWER = RecordedAnswer(body=b'{"outputs":[0.5]}', content_type=workload.JSON, status=200)
VARIANTS = ("primary", "canary")
WATCH_SECONDS = 0.1


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


def run(url: str, place: Path, project: Path, *options: str) -> dict[str, Any]:
    """Replay; return numbers of its output, its seconds, and the most memory of all its processes."""
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
    output = json.loads(out)
    return {
        "seconds": seconds,
        "memory_mb": most[0],
        "answered": output["answered"],
        "failed": sum(output["failures"].values()),
        "send_lag_ms": output["send_lag_ms"],
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
            time.sleep(WATCH_SECONDS)
    except psutil.Error:
        pass  # the command has ended


def measure(folder: Path, log: Log, *, requests: int, paced: int, rounds: int) -> Result:
    before = machine()
    many = captured(folder / "many", requests, 5000.0)
    pace = captured(folder / "pace", paced, RATE_RPS)
    log(f"{requests:,} and {paced:,} captured requests are written")
    runs: dict[str, list[dict[str, Any]]] = {"fast": [], "paced": []}
    with null_server() as server:
        for number in range(rounds):
            for name, place, options in (("fast", many, ("--as-fast",)), ("paced", pace, ())):
                runs[name].append(run(server.url, place, folder / f"{name}-{number}", *options))
                log(f"{name}: {json.dumps(runs[name][-1])}")
    about = {"body_bytes": len(workload.body(workload.JSON, 1)), "requests": requests}
    return {"machine": before, **about, "rate_rps": RATE_RPS, **runs}


def fields(result: Result) -> dict[str, Any]:
    rates = [run["answered"] / run["seconds"] for run in result["fast"]]
    return {"rate": median(rates), "lowest": min(rates), "highest": max(rates)}


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    memory = [run["memory_mb"] for run in result["fast"]]
    label = f"memory of all processes, {result['requests']:,} requests"
    yield Bound(label=label, values=memory, most=300.0, form=".0f", unit=" MB")
    for name, most in (("p50", 2.0), ("p99", 20.0)):
        label = f"sent late at {result['rate_rps']:g} requests/s, {name}"
        late = [run["send_lag_ms"][name] for run in result["paced"]]
        yield Bound(label=label, values=late, most=most, unit=" ms")


def met(result: Result) -> bool:
    """No request failed."""
    return not any(run["failed"] for run in (*result["fast"], *result["paced"]))


if __name__ == "__main__":
    whole = partial(measure, requests=REQUESTS, paced=PACED, rounds=ROUNDS)
    small = partial(measure, requests=REQUESTS // 100, paced=1000, rounds=1)
    sys.exit(main("replay", whole, small=small))
