"""The port on which load workers join takes ZeroMQ's current protocol only, and so no HTTP.

libzmq also accepts the protocol of before 2012 (ZMTP 1.0), which begins with a length and no
signature: "POST" is one. A web page could send requests that join as a load worker and falsify
the result. With a ZAP domain libzmq refuses that protocol; without a ZAP handler it asks
nothing more of anybody. Source: https://rfc.zeromq.org/spec/23/, src/zmtp_engine.cpp of libzmq.
"""

from typing import Any

import zmq
from locust.rpc import zmqrpc

_MAKE = zmqrpc.BaseSocket.__init__


def refuse_http() -> None:
    """Idempotent; for the sockets that this process makes from now on."""
    setattr(zmqrpc.BaseSocket, "__init__", _make)  # noqa: B010  (mypy forbids the plain form)


def _make(server: Any, socket_type: int, *more: Any) -> None:
    _MAKE(server, socket_type, *more)  # type: ignore[no-untyped-call]
    if socket_type == zmq.ROUTER:  # before Locust binds it: afterwards it has no effect
        server.socket.setsockopt(zmq.ZAP_DOMAIN, b"servable")
