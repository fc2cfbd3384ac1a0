"""Read and write lines of SageMaker's data capture.

It reads both directions or Input alone; CSV, JSON, and BASE64; inferenceTime in whole seconds or
finer; custom attributes, inferenceId, and all other eventMetadata; and the keys that Servable's
own recordings add. Manifests of batch transform jobs list files and contain no requests.

SageMaker's data capture has no status, latency, or Accept header; recordings of `servable serve
--record` have all three. Unknown values are None.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
(2026-11-22)
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-batch.html (2026-11-22)
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-pre-and-post-processing.html
(2026-11-22)
https://github.com/aws/sagemaker-python-sdk, legacy/tests/data/monitor/captured-data.jsonl
(2026-11-22)
"""

import base64
import binascii
import datetime
import json
import re
from dataclasses import dataclass
from typing import Any

from servable.console.terminal import escape_name
from servable_tensors.records import build_captured_part, format_utc, parse_media_type


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """A response: either a captured one, or one that a replay received."""

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
    def has_failed(self) -> bool:
        """Return whether no response came, or none of 2xx; an unrecorded status is a success."""
        return bool(self.error) or not (self.status is None or 200 <= self.status < 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """A captured request, with its response if that was captured, too."""

    event_id: str
    """SageMaker's eventId, a UUID; recordings of `servable serve` have one, too."""
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
    """The model of a multi-model endpoint; only recordings of `servable serve` state it."""
    answer: RecordedAnswer | None = None
    """None: only Input was captured."""
    inference_id: str | None = None
    """The caller's own id of the request, from the header X-Amzn-SageMaker-Inference-Id."""
    file: str
    """Path, PLACE included, or s3://bucket/key."""
    line: int
    """Line of that file, from 1."""

    @property
    def location(self) -> str:
        """Return the line's location, such as "AllTraffic/2026/11/21/09/a.jsonl, line 3"."""
        return f"{escape_name(self.file)}, line {self.line}"


OCTETS = "application/octet-stream"
# Headers are visible ASCII, 1,024 characters at most: a line break would begin another header or request.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
_HEADER = re.compile(r"[\x20-\x7e]{0,1024}")
# The last time that datetime represents in every zone; before 1970 nothing was captured.
_LATEST = datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC).timestamp()
_MOST_LATENCY_MS = 86_400_000
_FOLDERS = re.compile(r"(?:([^/]+)/)?([^/]+)/\d{4}/\d\d/\d\d/\d\d/[^/]+$")


class CaptureLineError(Exception):
    """The error for a line without a request that can be replayed. `str()` is the reason."""


class AnswerAloneError(CaptureLineError):
    """The error for a line with a response but no request: only Output was captured."""


def read_line(line: bytes, *, file: str, number: int) -> CapturedRequest:
    """Return the request of a line. The path of `file` has the variant. Raises CaptureLineError."""
    return parse_request(parse_record(line), file=file, number=number)


def parse_record(line: bytes) -> Any:
    """Return the JSON of a line. Raises CaptureLineError."""
    try:
        return json.loads(line, object_pairs_hook=_build_object)
    except (ValueError, RecursionError):
        cut = not line.endswith(b"\n")
        raise CaptureLineError("it is truncated" if cut else "it is not JSON") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise CaptureLineError("an object in it has the same key twice")
    return members


def parse_request(record: Any, *, file: str, number: int) -> CapturedRequest:
    """Return the request of a record. Raises CaptureLineError."""
    try:
        if isinstance(record, list) and record and "prefix" in record[0]:
            problem = "it is a manifest of a batch transform job and contains no requests"
            raise CaptureLineError(problem)
        data, metadata = record["captureData"], record["eventMetadata"]
        if "endpointInput" not in data and "endpointOutput" in data:
            raise AnswerAloneError("it has a response but no request: capture Input too")
        content_type, body = _decode_part(data["endpointInput"])
        output = data.get("endpointOutput")
        answer = None
        if output is not None:
            answered, returned = _decode_part(output)
            status = _read_number(metadata, "statusCode", 599)
            latency_ms = _read_number(metadata, "latencyMs", _MOST_LATENCY_MS)
            answer = RecordedAnswer(
                body=returned, content_type=answered, status=status, latency_ms=latency_ms
            )
        if isinstance(attributes := metadata.get("customAttributes"), list):
            metadata = {**metadata, "customAttributes": ",".join(attributes)}
        accept = _read_header("accept", metadata)
        if "accept" not in metadata and answer is not None:
            # What the caller may have requested: the response's type, unless it is an error page.
            accept = parse_media_type(answer.content_type)
            accept = None if accept in (OCTETS, "text/html") else accept
        event_id = _read_header("eventId", metadata)
        inference_id = _read_header("inferenceId", metadata) or None
        return CapturedRequest(
            event_id=event_id or inference_id or build_line_id(file, number),
            time=parse_seconds(metadata["inferenceTime"]),
            content_type=content_type,
            accept=accept,
            custom_attributes=_read_header("customAttributes", metadata) or None,
            variant=find_file_variant(file) or _read_header("variant", metadata) or None,
            target_model=_read_header("targetModel", metadata) or None,
            body=body,
            answer=answer,
            inference_id=inference_id,
            file=file,
            line=number,
        )
    except (KeyError, TypeError, AttributeError):
        raise CaptureLineError("it isn't a data capture record") from None


