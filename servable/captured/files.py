"""One captured request and its answer, as the reader gives them and as they are kept.

SageMaker's data capture has no status, no latency and no Accept header; recordings of
`servable serve --record` have all three. What is not known is None.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
"""

from dataclasses import dataclass

from servable.console.terminal import escaped_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """An answer: a captured one, or one that a replay received."""

    body: bytes
    """Empty if no answer came."""
    content_type: str
    """Content type with parameters, as "text/csv; charset=utf-8"; empty if no answer came."""
    status: int | None = None
    """HTTP status. None: not captured (SageMaker captures none), or no answer came: see `error`."""
    latency_ms: float | None = None
    """Milliseconds from sending the request until the answer was whole. None: not captured."""
    error: str = ""
    """Why no answer came, as "timeout" or "connection refused"; "" if one came, whatever its status."""

    @property
    def failed(self) -> bool:
        """Whether no answer came, or one whose status is not 2xx; none is stated: it has not."""
        return bool(self.error) or not (self.status is None or 200 <= self.status < 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """A captured request, with its captured answer where one was captured."""

    event_id: str
    """SageMaker's eventId, a UUID; in a recording of ours too."""
    time: float
    """Seconds since 1970, UTC: SageMaker's inferenceTime, often whole seconds."""
    content_type: str
    """Content type with parameters; if none was observed SageMaker's default, application/octet-stream."""
    body: bytes
    accept: str | None = None
    """The Accept header; where it was not captured, the content type of the captured answer."""
    custom_attributes: str | None = None
    """The header X-Amzn-SageMaker-Custom-Attributes, as it was sent."""
    variant: str | None = None
    """The variant that answered: from the capture file's path (endpoint/variant/yyyy/mm/dd/hh/)."""
    target_model: str | None = None
    """The model of a multi-model endpoint; known only in recordings of ours."""
    answer: RecordedAnswer | None = None
    """None: only Input was captured."""
    inference_id: str | None = None
    """The caller's own id of the request, from the header X-Amzn-SageMaker-Inference-Id."""
    file: str
    """Path, PLACE included, or s3://bucket/key."""
    line: int
    """Line of that file, from 1."""

    @property
    def where(self) -> str:
        """Name the line for a message, as "AllTraffic/2026/11/21/09/a.jsonl, line 3"."""
        return f"{escaped_name(self.file)}, line {self.line}"
