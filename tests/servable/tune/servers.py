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
OK: Answer = (200, {"Content-Type": "application/json"}, b'{"outputs":[0.5]}')


class Server(HttpStub):
    """`answer(number, headers, body)` says what the request of that number, from 0, is answered."""

    def __init__(self, answer: Callable[[int, dict[str, str], bytes], Answer]) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.ports: set[int] = set()
        """Clients' ports: one for each connection that came."""
        self.paths: set[str] = set()
        self._answer, self._lock = answer, threading.Lock()
        super().__init__(self._respond)

    def _respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer:
        headers = dict(handler.headers.items())
        with self._lock:
            number = len(self.asked)
            self.ports.add(handler.client_address[1])
            self.paths.add(handler.path)
            self.asked.append((headers, body))
        return self._answer(number, headers, body)


class Stall:
    """From the request of number `at` on, everything is held for `seconds`; then it is quick again."""

    def __init__(self, seconds: float, *, at: int) -> None:
        self._seconds, self._at = seconds, at
        self._until = 0.0

    def __call__(self, number: int, headers: dict[str, str], body: bytes) -> Answer:
        if number == self._at:
            self._until = time.monotonic() + self._seconds
        time.sleep(max(0.0, self._until - time.monotonic()))
        return OK


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
