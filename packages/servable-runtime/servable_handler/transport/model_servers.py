"""Load balancing and retries over the model servers of this container.

The expected wait is measured latency x (outstanding requests + 1). A slow server gets few
requests, which check whether it is still slow. A server that does not respond is set aside.
docs/decisions/0010 compares this with other strategies.

A request is sent at most twice, and a second time only if it provably was not processed: nothing
listened, the connection was closed before anything was written, or the server rejected it by an
HTTP/2 frame. Each transport sends it at most once; this module does the retry.
Source: https://grpc.github.io/grpc/core/md_doc_statuscodes.html; the batching queue's
message is that of tensorflow/core/kernels/batching_util/shared_batch_scheduler.h.
"""

import math
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import grpc

from servable_handler.request import Call, RequestError
from servable_handler.transport.channels import MOST_BYTES, Channels, SmallCalls
from servable_handler.transport.http2.frames import UnexpectedAnswerError
from servable_handler.transport.http2.grpc_connection import CallFailedError, UnsupportedError
from servable_handler.transport.rest import (
    BrokenOffError,
    DeadlineError,
    NotTakenError,
    RestConnections,
    open_connection,
)

# Time constant in seconds: a latency this old counts for 1/e.
MEMORY_SECONDS = 0.25
LEAST_WEIGHT = 0.1
# A server that would not be chosen is tried at most once a second, and with no more than one request
# in 200, unless it has not been tried for ten seconds.
PROBE_SECONDS = 1.0
PROBE_REQUESTS = 200
PROBE_ANYWAY_SECONDS = 10.0


@dataclass
class _Server:
    latency_seconds: float = 0.0
    """Measured latency; 0 until it is measured, so that the server is tried."""
    measured_at: float = -math.inf
    outstanding: int = 0
    answers: bool = True
    tried_at: float = -math.inf
    tried_as: int = 0
    """Number of the request, counted from the first, at which it was last tried."""


