"""gRPC to the model servers in this container: grpcio's channels, and small calls without grpcio.

Messages stay bytes: requests are serialized and replies parsed elsewhere, or not at all. A call
through grpcio costs the worker 0.3 to 0.45 CPU-ms, most of it for gRPC's own threads. A small
call over a plain socket, which is kept open and has one call at a time, costs 0.1
(docs/decisions/0035). Larger messages and unexpected servers are left to grpcio. A server is
tested with a call of our own before it gets a caller's request.
"""

import socket
import sys
import threading
from typing import Any
from urllib.parse import unquote

import grpc

from servable_handler.transport.http2.frames import UnexpectedAnswerError
from servable_handler.transport.http2.grpc_connection import (
    CallFailedError,
    GrpcConnection,
    UnsupportedError,
)
from servable_handler.transport.rest import (
    HOST,
    BrokenOffError,
    DeadlineError,
    IdleConnections,
    NotTakenError,
    compute_seconds_left,
    is_open,
    open_connection,
)
from servable_tensors import wire

SERVICE = "/tensorflow.serving.PredictionService/"
OPTIONS = [
    # gRPC's own 4 MiB are less than a request may have, let alone a response.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A new channel is a new connection, without the old one's waiting time.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Also the limit for opening a connection, which a frozen server accepts.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The server is on the same host: no proxy, and no bandwidth estimation.
    ("grpc.enable_http_proxy", 0),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 8 << 20),
    ("grpc.http2.max_frame_size", (1 << 24) - 1),
    # A request that was sent is never sent again, not even by grpcio's transparent retries.
    ("grpc.enable_retries", 0),
]
_gevent_prepared = False
_lock = threading.Lock()


class Channels:
    """The stubs of one process, by port, created on first use: gRPC's threads do not survive a fork."""

    def __init__(self) -> None:
        self._stubs: dict[tuple[int, str], Any] = {}
        self._channels: dict[int, Any] = {}
        self._sentinels: dict[int, socket.socket] = {}
        """An idle connection to each port, which closes when the process at its other end ends."""

    def call(self, port: int, method: str, request: bytes, *, deadline: float) -> bytes:
        """Send a request at most once and return the serialized reply.

        Raises `NotTakenError`, `DeadlineError`; once it may have been sent, grpc.RpcError.
        """
        # grpcio's UNAVAILABLE does not say whether a server had the request. So this first checks
        # whether a server listens, and whether it is the one of the last call.
        self._connect_to_server(port, deadline)
        stub = self._stubs.get((port, method)) or self._create_stub(port, method)
        reply: bytes = stub(request, timeout=compute_seconds_left(deadline))
        return reply

    def _connect_to_server(self, port: int, deadline: float) -> None:
        # Under the lock, or another call might close the socket, and its number might be that of
        # another connection by the time that it is read.
        with _lock:
            sentinel = self._sentinels.get(port)
            if sentinel is not None and is_open(sentinel, silent=False):
                return
            self._forget(port)
        opened = open_connection(port, deadline)
        with _lock:
            if self._sentinels.setdefault(port, opened) is not opened:
                opened.close()  # another call was faster

    def reset_channel(self, port: int) -> None:
        """Make the next call open a new connection."""
        with _lock:
            self._forget(port)

    def _forget(self, port: int) -> None:
        sentinel = self._sentinels.pop(port, None)
        if sentinel is not None:
            sentinel.close()
        self._channels.pop(port, None)
        for key in [key for key in self._stubs if key[0] == port]:
            del self._stubs[key]

    def _create_stub(self, port: int, method: str) -> Any:
        with _lock:
            if port not in self._channels:
                _prepare_gevent()
                self._channels[port] = grpc.insecure_channel(f"{HOST}:{port}", options=OPTIONS)
            unary = self._channels[port].unary_unary
            try:
                # Registered methods, as in generated stubs: a sixth less CPU time a call.
                stub = unary(SERVICE + method, _registered_method=True)
            except TypeError:
                stub = unary(SERVICE + method)  # before grpcio 1.64
            return self._stubs.setdefault((port, method), stub)


def _prepare_gevent() -> None:
    """Make grpcio cooperate with gevent, so that a waiting call does not block the worker."""
    global _gevent_prepared
    monkey = sys.modules.get("gevent.monkey")
    if _gevent_prepared or monkey is None or not monkey.is_module_patched("socket"):
        return
    from grpc.experimental import gevent

    gevent.init_gevent()
    _gevent_prepared = True


# Maximum size that with headers fits HTTP/2's initial window and frame, before any settings.
MOST_BYTES = 16_000
_TRIAL = "/tensorflow.serving.ModelService/GetModelStatus"


class SmallCalls:
    """The connections of one process, opened on first use. It is thread-safe."""

    def __init__(self) -> None:
        self._idle: IdleConnections[GrpcConnection] = IdleConnections()
        self._tried: set[int] = set()

    def call(self, port: int, method: str, request: bytes, *, model: str, deadline: float) -> bytes:
        """Send a request at most once and return the serialized reply.

        Raises `CallFailedError`, `DeadlineError`; before it was sent `UnsupportedError` and
        `NotTakenError`; after it was sent `BrokenOffError` and `UnexpectedAnswerError`.
        """
        if port not in self._tried:
            self._test_server(port, model, deadline)
        idle = self._idle.take(port, lambda connection: connection.is_ready(request, deadline))
        connection = idle or GrpcConnection(port, deadline)
        return self._call_on_connection(connection, port, SERVICE + method, request, deadline)

    def _test_server(self, port: int, model: str, deadline: float) -> None:
        """Make a cheap call without effect, to check that the server's replies are supported."""
        status = wire.GetModelStatusRequest(model_spec=wire.ModelSpec(name=model))
        connection = GrpcConnection(port, deadline)
        try:
            self._call_on_connection(connection, port, _TRIAL, status.SerializeToString(), deadline)
        except CallFailedError:
            return  # the response is supported, although the model isn't loaded yet
        except UnexpectedAnswerError as error:
            raise UnsupportedError(str(error)) from None
        except BrokenOffError as error:
            raise NotTakenError(str(error)) from None
        self._tried.add(port)

    def _call_on_connection(
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
        self._idle.give_back(port, connection, usable=connection.usable)
        if code:
            raise CallFailedError(code, unquote(message.decode("latin1")))
        return reply
