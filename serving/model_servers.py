"""The model servers of this container, as one: chosen, asked, asked again, set aside.

Source: https://grpc.github.io/grpc/core/md_doc_statuscodes.html; the batching queue's
sentence is that of tensorflow/core/kernels/batching_util/shared_batch_scheduler.h.
"""

import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import grpc

from serving.call import Call
from serving.channels import Channels
from serving.grpc_connection import Failed
from serving.hpack import Unexpected
from serving.refusal import Refusal
from serving.rest import RestConnections, TooLate, Unreachable
from serving.server_choice import ServerChoice
from serving.small_calls import MOST_BYTES, SmallCalls

# A server that was set aside is asked for its status this often, and given as long.
CHECK_SECONDS = 0.5
# How long the second attempt waits for somebody to listen.
PATIENCE_SECONDS = 1.0
_QUEUE_FULL = re.compile(r"batch scheduling queue.* is full")
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_STATUSES = {
    "INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "DEADLINE_EXCEEDED": 504, "OUT_OF_RANGE": 400,
    "RESOURCE_EXHAUSTED": 429, "FAILED_PRECONDITION": 400, "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503, "CANCELLED": 503,
}  # fmt: skip
Answer = TypeVar("Answer")


class NoAnswer(Exception):
    """The server could not be reached at all; another may."""


class ModelServers:
    """Servers by their gRPC and REST ports. Lives in one process; made after the fork."""

    def __init__(self, grpc_ports: tuple[int, ...], rest_ports: tuple[int, ...]) -> None:
        self._grpc_ports, self._rest_ports = grpc_ports, rest_ports
        self._choice = ServerChoice(len(grpc_ports))
        self._channels = Channels()
        self._small: SmallCalls | None = SmallCalls()
        """None once a server has said what only grpcio understands."""
        self._rest = RestConnections()

    def grpc(self, method: str, request: bytes, call: Call) -> bytes:
        """The reply to a serialized request. Raises `Refusal`."""

        def ask(server: int, again: bool) -> bytes:
            port, seconds = self._grpc_ports[server], _left(call)
            if self._small and len(request) <= MOST_BYTES and not again:
                try:
                    return self._small.call(
                        port, method, request, model=call.model, deadline=call.deadline
                    )
                except Failed as failed:
                    name = _CODES.get(failed.code, "UNKNOWN")
                    raise self._failure(name, failed.message, port) from None
                except (Unreachable, TooLate) as error:
                    raise _no_answer(error) from None
                except Unexpected:
                    self._small = None
            patient = again and len(self._grpc_ports) == 1 and seconds > PATIENCE_SECONDS
            try:
                return self._channels.call(
                    port,
                    method,
                    request,
                    seconds=PATIENCE_SECONDS if patient else seconds,
                    patient=patient,
                )
            except grpc.RpcError as error:
                name, said = error.code().name, error.details() or ""
                if patient and name == "DEADLINE_EXCEEDED":
                    raise NoAnswer("nobody listens") from None
                raise self._failure(name, said, port) from None

        return self._answered(ask, call)

    def rest(self, path: str, body: bytes, call: Call) -> tuple[int, bytes]:
        """Status and body of what the REST port answers; below 500 as they are. Raises `Refusal`."""

        def ask(server: int, again: bool) -> tuple[int, bytes]:
            try:
                return self._rest.exchange(
                    self._rest_ports[server], "POST", path, body, deadline=call.deadline
                )
            except (Unreachable, TooLate) as error:
                raise _no_answer(error) from None

        status, answer = self._answered(ask, call)
        if status == 503 and _QUEUE_FULL.search(answer[:1000].decode(errors="replace")):
            raise _queue_full()
        return status, answer

    def _answered(self, ask: Callable[[int, bool], Answer], call: Call) -> Answer:
        server: int | None = None
        for attempt in (0, 1):
            server = self._choice.take(avoid=server)
            began, seconds = time.monotonic(), None
            try:
                answer = ask(server, attempt == 1)
                seconds = time.monotonic() - began
                return answer
            except NoAnswer as error:
                self._set_aside(server, call.model)
                reason = error
            except Refusal as refusal:
                if refusal.status == 504:
                    seconds = time.monotonic() - began
                    self._set_aside(server, call.model)
                raise
            finally:
                self._choice.give_back(server, seconds)
        raise Refusal(
            503,
            f"the model server does not answer ({reason}); it is restarting: try again",
            retry_after_seconds=1,
        )

    def _failure(self, status: str, said: str, port: int) -> Exception:
        if status == "DEADLINE_EXCEEDED":
            return _too_late()
        if _QUEUE_FULL.search(said):
            return _queue_full()
        if status in ("UNAVAILABLE", "CANCELLED"):
            self._channels.renew(port)
            return NoAnswer(said[:200])
        return Refusal(_STATUSES.get(status, 500), f"the model server refuses: {said[:2000]}")

    def _set_aside(self, server: int, model: str) -> None:
        if self._choice.set_aside(server):
            # A greenlet under gevent, where threads are patched.
            watch = threading.Thread(target=self._watch, args=(server, model), daemon=True)
            watch.start()

    def _watch(self, server: int, model: str) -> None:
        """Brings the server back once it answers for its status, whatever it says."""
        port, path = self._rest_ports[server], f"/v1/models/{model}"
        while True:
            began = time.monotonic()
            try:
                RestConnections().exchange(port, "GET", path, b"", deadline=began + CHECK_SECONDS)
                break
            except (Unreachable, TooLate):
                time.sleep(max(0.0, began + CHECK_SECONDS - time.monotonic()))
        self._channels.renew(self._grpc_ports[server])
        self._choice.bring_back(server)


def _left(call: Call) -> float:
    left = call.deadline - time.monotonic()
    if left <= 0:
        raise _too_late()
    return left


def _no_answer(error: Unreachable | TooLate) -> Exception:
    return _too_late() if isinstance(error, TooLate) else NoAnswer(str(error))


def _too_late() -> Refusal:
    return Refusal(504, "the model did not answer in time; send less, or raise wait_time_seconds")


def _queue_full() -> Refusal:
    return Refusal(
        429, "the model server's batching queue is full: try again", retry_after_seconds=1
    )
