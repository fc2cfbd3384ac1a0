"""Callers that ask one request after the other, in a process of their own.

    python -m benchmarks.serving.callers URL COUNT SECONDS CONTENT_TYPE ACCEPT < body

Prints the latencies of all answers in milliseconds, and the statuses, as JSON.
"""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlparse

import numpy as np


@dataclass(frozen=True)
class Asked:
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


def asked(url: str, body: bytes, *, callers: int, seconds: float, content_type: str) -> Asked:
    """What so many callers got in this time."""
    module = "benchmarks.serving.callers"
    command = [sys.executable, "-m", module, url, str(callers), str(seconds), content_type]
    ran = subprocess.run(command, input=body, check=True, stdout=subprocess.PIPE)
    found = json.loads(ran.stdout)
    latencies = np.array(found["latencies_ms"])
    p50, p99 = np.percentile(latencies, [50, 99])
    failed = sum(n for status, n in found["statuses"].items() if status != "200")
    return Asked(len(latencies) / seconds, float(p50), float(p99), failed)


class Caller:
    """One kept connection."""

    def __init__(self, url: str) -> None:
        parsed = urlparse(url)
        assert parsed.hostname is not None
        self._connection = http.client.HTTPConnection(parsed.hostname, parsed.port, timeout=60)

    def ask(self, body: bytes, content_type: str, attributes: str = "") -> tuple[int, bytes]:
        headers = {"Content-Type": content_type, "Accept": content_type}
        if attributes:
            headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes
        self._connection.request("POST", "/invocations", body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _main() -> None:
    # Ctrl-C is for all of the terminal's processes; whoever started this one says so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    url, callers, seconds, content_type = sys.argv[1:]
    body = sys.stdin.buffer.read()
    latencies: list[float] = []
    statuses: Counter[int] = Counter()
    start = threading.Barrier(int(callers))

    def call() -> None:
        caller = Caller(url)
        caller.ask(body, content_type)
        start.wait()
        end = time.perf_counter() + float(seconds)
        while (began := time.perf_counter()) < end:
            status, _ = caller.ask(body, content_type)
            latencies.append((time.perf_counter() - began) * 1000)
            statuses[status] += 1

    threads = [threading.Thread(target=call) for _ in range(int(callers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"latencies_ms": latencies, "statuses": statuses}))


if __name__ == "__main__":
    _main()
