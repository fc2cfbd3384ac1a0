"""The load: a process of its own that asks over a few kept connections, as fast as is answered.

    python -m benchmarks.local.generator URL CONNECTIONS SECONDS < body

Prints {"requests": …, "errors": …, "seconds": …, "latencies_ms": {"p50": …, "p99": …}}.
Bare sockets and a fixed request: a generator that costs more than what it measures,
such as Locust's, would take the core that the endpoint needs.
"""

import json
import socket
import sys
import threading
import time
from urllib.parse import urlparse

import numpy as np


def main() -> None:
    url, connections, seconds = urlparse(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    body = sys.stdin.buffer.read()
    request = (
        f"POST /invocations HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    assert url.hostname is not None
    assert url.port is not None
    found: list[tuple[list[float], int]] = []
    end = time.perf_counter() + seconds
    address = (url.hostname, url.port)
    threads = [
        threading.Thread(target=lambda: found.append(_ask(address, request, end)))
        for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = np.array([latency for latencies, _ in found for latency in latencies]) * 1000
    p50, p99 = np.percentile(took, [50, 99]).tolist()
    print(
        json.dumps(
            {
                "requests": len(took),
                "errors": sum(errors for _, errors in found),
                "seconds": seconds,
                "latencies_ms": {"p50": p50, "p99": p99},
            }
        )
    )


def _ask(address: tuple[str, int], request: bytes, end: float) -> tuple[list[float], int]:
    latencies, errors = [], 0
    with socket.create_connection(address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (start := time.perf_counter()) < end:
            connection.sendall(request)
            status = _answer(connection)
            latencies.append(time.perf_counter() - start)
            errors += status != b"200"
    return latencies, errors


def _answer(connection: socket.socket) -> bytes:
    """The status. Answers here fit into a few packets."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(rest) < length:
        rest += _more(connection)
    return head[9:12]


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the endpoint closed the connection")
    return data


if __name__ == "__main__":
    main()
