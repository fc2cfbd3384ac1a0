"""Lines as the container writes them are counted by the stack's filters.

Sources of the lines: NGINX's combined format (https://nginx.org/en/docs/http/ngx_http_log_module.html),
which the image's nginx.conf.template asks for; Gunicorn itself, run here;
tensorflow_serving/core/loader_harness.cc and util/retrier.cc of https://github.com/tensorflow/serving;
serve.py of https://github.com/aws/sagemaker-tensorflow-serving-container.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infra.catalog.metrics import load_log_filters
from servable_local.aws.moto_patches.log_patterns import compile_pattern
from tests.servable_local.aws.boto_members import until

pytestmark = pytest.mark.long


_APP = "import time\ndef app(environ, start_response):\n    time.sleep(60)\n"
_BOOTED = re.compile(r"Booting worker with pid: (\d+)")


def gunicorn_log(folder: Path) -> list[str]:
    """Lines of one run: a worker times out, the next is killed as the kernel kills."""
    (folder / "sleeper.py").write_text(_APP)
    log, address = folder / "log", folder / "socket"
    command = [sys.executable, "-m", "gunicorn", "--bind", f"unix:{address}", "--timeout", "1"]
    own = {**os.environ, "HOME": str(folder)}  # it keeps a control socket there
    with log.open("w") as written:
        command += ["sleeper:app"]
        running = subprocess.Popen(command, cwd=folder, env=own, stderr=written)
    try:
        _wait(log, 1)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(address))
            caller.sendall(b"POST /invocations HTTP/1.0\r\n\r\n")
            os.kill(_wait(log, 2), signal.SIGKILL)
        _wait(log, 3)
    finally:
        running.terminate()
        running.wait(30)
    return log.read_text().splitlines()


def _wait(log: Path, workers: int) -> int:
    """The process id of the worker that was started as the so-manieth."""
    until(lambda: len(_BOOTED.findall(log.read_text())) >= workers)
    return int(_BOOTED.findall(log.read_text())[workers - 1])


LOADER = "2026-11-21 12:00:00.000000: I tensorflow_serving/core/loader_harness.cc:"
RETRIER = (
    "2026-11-21 12:00:00.000000: E external/org_tensorflow/tensorflow_serving/util/retrier.cc:"
)
PYTHON = "[2026-11-21 12:00:00 +0000] [30] [ERROR]"


def access(status: int, request: str = "POST /invocations") -> str:
    at = "[21/Nov/2026:12:00:00 +0000]"
    return f'169.254.178.2 - - {at} "{request} HTTP/1.1" {status} 66 "-" "AHC/2.0"'


# {line: the counter that it belongs to; None: no counter}
LINES = {
    access(429): "RefusedRequests",
    access(503): "RefusedRequests",
    access(429, "POST /models/ranker/invoke"): "RefusedRequests",
    access(200): None,
    access(500): None,
    access(503, "GET /ping"): None,
    access(200, "POST /invocations?rows=429"): None,
    f"{PYTHON} Worker (pid:33) was sent SIGKILL! Perhaps out of memory?": "KilledWorkers",
    "[WARNING] Worker with pid 33 was terminated due to signal 9": "KilledWorkers",
    f"{PYTHON} Worker (pid:33) was sent SIGTERM!": None,
    "[2026-11-21 12:00:00 +0000] [9] [CRITICAL] WORKER TIMEOUT (pid:33)": "WorkerTimeouts",
    f"{LOADER}164] Encountered an error for servable version {{name: ranker version: 1}}: "
    "NOT_FOUND: Could not find meta graph def matching supplied tags": "FailedModelLoads",
    "ValueError: no SavedModel bundles found!": "FailedModelLoads",
    f"{RETRIER}37] Loading servable: {{name: ranker version: 1}} failed: NOT_FOUND": None,
    f"{LOADER}95] Successfully loaded servable version {{name: ranker version: 1}}": None,
}


def counters(line: str) -> list[str]:
    return [one.metric for one in load_log_filters() if compile_pattern(one.pattern)(line)]


def test_a_line_is_counted_once_where_it_belongs() -> None:
    assert {line: counters(line) for line in LINES} == {
        line: [] if wanted is None else [wanted] for line, wanted in LINES.items()
    }


def test_gunicorns_own_lines_are_counted(tmp_path: Path) -> None:
    """A worker that is too busy to end after its timeout is killed for that, a second later."""
    found = [counter for line in gunicorn_log(tmp_path) for counter in counters(line)]
    assert found == ["WorkerTimeouts", "KilledWorkers", "KilledWorkers"]
