"""The errors of a prediction.

PredictionError
├── BadInputError               not sent: the arrays or the settings are invalid
│   └── BodyTooLargeError       not sent: larger than SageMaker accepts in one request
├── UnreachableError            not executed: no connection was made
├── BusyError                   not executed: every attempt was rejected
│   ├── ThrottledError          by SageMaker
│   ├── AsleepError             no copy of the inference component runs: this request wakes it
│   └── QueueFullError          by the container
├── RefusedError                not executed: the request is wrong, so a retry would fail as well
│   ├── NotAllowedError         credentials or permissions
│   └── EndpointNotFoundError   no such endpoint, variant or model
├── UnansweredError             may have been executed: it was sent, and no response came
│   ├── DeadlineExceededError   the time was over; `executed` says if it was not executed
│   └── ConnectionLostError     the connection broke
├── ModelFailedError            may have been executed: the container or SageMaker failed
├── BadAnswerError              executed: the response cannot be read
├── PartFailedError             a part of a split batch failed: which rows, and why
└── JobFailedError              an asynchronous inference ended with an error
"""

from typing import Any, ClassVar, Literal

Executed = Literal["no", "maybe", "yes"]


class PredictionError(Exception):
    """The base class of all errors here. `str()` is a sentence: what happened, and what to do."""

    executed: Executed = "maybe"
    """Whether the model may have seen the input."""
    repeatable: ClassVar[bool] = False
    """Whether the same request can succeed a moment later."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        executed: Executed | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        """The container's HTTP status if it responded, otherwise SageMaker's, otherwise None."""
        self.retry_after_seconds = retry_after_seconds
        self.attempts = 0
        """Number of attempts to send the request."""
        if executed is not None:
            self.executed = executed

    def __str__(self) -> str:
        return f"{self.message} ({self.attempts} attempts)" if self.attempts > 1 else self.message


class BadInputError(PredictionError, ValueError):
    executed = "no"


class BodyTooLargeError(BadInputError):
    pass


class UnreachableError(PredictionError):
    executed = "no"
    repeatable = True


class BusyError(PredictionError):
    executed = "no"
    repeatable = True


class ThrottledError(BusyError):
    pass


class AsleepError(BusyError):
    pass


class QueueFullError(BusyError):
    pass


class RefusedError(PredictionError):
    executed = "no"


class NotAllowedError(RefusedError):
    pass


class EndpointNotFoundError(RefusedError):
    pass


class UnansweredError(PredictionError):
    repeatable = True


class DeadlineExceededError(UnansweredError, TimeoutError):
    pass


class ConnectionLostError(UnansweredError):
    pass


class ModelFailedError(PredictionError):
    repeatable = True


class BadAnswerError(PredictionError):
    executed = "yes"


class JobFailedError(PredictionError):
    executed = "yes"


class PartFailedError(PredictionError):
    """The error of a failed part of a batch. `failure`: its cause; `rows`: the part's rows in the batch."""

    def __init__(self, part: int, parts: int, rows: range, failure: PredictionError, more: int):
        others = f"; {more} other parts failed as well" if more else ""
        super().__init__(
            f"part {part + 1} of {parts} (rows {rows.start} to {rows.stop - 1}): {failure}{others}",
            status=failure.status,
            executed=failure.executed,
        )
        self.part, self.parts, self.rows, self.failure = part, parts, rows, failure
        self._more = more

    def __reduce__(self) -> tuple[Any, ...]:
        # By default only the message is pickled; unpickling then fails, and a pool of processes
        # waits forever.
        return type(self), (self.part, self.parts, self.rows, self.failure, self._more)
