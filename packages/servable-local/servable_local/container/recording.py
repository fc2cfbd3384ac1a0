"""`servable serve --record FILE`: requests and responses in SageMaker's data capture format.

Four keys of eventMetadata are ours, because SageMaker captures none of them: accept, statusCode,
latencyMs, and targetModel. Readers of the format ignore unknown keys. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
(2026-11-22)
"""

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from servable_local.container.http_messages import HttpRequest, HttpResponse
from servable_local.protection import open_private
from servable_tensors.records import build_captured_part, format_utc

AnswerFunction = Callable[[HttpRequest], Awaitable[HttpResponse]]
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
# The path of a prediction; in multi-model mode it names the model.
_PREDICTION = re.compile(r"/invocations(?:/|$)|/models/(?P<model>[^/]+)/invoke$")


class Recording(NamedTuple):
    """A file of mode 0600, and the size at which the recording ends."""

    file: str
    most_bytes: int


class CaptureRecorder:
    """A recorder to a file of mode 0600, up to `most_bytes`. A failed write only ends it."""

    def __init__(self, recording: Recording, answer: AnswerFunction) -> None:
        """Open the file. Raises OSError."""
        self._path, self._most_bytes = Path(recording.file), recording.most_bytes
        self._answer = answer
        self._file: Any = open(self._path, "ab", buffering=0, opener=open_private)  # noqa: SIM115
        self._bytes = os.fstat(self._file.fileno()).st_size

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request, and record both."""
        began, clock = time.time(), time.perf_counter()
        response = await self._answer(request)
        self._record(request, response, began, time.perf_counter() - clock)
        return response

    def _record(
        self, request: HttpRequest, answer: HttpResponse, began: float, seconds: float
    ) -> None:
        """Append a prediction. `began`: seconds since 1970; `seconds`: until the response."""
        prediction = _PREDICTION.match(request.path)
        if self._file is None or prediction is None or request.method != "POST":
            return
        content_type = request.headers.find_value("Content-Type") or "application/octet-stream"
        metadata: dict[str, Any] = {
            "eventId": str(uuid.uuid4()),
            "inferenceTime": format_utc(began),
            "accept": request.headers.find_value("Accept"),
            "statusCode": answer.status,
            "latencyMs": round(1000 * seconds, 3),
        }
        if attributes := request.headers.find_value(ATTRIBUTES):
            metadata["customAttributes"] = [attributes]
        if model := prediction["model"]:
            metadata["targetModel"] = model
        record = {
            "captureData": {
                "endpointInput": build_captured_part("INPUT", content_type, request.body),
                "endpointOutput": build_captured_part("OUTPUT", answer.content_type, answer.body),
            },
            "eventMetadata": metadata,
            "eventVersion": "0",
        }
        line = json.dumps(record).encode() + b"\n"
        if self._bytes + len(line) > self._most_bytes:
            self._end_recording(f"the file reached --record-megabytes {self._most_bytes / 1e6:g}")
            return
        try:
            self._file.write(line)
        except OSError as error:
            self._end_recording(str(error.strerror))
            return
        self._bytes += len(line)

    def _end_recording(self, why: str) -> None:
        self._file.close()
        self._file = None
        print(f"{self._path}: recording stopped: {why}", file=sys.stderr, flush=True)
