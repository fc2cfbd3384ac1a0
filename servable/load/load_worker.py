"""A sending process: its users and their current step.

Locust runs the users and their tasks. The step decides when a user may start its next task: in a
closed loop after its `wait_time`, in an open loop when the next arrival is due. Locust's messages
control the process, on this computer or on another one.
"""

import gc
import os
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import gevent
import gevent.event
import gevent.pool
import gevent.ssl
from locust import FastHttpUser, TaskSet, User, events
from locust.env import Environment
from locust.runners import LocalRunner, WorkerRunner

from servable.load.users import (
    DUE,
    OK,
    TIMEOUT,
    TIMETABLE,
    BodyUser,
    EndpointUser,
    TargetHeaders,
    describe_outcome,
    mix_requests,
)
from servable.measured.measurement import Body, LoadError, LoadTarget, generate_arrival_times

PLAN, STEP, END, REPORT, HERE = (
    f"servable.{message}" for message in ("plan", "step", "end", "report", "here")
)
# Adding up a report takes 1 to 3 ms, in which this process is late if it is the only one.
REPORT_SECONDS = 0.5
# Often enough for a percentile in a step of seconds, at negligible cost.
_BEAT_SECONDS = 0.01
# A task of an open loop starts early and prepares its first request, which may have to wait for others to be
# sent. At most this rate, requests wait actively until they are due, for at most this share of a core.
_PREPARING_SECONDS, _POLLED_SECONDS, _POLLED_SHARE, _POLLED_RPS = 0.004, 0.0015, 0.2, 500.0
# A response that comes whole, in one read of geventhttpclient, has come when the event loop noticed it,
# though others may be read first: 15 responses at once would take Locust up to 5 ms.
_ONE_READ_BYTES = 4096
# A refused connection fails at once: users that retry at once would only burn a core.
_AFTER_FAILURE_SECONDS = 0.05
# A server closes an idle connection, after 75 s in the image, and a request sent meanwhile fails.
_IDLE_SECONDS = 30.0
# Maximum connections of one process: below the usual limit of open files.
MOST_UNDER_WAY = 4000


# Seconds of each request: when it ended, was due, and failed, how long it took, and how late it was sent.
_RECORDED = ("finished", "due", "failed", "took", "lags")


class Recorder:
    """The outcomes of one step's requests. Times are values of `time.perf_counter()`.

    Recording a request takes two list appends; the rest is done for many requests at once.
    """

    def __init__(self, *, begin: float, from_due: bool = True) -> None:
        """Start with no requests recorded. `begin`: time at which the warm-up is over."""
        self.begin = begin
        self.end = float("inf")
        self.under_way, self.last_due = 0, 0.0
        self.from_due = from_due
        """Whether every latency counts from the due time, and none from sending."""
        self.cpu_began: float | None = None
        self.cpu_seconds = 0.0
        self._first_answers: dict[str, str] = {}
        self._clear()

    def _clear(self) -> None:
        self._new: dict[str, list[float]] = {name: [] for name in _RECORDED}
        self.errors: Counter[str] = Counter()

    def record_response(self, due: float, now: float, kind: str, body: str) -> None:
        """Record a request that was due at `due` and ended at `now`."""
        if kind != OK:
            self.record_failure(due, kind, body)
            return
        if self.begin <= now < self.end:
            self._new["finished"].append(now - self.begin)
        if self.begin <= due < self.end:
            self._new["due"].append(due - self.begin)
            self._new["took"].append(now - due)

    def record_failure(self, due: float, kind: str, body: str = "") -> None:
        """Record a request that failed or wasn't sent, and each kind's first body.

        It counts if it fails after the warm-up: all requests may time out after the step.
        """
        if due < self.end and time.perf_counter() >= self.begin:
            self._new["failed"].append(max(0.0, due - self.begin))
            self.errors[kind] += 1
            if body:
                self._first_answers.setdefault(kind, body)

    def record_lag(self, due: float, seconds: float) -> None:
        """Record how late this process was for an event that was due at `due`."""
        if self.begin <= due < self.end:
            self._new["lags"].append(seconds)

    def collect_report(self) -> dict[str, Any]:
        """Return everything recorded since the last report; times are seconds since `begin`.

        First bodies and `from_due` are totals; CPU time is known in the last report.
        """
        report = {
            **self._new,
            "elapsed": min(time.perf_counter(), self.end) - self.begin,
            "errors": dict(self.errors),
            "first_answers": self._first_answers,
            "cpu_seconds": self.cpu_seconds,
            "from_due": self.from_due,
        }
        self._clear()
        return report


