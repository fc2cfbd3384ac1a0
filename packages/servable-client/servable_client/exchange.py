"""One request, its answer, and the time it may take."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servable_client.errors import BadAnswerError, BadInputError, DeadlineExceededError
from servable_client.options import Selection, check_header
from servable_tensors.trace_context import MOST_INFERENCE_ID, with_trace

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
            raise BadInputError(
                f"inference_id {self.inference_id!r}: at most {MOST_INFERENCE_ID} characters"
            )

    @property
    def custom_attributes(self) -> str:
        """The header of `selection`, with trace context and inference id where they fit."""
        return with_trace(self.selection.custom_attributes, self.traceparent, self.inference_id)


@dataclass(frozen=True, kw_only=True)
class Answer:
    body: bytes
    content_type: str
    variant: str | None = None
    """The production variant that answered."""


class Deadline:
    """A deadline on the clock of time.monotonic()."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds left; negative after the deadline."""
        return self._at - time.monotonic()


def read_body(
    stream: Any, headers: Mapping[str, str], deadline: Deadline, *, framed: bool = True
) -> bytes:
    """Read the whole body in pieces, so that a stated length takes no memory before it arrives.

    `headers`: case-insensitive, or in lower case. `framed`: refuse a body without a stated length,
    since a truncated one would look complete. Raises `BadAnswerError`, `DeadlineExceededError`.
    """
    length = headers.get("content-length", "")
    is_stated = re.fullmatch("[0-9]{1,19}", length) is not None
    try:
        unstated = framed and not is_stated
        if unstated and "chunked" not in headers.get("transfer-encoding", "").lower():
            raise BadAnswerError(
                f"the answer has the Content-Length {length!r:.40} and is not chunked, so a part of it "
                "cannot be told from the whole; the container must send one of the two"
            )
        if is_stated and int(length) <= _PIECE_BYTES:
            small: bytes = stream.read()
            return small
        pieces = []
        while piece := stream.read(_PIECE_BYTES):
            pieces.append(piece)
            if deadline.left() <= 0:
                raise DeadlineExceededError("the answer was still coming when the time was over")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except BaseException:
        stream.close()  # with what is unread in it, the connection is of no use
        raise
