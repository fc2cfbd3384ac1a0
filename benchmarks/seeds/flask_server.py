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

import numpy as np
import psutil

from benchmarks.cost import Cpu, pss_mb

READY = "worker is ready"
READY_SECONDS = 120


def post_worker_init(worker: Any) -> None:
    """Gunicorn calls it when a worker has loaded the model and can answer."""
    worker.log.info(READY)


class FlaskServer:
    def __init__(self, url: str, pid: int) -> None:
        self.url, self._master = url, psutil.Process(pid)

    def cpu(self) -> Cpu:
        """CPU time of all processes so far; the model runs in the web workers."""
        times = [process.cpu_times() for process in self._processes()]
        return np.array([sum(spent.user + spent.system for spent in times) * 1000, 0.0])

    def memory_mb(self) -> float:
        return pss_mb(process.pid for process in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self._master, *self._master.children(recursive=True)]


@contextmanager
def flask_server(
    model: Path, *, how: Literal["predict", "call"], workers: int
) -> Iterator[FlaskServer]:
    """Start Flask, wait until all workers have loaded the model, and end them when it is left.

    gthread with one thread: like sync, one request at a time, but it keeps connections.
    """
    log = model.with_name(f"flask-{secrets.token_hex(4)}.log")
    log.touch()
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
        until = time.monotonic() + READY_SECONDS
        while (text := log.read_text(encoding="utf-8")).count(READY) < workers:
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"Flask's workers did not start: {text[-500:]}")
            time.sleep(0.05)
        yield FlaskServer(text.split("Listening at: ")[1].split()[0], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait()
