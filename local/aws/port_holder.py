"""Who listens on a port of this machine, so that "it is taken" can say by whom."""

import json
import urllib.request

import psutil

from local.aws.control_paths import HEALTH_PATH

_LONGEST_COMMAND = 100


def port_holder(port: int) -> str:
    """A phrase: "another embedded AWS, process 123" or "process 123 (python3 -m …)"."""
    for connection in psutil.net_connections("tcp"):
        local = connection.laddr
        listens = connection.status == psutil.CONN_LISTEN and local and local.port == port
        if listens and connection.pid is not None:
            return _named(connection.pid)
    if (pid := _embedded_aws(port)) is not None:  # of another user, whose processes are not shown
        return f"another embedded AWS, process {pid}"
    return "a process that is not ours to see"


def _named(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return f"process {pid} (ended meanwhile)"
    # As local/aws/process.py starts it. Asking it would take as long as it is busy.
    if "local.aws" in words:
        return f"another embedded AWS, process {pid}"
    return f"process {pid} ({' '.join(words)[:_LONGEST_COMMAND]})"


def _embedded_aws(port: int) -> int | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{HEALTH_PATH}", timeout=2) as answer:
            return int(json.loads(answer.read())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
