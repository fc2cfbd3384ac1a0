"""A generator's process, which reads and writes lines of JSON.

    python -m servable.load.generator alone [LOCUSTFILE]
    python -m servable.load.generator master HOST PORT WORKERS [LOCUSTFILE]    port 0: any free port
    python -m servable.load.generator worker HOST PORT [LOCUSTFILE]

In: {"plan": …}, {"step": …}. Out: {"port": …}, {"ready": true}, {"progress": …}, {"done": …},
{"error": …}. It ends when its standard input does. Locust's runner runs the steps: in this process, or over
processes and computers.
"""

import locust  # noqa: F401  (first: it patches the process for gevent)

# isort: split
import hashlib
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import gevent
import zmq
from gevent.fileobject import FileObject
from locust import events
from locust.rpc import zmqrpc
from locust.runners import LocalRunner, MasterRunner
from locust.util.load_locustfile import load_locustfile
from pydantic import TypeAdapter

from servable.load.generator.load_worker import (
    END,
    HERE,
    PLAN,
    REPORT,
    REPORT_SECONDS,
    STEP,
    LoadWorker,
    find_problem,
)
from servable.load.generator.step_report import Tally
from servable.load.load_target import LoadTarget
from servable.load.measurement import LoadStep
from servable.load.users import BodyUser, MissingCredentialsError

_STEP = TypeAdapter(LoadStep)
_READY_SECONDS = 60.0
# Each load worker reports several times a second.
_LOST_SECONDS = 8.0
# For the message to other computers, which would otherwise wait for a minute.
_QUIT_SECONDS = 2.0
_POLL_SECONDS = 0.02


class GeneratorError(Exception):
    """The generator failed. `str()` is a complete sentence."""


class Coordinator:
    def __init__(self, runner: LocalRunner | MasterRunner, workers: int, digest: str) -> None:
        """Register for the messages of the sending processes.

        `workers`: number of sending processes. `digest`: of the locustfile, which must be the
        same in all processes.
        """
        self._runner = runner
        self._workers = workers
        self._digest = digest
        self._here: dict[str, str] = {}
        self._tally = Tally(workers)
        self._number = 0
        runner.register_message(REPORT, self._add_report)
        runner.register_message(HERE, lambda environment, msg: self._here.update(msg.data))

    def execute_lines(self, lines: FileObject) -> None:
        """Execute the message in each line until the input ends, then end this process."""
        for line in lines:
            gevent.spawn(self._execute, json.loads(line))  # the end of the input ends a step
        with gevent.Timeout(_QUIT_SECONDS, False):
            self._runner.quit()  # also the processes on other computers
        os._exit(0)

    def _execute(self, message: dict[str, Any]) -> None:
        try:
            if "plan" in message:
                self._apply_plan(message["plan"])
                _write_message(ready=True)
            else:
                _write_message(done=_STEP.dump_python(self._run_step(message["step"]), mode="json"))
        except (GeneratorError, MissingCredentialsError) as error:
            _write_message(error=str(error))

    def _apply_plan(self, plan: dict[str, Any]) -> None:
        """Wait for the processes, stop an earlier target's users, and send this plan to all."""
        if problem := find_problem(self._runner.user_classes, plan["loop"]):
            raise GeneratorError(f"the locustfile can't be used: {problem}")
        self._wait(
            lambda: len(self._here) >= self._workers,
            f"only {len(self._here)} of {self._workers} generator processes have joined",
        )
        if any(digest != self._digest for digest in self._here.values()):
            raise GeneratorError("a process joined with a different locustfile; use the same file")
        if self._runner.user_count:
            self._runner.stop()
        self._runner.environment.host = LoadTarget(**plan["target"]).base_url
        self._runner.send_message(PLAN, plan)

    def _run_step(self, options: dict[str, Any]) -> LoadStep:
        """Run a step and return its measurements. Raises GeneratorError."""
        self._number += 1
        users = options["users"] or self._workers
        # Per second, also downwards: all at once.
        self._runner.start(users, spawn_rate=max(users, self._runner.user_count))
        self._wait(
            lambda: self._runner.user_count == users and self._runner.state == "running",
            f"{users} users have not started",
        )
        self._tally = tally = Tally(self._workers)
        message = options | {"number": self._number}
        if options["rate_rps"]:
            message["rate_rps"] = options["rate_rps"] / self._workers
        self._runner.send_message(STEP, message)
        self._wait_for_step(options, tally)
        wait_seconds = options["timeout_seconds"] + 1.0
        self._runner.send_message(END, {"wait_seconds": wait_seconds})
        self._wait(lambda: tally.is_complete, "a step's results have not come", wait_seconds + 10.0)
        return tally.build_step(options)

    def _wait_for_step(self, options: dict[str, Any], tally: Tally) -> None:
        """Wait until the throughput is known or the time is over."""
        known = 0
        measured, moved_at = 0.0, time.monotonic() + options["warm_up_seconds"]
        while True:
            gevent.sleep(REPORT_SECONDS)
            _write_message(progress=tally.describe_progress())
            if tally.seconds > measured:
                measured, moved_at = tally.seconds, time.monotonic()
            if time.monotonic() - moved_at > _LOST_SECONDS:
                raise GeneratorError(
                    f"a generator process has not reported for {_LOST_SECONDS:g} s: it has ended, or "
                    "its computer cannot be reached; start the load test again"
                )
            # Twice: among many checks one is good by chance.
            known = known + 1 if tally.has_known_throughput else 0
            enough = tally.seconds >= options["least_seconds"] and known >= 2
            if enough or tally.seconds >= options["most_seconds"]:
                return

    def _add_report(self, environment: Any, msg: Any) -> None:
        if msg.data["step"] == self._number:
            self._tally.add(msg.data)

    def _wait(
        self, is_ready: Callable[[], bool], problem: str, seconds: float = _READY_SECONDS
    ) -> None:
        """Wait until `is_ready` returns true.

        Raises GeneratorError after the time limit, with the exceptions that users raised.
        """
        until = time.monotonic() + seconds
        while not is_ready():
            if time.monotonic() > until:
                raised = {str(error["msg"]) for error in self._runner.exceptions.values()}
                raise GeneratorError(
                    "; ".join([f"{problem} within {seconds:g} s", *sorted(raised)])
                )
            gevent.sleep(_POLL_SECONDS)


