"""What a failed attempt means, and its retries until the deadline.

A 429 means that the request was not executed. A 5xx may come from a model that had begun. This
also applies to a 503: the handler responds with it when a model server dies during a request.
Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html

An exception's class does not show whether a byte of the request was written to a socket. A TLS
error may come from the handshake or from the response, a reset from before or after the request,
and a timeout from a proxy. So observed urllib3 connections record it.

Requests that were not executed are retried, others only on demand. Waits double with full jitter:
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
One throttled request also delays the other requests to the endpoint.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from servable_client.errors import (
    AsleepError,
    BusyError,
    ConnectionLostError,
    DeadlineExceededError,
    EndpointNotFoundError,
    ModelFailedError,
    NotAllowedError,
    PredictionError,
    QueueFullError,
    RefusedError,
    ThrottledError,
    UnreachableError,
)
from servable_client.exchange import Deadline
from servable_client.forks import PoolQueue, close_in_children, initialize_in_each_process


class Attempt(threading.local):
    """The request that this thread is sending."""

    written = True
    """Whether a byte of the request may have been sent; True unless a connection is observed."""


ATTEMPT = Attempt()


class _ObservedConnection:
    _connecting = False

    def _new_conn(self) -> Any:
        connected = super()._new_conn()  # type: ignore[misc]
        close_in_children(connected)
        return connected

    def connect(self) -> None:
        # A proxy's CONNECT goes through send() as well, but isn't part of the request.
        self._connecting = True
        try:
            super().connect()  # type: ignore[misc]
        finally:
            self._connecting = False
        # TLS has put another socket, or through a proxy an object, around the first.
        outer = self.sock  # type: ignore[attr-defined]
        outer = getattr(outer, "socket", outer)
        if isinstance(outer, socket.socket):
            close_in_children(outer)

    def send(self, data: Any) -> None:
        if self.sock is None:  # type: ignore[attr-defined]
            self.connect()  # as http.client's send() would: until here nothing was written
        if not self._connecting:
            ATTEMPT.written = True
        super().send(data)  # type: ignore[misc]


def build_observed_pool(pool_class: Any) -> Any:
    """Return a subclass of a connection pool class that records when a request is sent."""
    of = pool_class.ConnectionCls
    connection = type(f"Observed{of.__name__}", (_ObservedConnection, of), {})
    members = {"ConnectionCls": connection, "QueueCls": PoolQueue}
    return type(f"Observed{pool_class.__name__}", (pool_class,), members)


_THROTTLED = {
    *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
    *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
    *("SlowDown", "LimitExceededException", "BandwidthLimitExceeded", "PriorRequestNotComplete"),
}
_NOT_ALLOWED = {
    *("AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException"),
    *("UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException"),
    *("IncompleteSignature", "MissingAuthenticationToken", "SignatureDoesNotMatch"),
}
# SageMaker's words for a component at zero copies, and while its first copy starts:
# https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
# (2024-12-03)
_ASLEEP = "inference component has no capacity to process this request"
_SHOWN = 2000  # characters of a container's words


def build_sagemaker_error(endpoint: str, response: Mapping[str, Any]) -> PredictionError:
    """Return the error for a botocore ClientError's `response`."""
    error, about = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, reason = str(error.get("Code", "")), error.get("Message") or "no message"
    status = about.get("HTTPStatusCode")
    retry_after = _parse_seconds(about.get("HTTPHeaders", {}).get("retry-after"))
    if code == "ModelError":
        words = response.get("OriginalMessage") or reason
        return build_container_error(endpoint, response.get("OriginalStatusCode"), words, None)
    message = f"{endpoint}: {reason}"
    if code == "ModelNotReadyException":
        return BusyError(f"{message}; the model is loading", status=status)
    if code in _THROTTLED or status == 429:
        hint = "add instances, or send fewer requests at a time"
        return ThrottledError(f"{message}; {hint}", status=status, retry_after_seconds=retry_after)
    if _ASLEEP in reason.lower():
        hint = "it has scaled to zero, and this request wakes it: pass wake_seconds=900 to wait"
        return AsleepError(f"{endpoint}: no copy of its component runs; {hint}", status=status)
    if code in _NOT_ALLOWED or status in (401, 403):
        hint = "the caller needs sagemaker:InvokeEndpoint and valid credentials"
        return NotAllowedError(f"{message} ({code}); {hint}", status=status)
    if "not found" in reason.lower() and status is not None and status < 500:
        hint = "check its name, the region and the account"
        return EndpointNotFoundError(f"{message} {hint}", status=status)
    if status is not None and 400 <= status < 500:
        return RefusedError(f"{message} ({code})", status=status)
    return ModelFailedError(f"{message} (SageMaker: {code or status})", status=status)


def build_connection_error(
    place: str, error: Exception, seconds: float, *, timed_out: bool, hint: str = ""
) -> PredictionError:
    """Return the error for a connection that was not made, broke, or got no response in time."""
    if not ATTEMPT.written:
        return UnreachableError(f"{place}: {error}{hint}")
    if timed_out:
        late = f"{place}: no response within {seconds:.3g} s; the request may have been executed"
        return DeadlineExceededError(late)
    lost = f"{place}: the connection broke ({error}); the request may have been executed"
    return ConnectionLostError(lost)


def build_container_error(
    endpoint: str, status: int | None, words: str, retry_after: str | None
) -> PredictionError:
    """Return the error for a container's HTTP status."""
    answers = f"returns {status}" if status else "does not respond"
    reason = f"{endpoint}: the container {answers}: {_extract_message(words)}"
    if status == 429:
        return QueueFullError(reason, status=429, retry_after_seconds=_parse_seconds(retry_after))
    if status == 404:
        return EndpointNotFoundError(reason, status=404)
    if status == 415:
        hint = (
            'without a handler it accepts only JSON, JSON lines, and CSV; set handler = "servable"'
        )
        return RefusedError(f"{reason}; {hint}", status=415)
    if status is not None and 400 <= status < 500:
        return RefusedError(reason, status=status)
    return ModelFailedError(reason, status=status or None)


def _extract_message(words: str) -> str:
    """Return TensorFlow Serving's "error" or Falcon's "description"; otherwise the whole text."""
    try:
        answer = json.loads(words)
        reason = answer["error"] if "error" in answer else answer["description"]
    except (ValueError, TypeError, KeyError):
        reason = words
    return str(reason).strip()[:_SHOWN] or "the response is empty"


def _parse_seconds(header: str | None) -> float | None:
    try:
        seconds = float(header) if header else None
    except ValueError:
        return None  # a date, which neither SageMaker nor our handler sends
    return seconds if seconds is not None and 0 <= seconds < 3600 else None


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
