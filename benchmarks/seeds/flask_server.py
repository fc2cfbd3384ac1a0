"""Flask behind Gunicorn on a free port, and what its processes cost."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psutil

from benchmarks.serving.cost import pss_mb

How = Literal["predict", "call"]
READY_SECONDS = 120


class FlaskServer:
    def __init__(self, url: str, master: psutil.Process) -> None:
        self.url = url
        self._master = master

    def cpu_ms(self) -> float:
        """So far, of all processes."""
        times = [one.cpu_times() for one in self._processes()]
        return float(sum(one.user + one.system for one in times)) * 1000

    def memory_mb(self) -> float:
        return pss_mb(one.pid for one in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self._master, *self._master.children(recursive=True)]


@contextmanager
def flask_server(model: Path, *, how: How, workers: int, folder: Path) -> Iterator[FlaskServer]:
    """Answers when it is entered; ended with all its workers when it is left.

    gthread with one thread: like sync, one request at a time, but it keeps connections.
    """
    log = folder / "flask.log"
    command = [
        *(sys.executable, "-m", "gunicorn", "benchmarks.seeds.contenders.flask_app:app"),
        *("--bind", "127.0.0.1:0", "--workers", str(workers), "--timeout", "300"),
        *("--worker-class", "gthread", "--threads", "1", "--log-file", str(log)),
    ]
    log.unlink(missing_ok=True)
    environment = {**os.environ, "MODEL": str(model), "HOW": how, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        server = FlaskServer(_url(process, log), psutil.Process(process.pid))
        _wait(server.url, log, workers)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            for one in psutil.Process(process.pid).children(recursive=True):
                one.kill()
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        words = log.read_text(encoding="utf-8") if log.exists() else ""
        for line in words.splitlines():
            if "Listening at: " in line:
                return line.split("Listening at: ")[1].split()[0]
        time.sleep(0.05)
    raise RuntimeError(f"Gunicorn did not start: {log.read_text(encoding='utf-8')[-500:]}")


def _wait(url: str, log: Path, workers: int) -> None:
    """Until every worker has imported TensorFlow and loaded its model."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        booted = log.read_text(encoding="utf-8").count("Booting worker")
        try:
            with urllib.request.urlopen(f"{url}/ping", timeout=READY_SECONDS):
                if booted >= workers:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError("Flask did not answer")