def _decode_part(part: Any) -> tuple[str, bytes]:
    """Return (content type, body) of endpointInput or endpointOutput."""
    data, encoding = part["data"], part.get("encoding", "BASE64")
    content_type = _read_header("observedContentType", part) or OCTETS
    if encoding == "BASE64":
        try:
            return content_type, base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise CaptureLineError("its data is not BASE64") from None
    if encoding not in ("CSV", "JSON"):
        raise CaptureLineError("its encoding is not CSV, JSON, or BASE64")
    try:
        return content_type, data.encode()
    except UnicodeEncodeError:
        raise CaptureLineError("its data is not text") from None


def _read_header(name: str, values: Any) -> str | None:
    """Return a header or an ID, or None if it wasn't captured. Raises CaptureLineError, TypeError."""
    text: str | None = values.get(name)
    if text is not None and not _HEADER.fullmatch(text):
        raise CaptureLineError(f"its {name} isn't visible ASCII of at most 1,024 characters")
    return text


def _read_number(metadata: Any, name: str, most: int) -> Any:
    """Return a number of eventMetadata, or None if it wasn't captured. Raises CaptureLineError."""
    value = metadata.get(name)
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= most):
        raise CaptureLineError(f"its {name} isn't a number from 0 to {most:,}")
    return value


def build_line_id(file: str, number: int) -> str:
    """Return an identifier for a line whose record has no ID."""
    return f"{escape_name(file)}:{number}"


def parse_seconds(text: str) -> float:
    """Return a time as seconds since 1970, in UTC without a zone. Raises CaptureLineError."""
    try:
        # fromisoformat takes any character before the hour, and a NUL at the end.
        if not _HEADER.fullmatch(text):
            raise ValueError(text)
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        seconds = moment.timestamp()
    except (ValueError, OverflowError):
        raise CaptureLineError("its inferenceTime isn't a time") from None
    if not 0 <= seconds < _LATEST:
        raise CaptureLineError("its inferenceTime isn't between the years 1970 and 9998")
    return seconds


def find_file_variant(file: str) -> str | None:
    """Return the variant in a path ENDPOINT/VARIANT/yyyy/mm/dd/hh/NAME; None for another path."""
    folders = _FOLDERS.search(file)
    return folders[2] if folders else None


def format_line(request: CapturedRequest, more: dict[str, Any] | None = None) -> bytes:
    """Return a line that `read_line` reads as this request. `more`: further keys of the record."""
    data = {"endpointInput": build_captured_part("INPUT", request.content_type, request.body)}
    has_id = request.event_id != build_line_id(request.file, request.line)
    attributes = request.custom_attributes
    known = {
        "inferenceTime": format_utc(request.time),
        "eventId": request.event_id if has_id else None,
        "inferenceId": request.inference_id,
        "variant": request.variant,
        "customAttributes": [attributes] if attributes else None,
        "targetModel": request.target_model,
    }
    metadata: dict[str, Any] = {name: value for name, value in known.items() if value}
    metadata["accept"] = request.accept
    if (answer := request.answer) is not None:
        data["endpointOutput"] = build_captured_part("OUTPUT", answer.content_type, answer.body)
        metadata |= {"statusCode": answer.status, "latencyMs": answer.latency_ms}
    record = {"captureData": data, "eventMetadata": metadata, "eventVersion": "0"} | (more or {})
    return json.dumps(record).encode()
