"""The process that sends a replay.

It sends each request at its due time, and returns each complete response.

    python -m gevent.monkey --module servable.replay.replay_worker

In: frames {"plan": …}, then requests with their bodies, then {"end": true}. Out: {"ready": true},
{"answered": …} with the bodies of its responses, {"error": …}, and {"ended": true} when all
requests have responses.

It ends with its parent, even while requests wait for their due time. Locust's session sends the
requests, and nothing is counted here. The number of waiting requests is bounded: the pipe fills,
and the parent waits.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import gevent
import gevent.event
import gevent.ssl
from gevent.fileobject import FileObject
from gevent.lock import BoundedSemaphore
from gevent.queue import Queue
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook

from servable.load.measurement import Body, LoadError, LoadTarget
from servable.load.users import (
    TargetHeaders,
    compose_request,
    describe_outcome,
)
from servable.replay.frames import build_frame, read_frame

# Maximum connections: below the usual limit of open files.
MOST_UNDER_WAY = 4000

# The delay of the first request, in which the first frames arrive.
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

    def record_response(self, latency_ms: float, *, failed: bool) -> None:
        """Record a response; after each window of responses, adjust the number of callers."""
        if self._objective_ms is None:
            return
        self._window.append(latency_ms)
        self._failed |= failed
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

    def invoke(self, body: Body) -> tuple[dict[str, Any], bytes]:
        """Send a request and return (description of the response, its body)."""
        session = self._idle.pop() if self._idle else self._open_session()
        url, headers = compose_request(self._target, body)
        content: Any = body.content
        began = time.perf_counter()
        response: Any = session.request(
            "POST", url, data=content, headers=headers, allow_redirects=False
        )
        milliseconds = 1000 * (time.perf_counter() - began)
        self._idle.append(session)
        answer = response.content or b""
        status = response.status_code or None
        described = {
            "status": status,
            "contentType": "" if status is None else response.headers.get("content-type", ""),
            "ms": milliseconds,
            "error": describe_outcome(response.error, response)[0] if status is None else "",
            "bytes": len(answer),
        }
        return described, answer

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
        self._waiting: Queue[tuple[dict[str, Any], bytes] | None] = Queue(_MOST_WAITING)
        self._waiting_bytes = 0
        self._room = gevent.event.Event()
        self._free = gevent.event.Event()
        self._targets: list[ReplayedTarget] = []
        self._callers: Callers | None = None
        self._under_way = 0
        self._unread = 0
        """Responses that the parent process hasn't read yet."""

    def run(self) -> None:
        """Send all requests, and return when all have responses."""
        first = read_frame(self._requests)
        if first is None:
            return
        plan = first[0]["plan"]
        try:
            self._targets = [ReplayedTarget(LoadTarget(**target)) for target in plan["targets"]]
        except LoadError as error:
            self._write_message({"error": str(error)})
            return
        if plan["as_fast"]:
            self._callers = Callers(plan["objective_ms"])
        self._write_message({"ready": True})
        gevent.spawn(self._exit_with_parent, os.getppid())
        gevent.spawn(self._receive)
        self._send()
        self._wait_while(lambda: self._under_way + self._unread > 0)
        self._write_message({"ended": True})

    def _exit_with_parent(self, parent: int) -> None:
        """End this process when its parent ends.

        The end of standard input isn't seen while requests wait for room.
        """
        while os.getppid() == parent:
            gevent.sleep(_LOOK_SECONDS)
        os._exit(0)

    def _receive(self) -> None:
        while (received := read_frame(self._requests)) is not None:
            if "end" in received[0]:
                self._waiting.put(None)
                continue
            while self._waiting_bytes > _MOST_WAITING_BYTES:
                self._room.clear()
                self._room.wait()
            self._waiting_bytes += len(received[1])
            self._waiting.put(received)
        os._exit(0)  # the parent process has ended

    def _send(self) -> None:
        start: float | None = None
        while (received := self._waiting.get()) is not None:
            request, content = received
            self._waiting_bytes -= len(content)
            self._room.set()
            if start is None:
                start = time.perf_counter() + _START_SECONDS
            if (callers := self._callers) is not None:
                self._wait_while(lambda: self._under_way >= int(callers.most))
                due = time.perf_counter()
            else:
                due = start + request["due"]
                # Sleep even if it is late, so that sent requests can receive their responses.
                gevent.sleep(max(0.0, due - time.perf_counter()))
                if self._under_way >= MOST_UNDER_WAY:
                    missing = _describe_missing_response(
                        f"not sent: {MOST_UNDER_WAY} requests were already in flight"
                    )
                    self._write_responses(request["number"], 0.0, [missing] * len(self._targets))
                    continue
            # Wait for a parent that reads too slowly; requests sent late have a lag.
            self._wait_while(lambda: self._unread >= _MOST_WAITING)
            self._under_way += 1
            gevent.spawn(self._invoke_targets, request, content, due)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            self._free.clear()
            self._free.wait()

    def _invoke_targets(self, request: dict[str, Any], content: bytes, due: float) -> None:
        body = Body(content=content, **request["headers"])
        lag_ms = 1000 * (time.perf_counter() - due)
        number = request["number"]
        count = len(self._targets)
        answers: list[dict[str, Any]] = [{}] * count
        bodies = [b""] * count
        # The targets take turns at being first.
        for turn in range(count):
            which = (number + turn) % count
            try:
                answers[which], bodies[which] = self._targets[which].invoke(body)
            except Exception as error:  # such as expired credentials
                answers[which] = _describe_missing_response(f"not sent: {error}")
        if self._callers is not None:
            slowest = max(answer["ms"] or 0.0 for answer in answers)
            failed = any(answer["error"] or answer["status"] >= 500 for answer in answers)
            self._callers.record_response(slowest, failed=failed)
        self._under_way -= 1
        self._unread += 1
        self._free.set()
        self._write_responses(number, lag_ms, answers, *bodies)
        self._unread -= 1
        self._free.set()

    def _write_responses(
        self, number: int, lag_ms: float, answers: list[dict[str, Any]], *bodies: bytes
    ) -> None:
        self._write_message(
            {"answered": {"number": number, "lagMs": lag_ms, "answers": answers}}, *bodies
        )

    def _write_message(self, message: dict[str, Any], *bodies: bytes) -> None:
        with self._writing:
            self._answers.write(build_frame(message, *bodies))
            self._answers.flush()


def _describe_missing_response(error: str) -> dict[str, Any]:
    """Return the record of a request without a response."""
    return {"status": None, "contentType": "", "ms": None, "error": error, "bytes": 0}


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
