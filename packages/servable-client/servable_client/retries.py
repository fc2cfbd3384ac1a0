"""Retries, until the deadline, of requests that were not executed; of others only on demand.

Waits double with full jitter:
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
One throttled request also delays the other requests to the endpoint.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from servable_client.errors import (
    AsleepError,
    DeadlineExceededError,
    PredictionError,
    ThrottledError,
)
from servable_client.exchange import Deadline
from servable_client.forks import initialize_in_each_process

Result = TypeVar("Result")
# Each rejection counts for the alarm that wakes the endpoint, evaluated once a minute.
WAKE_LOOK_SECONDS = 10.0


# Attempts in all. Waits of up to 0.1, 0.2 … 1.6 s lie between them: a burst's length.
ATTEMPTS = 6
_FIRST_SECONDS, _MOST_SECONDS = 0.1, 5.0


def compute_wait_seconds(failed_attempts: int, asked_seconds: float | None) -> float:
    """Return the seconds to wait before the next attempt, at least `asked_seconds`."""
    most = min(_FIRST_SECONDS * 2.0 ** (failed_attempts - 1), _MOST_SECONDS)
    return float((asked_seconds or 0.0) + most * random.random())


class Retries:
    """The retries of all requests to one endpoint. Thread-safe.

    `wake_seconds`: the time to wait for an endpoint that is scaled to zero; `waiting` is then
    called with it, once for each request.
    """

    def __init__(
        self,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
        wake_seconds: float = 0.0,
        waiting: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._attempts, self._sleep = attempts, sleep
        self._wake_seconds, self._waiting = wake_seconds, waiting
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._lock = threading.Lock()
        self._throttled_until = 0.0

    def run(
        self, attempt: Callable[[float], Result], deadline: Deadline, *, unsafe: bool
    ) -> Result:
        """Run `attempt` until it succeeds, and return its result. Raises `PredictionError`.

        `attempt` gets the seconds that it may take. `unsafe`: also retry requests that may have
        been executed. The error's `executed` covers all attempts: a later attempt that was not
        executed doesn't undo an earlier one that may have been. While the endpoint is scaled to
        zero, `deadline` doesn't run: it starts again once the endpoint is awake.
        """
        attempts, last, awake_by = 0, None, None
        while True:
            self._wait(self._throttled_until - time.monotonic(), deadline)
            if (seconds := deadline.compute_seconds_left()) <= 0:
                reason = f"; last: {last.message}" if last else "; nothing was sent"
                late = DeadlineExceededError(
                    f"no response within {deadline.seconds:g} s{reason}",
                    executed=last.executed if last else "no",
                )
                late.attempts = attempts
                raise late from last
            attempts += 1
            try:
                return attempt(seconds)
            except PredictionError as failure:
                if last and failure.executed == "no":
                    failure.executed = last.executed
                failure.attempts, last = attempts, failure
                if isinstance(failure, AsleepError) and self._wake_seconds > 0:
                    if awake_by is None:
                        self._waiting(self._wake_seconds)
                        awake_by = Deadline(self._wake_seconds)
                    if awake_by.compute_seconds_left() <= 0:
                        failure.message += f"; it did not start within {self._wake_seconds:g} s"
                        raise
                    self._sleep(min(WAKE_LOOK_SECONDS, awake_by.compute_seconds_left()))
                    attempts, deadline = 0, Deadline(deadline.seconds)
                    continue
                if not failure.repeatable or not (unsafe or failure.executed == "no"):
                    raise
                wait = compute_wait_seconds(attempts, failure.retry_after_seconds)
                if attempts >= self._attempts or wait >= deadline.compute_seconds_left():
                    raise
                if isinstance(failure, ThrottledError):
                    with self._lock:
                        until = time.monotonic() + wait
                        self._throttled_until = max(self._throttled_until, until)
            self._wait(wait, deadline)

    def _wait(self, seconds: float, deadline: Deadline) -> None:
        if seconds > 0:
            self._sleep(min(seconds, max(deadline.compute_seconds_left(), 0.0)))