class LoadWorker:
    headers: TargetHeaders
    """Sent with each request; the plan comes before the first user."""

    def __init__(self, user_classes: Sequence[type[User]]) -> None:
        """Listen to the users' requests. Call `bind` next."""
        # For classes other than EndpointUser, only Locust's latency is known.
        self._from_due = all(issubclass(each, EndpointUser) for each in user_classes)
        self._classes = [_add_turns(each, self) for each in user_classes]
        self.environment = Environment(
            user_classes=self._classes, events=events, reset_stats=False, catch_exceptions=True
        )
        self.is_open = False
        self._recorder = Recorder(begin=float("inf"))
        self._running = gevent.event.Event()
        # In an open loop: users that wait for an arrival, due times that wait for a user, and all users.
        self._idle: list[gevent.event.AsyncResult] = []
        self._waiting: deque[float] = deque()
        self._users = gevent.pool.Group()
        hooks: Any = events
        hooks.request.add_listener(self._record_request)
        hooks.user_error.add_listener(self._record_error)

    def bind(self, runner: LocalRunner | WorkerRunner) -> None:
        """Execute the messages of this runner from now on."""
        self._runner = runner
        runner.register_message(PLAN, self._apply_plan)
        runner.register_message(STEP, self._begin_step)
        runner.register_message(END, self._finish_step, concurrent=True)

    def _apply_plan(self, environment: Any, msg: Any) -> None:
        target = LoadTarget(**msg.data["target"])
        self.is_open = msg.data["loop"] == "open"
        try:
            self.headers = TargetHeaders(target)
        except LoadError as error:
            if isinstance(self._runner, LocalRunner):
                raise
            print(error, file=sys.stderr)
            os._exit(1)
        self._users.kill()
        self._idle.clear()
        self.environment.host = target.base_url
        bodies = [Body(**body) for body in msg.data["bodies"]]
        # A context costs 20 ms, so all users share one.
        context = gevent.ssl.create_default_context()
        for each in self._classes:
            each.host = target.base_url
            if issubclass(each, EndpointUser):
                each.network_timeout = each.connection_timeout = target.timeout_seconds
                each.ssl_context_factory = staticmethod(lambda *_, **__: context)
            if issubclass(each, BodyUser):
                seed = 1000 * max(0, self._runner.worker_index)
                each.requests = mix_requests(target, bodies, seed=seed)
        # Exempt from garbage collection the objects that live until the end.
        gc.collect()
        gc.freeze()

    def _begin_step(self, environment: Any, msg: Any) -> None:
        begin = time.perf_counter() + msg.data["warm_up_seconds"]
        self._recorder = Recorder(begin=begin, from_due=self._from_due)
        self._running.set()
        gevent.spawn(self._watch_step, self._recorder)
        if self.is_open:
            gevent.spawn(self._schedule_arrivals, self._recorder, msg.data)

    def _watch_step(self, recorder: Recorder) -> None:
        """Send reports during the step, and record how late this process wakes up.

        In a closed loop, that delay is the send lag.
        """
        report_at = time.perf_counter() + REPORT_SECONDS
        while True:
            beat = 10 * _BEAT_SECONDS if self.is_open else _BEAT_SECONDS
            due = time.perf_counter() + beat
            gevent.sleep(beat)
            now = time.perf_counter()
            if recorder.end != float("inf"):
                return
            if not self.is_open:
                recorder.record_lag(due, now - due)
            if recorder.cpu_began is None and now >= recorder.begin:
                recorder.cpu_began = time.process_time()
            if now >= report_at:
                self._send_report(recorder)
                report_at = now + REPORT_SECONDS

    def _finish_step(self, environment: Any, msg: Any) -> None:
        """Wait for the responses to sent requests, which must count, and send the final report."""
        recorder = self._recorder
        recorder.end = max(time.perf_counter(), recorder.last_due + 1e-6)  # all that start count
        if recorder.cpu_began is not None:
            recorder.cpu_seconds = time.process_time() - recorder.cpu_began
        self._running.clear()
        until = recorder.end + msg.data
        while recorder.under_way + len(self._waiting) and time.perf_counter() < until:
            gevent.sleep(0.02)
        recorder.errors[TIMEOUT] += recorder.under_way + len(self._waiting)
        self._waiting.clear()
        self._send_report(recorder, final=True)

    def _send_report(self, recorder: Recorder, *, final: bool = False) -> None:
        about = {"worker": self._runner.client_id, "final": final}
        self._runner.send_message(REPORT, recorder.collect_report() | about)

    def wait_for_turn(self, user: Any) -> None:
        """Wait until the user may start its next task."""
        if not self.is_open:
            self._running.wait()
        else:
            while not self._waiting:
                turn = gevent.event.AsyncResult()
                self._idle.append(turn)
                turn.get()
            user.due = self._waiting.popleft()
            user.lag_seconds = max(0.0, time.perf_counter() - user.due)
        if time.perf_counter() - user.idle_since > _IDLE_SECONDS and isinstance(user, FastHttpUser):
            user.client.client.clientpool.close()  # the next request opens a new connection
        user.recorder = self._recorder
        user.recorder.under_way += 1
        if isinstance(user, EndpointUser):  # it waits when its request is prepared
            TIMETABLE.let_others_send()
        elif self.is_open:
            TIMETABLE.wait_until(user.due)
            user.recorder.record_lag(user.due, time.perf_counter() - user.due)

    def end_turn(self, user: Any) -> None:
        """Record that the user's task has ended. Idempotent."""
        if (recorder := user.recorder) is not None:
            recorder.under_way -= 1
            # If no request has read the due time, latency counts from sending.
            recorder.from_due &= not self.is_open or user.due is None
            user.recorder, user.idle_since = None, time.perf_counter()

    def _schedule_arrivals(self, recorder: Recorder, step: dict[str, Any]) -> None:
        start = time.perf_counter()
        weights = [each.weight for each in self._classes]
        rate_rps = step["rate_rps"]
        polled = min(_POLLED_SECONDS, _POLLED_SHARE / rate_rps) if rate_rps <= _POLLED_RPS else 0.0
        TIMETABLE.polled_seconds = polled
        seed = max(0, self._runner.worker_index)
        for moment in generate_arrival_times(rate_rps, step["arrivals"], seed):
            due = start + moment
            # Sleep even if it is late: users must run to read their responses.
            gevent.sleep(max(0.0, due - polled - _PREPARING_SECONDS - time.perf_counter()))
            if recorder.end != float("inf"):
                return
            if recorder.under_way + len(self._waiting) >= MOST_UNDER_WAY:
                problem = f"not sent: {MOST_UNDER_WAY} requests were already in flight"
                recorder.record_failure(due, problem)
                continue
            self._waiting.append(due)
            recorder.last_due = due
            if self._idle:
                self._idle.pop().set()
            else:
                (chosen,) = random.choices(self._classes, weights)
                chosen(self.environment).start(self._users)

    def _record_request(
        self,
        response_time: float,
        response_length: int,
        exception: BaseException | None = None,
        response: Any = None,
        context: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        now, took = time.perf_counter(), response_time / 1000
        due = now - took
        if sending := (context or {}).get(DUE):
            noticed = now - (time.time() - gevent.get_hub().loop.now())
            due, now = sending.due, min(now, sending.began + took)
            unknown = noticed if response_length <= _ONE_READ_BYTES else now
            received = getattr(sending.socket, "received", unknown)
            now = received if sending.sent < received < now else now
            self._recorder.record_lag(due, sending.lag_seconds)
        kind, body = describe_outcome(exception, response)
        self._recorder.record_response(due, now, kind, body)
        if kind and not kind[0].isdigit() and not self.is_open:
            gevent.sleep(_AFTER_FAILURE_SECONDS)

    def _record_error(self, user_instance: Any, exception: BaseException, **_: Any) -> None:
        """Count a task that raised an exception as a failure, since it may have sent no request."""
        user = getattr(user_instance, "user", user_instance)  # Locust passes the TaskSet of a task
        kind = f"{type(user).__name__} raised {type(exception).__name__}: {exception}"
        self._recorder.record_failure(time.perf_counter(), kind)
        gevent.sleep(_AFTER_FAILURE_SECONDS)


def _add_turns(user_class: type[User], worker: LoadWorker) -> type[User]:
    """Return a subclass of the same name whose users wait for their turn before each task."""

    class Turns(user_class):  # type: ignore[misc,valid-type]
        recorder: Recorder | None = None
        idle_since = float("inf")
        due: float | None = None

        def __init__(self, environment: Environment) -> None:
            super().__init__(environment)
            worker.headers.add_to(getattr(self, "client", None))

        def on_start(self) -> None:
            super().on_start()
            # A closed loop counts what its users wait for, also for a connection.
            if worker.is_open and isinstance(self, BodyUser):
                self.connect()
            worker.wait_for_turn(self)

        def wait_time(self) -> float:
            worker.end_turn(self)
            if not worker.is_open and (pause := super().wait_time):
                gevent.sleep(pause())
            worker.wait_for_turn(self)
            return 0.0

        def on_stop(self) -> None:
            worker.end_turn(self)
            super().on_stop()

    Turns.__name__ = Turns.__qualname__ = user_class.__name__
    return Turns


def find_problem(user_classes: Sequence[type[User]], loop: str) -> str | None:
    """Return why these classes can't be used; None if they can be used."""
    if not user_classes:
        return "it has no user class; write a subclass of locust's User with a @task"
    for each in user_classes:
        nested = [one for one in each.tasks if isinstance(one, type) and issubclass(one, TaskSet)]
        if loop == "open" and nested:
            return (
                f"{each.__name__} has the TaskSet {nested[0].__name__}, but an open loop starts each task "
                "separately; use methods with @task, or a closed loop (--users)"
            )
    return None
