"""Requests, responses, asynchronous jobs, deadlines, and the interface of a transport."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from servable_client.errors import (
    BadAnswerError,
    BadInputError,
    DeadlineExceededError,
    PredictionError,
)
from servable_client.formats import Outputs, decode
from servable_client.options import Selection, check_header
from servable_tensors.trace_context import MOST_INFERENCE_ID, add_trace

# InvokeEndpoint's bound on the body, as botocore's model and AWS's page have it (2026-11):
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
MOST_BODY_BYTES = 6_291_456
# The developer guide states another bound for the same endpoints; `largest_body_bytes` may be raised
# up to it:
# https://docs.aws.amazon.com/sagemaker/latest/dg/hosting-faqs.html (2026-11-22)
GUIDE_BODY_BYTES = 25_000_000
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Request:
    body: bytes
    content_type: str
    accept: str
    selection: Selection
    inference_id: str | None = None
    """Identifies the request in captured data and in the handler's log."""
    traceparent: str | None = None
    """W3C trace context of the caller, for the handler's log; a malformed one is not sent."""

    def __post_init__(self) -> None:
        check_header("content_type", self.content_type)
        check_header("accept", self.accept)
        check_header("inference_id", self.inference_id)
        if len(self.inference_id or "") > MOST_INFERENCE_ID:
            problem = f"is longer than {MOST_INFERENCE_ID} characters"
            raise BadInputError(f"inference_id {self.inference_id!r} {problem}")

    @property
    def custom_attributes(self) -> str:
        """Return the selection's attributes, with trace context and inference ID if they fit."""
        return add_trace(self.selection.custom_attributes, self.traceparent, self.inference_id)


@dataclass(frozen=True, kw_only=True)
class Answer:
    body: bytes
    content_type: str
    variant: str | None = None
    """The production variant that responded."""


class Deadline:
    """A deadline on the clock of time.monotonic()."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def compute_seconds_left(self) -> float:
        """Return the seconds left; negative after the deadline."""
        return self._at - time.monotonic()


def read_body(
    stream: Any, headers: Mapping[str, str], deadline: Deadline, *, framed: bool = True
) -> bytes:
    """Read the whole body in pieces, so that a stated length takes no memory before it arrives.

    `headers`: case-insensitive, or in lower case. `framed`: reject a body without a stated
    length, because a truncated one would look complete. Raises `BadAnswerError`,
    `DeadlineExceededError`.
    """
    length = headers.get("content-length", "")
    is_stated = re.fullmatch("[0-9]{1,19}", length) is not None
    try:
        unstated = framed and not is_stated
        if unstated and "chunked" not in headers.get("transfer-encoding", "").lower():
            raise BadAnswerError(
                f"the response has the Content-Length {length!r:.40} and is not chunked, so truncation "
                "cannot be detected; the container must send one of the two"
            )
        if is_stated and int(length) <= _PIECE_BYTES:
            small: bytes = stream.read()
            return small
        pieces = []
        while piece := stream.read(_PIECE_BYTES):
            pieces.append(piece)
            if deadline.compute_seconds_left() <= 0:
                raise DeadlineExceededError("the response was incomplete when the timeout expired")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except BaseException:
        stream.close()  # with what is unread in it, the connection is of no use
        raise


# The first look comes soon, for a model that is quick; later ones cost a request to S3 each.
FIRST_LOOK_SECONDS = 0.1
MOST_BETWEEN_LOOKS_SECONDS = 5.0
LONGER_EACH_TIME = 1.5


class Job:
    """A running asynchronous inference. Another process needs only its two S3 URIs."""

    def __init__(
        self,
        *,
        inference_id: str,
        output_location: str,
        failure_location: str | None,
        look: Callable[[], Answer | None],
    ) -> None:
        self.inference_id = inference_id
        self.output_location = output_location
        self.failure_location = failure_location
        self._look = look
        self._outputs: Outputs | None = None
        self._failure: PredictionError | None = None

    def __repr__(self) -> str:
        return f"Job({self.inference_id!r}, output_location={self.output_location!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled: its connections belong to its process; "
            "pass output_location and failure_location to the other process"
        )

    def done(self) -> bool:
        """Return whether `result()` would return at once. Raises `JobFailedError` and errors of S3."""
        if self._outputs is None and (answer := self._look()):
            self._outputs = Outputs(decode(answer.content_type, answer.body))
        return self._outputs is not None

    def result(self, timeout_seconds: float) -> Outputs:
        """Wait for the outputs and return them.

        Raises `JobFailedError`, and `DeadlineExceededError` if the outputs aren't there in time.
        After `DeadlineExceededError` you may call it again.
        """
        if timeout_seconds < 0:
            raise BadInputError(f"timeout_seconds {timeout_seconds:g} is negative; pass 0 or more")
        deadline, pause = time.monotonic() + timeout_seconds, FIRST_LOOK_SECONDS
        while True:
            try:
                if self.done() and self._outputs is not None:
                    return self._outputs
            except PredictionError as failure:
                if not failure.repeatable:
                    raise
                self._failure = failure
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise DeadlineExceededError(
                    f"{self.output_location}: does not exist after {timeout_seconds:g} s, or is not "
                    "readable by the caller (s3:GetObject); the job continues: call result() again, or "
                    "check the endpoint's log"
                ) from self._failure
            time.sleep(min(pause, seconds))
            pause = min(pause * LONGER_EACH_TIME, MOST_BETWEEN_LOOKS_SECONDS)


class Transport(Protocol):
    """The interface of an `Endpoint`'s transport. Thread-safe, also in forked children."""

    def send(self, request: Request, *, seconds: float) -> Answer:
        """Send a request once. Raises `PredictionError`."""

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        """Submit an asynchronous inference once. Raises `PredictionError`."""

    def close(self) -> None:
        """Close all connections."""
