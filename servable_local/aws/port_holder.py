"""Who listens on a port of this machine, so that "it is taken" can say by whom."""

import urllib.error
import urllib.request

import psutil

from servable_local.aws.control_paths import HEALTH_PATH

_LONGEST_COMMAND = 100
_LONGEST_REFUSAL_BYTES = 10_000


def port_holder(port: int) -> str:
    """A phrase: "another embedded AWS, process 123" or "process 123 (python3 -m …)"."""
    for connection in psutil.net_connections("tcp"):
        local = connection.laddr
        listens = connection.status == psutil.CONN_LISTEN and local and local.port == port
        if listens and connection.pid is not None:
            return _named(connection.pid)
    if _is_embedded_aws(port):  # of another user, whose processes are not shown
        return "an embedded AWS of another user"
    return "a process that is not ours to see"


def _named(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return f"process {pid} (ended meanwhile)"
    # As servable_local/aws/process.py starts it. Asking it would take as long as it is busy.
    if "servable_local.aws" in words:
        return f"another embedded AWS, process {pid}"
    return f"process {pid} ({' '.join(words)[:_LONGEST_COMMAND]})"


def _is_embedded_aws(port: int) -> bool:
    """It says so, to who has no key of it too."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(f"http://127.0.0.1:{port}{HEALTH_PATH}", timeout=2).close()
    except urllib.error.HTTPError as refused:
        return b"embedded AWS" in refused.read(_LONGEST_REFUSAL_BYTES)
    except OSError:
        pass
    return False
