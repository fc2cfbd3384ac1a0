"""SageMaker's requirements of a container, and the keep-alive of the image's NGINX; for any model.

Each check is a sentence about the container, and a function that returns what was seen instead,
None where the sentence is true.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-22)
"""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from servable.conformance.targets import ContainerTarget

_ROW = b'{"instances": [[1.0, 2.0]]}'
_CALLERS = 16
Seen = tuple[int, bytes]


def failures(target: ContainerTarget) -> dict[str, str | None]:
    """Run every check: its sentence -> what was observed instead; None: the sentence holds."""
    failed: dict[str, str | None] = {}
    for sentence, check in CHECKS.items():
        try:
            failed[sentence] = check(target)
        except (OSError, http.client.HTTPException) as error:
            failed[sentence] = repr(error)
    return failed


def _connects(target: ContainerTarget) -> str | None:
    began = time.monotonic()
    with _socket(target):
        milliseconds = (time.monotonic() - began) * 1000
    return None if milliseconds <= 250 else f"{milliseconds:.0f} ms"


def _pings(target: ContainerTarget) -> str | None:
    began = time.monotonic()
    status, _ = target.send("GET", "/ping")
    seconds = time.monotonic() - began
    return None if status == 200 and seconds <= 2 else f"{status} after {seconds:.1f} s"


def _knows_no_other_path(target: ContainerTarget) -> str | None:
    return _unlike((404, b'{"error": "Not Found"}'), target.send("GET", "/metrics"))


def _reads_chunks(target: ContainerTarget) -> str | None:
    alone = target.send("POST", "/invocations", _ROW)
    with _socket(target) as wire:
        wire.sendall(_head(target, "Transfer-Encoding: chunked"))
        for part in (_ROW[:10], _ROW[10:], b""):
            wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        return _unlike(alone, _answer(wire))


def _says_continue(target: ContainerTarget) -> str | None:
    with _socket(target) as wire:
        wire.sendall(_head(target, f"Content-Length: {len(_ROW)}", "Expect: 100-continue"))
        line = wire.recv(1000).split(b"\r\n")[0]
    return None if line.startswith(b"HTTP/1.1 100 ") else repr(line)


def _keeps_connections(target: ContainerTarget) -> str | None:
    with _socket(target) as wire:
        answers = []
        for _ in range(2):
            wire.sendall(_head(target, f"Content-Length: {len(_ROW)}") + _ROW)
            answers.append(_answer(wire))
    return _unlike(answers[0], answers[1])


def _closes_when_asked(target: ContainerTarget) -> str | None:
    with _socket(target) as wire:
        wire.sendall(_head(target, f"Content-Length: {len(_ROW)}", "Connection: close") + _ROW)
        _answer(wire)
        wire.settimeout(10)
        more = wire.recv(1)
    return None if more == b"" else "bytes behind the answer"


def _refuses_garbage(target: ContainerTarget) -> str | None:
    with _socket(target) as wire:
        wire.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        line = wire.recv(1000).split(b"\r\n")[0]
    return None if line.split(b" ")[1:2] == [b"400"] else repr(line)


def _tells_callers_apart(target: ContainerTarget) -> str | None:
    bodies = [b'{"instances": [[%d.5, 1.0]]}' % number for number in range(_CALLERS)]
    invoke = partial(target.send, "POST", "/invocations")
    alone = list(map(invoke, bodies))
    with ThreadPoolExecutor(_CALLERS) as callers:
        together = list(callers.map(invoke, bodies))
    wrong = sum(a != b for a, b in zip(alone, together, strict=True))
    return f"{wrong} of {_CALLERS} answers were others than alone" if wrong else None


CHECKS: dict[str, Callable[[ContainerTarget], str | None]] = {
    "accepts a connection within 250 ms": _connects,
    "answers GET /ping with 200 within 2 s": _pings,
    "answers another path with 404": _knows_no_other_path,
    "reads a body in chunks as one with a length": _reads_chunks,
    "answers who expects 100 Continue": _says_continue,
    "keeps a connection for the next request": _keeps_connections,
    "closes the connection of a caller who asks for it": _closes_when_asked,
    "answers 400 to what is no HTTP": _refuses_garbage,
    f"gives each of {_CALLERS} callers at once its own answer": _tells_callers_apart,
}


@contextmanager
def _socket(target: ContainerTarget) -> Iterator[socket.socket]:
    connection = target.connection()
    try:
        connection.connect()
        yield connection.sock
    finally:
        connection.close()


def _head(target: ContainerTarget, *headers: str) -> bytes:
    host = target.url.partition("://")[2]
    lines = ["POST /invocations HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    return ("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode()


def _answer(wire: socket.socket) -> Seen:
    response = http.client.HTTPResponse(wire)
    response.begin()
    return response.status, response.read()


def _unlike(wanted: Seen, seen: Seen) -> str | None:
    return None if wanted == seen else f"{seen[0]} {seen[1][:100]!r}, not {wanted[0]}"
