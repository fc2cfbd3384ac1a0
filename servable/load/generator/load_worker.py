"""One sending process: its callers, and their current step.

The coordinator controls it by Locust's messages, in this process or on another computer.
"""

import base64
import gc
import ssl
import time
from typing import Any

import gevent
import gevent.event
import gevent.pool
from locust import User, constant, task
from locust.runners import LocalRunner, WorkerRunner

from servable.load.generator.connection import MOST_UNDER_WAY, Connection, PreparedRequests
from servable.load.generator.step_report import Recorder
from servable.load.load_target import Body, LoadTarget, times

PLAN, STEP, END, REPORT, HERE = (
    f"servable.{message}" for message in ("plan", "step", "end", "report", "here")
)
REPORT_SECONDS = 0.25
# Often enough for a percentile in a step of seconds, and next to no work.
_BEAT_SECONDS = 0.01
# A connection is refused at once: callers that ask again at once only burn a core.
_AFTER_FAILURE_SECONDS = 0.05


class Caller(User):
    """Locust's user. Closed loop: one caller. Open loop: all arrivals of this process."""

    wait_time = constant(0)
    worker: "LoadWorker"
    """The load worker of this process; Locust creates the users."""

    @task
    def serve(self) -> None:
        self.worker.serve()


class LoadWorker:
    def __init__(self, runner: LocalRunner | WorkerRunner) -> None:
        Caller.worker = self
        self._runner = runner
        self._prepared: PreparedRequests | None = None
        self._target: LoadTarget | None = None
        self._loop = "closed"
        self._encryption: ssl.SSLContext | None = None
        self._recorder = Recorder(begin=float("inf"))
        self._step: dict[str, Any] = {}
        self._idle: list[Connection] = []
        self._running = gevent.event.Event()
        for kind, listener in ((PLAN, self._plan), (STEP, self._begin), (END, self._finish)):
            self._runner.register_message(kind, listener)

    # --- messages

    def _plan(self, environment: Any, msg: Any) -> None:
        bodies = [
            Body(**(body | {"content": base64.b64decode(body["content"])}))
            for body in msg.data["bodies"]
        ]
        self._target = LoadTarget(**msg.data["target"])
        self._loop = msg.data["loop"]
        self._idle = []
        self._encryption = ssl.create_default_context() if self._target.encrypted else None
        seed = 1000 * max(0, self._runner.worker_index)
        self._prepared = PreparedRequests(self._target, bodies, seed=seed)
        # What lives until the end is not looked at by the garbage collector again.
        gc.collect()
        gc.freeze()

    def _begin(self, environment: Any, msg: Any) -> None:
        self._step = msg.data
        self._recorder = Recorder(begin=time.perf_counter() + self._step["warm_up_seconds"])
        self._running.set()
        gevent.spawn(self._watch, self._recorder)

    def _finish(self, environment: Any, msg: Any) -> None:
        self._recorder.end = time.perf_counter()
        self._running.clear()
        gevent.spawn(self._drain, self._recorder, msg.data)

    def _watch(self, recorder: Recorder) -> None:
        """Send reports, and record how late this process wakes up, the send lag of a closed loop."""
        closed = self._loop == "closed"
        report_at = time.perf_counter() + REPORT_SECONDS
        while recorder.end == float("inf"):
            due = time.perf_counter() + _BEAT_SECONDS
            gevent.sleep(_BEAT_SECONDS)
            now = time.perf_counter()
            if closed:
                recorder.late(now - due)
            recorder.watch_cpu()
            if now >= report_at:
                self._report(recorder)
                report_at = now + REPORT_SECONDS

    def _drain(self, recorder: Recorder, options: dict[str, Any]) -> None:
        """Wait for the answers of sent requests: late answers must count."""
        until = time.perf_counter() + options["wait_seconds"]
        while recorder.under_way and time.perf_counter() < until:
            gevent.sleep(0.02)
        if options["count_rest"]:
            recorder.count_rest()
        self._report(recorder, final=True)

    def _report(self, recorder: Recorder, *, final: bool = False) -> None:
        about = {"step": self._step["number"], "worker": self._runner.client_id, "final": final}
        self._runner.send_message(REPORT, recorder.report() | about)

    # --- callers

    def serve(self) -> None:
        """Send requests until the user is stopped."""
        connection: Connection | None = None
        while True:
            self._running.wait()
            if self._loop == "open":
                self._send_arrivals(self._recorder)
                continue
            if connection is None or connection.target is not self._target:
                connection = self._connection()
            recorder = self._recorder
            while recorder.end == float("inf"):
                kind = self._ask(connection, recorder, None)
                if kind and not kind[0].isdigit():
                    gevent.sleep(_AFTER_FAILURE_SECONDS)

    def _connection(self) -> Connection:
        assert self._target is not None  # told before there are users
        return Connection(self._target, self._encryption)

    def _ask(self, connection: Connection, recorder: Recorder, due: float | None) -> str:
        assert self._prepared is not None
        request = self._prepared.next()
        sent = time.perf_counter()
        recorder.under_way += 1
        try:
            kind = connection.ask(request)
            now = time.perf_counter()
            answer = connection.refusal if kind else ""
            if due is None:
                recorder.done(sent, None, now, kind, answer)
            else:
                recorder.done(due, sent, now, kind, answer)
        finally:
            recorder.under_way -= 1
        return kind

    def _send_arrivals(self, recorder: Recorder) -> None:
        step, idle = self._step, self._idle
        start = time.perf_counter()
        seed = max(0, self._runner.worker_index)
        for moment in times(step["rate_rps"], step["arrivals"], seed):
            due = start + moment
            # Also when it is late: those who were sent must come to read their answers.
            gevent.sleep(max(0.0, due - time.perf_counter()))
            if recorder.end != float("inf"):
                return
            if recorder.under_way >= MOST_UNDER_WAY:
                recorder.never_sent(due, f"not sent: {MOST_UNDER_WAY} were under way")
                continue
            connection = idle.pop() if idle else self._connection()
            gevent.spawn(self._arrived, connection, recorder, due, idle)

    def _arrived(
        self, connection: Connection, recorder: Recorder, due: float, idle: list[Connection]
    ) -> None:
        self._ask(connection, recorder, due)
        idle.append(connection)
