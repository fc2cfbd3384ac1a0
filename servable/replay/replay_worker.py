"""The process that sends a replay.

It sends each request at its due time, and returns each complete response.

    python -m gevent.monkey --module servable.replay.replay_worker

In, pickled: (targets, as_fast, objective_ms), then (number, due, Body) of each request, then None.
Out, pickled: None when it is ready, or a LoadError; then (number, lag_ms, [RecordedAnswer, …]) of each
request, and None when all requests have responses.

It ends with its parent, even while requests wait for their due time. Locust's session sends the
requests, and nothing is counted here. The number of waiting requests is bounded: the pipe fills,
and the parent waits.
"""

import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gevent
import gevent.event
import gevent.ssl
from gevent.fileobject import FileObject
from gevent.lock import BoundedSemaphore
from gevent.queue import Queue
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook

from servable.captured.lines import RecordedAnswer
from servable.load.users import TargetHeaders, compose_request, describe_outcome
from servable.measured.measurement import Body, LoadError, LoadTarget

# Maximum connections: below the usual limit of open files.
MOST_UNDER_WAY = 4000

# The delay of the first request, in which the first messages arrive.
_START_SECONDS = 0.25
_LOOK_SECONDS = 0.5
_MOST_WAITING = 1024
_MOST_WAITING_BYTES = 16_000_000
# As fast as the objective allows: callers are added while p99 holds, as TCP adds to its window.
_FIRST_CALLERS, _MOST_CALLERS, _CALLERS_WITHOUT_OBJECTIVE = 2, 256, 32
_LEAST_WINDOW = 100
_GROWTH, _BACK = 1.25, 0.7


class Callers:
    """The limit of simultaneous requests. `objective_ms` None: a fixed number."""

    def __init__(self, objective_ms: float | None) -> None:
        self._objective_ms = objective_ms
        self.most: float = _CALLERS_WITHOUT_OBJECTIVE if objective_ms is None else _FIRST_CALLERS
        self._window: list[float] = []
        self._failed = False

    def record_responses(self, answers: Sequence[RecordedAnswer]) -> None:
        """Record a request's responses; after each window of requests, adjust the number of callers."""
        if self._objective_ms is None:
            return
        self._window.append(max(answer.latency_ms or 0.0 for answer in answers))
        self._failed |= any(answer.error or (answer.status or 0) >= 500 for answer in answers)
        if len(self._window) < max(_LEAST_WINDOW, 8 * self.most):
            return
        p99_ms = sorted(self._window)[int(0.99 * (len(self._window) - 1))]
        if self._failed or p99_ms > self._objective_ms:
            self.most = max(1.0, self.most * _BACK)
        else:
            self.most = min(_MOST_CALLERS, max(self.most + 1, self.most * _GROWTH))
        self._window, self._failed = [], False


class ReplayedTarget:
    """An address with its idle sessions and the headers of its requests."""

    def __init__(self, target: LoadTarget) -> None:
        """Find the credentials if the target needs signed requests. Raises LoadError."""
        self._target = target
        self._headers = TargetHeaders(target)
        self._context = gevent.ssl.create_default_context()
        self._idle: list[FastHttpSession] = []

    def invoke(self, body: Body) -> RecordedAnswer:
        """Send a request and return its response, or why there is none."""
        try:
            session = self._idle.pop() if self._idle else self._open_session()
            url, headers = compose_request(self._target, body)
            content: Any = body.content
            began = time.perf_counter()
            response: Any = session.request(
                "POST", url, data=content, headers=headers, allow_redirects=False
            )
            milliseconds = 1000 * (time.perf_counter() - began)
            self._idle.append(session)
            came = bool(response.status_code)
            return RecordedAnswer(
                body=response.content or b"",
                content_type=response.headers.get("content-type", "") if came else "",
                status=response.status_code or None,
                latency_ms=milliseconds,
                error="" if came else describe_outcome(response.error, response)[0],
            )
        except Exception as error:  # such as expired credentials
            return _build_unsent(str(error))

    def _open_session(self) -> FastHttpSession:
        events: Any = EventHook
        session = FastHttpSession(
            None,
            events(),
            None,
            insecure=False,
            ssl_context_factory=lambda *_, **__: self._context,
            connection_timeout=self._target.timeout_seconds,
            network_timeout=self._target.timeout_seconds,
            concurrency=1,
        )
        self._headers.add_to(session)
        return session


