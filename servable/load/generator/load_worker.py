"""A sending process: its users and their current step.

Locust runs the users and their tasks. The step decides when a user may start its next task: in a
closed loop after its `wait_time`, in an open loop when the next arrival is due. Locust's messages
control the process, on this computer or on another one.
"""

import base64
import gc
import os
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import gevent
import gevent.event
import gevent.pool
import gevent.ssl
from locust import FastHttpUser, TaskSet, User, events
from locust.env import Environment
from locust.runners import LocalRunner, WorkerRunner

from servable.load.generator.step_report import Recorder, describe_outcome
from servable.load.load_target import Body, LoadTarget, generate_arrival_times
from servable.load.users import (
    DUE,
    BodyUser,
    EndpointUser,
    MissingCredentialsError,
    TargetHeaders,
    mix_requests,
)

PLAN, STEP, END, REPORT, HERE = (
    f"servable.{message}" for message in ("plan", "step", "end", "report", "here")
)
REPORT_SECONDS = 0.25
# Often enough for a percentile in a step of seconds, and next to no work.
_BEAT_SECONDS = 0.01
# libev rounds a timer up to whole milliseconds. Waking half of one early, and polling until an arrival is
# due, makes the mean lateness an eighth of a millisecond; at the highest rate that costs 6 % of a core.
_EARLY_SECONDS, _EARLY_RPS = 0.0005, 500.0
# A connection is refused at once: users that retry at once only burn a core.
_AFTER_FAILURE_SECONDS = 0.05
# A server closes an idle connection, after 75 s in the image, and fails a request that is sent meanwhile.
_IDLE_SECONDS = 30.0
# Maximum connections of one process: below the usual limit of open files.
MOST_UNDER_WAY = 4000


