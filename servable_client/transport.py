"""Who carries requests: what an endpoint needs of SageMaker's API, a container, or a fake."""

from typing import Protocol

from servable_client.exchange import Answer, Request
from servable_client.job import Job


class Transport(Protocol):
    """SageMaker's API, a container, or a fake. Safe between threads, and in forked children."""

    def send(self, request: Request, *, seconds: float) -> Answer:
        """One attempt. Raises `PredictionError`."""

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        """One attempt at an asynchronous inference. Raises `PredictionError`."""

    def close(self) -> None:
        """Ends its connections."""
