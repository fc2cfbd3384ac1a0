"""SageMaker's requirements of a container, and what the image's nginx.conf sets for size and time.

Each check is a sentence about the container, and a function that returns what was seen instead,
None where the sentence is true. CHECKS hold for any model, MODEL_CHECKS for the table's models.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-22)
"""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tests.servable_local.container.asked_container import AskedContainer
from tests.servable_local.container.observed_cases import ATTRIBUTES

_ROW = b'{"instances": [[1.0, 2.0]]}'
_CALLERS = 16
_REQUESTS = 300
# NGINX passes a body on from memory only up to its buffers' size, and refuses one above
# client_max_body_size: 1 MB by default, and 6 MB was InvokeEndpoint's limit.
_SIZES = {"20 KB": 20_000, "64 KB": 65_536, "6 MB": 6_000_000, "7 MB": 7_000_000}
_IDLE_SECONDS = 2
_MOST_IDLE_SECONDS = 8  # keepalive_timeout is 3, and NGINX looks when it has time
_SLOW_SECONDS = 4.0
Seen = tuple[int, bytes]


def _connects(container: AskedContainer) -> str | None:
    began = time.monotonic()
    with _socket(container):
        milliseconds = (time.monotonic() - began) * 1000
    return None if milliseconds <= 250 else f"{milliseconds:.0f} ms"


def _pings(container: AskedContainer) -> str | None:
    began = time.monotonic()
    status, _ = container.send("GET", "/ping")
    seconds = time.monotonic() - began
    return None if status == 200 and seconds <= 2 else f"{status} after {seconds:.1f} s"


def _knows_no_other_path(container: AskedContainer) -> str | None:
    return _unlike((404, b'{"error": "Not Found"}'), container.send("GET", "/metrics"))


def _reads_chunks(container: AskedContainer) -> str | None:
    alone = container.send("POST", "/invocations", _ROW)
    with _socket(container) as wire:
        wire.sendall(_head(container, "Transfer-Encoding: chunked"))
        for part in (_ROW[:10], _ROW[10:], b""):
            wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        return _unlike(alone, _answer(wire))


def _says_continue(container: AskedContainer) -> str | None:
    with _socket(container) as wire:
        wire.settimeout(10)
        wire.sendall(_head(container, f"Content-Length: {len(_ROW)}", "Expect: 100-continue"))
        line = wire.recv(1000).split(b"\r\n")[0]
    return None if line.startswith(b"HTTP/1.1 100 ") else repr(line)


def _keeps_connections(container: AskedContainer) -> str | None:
    with _socket(container) as wire:
        answers = []
        for _ in range(2):
            wire.sendall(_head(container, f"Content-Length: {len(_ROW)}") + _ROW)
            answers.append(_answer(wire))
    return _unlike(answers[0], answers[1])


def _closes_when_asked(container: AskedContainer) -> str | None:
    with _socket(container) as wire:
        wire.sendall(_head(container, f"Content-Length: {len(_ROW)}", "Connection: close") + _ROW)
        _answer(wire)
        wire.settimeout(10)
        more = wire.recv(1)
    return None if more == b"" else "bytes behind the answer"


def _refuses_garbage(container: AskedContainer) -> str | None:
    with _socket(container) as wire:
        wire.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        line = wire.recv(1000).split(b"\r\n")[0]
    return None if line.split(b" ")[1:2] == [b"400"] else repr(line)


def _tells_callers_apart(container: AskedContainer) -> str | None:
    bodies = [b'{"instances": [[%d.5, 1.0]]}' % number for number in range(_CALLERS)]
    invoke = partial(container.send, "POST", "/invocations")
    alone = list(map(invoke, bodies))
    with ThreadPoolExecutor(_CALLERS) as callers:
        together = list(callers.map(invoke, bodies))
    wrong = sum(a != b for a, b in zip(alone, together, strict=True))
    return f"{wrong} of {_CALLERS} answers were others than alone" if wrong else None


def _repeats_itself(container: AskedContainer) -> str | None:
    with _socket(container) as wire:
        answers = []
        for _ in range(_REQUESTS):
            wire.sendall(_head(container, f"Content-Length: {len(_ROW)}") + _ROW)
            answers.append(_answer(wire))
    other = next((answer for answer in answers if answer != answers[0]), answers[0])
    return _unlike(answers[0], other)


def _compresses_nothing(container: AskedContainer) -> str | None:
    alone = container.send("POST", "/invocations", _ROW)
    return _unlike(
        alone,
        container.send("POST", "/invocations", _ROW, {"Accept-Encoding": "gzip, deflate, br"}),
    )


