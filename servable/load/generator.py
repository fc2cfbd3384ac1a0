"""A generator's process, which reads and writes pickled messages.

    python -m servable.load.generator alone|master|worker HOST PORT WORKERS [LOCUSTFILE]

In: {"plan": …}, {"step": …}. Out: the master's port; None after a plan; the progress of a step, a dict, and
its LoadStep; or a LoadError. It ends when its standard input does. Locust's runner runs the steps: in this
process ("alone"), or over processes and computers that join the "master", whose port 0 selects any free port.
"""

import locust  # noqa: F401  (first: it patches the process for gevent)

# isort: split
import hashlib
import logging
import math
import os
import pickle
import resource
import signal
import sys
import time
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import gevent
import numpy as np
import zmq
from gevent.fileobject import FileObject
from locust import events
from locust.rpc import zmqrpc
from locust.util.load_locustfile import load_locustfile

from servable.load import load_worker
from servable.load.users import TIMEOUT, BodyUser
from servable.measured.measurement import (
    BLOCK_SECONDS,
    KNOWN_SHARE,
    LoadError,
    LoadStep,
    LoadTarget,
)
from servable.measured.precision import (
    WINDOW_SECONDS,
    Interval,
    Latencies,
    compute_percentile,
    compute_throughput,
)

_READY_SECONDS = 60.0
# Each load worker reports several times a second.
_LOST_SECONDS = 8.0
# For the message to other computers, which would otherwise wait for a minute.
_QUIT_SECONDS = 2.0
_POLL_SECONDS = 0.02
# Users of an open loop that exist when a step begins: enough for responses that take so long. Each one
# that is missing takes 2 ms to create, in which this process is late.
_READY_FOR_SECONDS, _MOST_READY = 0.1, 200
# Adding up so many requests takes some 5 ms, in which a process that also sends is late.
_MOST_KEPT = 5_000


