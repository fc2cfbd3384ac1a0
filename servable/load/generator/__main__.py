"""A generator's process, which reads and writes lines of JSON.

    python -m servable.load.generator alone
    python -m servable.load.generator master HOST PORT WORKERS    port 0: any; it says which
    python -m servable.load.generator worker HOST PORT

In: {"plan": …}, {"step": …}, {"stop": true}. Out: {"port": …}, {"ready": true}, {"progress": …},
{"done": …}, {"stopped": …}, {"error": …}. Ends when its standard input does, and so with whoever started it.
Locust's runner runs the steps: in this process, or over processes and computers.
"""

import locust  # noqa: F401  (first: it patches the process for gevent)

# isort: split
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import gevent
import zmq
from gevent.fileobject import FileObject
from locust.env import Environment
from locust.rpc import zmqrpc
from locust.runners import LocalRunner, MasterRunner
from pydantic import TypeAdapter

from servable.load.generator.connection import MissingCredentialsError
from servable.load.generator.load_worker import (
    END,
    HERE,
    PLAN,
    REPORT,
    REPORT_SECONDS,
    STEP,
    Caller,
    LoadWorker,
)
from servable.load.generator.step_report import Tally
from servable.load.measurement import LoadStep

_MAKE = zmqrpc.BaseSocket.__init__


def refuse_http() -> None:
    """Refuse HTTP on Locust's sockets that this process opens from now on. Idempotent."""
    setattr(zmqrpc.BaseSocket, "__init__", _make)  # noqa: B010  (mypy forbids the plain form)


def _make(server: Any, socket_type: int, *more: Any) -> None:
    _MAKE(server, socket_type, *more)  # type: ignore[no-untyped-call]
    if socket_type == zmq.ROUTER:  # before Locust binds it: afterwards it has no effect
        server.socket.setsockopt(zmq.ZAP_DOMAIN, b"servable")


_STEP: TypeAdapter[LoadStep | None] = TypeAdapter(LoadStep | None)
_READY_SECONDS = 60.0
# Each load worker reports several times a second.
_LOST_SECONDS = 8.0
# For the message to those on other computers, who would otherwise wait for a minute.
_QUIT_SECONDS = 2.0


class GeneratorError(Exception):
    """The generator failed. `str()` is a whole sentence."""


class Coordinator:
    def __init__(self, runner: LocalRunner | MasterRunner, workers: int) -> None:
        """`workers`: processes that send; 1 for a runner that sends by itself."""
        self._runner = runner
        self._workers = workers
        self._here: set[str] = set()
        self._tally = Tally(self._workers)
        self._number = 0
        self._busy = False
        self._last: LoadStep | None = None
        """Result of the last step; None while one runs."""
        self._stopping = False
        self._runner.register_message(REPORT, self._reported)
        self._runner.register_message(HERE, lambda environment, msg: self._here.add(msg.node_id))

    def obey(self, lines: FileObject) -> None:
        """Do what each line says until there are no more, and end this process."""
        for line in lines:
            message = json.loads(line)
            # Beside this: a step can be stopped.
            if "stop" in message:
                gevent.spawn(self._stop)
            else:
                gevent.spawn(self._do, message)
        with gevent.Timeout(_QUIT_SECONDS, False):
            self._runner.quit()  # also the processes on other computers
        os._exit(0)

    def _do(self, message: dict[str, Any]) -> None:
        try:
            if "plan" in message:
                self._wait(
                    lambda: len(self._here) >= self._workers, "generator processes have not come"
                )
                self._runner.send_message(PLAN, message["plan"])
                _say(ready=True)
                return
            self._busy, self._last = True, None
            try:
                self._last = self._step(message["step"])
            finally:
                self._busy = False
            _say(done=_STEP.dump_python(self._last, mode="json"))
        except (GeneratorError, MissingCredentialsError) as error:
            _say(error=str(error))

    def _stop(self) -> None:
        """Stop the step, keep what it measured, and answer once, whether it had ended by itself or not."""
        self._stopping = True
        while self._busy:
            gevent.sleep(0.02)
        _say(stopped=_STEP.dump_python(self._last, mode="json"))

    def _step(self, options: dict[str, Any]) -> LoadStep:
        """Run a step. Raises GeneratorError."""
        self._number += 1
        self._stopping = False
        users = options.get("users") or self._workers
        # Per second, also downwards: all at once.
        self._runner.start(users, spawn_rate=max(users, self._runner.user_count))
        self._wait(
            lambda: self._runner.user_count == users and self._runner.state == "running",
            f"{users} callers have not started",
        )
        self._tally = tally = Tally(self._workers)
        message = options | {"number": self._number}
        if options.get("rate_rps"):
            message["rate_rps"] = options["rate_rps"] / self._workers
        self._runner.send_message(STEP, message)
        self._hold(options, tally)
        wait_seconds = 1.0 if self._stopping else options["timeout_seconds"] + 1.0
        over = {"wait_seconds": wait_seconds, "count_rest": not self._stopping}
        self._runner.send_message(END, over)
        for _ in range(int((wait_seconds + 10.0) / 0.02)):
            if tally.complete:
                return tally.step(options)
            gevent.sleep(0.02)
        raise GeneratorError("a generator process has not reported the end of its step")

    def _hold(self, options: dict[str, Any], tally: Tally) -> None:
        """Wait until the throughput is known, the time is over, or the step is stopped."""
        known = 0
        measured, moved_at = 0.0, time.monotonic() + options["warm_up_seconds"]
        while not self._stopping:
            gevent.sleep(REPORT_SECONDS)
            _say(progress=tally.progress())
            if tally.seconds > measured:
                measured, moved_at = tally.seconds, time.monotonic()
            if time.monotonic() - moved_at > _LOST_SECONDS:
                raise GeneratorError(
                    f"a generator process has not reported for {_LOST_SECONDS:g} s: it has ended, or "
                    "its computer cannot be reached; start the load test again"
                )
            if tally.seconds >= options["most_seconds"]:
                return
            # Twice: among many looks one is good by chance.
            known = known + 1 if tally.known else 0
            if tally.seconds >= options["least_seconds"] and known >= 2:
                return

    def _reported(self, environment: Any, msg: Any) -> None:
        if msg.data["step"] == self._number:
            self._tally.add(msg.data)

    def _wait(self, ready: Callable[[], bool], problem: str) -> None:
        for _ in range(int(_READY_SECONDS / 0.02)):
            if ready() or self._stopping:
                return
            gevent.sleep(0.02)
        raise GeneratorError(f"{problem} within {_READY_SECONDS:g} s")


# isort: split


def main(role: str, *where: str) -> None:
    # Ctrl-C goes to the whole group: who started us decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR)
    # Each request of an open loop that waits holds a connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    environment = Environment(user_classes=[Caller], reset_stats=False)
    lines = FileObject(sys.stdin.fileno(), "rb", closefd=False)
    if role == "worker":
        gevent.spawn(_end_with, lines)
        worker = environment.create_worker_runner(where[0], int(where[1]))
        LoadWorker(worker)
        worker.send_message(HERE)
        worker.greenlet.join()
        return
    if role == "master":
        refuse_http()
        master = environment.create_master_runner(where[0], int(where[1]))
        _say(port=master.server.port)
        coordinator = Coordinator(master, int(where[2]))
    else:
        alone = environment.create_local_runner()
        coordinator = Coordinator(alone, 1)
        LoadWorker(alone)
        alone.send_message(HERE)
    gevent.spawn(coordinator.obey, lines).join()


def _end_with(lines: FileObject) -> None:
    for _ in lines:
        pass
    os._exit(0)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
