"""HTTP/1.1 on a port of 127.0.0.1, one thread per connection.

A thread reads, computes and answers without handing over to another: the cheapest way for
the few long connections of a front or a handler.
"""

import socket
import sys
import threading
import traceback
from collections.abc import Callable

from servable_local.container.answer import Answer, Request, error
from servable_local.container.http_requests import BadRequestError, RequestReader, encoded
from servable_local.container.ports import HOST, listening

_READ_BYTES = 1 << 18


def serve(answer: Callable[[Request], Answer], port: int) -> None:
    """Answers from now on, in threads that end with the process. Raises `OSError`."""
    listener = listening(port)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_attend, args=(connection, answer, port), daemon=True).start()

    threading.Thread(target=accept, name=f"REST on {HOST}:{port}", daemon=True).start()


def _attend(connection: socket.socket, answer: Callable[[Request], Answer], port: int) -> None:
    try:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _converse(connection, answer, port)
    except OSError:
        pass  # the caller hung up


def _converse(connection: socket.socket, answer: Callable[[Request], Answer], port: int) -> None:
    reader = RequestReader(port)
    while data := connection.recv(_READ_BYTES):
        try:
            reader.feed(data)
        except BadRequestError as problem:
            connection.sendall(encoded(error(400, str(problem)), keep_alive=False))
            return
        if reader.wants_continue:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            reader.wants_continue = False
        while reader.requests:
            request, keep_alive = reader.requests.popleft()
            if isinstance(request, Answer):
                connection.sendall(encoded(request, keep_alive=False))
                return
            try:
                found = answer(request)
            except Exception as failure:
                traceback.print_exc(file=sys.stderr)
                found = error(500, str(failure))
            head = request.method == "HEAD"
            connection.sendall(encoded(found, keep_alive=keep_alive, head=head))
            if not keep_alive:
                return