class Tally:
    """The sums of the reports of `workers` processes."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._newest: dict[str, dict[str, Any]] = {}
        self._windows: Counter[int] = Counter()
        self._blocks: dict[int, Latencies] = defaultdict(Latencies)
        self._failed: Counter[int] = Counter()
        self._lags = Latencies()
        self._errors: Counter[str] = Counter()
        # Seconds of the requests that aren't in the latencies yet.
        self._kept: dict[str, list[float]] = {"due": [], "took": [], "lags": []}

    def add(self, report: dict[str, Any]) -> None:
        self._newest[report["worker"]] = report
        self._windows.update(_count_by_interval(report["finished"], WINDOW_SECONDS))
        self._failed.update(_count_by_interval(report["failed"], BLOCK_SECONDS))
        self._errors.update(report["errors"])
        for name, kept in self._kept.items():
            kept += report[name]
        if len(self._kept["due"]) > _MOST_KEPT:
            self._fold()

    def _fold(self) -> None:
        """Add the kept times to the latencies, which takes longer but less memory."""
        self._lags += Latencies.from_milliseconds(1000 * np.array(self._kept["lags"]))
        blocks = (np.array(self._kept["due"]) / BLOCK_SECONDS).astype(int)
        milliseconds = 1000 * np.array(self._kept["took"])
        for block in {*blocks.tolist()}:
            self._blocks[block] += Latencies.from_milliseconds(milliseconds[blocks == block])
        for kept in self._kept.values():
            kept.clear()

    @property
    def is_complete(self) -> bool:
        final = [report for report in self._newest.values() if report["final"]]
        return len(final) >= self._workers

    @property
    def seconds(self) -> float:
        """Return the seconds that every process has measured so far, in whole windows."""
        if len(self._newest) < self._workers:
            return 0.0
        elapsed = min(report["elapsed"] for report in self._newest.values())
        return max(0, int(elapsed / WINDOW_SECONDS)) * WINDOW_SECONDS

    def estimate_throughput(self) -> Interval:
        windows = range(round(self.seconds / WINDOW_SECONDS))
        return compute_throughput([self._windows[window] for window in windows], WINDOW_SECONDS)

    def build_step(self, options: dict[str, Any]) -> LoadStep:
        self._fold()
        blocks = [self._blocks[block] for block in sorted(self._blocks)]
        latencies, seconds = sum(blocks, start=Latencies()), self.seconds
        errors = dict(sorted((+self._errors).items()))
        slow_ms = latencies.p95_ms if latencies.count else 0.0
        parts = range(math.ceil(seconds / BLOCK_SECONDS))
        reports = [*self._newest.values()]
        cpu_seconds = sum(report["cpu_seconds"] for report in reports)
        first_answers = ChainMap(*(report["first_answers"] for report in reports))
        return LoadStep(
            users=options["users"],
            rate_rps=options["rate_rps"],
            warm_up_seconds=options["warm_up_seconds"],
            seconds=seconds,
            throughput_rps=self.estimate_throughput(),
            latencies=latencies,
            tails=tuple(self._blocks[block].select_above(slow_ms) for block in parts),
            answered=tuple(self._blocks[block].count for block in parts),
            failures=tuple(self._failed[block] for block in parts),
            p95_interval_ms=compute_percentile(blocks, 95),
            p99_interval_ms=compute_percentile(blocks, 99),
            timeouts=errors.pop(TIMEOUT, 0),
            errors=errors,
            first_answers=dict(sorted(first_answers.items())),
            from_due=all(report["from_due"] for report in reports),
            send_lags=self._lags,
            generator_cpu_share=cpu_seconds / (self._workers * seconds) if seconds else 0.0,
        )


def _count_by_interval(moments: Sequence[float], seconds: float) -> Counter[int]:
    """Count the moments in each interval of `seconds`."""
    return Counter(int(moment / seconds) for moment in moments)


class Coordinator:
    def __init__(self, runner: Any, workers: int, digest: str) -> None:
        """Register for the messages of the sending processes.

        `runner`: Locust's LocalRunner or MasterRunner. `workers`: number of sending processes.
        `digest`: of the locustfile, which must be the same in all processes.
        """
        self._runner = runner
        self._workers = workers
        self._digest = digest
        self._here: dict[str, str] = {}
        self._tally = Tally(workers)
        runner.register_message(load_worker.REPORT, lambda msg, **_: self._tally.add(msg.data))
        runner.register_message(load_worker.HERE, lambda msg, **_: self._here.update(msg.data))

    def quit(self) -> None:
        """End the processes, also those on other computers."""
        with gevent.Timeout(_QUIT_SECONDS, False):
            self._runner.quit()

    def execute(self, message: dict[str, Any]) -> None:
        try:
            if "plan" in message:
                self._apply_plan(message["plan"])
                _write_message(None)
            else:
                _write_message(self._run_step(message["step"]))
        except LoadError as error:
            _write_message(error)

    def _apply_plan(self, plan: dict[str, Any]) -> None:
        """Wait for the processes, stop an earlier target's users, and send this plan to all."""
        if problem := load_worker.find_problem(self._runner.user_classes, plan["loop"]):
            raise LoadError(f"the locustfile can't be used: {problem}")
        self._wait(
            lambda: len(self._here) >= self._workers,
            f"fewer than {self._workers} generator processes joined",
        )
        if any(digest != self._digest for digest in self._here.values()):
            raise LoadError("a process joined with a different locustfile; use the same file")
        if self._runner.user_count:
            self._runner.stop()
        self._runner.environment.host = LoadTarget(**plan["target"]).base_url
        self._runner.send_message(load_worker.PLAN, plan)

    def _run_step(self, options: dict[str, Any]) -> LoadStep:
        """Run a step and return its measurements. Raises LoadError."""
        rate_rps = options["rate_rps"]
        users = options["users"]
        users = users or max(self._workers, min(_MOST_READY, round(_READY_FOR_SECONDS * rate_rps)))
        # The spawn rate is per second, also downwards: all at once.
        self._runner.start(users, spawn_rate=max(users, self._runner.user_count))
        self._wait(
            lambda: self._runner.user_count == users and self._runner.state == "running",
            f"{users} users didn't start",
        )
        self._tally = tally = Tally(self._workers)
        each_rps = rate_rps and rate_rps / self._workers
        self._runner.send_message(load_worker.STEP, options | {"rate_rps": each_rps})
        self._wait_for_step(options, tally)
        wait_seconds = options["timeout_seconds"] + 1.0
        self._runner.send_message(load_worker.END, wait_seconds)
        problem = "the results of a step didn't arrive"
        self._wait(lambda: tally.is_complete, problem, wait_seconds + 10.0)
        return tally.build_step(options)

    def _wait_for_step(self, options: dict[str, Any], tally: Tally) -> None:
        """Wait until the throughput is known or the time is over."""
        known, measured = 0, 0.0
        moved_at = time.monotonic() + options["warm_up_seconds"]
        while tally.seconds < options["most_seconds"]:
            gevent.sleep(load_worker.REPORT_SECONDS)
            rps = tally.estimate_throughput()
            _write_message({"seconds": tally.seconds, "rps": rps.value})
            if tally.seconds > measured:
                measured, moved_at = tally.seconds, time.monotonic()
            if time.monotonic() - moved_at > _LOST_SECONDS:
                raise LoadError(
                    f"a generator process has not reported for {_LOST_SECONDS:g} s; it has ended, or "
                    "its computer cannot be reached; start the load test again"
                )
            # Twice, because one of many checks can succeed by chance.
            known = known + 1 if rps.value > 0 and rps.half_width_share <= KNOWN_SHARE else 0
            if tally.seconds >= options["least_seconds"] and known >= 2:
                return

    def _wait(
        self, is_ready: Callable[[], bool], problem: str, seconds: float = _READY_SECONDS
    ) -> None:
        """Wait until `is_ready` returns true.

        Raises LoadError after the time limit, with the exceptions that users raised.
        """
        until = time.monotonic() + seconds
        while not is_ready():
            if time.monotonic() > until:
                raised = {str(error["msg"]) for error in self._runner.exceptions.values()}
                raise LoadError("; ".join([f"{problem} within {seconds:g} s", *sorted(raised)]))
            gevent.sleep(_POLL_SECONDS)


