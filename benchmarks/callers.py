"""Callers of an endpoint: one in this process, or several in a process of their own.

    python -m benchmarks.callers URL COUNT SECONDS CONTENT_TYPE < body

Prints what `load` gives, as JSON. Bare sockets and a fixed request: a generator that costs more
than what it measures, such as Locust's, would take the core that the endpoint needs.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import numpy as np

TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Load:
    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


def load(url: str, body: bytes, *, callers: int, seconds: float, content_type: str) -> Load:
    """Load of so many callers in this time, each sending one request after the other."""
    command = [sys.executable, "-m", "benchmarks.callers", url, str(callers), str(seconds)]
    return Load(**json.loads(subprocess.check_output([*command, content_type], input=body)))


class EndpointCaller:
    """One kept connection."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        host, _, port = self._host.partition(":")
        self._connection = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes, content_type: str, *attributes: str, **line: str) -> bytes:
        """Send what `request` writes; return the answer's body. Raises OSError, also for a refusal."""
        status, answer = self.send(self.request(body, content_type, *attributes, **line))
        if status != 200:
            raise OSError(f"{content_type}, {line}: {status} {answer[:300]!r}")
        return answer

    def request(
        self,
        body: bytes,
        content_type: str,
        attributes: str = "",
        *,
        path: str = "/invocations",
        method: str = "POST",
    ) -> bytes:
        """Write a request. `attributes`: SageMaker's custom ones."""
        head = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self._host}",
            f"Content-Type: {content_type}",
            f"Accept: {content_type}",
            f"Content-Length: {len(body)}",
        ]
        if attributes:
            head.append(f"X-Amzn-SageMaker-Custom-Attributes: {attributes}")
        return "\r\n".join([*head, "", ""]).encode() + body

    def send(self, request: bytes) -> tuple[int, bytes]:
        self._connection.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, answer = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(answer) < length:
            answer += self._more()
        return int(head[9:12]), answer

    def _more(self) -> bytes:
        data = self._connection.recv(65536)
        if not data:
            raise ConnectionError("the endpoint closed the connection")
        return data


def _main() -> None:
    # Ctrl-C is for all of the terminal's processes; whoever started this one says so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    url, count, seconds, content_type = sys.argv[1:]
    body = sys.stdin.buffer.read()
    start = threading.Barrier(int(count))

    def call(number: int) -> list[tuple[int, float]]:
        """Return status and milliseconds of each answer."""
        caller, answers = EndpointCaller(url), []
        request = caller.request(body, content_type)
        caller.send(request)
        start.wait()
        end = time.perf_counter() + float(seconds)
        while (began := time.perf_counter()) < end:
            status, _ = caller.send(request)
            answers.append((status, (time.perf_counter() - began) * 1000))
        return answers

    with ThreadPoolExecutor(int(count)) as pool:
        answers = [answer for of_one in pool.map(call, range(int(count))) for answer in of_one]
    p50, p99 = np.percentile([ms for _, ms in answers], [50, 99]).tolist()
    failed = sum(status != 200 for status, _ in answers)
    print(json.dumps(asdict(Load(len(answers), len(answers) / float(seconds), p50, p99, failed))))


if __name__ == "__main__":
    _main()
