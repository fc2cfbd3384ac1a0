"""Servers of one's own for the generator to ask, each in a thread or process of this test's."""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.checkouts import ROOT
from tests.http_stub import HttpStub

Answer = tuple[int, dict[str, str], bytes]
AnswerEach = Callable[[int, dict[str, str], bytes], Answer]
OK: Answer = (200, {"Content-Type": "application/json"}, b'{"outputs":[0.5]}')


class Server(HttpStub):
    """A server that answers each request after so many `seconds`.

    `answer`: the answer, or a function that returns it for a request's number, from 0, headers, and body.
    """

    def __init__(self, answer: Answer | AnswerEach = OK, *, seconds: float = 0.0) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.ports: set[int] = set()  # clients': one for each connection that came
        self.paths: set[str] = set()
        lock = threading.Lock()

        def respond(handler: BaseHTTPRequestHandler, body: bytes) -> Answer:
            headers = dict(handler.headers.items())
            with lock:
                number = len(self.asked)
                self.ports.add(handler.client_address[1])
                self.paths.add(handler.path)
                self.asked.append((headers, body))
            time.sleep(seconds)
            return answer(number, headers, body) if callable(answer) else answer

        super().__init__(respond)


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
