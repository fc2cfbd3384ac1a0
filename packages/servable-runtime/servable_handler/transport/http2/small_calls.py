"""gRPC for small messages over plain sockets that are kept open, with one call at a time on each.

A call through grpcio costs the worker 0.3 to 0.45 CPU-ms, most of it for gRPC's own threads;
this costs 0.05 (docs/decisions/0035). Larger messages and unexpected servers are left to grpcio. A
server is tested with a call of our own before it gets a caller's request.
"""

from collections import defaultdict
from urllib.parse import unquote

from servable_handler.transport.channels import SERVICE
from servable_handler.transport.http2.grpc_connection import (
    CallFailedError,
    GrpcConnection,
    UnsupportedError,
)
from servable_handler.transport.http2.hpack import UnexpectedAnswerError
from servable_handler.transport.rest import MOST_KEPT, BrokenOffError, DeadlineError, NotTakenError
from servable_tensors import wire

# Maximum size that with headers fits HTTP/2's initial window and frame, before any settings.
MOST_BYTES = 16_000
_TRIAL = "/tensorflow.serving.ModelService/GetModelStatus"


class SmallCalls:
    """The connections of one process, by port, opened on first use. It is safe between threads."""

    def __init__(self) -> None:
        # A list's append and pop are atomic between threads, so no lock is needed.
        self._idle: dict[int, list[GrpcConnection]] = defaultdict(list)
        self._tried: set[int] = set()

    def call(self, port: int, method: str, request: bytes, *, model: str, deadline: float) -> bytes:
        """Sends a request at most once and returns the serialized reply.

        Raises `CallFailedError`, `DeadlineError`; before it was sent `UnsupportedError` and
        `NotTakenError`; after it was sent `BrokenOffError` and `UnexpectedAnswerError`.
        """
        if port not in self._tried:
            self._try(port, model, deadline)
        connection = self._kept(port, request, deadline) or GrpcConnection(port, deadline)
        return self._use(connection, port, SERVICE + method, request, deadline)

    def _kept(self, port: int, request: bytes, deadline: float) -> GrpcConnection | None:
        """An idle connection that can take the request, or None."""
        while True:
            try:
                connection = self._idle[port].pop()
            except IndexError:
                return None
            ready = False
            try:
                ready = connection.is_ready(request, deadline)
            finally:
                if not ready:
                    connection.close()
            if ready:
                return connection

    def _try(self, port: int, model: str, deadline: float) -> None:
        """Makes a cheap call without effect, to see whether the server's answers are supported."""
        status = wire.GetModelStatusRequest(model_spec=wire.ModelSpec(name=model))
        connection = GrpcConnection(port, deadline)
        try:
            self._use(connection, port, _TRIAL, status.SerializeToString(), deadline)
        except CallFailedError:
            return  # the answer is supported, although there is no such model yet
        except UnexpectedAnswerError as error:
            raise UnsupportedError(str(error)) from None
        except BrokenOffError as error:
            raise NotTakenError(str(error)) from None
        self._tried.add(port)

    def _use(
        self, connection: GrpcConnection, port: int, path: str, request: bytes, deadline: float
    ) -> bytes:
        try:
            code, message, reply = connection.call(path, request, deadline)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise DeadlineError from None
            if isinstance(error, OSError):
                raise BrokenOffError(str(error)) from None
            raise
        idle = self._idle[port]
        if connection.usable and len(idle) < MOST_KEPT:
            idle.append(connection)
        else:
            connection.close()
        if code:
            raise CallFailedError(code, unquote(message.decode("latin1")))
        return reply
