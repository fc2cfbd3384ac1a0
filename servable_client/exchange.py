"""One request, its answer, and who carries them."""

import time
from dataclasses import dataclass
from typing import Protocol

from servable_client.job import Job
from servable_client.selection import Selection

# InvokeEndpoint's bound on the body, as botocore's model and AWS's page have it (2026-11):
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
MOST_BODY_BYTES = 6_291_456


@dataclass(frozen=True, kw_only=True)
class Request:
    body: bytes
    content_type: str
    accept: str
    selection: Selection
    inference_id: str | None = None
    """Joins the request to what data capture keeps of it."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    body: bytes
    content_type: str
    variant: str | None = None
    """The production variant that answered."""


class Transport(Protocol):
    """SageMaker's API, a container, or a fake. Safe between threads."""

    def send(self, request: Request, *, seconds: float) -> Answer:
        """One attempt. Raises `PredictionError`."""

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        """One attempt at an asynchronous inference. Raises `PredictionError`."""

    def close(self) -> None:
        """Ends its connections."""


class Deadline:
    """Until when, on time.monotonic()'s clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds; negative when it is over."""
        return self._at - time.monotonic()
