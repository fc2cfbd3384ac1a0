"""An asynchronous inference: submitted, and answered into S3 some time later."""

import time
from collections.abc import Callable
from typing import NoReturn

from servable_client.arrays import Outputs
from servable_client.errors import BadInputError, DeadlineExceededError, PredictionError
from servable_client.exchange import Answer
from servable_client.formats import decode

# The first look comes soon, for a model that is quick; later ones cost a request to S3 each.
FIRST_LOOK_SECONDS = 0.1
MOST_BETWEEN_LOOKS_SECONDS = 5.0
LONGER_EACH_TIME = 1.5


class Job:
    """A running asynchronous inference; `result()` waits for it.

    Another process needs only its two locations in S3.
    """

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
            f"{self!r} cannot be pickled: it has its process's connections; "
            "give the other process output_location and failure_location"
        )

    def done(self) -> bool:
        """Return whether `result()` would return at once. Raises `JobFailedError` and errors of S3."""
        if self._outputs is None and (answer := self._look()):
            self._outputs = Outputs(decode(answer.content_type, answer.body))
        return self._outputs is not None

    def result(self, timeout_seconds: float) -> Outputs:
        """Wait for the outputs and return them.

        Raises `JobFailedError`, and `DeadlineExceededError` if they are not there in time; then it may
        be called again.
        """
        if timeout_seconds < 0:
            raise BadInputError(
                f"timeout_seconds {timeout_seconds:g}: give how long to wait at most"
            )
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
                    f"{self.output_location}: not there after {timeout_seconds:g} s, or not to be "
                    "read by the caller (s3:GetObject); the job goes on: call result() again, or "
                    "look into the endpoint's log"
                ) from self._failure
            time.sleep(min(pause, seconds))
            pause = min(pause * LONGER_EACH_TIME, MOST_BETWEEN_LOOKS_SECONDS)
