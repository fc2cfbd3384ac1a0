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
