"""Flask behind Gunicorn on a free port, and what its processes cost. Gunicorn's settings, too."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil

from benchmarks.cost import Cpu, pss_mb

How = Literal["predict", "call"]
READY = "worker is ready"
READY_SECONDS = 120


def post_worker_init(worker: Any) -> None:
    """Gunicorn calls it when a worker has loaded the model and can answer."""
    worker.log.info(READY)


class FlaskServer:
    def __init__(self, url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.url = url
        self._process, self._log = process, log
        self._master = psutil.Process(process.pid)
        self._workers = 0

    def add_workers(self, count: int) -> None:
        """Returns when all of them have imported TensorFlow and loaded the model."""
        for _ in range(count):
            self._process.send_signal(signal.SIGTTIN)
            # Signals of one kind are not counted: the next one when this one was heard.
            self._await("Booting worker", self._started + 1)
        self.ready(self._workers + count)

    def ready(self, workers: int) -> None:
        self._await(READY, workers)
        self._workers = workers

    @property
    def _started(self) -> int:
        return _count(self._log, "Booting worker")

    def _await(self, words: str, count: int) -> None:
        until = time.monotonic() + READY_SECONDS
        while _count(self._log, words) < count:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"Flask's workers did not start: {_end(self._log)}")
            time.sleep(0.05)

    def cpu(self) -> Cpu:
        """CPU time of all processes so far; the model runs in the web workers."""
        times = [process.cpu_times() for process in self._processes()]
        return Cpu(sum(one.user + one.system for one in times) * 1000, 0.0)

    def memory_mb(self) -> float:
        return pss_mb(process.pid for process in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self._master, *self._master.children(recursive=True)]


@contextmanager
def flask_server(model: Path, *, how: How, workers: int, folder: Path) -> Iterator[FlaskServer]:
    """Answers when it is entered; ended with all its workers when it is left.

    gthread with one thread: like sync, one request at a time, but it keeps connections.
    """
    log = folder / f"flask-{secrets.token_hex(4)}.log"
    command = [
        *(sys.executable, "-m", "gunicorn", "benchmarks.seeds.flask_app:app"),
        *("--bind", "127.0.0.1:0", "--workers", str(workers), "--timeout", "300"),
        *("--worker-class", "gthread", "--threads", "1", "--log-file", str(log)),
        *("--config", "python:benchmarks.seeds.flask_server"),
    ]
    environment = {**os.environ, "MODEL": str(model), "HOW": how, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        server = FlaskServer(_url(process, log), process, log)
        server.ready(workers)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
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
    raise RuntimeError(f"Gunicorn did not start: {_end(log)}")


def _count(log: Path, words: str) -> int:
    return log.read_text(encoding="utf-8").count(words)


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8")[-500:] if log.exists() else ""
