"""Captured requests replayed: `make bench-replay`. Writes result.json and docs/performance.md.

100,000 requests of 2 KB as fast as a server that does nothing answers, with the memory of all processes of
the command; then 500 requests per second at the captured pace; then 100,000 requests whose captured answers
have a key of their own each.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import workload
from benchmarks.frame import Log, Result, machine, main, rounds
from benchmarks.load.null_server import null_server
from benchmarks.tables import Bound
from servable.capture_lines import write_line
from servable.captured import CapturedRequest, RecordedAnswer

REQUESTS, PACED, ROUNDS = 100_000, 15_000, 3
RATE_RPS = 500.0
# The null server's answer.
ANSWER = RecordedAnswer(body=b'{"outputs":[0.5]}', content_type=workload.JSON, status=200)


def own_key(number: int) -> RecordedAnswer:
    """An answer whose only key is data, and is in no other answer."""
    answer = {"users": {f"customer-{number}@example.com": 0.5}}
    return RecordedAnswer(body=json.dumps(answer).encode(), content_type=workload.JSON, status=200)


VARIANTS = ("primary", "canary")
WATCH_SECONDS = 0.1


def captured(
    folder: Path,
    count: int,
    rate_rps: float,
    answer: Callable[[int], RecordedAnswer] = lambda number: ANSWER,
) -> Path:
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
            answer=answer(number),
            file=str(path),
            line=0,
        )
        files[path].write(write_line(request) + b"\n")
    for file in files.values():
        file.close()
    return folder


def run(url: str, place: Path, *options: str) -> dict[str, Any]:
    """Replay; return numbers of its output, its seconds, and the most memory of all its processes."""
    project = Path(tempfile.mkdtemp(dir=place))
    (project / "environments").mkdir()
    command = [sys.executable, "-m", "servable", "--project", str(project), "replay", url]
    command += ["--captured", str(place / "ranker"), "--new", "--json", *options]
    begun, memory_mb = time.perf_counter(), 0.0
    with psutil.Popen(command, stdout=subprocess.PIPE) as process, ThreadPoolExecutor(1) as pool:
        output = pool.submit(process.stdout.read)
        while not output.done():
            memory_mb = max(memory_mb, _memory_mb(process))
            time.sleep(WATCH_SECONDS)
    answered = json.loads(output.result())
    return {
        "seconds": time.perf_counter() - begun,
        "memory_mb": memory_mb,
        "answered": answered["answered"],
        "failed": sum(answered["failures"].values()),
        "send_lag_ms": answered["send_lag_ms"],
    }


def _memory_mb(head: psutil.Process) -> float:
    memory = 0.0
    for process in (head, *head.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            memory += process.memory_info().rss / 1e6
    return memory


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    many = captured(folder / "many", REQUESTS, 5000.0)
    pace = captured(folder / "pace", PACED, RATE_RPS)
    keys = captured(folder / "keys", REQUESTS, 5000.0, own_key)
    log(f"{REQUESTS:,} and {PACED:,} captured requests are written")
    with null_server() as server:
        replay = partial(run, server.url)
        ways = {"fast": partial(replay, many, "--as-fast"), "paced": partial(replay, pace)}
        runs = rounds(ways, ROUNDS, log)
        runs |= rounds({"keys": partial(replay, keys, "--as-fast")}, 1, log)
    about = {"body_bytes": len(workload.body(workload.JSON, 1)), "requests": REQUESTS}
    return {"machine": before, **about, "rate_rps": RATE_RPS, **runs}


def fields(result: Result) -> dict[str, Any]:
    rates = [run["answered"] / run["seconds"] for run in result["fast"]]
    return {"rate": median(rates), "lowest": min(rates), "highest": max(rates)}


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    memory = [run["memory_mb"] for run in result["fast"]]
    label = f"memory of all processes, {result['requests']:,} requests"
    yield Bound(label=label, values=memory, most=300.0, form=".0f", unit=" MB")
    label = f"memory of all processes, {result['requests']:,} requests with as many keys"
    memory = [run["memory_mb"] for run in result["keys"]]
    yield Bound(label=label, values=memory, most=300.0, form=".0f", unit=" MB")
    for name, most in (("p50", 2.0), ("p99", 20.0)):
        label = f"sent late at {result['rate_rps']:g} requests/s, {name}"
        late = [run["send_lag_ms"][name] for run in result["paced"]]
        yield Bound(label=label, values=late, most=most, unit=" ms")


def met(result: Result) -> bool:
    """No request failed."""
    return not any(run["failed"] for run in (*result["fast"], *result["paced"]))


if __name__ == "__main__":
    sys.exit(main("replay", measure))