class ServerChoice:
    """The choice of a server for each request: `take` before it, `give_back` after it. Thread-safe."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = [_Server() for _ in range(count)]
        self._clock = clock
        self._requests = 0
        self._lock = threading.Lock()

    def take(self, avoid: int | None = None) -> int:
        """Return the server for the next request; it is `avoid` only if there is no other."""
        if len(self._servers) == 1:
            return 0
        with self._lock:
            self._requests += 1
            now = self._clock()
            number = self._choose_server(now, avoid)
            server = self._servers[number]
            server.outstanding += 1
            server.tried_at, server.tried_as = now, self._requests
            return number

    def give_back(self, number: int, seconds: float | None) -> None:
        """End a request; `seconds` is None if its duration says nothing about the server."""
        if len(self._servers) == 1:
            return
        with self._lock:
            server = self._servers[number]
            server.outstanding -= 1
            if seconds is None:
                return
            now = self._clock()
            # The older the last measurement, the more a new one counts.
            weight = max(LEAST_WEIGHT, 1 - math.exp((server.measured_at - now) / MEMORY_SECONDS))
            server.latency_seconds += weight * (seconds - server.latency_seconds)
            server.measured_at = now

    def set_aside(self, number: int) -> bool:
        """Mark a server as not responding. Return False if it was marked already."""
        with self._lock:
            answered, self._servers[number].answers = self._servers[number].answers, False
            return answered

    def bring_back(self, number: int) -> None:
        """Mark a server as responding again; its latency is measured anew."""
        with self._lock:
            server = self._servers[number]
            server.answers = True
            server.latency_seconds, server.measured_at = 0.0, -math.inf

    def _choose_server(self, now: float, avoid: int | None) -> int:
        every = range(len(self._servers))
        able = [n for n in every if self._servers[n].answers and n != avoid]
        # If no server responds, requests must still find out when one does again.
        able = able or [n for n in every if n != avoid]
        due = [n for n in able if self._is_due(self._servers[n], now)]
        if due:
            return min(due, key=lambda n: self._servers[n].tried_at)
        # One request measures an unknown server; further requests wait for it.
        slowest = max(server.latency_seconds for server in self._servers)
        return min(able, key=lambda n: _estimate_wait(self._servers[n], slowest))

    def _is_due(self, server: _Server, now: float) -> bool:
        age, requests = now - server.tried_at, self._requests - server.tried_as
        if server.outstanding or age < PROBE_SECONDS:
            return False
        return requests >= PROBE_REQUESTS or age >= PROBE_ANYWAY_SECONDS


def _estimate_wait(server: _Server, slowest: float) -> tuple[float, int, float]:
    latency = server.latency_seconds
    if server.measured_at == -math.inf and server.outstanding:
        latency = slowest
    return latency * (server.outstanding + 1), server.outstanding, server.tried_at


# Interval and timeout, in seconds, of the status requests to a server that was set aside.
CHECK_SECONDS = 0.5
# Seconds that the only server may take until it listens, before the retry.
PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
_QUEUE_FULL = re.compile(r"batch scheduling queue.* is full")
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_STATUSES = {
    "INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "DEADLINE_EXCEEDED": 504, "OUT_OF_RANGE": 400,
    "RESOURCE_EXHAUSTED": 429, "FAILED_PRECONDITION": 400, "UNIMPLEMENTED": 501,
}  # fmt: skip
Answer = TypeVar("Answer")


class ModelServers:
    """Model servers by their gRPC and REST ports. It belongs to one process, after the fork."""

    def __init__(self, grpc_ports: tuple[int, ...], rest_ports: tuple[int, ...]) -> None:
        self._grpc_ports, self._rest_ports = grpc_ports, rest_ports
        self._choice = ServerChoice(len(grpc_ports))
        self._channels = Channels()
        self._small: SmallCalls | None = SmallCalls()
        """None once a server has sent a response that only grpcio supports."""
        self._rest = RestConnections()

    def call_grpc(self, method: str, request: bytes, call: Call) -> bytes:
        """Return the reply to a serialized request. Raises `RequestError`."""

        def send_to_port(port: int) -> bytes:
            small = self._small
            if small and len(request) <= MOST_BYTES:
                try:
                    return small.call(
                        port, method, request, model=call.model, deadline=call.deadline
                    )
                except CallFailedError as failed:
                    raise _build_failure(
                        _CODES.get(failed.code, "UNKNOWN"), failed.message
                    ) from None
                except UnsupportedError:
                    self._small = None  # the request was not sent yet
                except UnexpectedAnswerError as error:
                    self._small = None
                    raise RequestError(
                        500,
                        f"the model server's response isn't supported ({error}); the request may have "
                        "run, so it wasn't retried; later requests use grpcio",
                    ) from None
            try:
                return self._channels.call(port, method, request, deadline=call.deadline)
            except grpc.RpcError as error:
                failure = _build_failure(error.code().name, error.details() or "")
                if isinstance(failure, BrokenOffError):
                    self._channels.reset_channel(port)
                raise failure from None

        return self._send_with_retry(send_to_port, self._grpc_ports, call)

    def call_rest(self, path: str, body: bytes, call: Call) -> tuple[int, bytes]:
        """Return status and body of the REST port's response below 500. Raises `RequestError`."""

        def send_to_port(port: int) -> tuple[int, bytes]:
            return self._rest.exchange(port, "POST", path, body, deadline=call.deadline)

        status, answer = self._send_with_retry(send_to_port, self._rest_ports, call)
        if status == 503 and _QUEUE_FULL.search(answer[:1000].decode(errors="replace")):
            raise _build_queue_error()
        return status, answer

    def _send_with_retry(
        self, ask: Callable[[int], Answer], ports: tuple[int, ...], call: Call
    ) -> Answer:
        """Return the result of `ask` for one of the ports. `ask` sends the request at most once."""
        server: int | None = None
        reason = ""
        for attempt in (1, 2):
            server = self._choice.take(avoid=server)
            began, seconds = time.monotonic(), None
            try:
                if attempt == 2 and len(ports) == 1:
                    _wait_for_listener(ports[server], call.deadline)
                answer = ask(ports[server])
                seconds = time.monotonic() - began
                return answer
            except NotTakenError as error:
                self._set_aside(server, call.model)
                reason = str(error)
            except BrokenOffError as error:
                self._set_aside(server, call.model)
                # Without Retry-After, which would mean that the request did not run or is harmless.
                raise RequestError(
                    503,
                    "the model server exited or closed the connection during this request "
                    f"({error}); the request may have run and may be the cause, so it wasn't retried",
                ) from None
            except DeadlineError:
                seconds = time.monotonic() - began
                self._set_aside(server, call.model)
                late = "the model didn't respond in time; send less, or increase wait_time_seconds"
                raise RequestError(504, late) from None
            finally:
                self._choice.give_back(server, seconds)
        raise RequestError(
            503,
            f"no model server accepted the request ({reason}); they may be restarting: try again",
            retry_after_seconds=1,
        )

    def _set_aside(self, server: int, model: str) -> None:
        if self._choice.set_aside(server):
            # Under gevent this is a greenlet, because threads are patched.
            watch = threading.Thread(target=self._watch, args=(server, model), daemon=True)
            watch.start()

    def _watch(self, server: int, model: str) -> None:
        """Wait until the server responds to a status request, and use it again. Any response counts."""
        port, path = self._rest_ports[server], f"/v1/models/{model}"
        while True:
            began = time.monotonic()
            try:
                RestConnections().exchange(port, "GET", path, b"", deadline=began + CHECK_SECONDS)
                break
            except (NotTakenError, BrokenOffError, DeadlineError):
                time.sleep(max(0.0, began + CHECK_SECONDS - time.monotonic()))
        self._channels.reset_channel(self._grpc_ports[server])
        self._choice.bring_back(server)


def _wait_for_listener(port: int, deadline: float) -> None:
    until = min(deadline, time.monotonic() + PATIENCE_SECONDS)
    while time.monotonic() < until:
        with suppress(NotTakenError, DeadlineError):
            open_connection(port, until).close()
            return
        time.sleep(_PAUSE_SECONDS)


def _build_failure(status: str, message: str) -> Exception:
    """Return the exception for a gRPC status."""
    if status == "DEADLINE_EXCEEDED":
        return DeadlineError()
    if _QUEUE_FULL.search(message):
        return _build_queue_error()
    if status in ("UNAVAILABLE", "CANCELLED"):
        # grpcio also uses this for a broken connection: whether the request ran is not known.
        return BrokenOffError(message[:200])
    return RequestError(_STATUSES.get(status, 500), f"the model server refuses: {message[:2000]}")


def _build_queue_error() -> RequestError:
    return RequestError(
        429, "the model server's batching queue is full; try again", retry_after_seconds=1
    )