_MAKE = zmqrpc.BaseSocket.__init__


def reject_http() -> None:
    """Reject HTTP on the Locust sockets that this process opens from now on. Idempotent."""
    setattr(zmqrpc.BaseSocket, "__init__", _initialize_socket)  # noqa: B010  (mypy forbids the plain form)


def _initialize_socket(server: Any, socket_type: int, *more: Any) -> None:
    _MAKE(server, socket_type, *more)  # type: ignore[no-untyped-call]
    if socket_type == zmq.ROUTER:  # before Locust binds it: afterwards it has no effect
        server.socket.setsockopt(zmq.ZAP_DOMAIN, b"servable")


# isort: split


def main(role: str, *arguments: str) -> None:
    # Ctrl-C goes to the whole group: our parent decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR)
    # Each waiting request of an open loop needs a connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lines = FileObject(sys.stdin.fileno(), "rb", closefd=False)
    count = {"alone": 0, "worker": 2, "master": 3}[role]
    where, file = arguments[:count], "".join(arguments[count:])
    user_classes: list[Any] = [BodyUser]
    if file:
        try:
            user_classes = list(load_locustfile(file)[0].values())
        except Exception as error:
            _write_message(error=f"{file}: can't be loaded: {type(error).__name__}: {error}")
            sys.exit(1)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    worker, hooks = LoadWorker(user_classes), cast(Any, events)
    if role == "master":
        reject_http()
        master = worker.environment.create_master_runner(where[0], int(where[1]))
        _write_message(port=master.server.port)
        coordinator = Coordinator(master, int(where[2]), digest)
    elif role == "worker":
        gevent.spawn(_exit_at_end, lines)
        joined = worker.environment.create_worker_runner(where[0], int(where[1]))
        worker.bind(joined)
        hooks.init.fire(environment=worker.environment, runner=joined, web_ui=None)
        joined.send_message(HERE, {joined.client_id: digest})
        joined.greenlet.join()
        return
    else:
        alone = worker.environment.create_local_runner()
        coordinator = Coordinator(alone, 1, digest)
        worker.bind(alone)
        alone.send_message(HERE, {"alone": digest})
    hooks.init.fire(environment=worker.environment, runner=worker.environment.runner, web_ui=None)
    gevent.spawn(coordinator.execute_lines, lines).join()


def _exit_at_end(lines: FileObject) -> None:
    for _ in lines:
        pass
    os._exit(0)


def _write_message(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
