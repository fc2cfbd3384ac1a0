"""A server that says what a test wants, byte by byte."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self


class RawServer:
    """Calls `serve` with each connection that it takes, in a thread of its own, until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], None], port: int = 0) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with suppress(OSError):
            self._serve(connection)

    def hang_up(self) -> None:
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self) -> None:
        """Channels of grpcio connect again for as long as something listens, and keep a file open."""
        with suppress(OSError):
            self._listener.shutdown(
                socket.SHUT_RDWR
            )  # wakes accept(), which close() alone does not
        self._listener.close()
        self.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def answering(*answers: bytes, last: bool = False) -> RawServer:
    """Says one of these to each thing that it hears on a connection, the last one again and again.

    With `last` it closes the connection behind the last one.
    """

    def serve(connection: socket.socket) -> None:
        said = iter(answers)
        answer = b""
        while connection.recv(1 << 16):
            answer = next(said, answer)
            connection.sendall(answer)
            if last and answer is answers[-1]:
                connection.shutdown(socket.SHUT_RDWR)

    return RawServer(serve)


def answering_calls(*answers: bytes, first: bytes = b"") -> tuple[int, list[bytes]]:
    """The port of an HTTP/2 server that says one of these to each call, and what it hears before each.

    It says `first` to whoever connects, and nothing after the last answer. Nobody takes a second connection.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            listener.close()
            connection.settimeout(20)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, connection.makefile("rb") as stream:
                connection.sendall(first)
                stream.read(24)  # the preface
                for answer in answers:
                    heard.append(b"")
                    head = bytes(9)
                    while not (
                        head[3] in (0, 1) and head[4] & 1
                    ):  # DATA or HEADERS that end a call
                        if not (head := stream.read(9)):
                            return
                        heard[-1] += head + stream.read(int.from_bytes(head[:3], "big"))
                    connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                stream.read()  # until the client has closed it

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1]), heard
