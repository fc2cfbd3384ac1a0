"""urllib3 connections that record whether a byte of the request was handed to a socket.

An exception's class does not say it: a TLS error may come from the handshake or from the answer,
a reset from either side of the request, and a timeout from a proxy. So the connection says it.
"""

import socket
import threading
from typing import Any

from servable_client.forks import PoolQueue, close_in_children


class Attempt(threading.local):
    """The request that this thread is sending."""

    written = True
    """Whether a byte of the request may have left. True wherever nobody has observed otherwise."""


ATTEMPT = Attempt()


class _ObservedConnection:
    _connecting = False

    def _new_conn(self) -> Any:
        connected = super()._new_conn()  # type: ignore[misc]
        close_in_children(connected)
        return connected

    def connect(self) -> None:
        # A proxy's CONNECT goes through send() as well, and is no part of the request.
        self._connecting = True
        try:
            super().connect()  # type: ignore[misc]
        finally:
            self._connecting = False
        # TLS has put another socket, or through a proxy an object, around the first.
        outer = self.sock  # type: ignore[attr-defined]
        outer = getattr(outer, "socket", outer)
        if isinstance(outer, socket.socket):
            close_in_children(outer)

    def send(self, data: Any) -> None:
        if self.sock is None:  # type: ignore[attr-defined]
            self.connect()  # as http.client's send() would: until here nothing was written
        if not self._connecting:
            ATTEMPT.written = True
        super().send(data)  # type: ignore[misc]


def observed(pool_class: Any) -> Any:
    """A class of connection pools, whose connections are observed."""
    of = pool_class.ConnectionCls
    connection = type(f"Observed{of.__name__}", (_ObservedConnection, of), {})
    members = {"ConnectionCls": connection, "QueueCls": PoolQueue}
    return type(f"Observed{pool_class.__name__}", (pool_class,), members)
