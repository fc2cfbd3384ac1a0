"""Servers of one's own for the generator to ask, each in a thread or process of this test's."""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.checkouts import ROOT

Answer = tuple[int, dict[str, str], bytes]
OK: Answer = (200, {"Content-Type": "application/json"}, b'{"outputs":[0.5]}')


class Server:
    """A server that answers each request after so many `seconds`.

    `answer`: the answer, or a function that returns it for a request's number, from 0, headers, and body.
    """

    def __init__(
        self,
        answer: Answer | Callable[[int, dict[str, str], bytes], Answer] = OK,
        *,
        seconds: float = 0.0,
    ) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.ports: set[int] = set()
        """Clients' ports: one for each connection that came."""
        self.paths: set[str] = set()
        lock, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = dict(self.headers.items())
                with lock:
                    number = len(server.asked)
                    server.ports.add(self.client_address[1])
                    server.paths.add(self.path)
                    server.asked.append((headers, body))
                time.sleep(seconds)
                told = answer(number, headers, body) if callable(answer) else answer
                status, more, content = told
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Threads(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def start_load(
    *arguments: str | Path, folder: Path | None = None, umask: int = -1
) -> "subprocess.Popen[str]":
    """Start `servable load` in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "servable", "load", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        umask=umask,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def list_open_to_others(folder: Path) -> list[str]:
    """Return what others than the owner can read or write."""
    found = [folder, *folder.rglob("*")]
    return [str(one) for one in found if stat.S_IMODE(one.stat().st_mode) & 0o077]