class LoadWorker:
    def __init__(self, user_classes: Sequence[type[User]]) -> None:
        """Listen to the users' requests. `bind` adds the runner, which must start to listen later."""
        # A class of only ours counts from the due time; of others, only Locust's own latency is known.
        self._from_due = all(issubclass(each, EndpointUser) for each in user_classes)
        self._classes = [_add_turns(each, self) for each in user_classes]
        self.environment = Environment(
            user_classes=self._classes, events=events, reset_stats=False, catch_exceptions=True
        )
        self._headers: TargetHeaders | None = None
        self.is_open = False
        self._recorder = Recorder(begin=float("inf"))
        self._step: dict[str, Any] = {}
        self._running = gevent.event.Event()
        # Of an open loop: users that wait for an arrival, due times that wait for a user, all its users.
        self._idle: list[gevent.event.AsyncResult] = []
        self._waiting: deque[float] = deque()
        self._users = gevent.pool.Group()
        hooks: Any = events
        hooks.request.add_listener(self._record_request)
        hooks.user_error.add_listener(self._record_error)

    def bind(self, runner: LocalRunner | WorkerRunner) -> None:
        """Execute the messages of this runner from now on."""
        self._runner = runner
        for kind, listener in (
            (PLAN, self._apply_plan),
            (STEP, self._begin_step),
            (END, self._finish_step),
        ):
            runner.register_message(kind, listener)

    # --- messages

    def _apply_plan(self, environment: Any, msg: Any) -> None:
        target = LoadTarget(**msg.data["target"])
        self.is_open = msg.data["loop"] == "open"
        try:
            self._headers = TargetHeaders(target)
        except MissingCredentialsError as error:
            if isinstance(self._runner, LocalRunner):
                raise
            print(error, file=sys.stderr)
            os._exit(1)
        self._users.kill()
        self._idle.clear()
        self.environment.host = target.base_url
        bodies = [
            Body(**(body | {"content": base64.b64decode(body["content"])}))
            for body in msg.data["bodies"]
        ]
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
        # The garbage collector doesn't look again at what lives until the end.
        gc.collect()
        gc.freeze()

    def _begin_step(self, environment: Any, msg: Any) -> None:
        self._step = msg.data
        self._recorder = Recorder(begin=time.perf_counter() + self._step["warm_up_seconds"])
        self._recorder.from_due = self._from_due
        self._running.set()
        gevent.spawn(self._watch_step, self._recorder)
        if self.is_open:
            gevent.spawn(self._send_arrivals, self._recorder)

    def _finish_step(self, environment: Any, msg: Any) -> None:
        self._recorder.end = time.perf_counter()
        self._running.clear()
        gevent.spawn(self._wait_for_responses, self._recorder, msg.data)

    def _watch_step(self, recorder: Recorder) -> None:
        """Send reports during the step, and record how late this process wakes up.

        In a closed loop, that delay is the send lag.
        """
        report_at = time.perf_counter() + REPORT_SECONDS
        while recorder.end == float("inf"):
            due = time.perf_counter() + _BEAT_SECONDS
            gevent.sleep(_BEAT_SECONDS)
            now = time.perf_counter()
            if not self.is_open:
                recorder.record_lag(due, now - due)
            recorder.update_cpu_time()
            if now >= report_at:
                self._send_report(recorder)
                report_at = now + REPORT_SECONDS

    def _wait_for_responses(self, recorder: Recorder, options: dict[str, Any]) -> None:
        """Wait for the responses to sent requests, then send the final report.

        Late responses must count.
        """
        until = time.perf_counter() + options["wait_seconds"]
        while recorder.under_way + len(self._waiting) and time.perf_counter() < until:
            gevent.sleep(0.02)
        recorder.count_unfinished(len(self._waiting))
        self._waiting.clear()
        self._send_report(recorder, final=True)

    def _send_report(self, recorder: Recorder, *, final: bool = False) -> None:
        about = {"step": self._step["number"], "worker": self._runner.client_id, "final": final}
        self._runner.send_message(REPORT, recorder.collect_report() | about)

    # --- users

    def prepare_user(self, user: User) -> None:
        """Give a new user's client the target's headers."""
        assert self._headers is not None  # the plan comes before the first user
        self._headers.add_to(getattr(user, "client", None))

    def wait_for_turn(self, user: Any) -> None:
        """Wait until the user may start its next task."""
        if not self.is_open:
            self._running.wait()
        else:
            while not self._waiting:
                turn = gevent.event.AsyncResult()
                self._idle.append(turn)
                turn.get()
            user.due = due = self._waiting.popleft()
            self._recorder.record_lag(due, time.perf_counter() - due)
        if time.perf_counter() - user.idle_since > _IDLE_SECONDS and isinstance(user, FastHttpUser):
            user.client.client.clientpool.close()  # the next request opens another connection
        user.recorder = self._recorder
        user.recorder.under_way += 1

    def end_turn(self, user: Any) -> None:
        """Record that the user's task has ended. Idempotent."""
        if (recorder := user.recorder) is not None:
            recorder.under_way -= 1
            # Nothing has read the due time, so the latency began at sending.
            recorder.from_due &= not self.is_open or user.due is None
            user.recorder, user.idle_since = None, time.perf_counter()

    def _send_arrivals(self, recorder: Recorder) -> None:
        step, start = self._step, time.perf_counter()
        weights = [each.weight for each in self._classes]
        early = _EARLY_SECONDS if step["rate_rps"] <= _EARLY_RPS else 0.0
        seed = max(0, self._runner.worker_index)
        for moment in generate_arrival_times(step["rate_rps"], step["arrivals"], seed):
            due = start + moment
            # Also when it is late: users must run to read their responses.
            gevent.sleep(max(0.0, due - early - time.perf_counter()))
            while time.perf_counter() < due:
                gevent.sleep(0)
            if recorder.end != float("inf"):
                return
            if recorder.under_way + len(self._waiting) >= MOST_UNDER_WAY:
                recorder.record_failure(due, f"not sent: {MOST_UNDER_WAY} were under way")
                continue
            self._waiting.append(due)
            if self._idle:
                self._idle.pop().set()
            else:
                (chosen,) = random.choices(self._classes, weights)
                chosen(self.environment).start(self._users)

    def _record_request(
        self,
        response_time: float,
        exception: BaseException | None = None,
        response: Any = None,
        context: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        now = time.perf_counter()
        due = (context or {}).get(DUE, now - response_time / 1000)
        kind, body = describe_outcome(exception, response)
        self._recorder.record_response(due, now, kind, body)
        if kind and not kind[0].isdigit() and not self.is_open:
            gevent.sleep(_AFTER_FAILURE_SECONDS)

    def _record_error(self, user_instance: Any, exception: BaseException, **_: Any) -> None:
        """Count a task that raised an exception as a failure. Its request may not have been counted."""
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
            worker.prepare_user(self)

        def on_start(self) -> None:
            super().on_start()
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
    """Return why these classes can't be used; None if they can."""
    if not user_classes:
        return "it has no user class; write a subclass of locust's User with a @task"
    for each in user_classes:
        nested = [one for one in each.tasks if isinstance(one, type) and issubclass(one, TaskSet)]
        if loop == "open" and nested:
            return (
                f"{each.__name__} has the TaskSet {nested[0].__name__}, and an open loop starts each task by "
                "itself; use methods with @task, or a closed loop (--users)"
            )
    return None
