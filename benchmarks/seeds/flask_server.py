"""Flask behind Gunicorn on a free port, and what its processes cost. Gunicorn's settings, too."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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
    variables: Mapping[str, str], *, workers: int = 1, threads: int = 1
) -> Iterator[FlaskServer]:
    """Start flask_app with these variables, wait until all workers can answer, and end it when it is left.

    gthread with one thread: like sync, one request at a time, but it keeps connections.
    """
    options = {
        "bind": "127.0.0.1:0",
        "config": "python:benchmarks.seeds.flask_server",
        "keep-alive": 60,
        "threads": threads,
        "timeout": 300,
        "worker-class": "gthread",
        "workers": workers,
    }
    environment = {**os.environ, **variables, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.NamedTemporaryFile("r") as log:
        command = [sys.executable, "-m", "gunicorn", "benchmarks.seeds.flask_app:app"]
        command += [f"--{name}={value}" for name, value in options.items()]
        command.append(f"--log-file={log.name}")
        # In a session of its own, which is ended whole.
        process = subprocess.Popen(
            command, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            text, until = "", time.monotonic() + READY_SECONDS
            while text.count(READY) < workers:
                if time.monotonic() > until or process.poll() is not None:
                    raise RuntimeError(f"Flask's workers did not start: {text[-500:]}")
                time.sleep(0.05)
                text += log.read()
            yield FlaskServer(text.split("Listening at: ")[1].split()[0], process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