def _reject_http() -> None:
    """Reject HTTP on the Locust sockets that this process opens from now on.

    With a ZAP domain, ZeroMQ requires its current protocol, which no HTTP request can imitate.
    """
    initialize = zmqrpc.BaseSocket.__init__

    def initialize_socket(server: Any, socket_type: int, *more: Any) -> None:
        initialize(server, socket_type, *more)  # type: ignore[no-untyped-call]
        if socket_type == zmq.ROUTER:  # before Locust binds it: afterwards it has no effect
            server.socket.setsockopt(zmq.ZAP_DOMAIN, b"servable")

    setattr(zmqrpc.BaseSocket, "__init__", initialize_socket)  # noqa: B010  (mypy forbids the plain form)


# isort: split

_messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")


def main(role: str, host: str, port: str, workers: str, file: str = "") -> None:
    # Ctrl-C reaches the whole group, but the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR)
    if role != "worker":  # what a locustfile prints doesn't come between the messages
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # Each waiting request of an open loop needs a connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        user_classes = list(load_locustfile(file)[0].values()) if file else [BodyUser]
    except Exception as error:
        _write_message(LoadError(f"{file}: can't be loaded: {type(error).__name__}: {error}"))
        sys.exit(1)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    worker = load_worker.LoadWorker(user_classes)
    environment = worker.environment
    runner: Any
    if role == "worker":
        runner = environment.create_worker_runner(host, int(port))
    elif role == "master":
        _reject_http()
        runner = environment.create_master_runner(host, int(port))
    else:
        runner = environment.create_local_runner()
    coordinator = None if role == "worker" else Coordinator(runner, int(workers), digest)
    if role == "master":
        _write_message(runner.server.port)
    else:
        worker.bind(runner)
    cast(Any, events).init.fire(environment=environment, runner=runner, web_ui=None)
    if role != "master":
        runner.send_message(load_worker.HERE, {runner.client_id: digest})
    messages = gevent.spawn(_execute_messages, coordinator)
    (messages if coordinator else runner.greenlet).join()


def _execute_messages(coordinator: Coordinator | None) -> None:
    """Execute each message until the input ends, then end this process."""
    source = FileObject(sys.stdin.fileno(), "rb", closefd=False)
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            message = pickle.load(source)
            if coordinator:
                gevent.spawn(coordinator.execute, message)  # the end of the input ends a step
    if coordinator:
        coordinator.quit()
    os._exit(0)


def _write_message(message: object) -> None:
    _messages.write(pickle.dumps(message))
    _messages.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
