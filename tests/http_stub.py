"""An HTTP server on 127.0.0.1 in threads of this process, which a function answers."""

import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Response = tuple[int, Mapping[str, str], bytes]
"""Status, headers, body."""
Respond = Callable[[BaseHTTPRequestHandler, bytes], Response | None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True
    server: "HttpStub"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        response = self.server.respond(self, body)
        if response is None:
            self.close_connection = True
            return
        status, headers, content = response
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


class HttpStub(ThreadingHTTPServer):
    """Answers each request with what `respond(handler, body)` returns; None closes the connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.connections: list[socket.socket] = []
        """Every one that came."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        # The client went away, or `respond` closed the connection.
        if not isinstance(sys.exception(), OSError | ValueError):
            super().handle_error(request, client_address)

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in self.connections:  # kept ones too, as a process that ends does
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
