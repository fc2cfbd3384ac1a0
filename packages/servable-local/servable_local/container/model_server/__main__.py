"""The parent of the model servers: `python -m servable_local.container.model_server --parent-pid N`.

Standard input: a line {"start": NUMBER, "plan": {...}} for each model server to fork.
Standard output: {"imported": true} once; then for each of them {"ready": NUMBER, "pid": ...},
{"error": "...", "number": NUMBER} or, at its end, {"ended": NUMBER, "status": ...}.
"""

import gc
import importlib.util
import json
import os
import select
import signal
import sys
from collections.abc import Iterator

from servable_local.container.child_process import begin_child, reap_children
from servable_local.container.plan import ServerPlan


def main() -> None:
    _, events = begin_child()
    # Serving a SavedModel needs only TensorFlow's session and loader. They are found in a package whose
    # own module isn't executed, which takes half of the time of an import.
    whole = importlib.util.find_spec("tensorflow")
    assert whole is not None  # launch.py has looked
    sys.modules["tensorflow"] = importlib.util.module_from_spec(whole)
    # Before the forks: all model servers share what this takes. It starts no thread. What is imported
    # stays, so no garbage is looked for in it: a tenth of the time, and its pages stay shared.
    # https://docs.python.org/3/library/gc.html#gc.freeze, 2026-11-22
    gc.disable()
    from servable_local.container.model_server.process import run_model_server

    gc.freeze()
    gc.enable()
    events.report(imported=True)
    children: dict[int, int] = {}
    own_pid = os.getpid()
    for lines in _read_input_lines():
        for line in lines:
            command = json.loads(line)
            pid = os.fork()
            if pid == 0:
                plan = ServerPlan.from_json(command["plan"])
                run_model_server(plan, command["start"], events, parent_pid=own_pid)
            children[pid] = command["start"]
        for pid, status in reap_children():
            events.report(ended=children.pop(pid), pid=pid, status=status)


def _read_input_lines() -> Iterator[list[bytes]]:
    """Yield lines of standard input, without a thread, as the process forks; none at a child's end."""
    wakeup, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    lines: list[bytes] = []
    rest = b""
    while True:
        yield lines
        ready, _, _ = select.select([sys.stdin, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
        lines = []
        if sys.stdin in ready:
            data = os.read(sys.stdin.fileno(), 1 << 16)
            if not data:
                os._exit(0)  # our children end with us
            *lines, rest = (rest + data).split(b"\n")


if __name__ == "__main__":
    main()
