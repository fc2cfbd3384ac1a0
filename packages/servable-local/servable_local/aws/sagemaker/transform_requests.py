"""The requests of a transform job to one container: built from a file, and retried as allowed.

Which requests AWS retries isn't documented: here those without a response and those with 5xx.
"""

import gzip
import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

from servable_local.aws.sagemaker.container import Container
from servable_tensors.records import Batch, DataProcessing, read_records

# A container that never answers /ping ends a job after 30 minutes, without a setting:
# https://github.com/aws/amazon-sagemaker-examples/issues/815 (2019-08-13)
READY_SECONDS = 1800.0
MB = 1 << 20
_LOOK_SECONDS = 0.1
_SHOWN_BYTES = 1024


class StoppedError(Exception):
    """The job was stopped, or the local AWS is ending."""


class AnswerError(Exception):
    """A request whose last response wasn't successful; 0 stands for no response."""

    def __init__(self, status: int, answer: bytes) -> None:
        super().__init__(status)
        self.kind = "ClientError" if 400 <= status < 500 else "AlgorithmError"
        if not status:
            self.lines = ["Unable to get response from algorithm"]
            return
        # As https://github.com/aws/amazon-sagemaker-examples/issues/1620 (4xx) and
        # https://github.com/aws/sagemaker-tensorflow-serving-container/issues/93 (5xx) quote them.
        first = f"{self.kind}: {status}"
        if self.kind == "AlgorithmError":
            first = f"Bad HTTP status received from algorithm: {status}"
        text = answer[:_SHOWN_BYTES].decode("utf-8", "replace").splitlines()
        self.lines = [first, "", "Message:", *text]


@dataclass(frozen=True)
class Limits:
    """Limits of the request, otherwise of the container's execution parameters or the service."""

    concurrent: int
    payload_mb: int
    single: bool


def read_limits(request: Mapping[str, Any], container: Container) -> Limits:
    """Return the limits of a CreateTransformJob request's requests to this container."""
    try:
        status, _, answer = container.get("/execution-parameters", timeout_seconds=10)
        own = json.loads(answer) if status == 200 else {}
    except (OSError, http.client.HTTPException, ValueError):
        own = {}
    strategy = request.get("BatchStrategy") or own.get("BatchStrategy", "")
    return Limits(
        int(request.get("MaxConcurrentTransforms") or own.get("MaxConcurrentTransforms", 1)),
        int(request.get("MaxPayloadInMB") or own.get("MaxPayloadInMB", 6)),
        strategy.replace("_", "").lower() == "singlerecord",
    )


def transform(
    request: Mapping[str, Any],
    limits: Limits,
    body: BinaryIO,
    out: IO[bytes],
    pool: Executor,
    send: Callable[[bytes, int], bytes],
) -> None:
    """Write the responses to a file's records in order; only open requests are in memory.

    `send` takes a request's body and the number of its first record, from 1. Raises
    `TransformError`, and whatever `send` raises.
    """
    took, processing, record = request["TransformInput"], DataProcessing(request), 1
    split, limit = took.get("SplitType", "None"), limits.payload_mb * MB
    end = b"\n" if request["TransformOutput"].get("AssembleWith") == "Line" else b""
    waiting: deque[tuple[Batch, Future[bytes]]] = deque()

    def write_next() -> None:
        batch, future = waiting.popleft()
        for result in processing.build_results(batch, future.result()):
            out.write(result if end and result.endswith(end) else result + end)

    if took.get("CompressionType") == "Gzip":
        body = cast(BinaryIO, gzip.GzipFile(fileobj=body))
    found = read_records(body, split, limit, single=limits.single)
    between = b"\n" if split == "Line" else b""
    try:
        for batch in processing.build_batches(found, limit, single=limits.single, end=between):
            waiting.append((batch, pool.submit(send, bytes(batch.body), record)))
            record += batch.count
            batch.body.clear()  # frees memory: `submit` has a copy
            if len(waiting) > limits.concurrent:
                write_next()
        while waiting:
            write_next()
    finally:
        for _, future in waiting:
            future.cancel()


class RequestSender:
    """A sender for a CreateTransformJob `request`; nothing is sent once `stopping` is set."""

    def __init__(
        self, container: Container, request: Mapping[str, Any], stopping: threading.Event
    ) -> None:
        client = request.get("ModelClientConfig", {})
        given = (
            ("Content-Type", request["TransformInput"].get("ContentType")),
            ("Accept", request["TransformOutput"].get("Accept")),
        )
        self._headers = {name: value for name, value in given if value is not None}
        self._timeout_seconds = client.get("InvocationsTimeoutInSeconds", 600)
        self._attempts = 1 + client.get("InvocationsMaxRetries", 3)
        self._container, self._stopping = container, stopping

    def send(self, body: bytes) -> bytes:
        """Send one request, and return its response. Raises `AnswerError`, `StoppedError`."""
        for _ in range(self._attempts):
            if self._stopping.is_set():
                raise StoppedError
            try:
                status, _, answer = self._container.post(
                    "/invocations", body, self._headers, timeout_seconds=self._timeout_seconds
                )
            except (OSError, http.client.HTTPException):
                status, answer = 0, b""
                self._wait_until_serving()
            if 200 <= status < 300:
                return answer
            if 400 <= status < 500:
                break
        raise AnswerError(status, answer)

    def _wait_until_serving(self) -> None:
        """Wait until a container that ended, or was only too slow, serves again."""
        until = time.monotonic() + READY_SECONDS
        while not self._stopping.wait(_LOOK_SECONDS) and time.monotonic() < until:
            self._container.restart_if_ended()
            try:
                if self._container.get("/ping", timeout_seconds=2)[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
