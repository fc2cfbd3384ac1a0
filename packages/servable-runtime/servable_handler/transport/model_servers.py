"""Load balancing and retries over the model servers of this container.

A request is sent at most twice, and a second time only if it provably was not processed: nothing
listened, the connection was closed before anything was written, or the server refused it by an
HTTP/2 frame. Each transport sends it at most once; this module does the retry.
Source: https://grpc.github.io/grpc/core/md_doc_statuscodes.html; the batching queue's
message is that of tensorflow/core/kernels/batching_util/shared_batch_scheduler.h.
"""

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import grpc

from servable_handler.call import Call
from servable_handler.refusal import RequestError
from servable_handler.transport.channels import Channels
from servable_handler.transport.http2.grpc_connection import CallFailedError, UnsupportedError
from servable_handler.transport.http2.hpack import UnexpectedAnswerError
from servable_handler.transport.http2.small_calls import MOST_BYTES, SmallCalls
from servable_handler.transport.rest import (
    BrokenOffError,
    DeadlineError,
    NotTakenError,
    RestConnections,
    connected,
)
from servable_handler.transport.server_choice import ServerChoice

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
        """None once a server has sent an answer that only grpcio supports."""
        self._rest = RestConnections()

    def grpc(self, method: str, request: bytes, call: Call) -> bytes:
        """Returns the reply to a serialized request. Raises `RequestError`."""

        def ask(port: int) -> bytes:
            small = self._small
            if small and len(request) <= MOST_BYTES:
                try:
                    return small.call(
                        port, method, request, model=call.model, deadline=call.deadline
                    )
                except CallFailedError as failed:
                    raise _failure(_CODES.get(failed.code, "UNKNOWN"), failed.message) from None
                except UnsupportedError:
                    self._small = None  # the request was not sent yet
                except UnexpectedAnswerError as error:
                    self._small = None
                    raise RequestError(
                        500,
                        f"the model server's answer is not supported ({error}); the request may have "
                        "run, so it was not sent again; later requests go through grpcio",
                    ) from None
            try:
                return self._channels.call(port, method, request, deadline=call.deadline)
            except grpc.RpcError as error:
                failure = _failure(error.code().name, error.details() or "")
                if isinstance(failure, BrokenOffError):
                    self._channels.renew(port)
                raise failure from None

        return self._answered(ask, self._grpc_ports, call)

    def rest(self, path: str, body: bytes, call: Call) -> tuple[int, bytes]:
        """Returns status and body of the REST port's answer below 500. Raises `RequestError`."""

        def ask(port: int) -> tuple[int, bytes]:
            return self._rest.exchange(port, "POST", path, body, deadline=call.deadline)

        status, answer = self._answered(ask, self._rest_ports, call)
        if status == 503 and _QUEUE_FULL.search(answer[:1000].decode(errors="replace")):
            raise _queue_full()
        return status, answer

    def _answered(self, ask: Callable[[int], Answer], ports: tuple[int, ...], call: Call) -> Answer:
        """The answer of `ask` from one of the ports; `ask` sends the request at most once."""
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
                    "the model server ended or closed the connection while it had this request "
                    f"({error}); the request may have run and may be the cause, so it was not sent again",
                ) from None
            except DeadlineError:
                seconds = time.monotonic() - began
                self._set_aside(server, call.model)
                late = "the model did not answer in time; send less, or raise wait_time_seconds"
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
        """Uses the server again once it answers a status request, whatever the answer is."""
        port, path = self._rest_ports[server], f"/v1/models/{model}"
        while True:
            began = time.monotonic()
            try:
                RestConnections().exchange(port, "GET", path, b"", deadline=began + CHECK_SECONDS)
                break
            except (NotTakenError, BrokenOffError, DeadlineError):
                time.sleep(max(0.0, began + CHECK_SECONDS - time.monotonic()))
        self._channels.renew(self._grpc_ports[server])
        self._choice.bring_back(server)


def _wait_for_listener(port: int, deadline: float) -> None:
    until = min(deadline, time.monotonic() + PATIENCE_SECONDS)
    while time.monotonic() < until:
        with suppress(NotTakenError, DeadlineError):
            connected(port, until).close()
            return
        time.sleep(_PAUSE_SECONDS)


def _failure(status: str, message: str) -> Exception:
    """The exception for a gRPC status."""
    if status == "DEADLINE_EXCEEDED":
        return DeadlineError()
    if _QUEUE_FULL.search(message):
        return _queue_full()
    if status in ("UNAVAILABLE", "CANCELLED"):
        # grpcio also uses this for a broken connection: whether the request ran is not known.
        return BrokenOffError(message[:200])
    return RequestError(_STATUSES.get(status, 500), f"the model server refuses: {message[:2000]}")


def _queue_full() -> RequestError:
    return RequestError(
        429, "the model server's batching queue is full: try again", retry_after_seconds=1
    )
