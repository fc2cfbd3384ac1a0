"""What Gunicorn itself writes when a worker takes too long, and when one is killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_APP = "import time\ndef app(environ, start_response):\n    time.sleep(60)\n"
_BOOTED = re.compile(r"Booting worker with pid: (\d+)")
_DEADLINE_SECONDS = 30


def gunicorn_log(folder: Path) -> list[str]:
    """Lines of one run: a worker times out, the next is killed as the kernel kills."""
    (folder / "sleeper.py").write_text(_APP)
    log, address = folder / "log", folder / "socket"
    command = [sys.executable, "-m", "gunicorn", "--bind", f"unix:{address}", "--timeout", "1"]
    with log.open("w") as written:
        running = subprocess.Popen(
            [*command, "sleeper:app"],
            cwd=folder,
            env={**os.environ, "HOME": str(folder)},  # it keeps a control socket there
            stderr=written,
        )
    try:
        _wait(log, 1)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(address))
            caller.sendall(b"POST /invocations HTTP/1.0\r\n\r\n")
            os.kill(_wait(log, 2), signal.SIGKILL)
        _wait(log, 3)
    finally:
        running.terminate()
        running.wait(_DEADLINE_SECONDS)
    return log.read_text().splitlines()


def _wait(log: Path, workers: int) -> int:
    """The process id of the worker that was started as the so-manieth."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = _BOOTED.findall(log.read_text())
        if len(found) >= workers:
            return int(found[workers - 1])
        time.sleep(0.05)
    raise AssertionError(f"no worker {workers} in:\n{log.read_text()}")