def _closes_idle_connections(container: AskedContainer) -> str | None:
    request = _head(container, f"Content-Length: {len(_ROW)}") + _ROW
    with _socket(container) as wire:
        wire.sendall(request)
        first = _answer(wire)
        time.sleep(_IDLE_SECONDS)
        wire.sendall(request)
        if (unlike := _unlike(first, _answer(wire))) is not None:
            return unlike
        wire.settimeout(_MOST_IDLE_SECONDS)
        began = time.monotonic()
        try:
            more = wire.recv(1)
        except TimeoutError:
            return f"open after {_MOST_IDLE_SECONDS} s"
        seconds = time.monotonic() - began
    return None if more == b"" and seconds >= _IDLE_SECONDS else f"closed after {seconds:.1f} s"


def _takes_bodies(container: AskedContainer, size: int) -> str | None:
    # Numbers, so that no two parts are alike, and letters that the model makes large; in eight rows, as
    # many as the container with batching takes.
    text = "".join(f"{number}x" for number in range(size // 4))[:size]
    rows = [text[at::8] for at in range(8)]
    status, body = _predictions(container, "words", rows)
    if status == 200 and body == [row.upper() for row in rows]:
        return None
    return f"{status} {str(body)[:100]}, not 200 and {size:,} bytes"


def _keeps_digits(container: AskedContainer) -> str | None:
    row = np.array([0.1, 1 / 3, 2 / 3, 1e-7, 123456.789, -98765.4321, 3.1415926], np.float32)
    status, body = _predictions(container, "mult", [row.tolist()])
    if status == 200 and np.array_equal(np.array(body, np.float32), [row * np.float32(3)]):
        return None
    return f"{status} {str(body)[:160]}, not {(row * np.float32(3)).tolist()}"


def _computes_slowly(container: AskedContainer) -> str | None:
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(_predictions, container, "slow", [_SLOW_SECONDS])
        time.sleep(_SLOW_SECONDS / 3)
        pinged = _pings(container)
        status, body = answer.result()
    if (status, body) != (200, [_SLOW_SECONDS]):
        return f"{status} {str(body)[:100]}, not 200"
    return None if pinged is None else f"/ping meanwhile: {pinged}"


CHECKS: dict[str, Callable[[AskedContainer], str | None]] = {
    "accepts a connection within 250 ms": _connects,
    "answers GET /ping with 200 within 2 s": _pings,
    "answers another path with 404": _knows_no_other_path,
    "reads a body in chunks as one with a length": _reads_chunks,
    "answers who expects 100 Continue": _says_continue,
    "keeps a connection for the next request": _keeps_connections,
    "closes the connection of a caller who asks for it": _closes_when_asked,
    "answers 400 to what is no HTTP": _refuses_garbage,
    f"gives each of {_CALLERS} callers at once its own answer": _tells_callers_apart,
    f"gives {_REQUESTS} equal requests of a connection the same answer": _repeats_itself,
    "compresses no answer": _compresses_nothing,
    f"keeps an idle connection for {_IDLE_SECONDS} s, and not for {_MOST_IDLE_SECONDS} s": (
        _closes_idle_connections
    ),
}
MODEL_CHECKS: dict[str, Callable[[AskedContainer], str | None]] = {
    f"answers {name} with {name}": partial(_takes_bodies, size=size)
    for name, size in _SIZES.items()
} | {
    "writes every digit of a float32": _keeps_digits,
    f"answers a model that computes for {_SLOW_SECONDS:g} s, and /ping meanwhile": _computes_slowly,
}


@contextmanager
def _socket(container: AskedContainer) -> Iterator[socket.socket]:
    connection = container.connect()
    try:
        connection.connect()
        yield connection.sock
    finally:
        connection.close()


def _head(container: AskedContainer, *headers: str) -> bytes:
    host = container.url.partition("://")[2]
    lines = ["POST /invocations HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    return ("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode()


def _answer(wire: socket.socket) -> Seen:
    response = http.client.HTTPResponse(wire)
    response.begin()
    return response.status, response.read()


def _predictions(container: AskedContainer, model: str, rows: list[Any]) -> tuple[int, Any]:
    """Return the status and the predictions of the model; the whole body if there are none."""
    named = {ATTRIBUTES: f"tfs-model-name={model}"}
    request = json.dumps({"instances": rows}).encode()
    status, body = container.send("POST", "/invocations", request, named)
    try:
        return status, json.loads(body)["predictions"]
    except (ValueError, KeyError, TypeError):
        return status, body


def _unlike(wanted: Seen, seen: Seen) -> str | None:
    return None if wanted == seen else f"{seen[0]} {seen[1][:100]!r}, not {wanted[0]}"
