"""The process of a local AWS: `python -m servable_local.aws --folder F`. Started by lifecycle.py."""

import argparse
import importlib.util
import os
import select
import shutil
import signal
import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

# moto reads this when it is imported. `cdk bootstrap` attaches policies that AWS manages.
os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

from servable_local.aws.clock import ManualClock, ScaledClock
from servable_local.aws.lifecycle import (
    EXIT_HELD,
    EXIT_PORT_TAKEN,
    StateFile,
    write_client_settings,
)
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server

_PARENT_CHECK_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m servable_local.aws", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="state, logs, client settings")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--minute", default="60", help="seconds that one of its minutes lasts, or manual"
    )
    parser.add_argument(
        "--containers",
        type=int,
        default=int(importlib.util.find_spec("tensorflow") is not None),
        help="maximum per variant",
    )
    parser.add_argument(
        "--with-parent",
        action="store_true",
        help="exit when standard input closes or the parent dies, and remove the folder",
    )
    options = parser.parse_args()
    # Models, logs, and the secret of the run are only readable by the owner.
    os.umask(0o077)
    # A signal that arrives just before a wait for a lock would be missed; its byte in a socket isn't.
    done, ends = socket.socketpair()
    ends.setblocking(False)
    signal.set_wakeup_fd(ends.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    if options.with_parent:
        parent = os.getppid()
        threading.Thread(target=_watch_parent, args=(parent, ends), daemon=True).start()
    state_file = StateFile(options.folder)
    with state_file.hold() as held:
        if not held:
            return EXIT_HELD
        code = _serve(options, state_file, done)
    if options.with_parent:
        shutil.rmtree(options.folder, ignore_errors=True)
    return code


def _serve(options: argparse.Namespace, state_file: StateFile, done: socket.socket) -> int:
    write_client_settings(options.folder / "client")
    clock = ManualClock() if options.minute == "manual" else ScaledClock(float(options.minute))
    endpoints = options.folder / "endpoints"
    # A kill -9 leaves the archives of its endpoints.
    shutil.rmtree(endpoints, ignore_errors=True)
    endpoints.mkdir()
    try:
        server = Server(
            port=options.port, folder=endpoints, clock=clock, most_containers=options.containers
        )
    except (OSError, SystemExit):  # werkzeug exits if the port is taken
        return EXIT_PORT_TAKEN
    server.start()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    state_file.write(
        LocalAws(
            url=server.url,
            pid=os.getpid(),
            started=started,
            folder=options.folder,
            secret_access_key=server.access.secret_access_key,
            seconds_per_minute=clock.seconds_per_minute,
            most_containers=options.containers,
        )
    )
    done.recv(1)
    state_file.remove()
    server.close()
    return 0


def _watch_parent(parent: int, ends: socket.socket) -> None:
    """Send a byte to `ends` when stdin closes or, if others hold its pipe, the parent ends."""
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _PARENT_CHECK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            break
    ends.send(b"\0")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit, which would wait for an endpoint that is still starting.
    os._exit(code)