class ReplayWorker:
    def __init__(self, requests: Any, answers: Any) -> None:
        """Store the streams. `requests`, `answers`: gevent's files of standard input and output."""
        self._requests = requests
        self._answers = answers
        self._writing = BoundedSemaphore(1)
        self._waiting: Queue[tuple[int, float, Body] | None] = Queue(_MOST_WAITING)
        self._waiting_bytes = 0
        self._changed = gevent.event.Event()
        """Set when one of the counts changes."""
        self._targets: list[ReplayedTarget] = []
        self._callers: Callers | None = None
        self._under_way = 0
        self._unread = 0
        """Responses that the parent process hasn't read yet."""

    def run(self) -> None:
        """Send all requests, and return when all have responses."""
        targets, as_fast, objective_ms = pickle.load(self._requests)
        try:
            self._targets = [ReplayedTarget(target) for target in targets]
        except LoadError as error:
            self._write(error)
            return
        self._callers = Callers(objective_ms) if as_fast else None
        self._write(None)
        gevent.spawn(self._exit_with_parent, os.getppid())
        gevent.spawn(self._receive)
        self._send()
        self._wait_while(lambda: self._under_way + self._unread > 0)
        self._write(None)

    def _exit_with_parent(self, parent: int) -> None:
        """End this process when its parent ends.

        The end of standard input isn't seen while requests wait for room.
        """
        while os.getppid() == parent:
            gevent.sleep(_LOOK_SECONDS)
        os._exit(0)

    def _receive(self) -> None:
        try:
            while True:  # after the last request, too
                received = pickle.load(self._requests)
                self._wait_while(lambda: self._waiting_bytes > _MOST_WAITING_BYTES)
                self._waiting_bytes += len(received[2].content) if received else 0
                self._waiting.put(received)
        except (EOFError, pickle.UnpicklingError):
            os._exit(0)  # the parent process has ended

    def _send(self) -> None:
        start: float | None = None
        while (received := self._waiting.get()) is not None:
            number, after_seconds, body = received
            self._waiting_bytes -= len(body.content)
            self._changed.set()
            start = time.perf_counter() + _START_SECONDS if start is None else start
            if (callers := self._callers) is not None:
                self._wait_while(lambda: self._under_way >= int(callers.most))
                due = time.perf_counter()
            else:
                due = start + after_seconds
                # Sleep even if it is late, so that sent requests can receive their responses.
                gevent.sleep(max(0.0, due - time.perf_counter()))
                if self._under_way >= MOST_UNDER_WAY:
                    unsent = _build_unsent(f"{MOST_UNDER_WAY} requests were already in flight")
                    self._write((number, 0.0, [unsent] * len(self._targets)))
                    continue
            # Wait for a parent that reads too slowly; requests sent late have a lag.
            self._wait_while(lambda: self._unread >= _MOST_WAITING)
            self._under_way += 1
            gevent.spawn(self._invoke_targets, number, due, body)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            self._changed.clear()
            self._changed.wait()

    def _invoke_targets(self, number: int, due: float, body: Body) -> None:
        lag_ms = 1000 * (time.perf_counter() - due)
        # The targets take turns at being first.
        count = len(self._targets)
        turns = [(number + turn) % count for turn in range(count)]
        answered = {turn: self._targets[turn].invoke(body) for turn in turns}
        answers = [answered[target] for target in range(count)]
        if self._callers is not None:
            self._callers.record_responses(answers)
        self._under_way -= 1
        self._unread += 1
        self._changed.set()
        self._write((number, lag_ms, answers))
        self._unread -= 1
        self._changed.set()

    def _write(self, message: object) -> None:
        with self._writing:
            self._answers.write(pickle.dumps(message))
            self._answers.flush()


def _build_unsent(reason: str) -> RecordedAnswer:
    return RecordedAnswer(body=b"", content_type="", error=f"not sent: {reason}")


def main() -> None:
    # Ctrl-C goes to the whole group; the parent process decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Each request that waits holds a connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    requests = FileObject(sys.stdin.fileno(), "rb", closefd=False)
    answers = FileObject(sys.stdout.fileno(), "wb", closefd=False)
    ReplayWorker(requests, answers).run()


if __name__ == "__main__":
    main()
