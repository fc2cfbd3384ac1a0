"""The transport of requests: SageMaker's API, a container, or a fake."""

from typing import Protocol

from servable_client.exchange import Answer, Request
from servable_client.job import Job


class Transport(Protocol):
    """Interface of an `Endpoint`'s transport. Thread-safe, also in forked children."""

    def send(self, request: Request, *, seconds: float) -> Answer:
        """Send a request once. Raises `PredictionError`."""

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        """Submit an asynchronous inference once. Raises `PredictionError`."""

    def close(self) -> None:
        """Close all connections."""
