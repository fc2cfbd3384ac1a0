"""Lines of SageMaker's data capture, read and written.

Read: both directions or Input alone; CSV, JSON and BASE64; inferenceTime in whole seconds or finer; custom
attributes, inferenceId and whatever else eventMetadata has; the keys that recordings of ours add.
Manifests of batch transform jobs name files and hold no requests.
Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-batch.html (2026-11-22)
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-pre-and-post-processing.html (2026-11-22)
https://github.com/aws/sagemaker-python-sdk, legacy/tests/data/monitor/captured-data.jsonl (2026-11-22)
"""

import base64
import binascii
import datetime
import json
import re
from typing import Any

from servable.replay.captured import CapturedRequest, RecordedAnswer
from servable_local.container.capture_record import captured_part, media_type, utc

OCTETS = "application/octet-stream"
# Headers are visible ASCII: a line break would begin another header, or another request.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
_NO_HEADER = re.compile(r"[^\x20-\x7e]")
_FOLDERS = re.compile(r"(?:([^/]+)/)?([^/]+)/\d{4}/\d\d/\d\d/\d\d/[^/]+$")
_PAIR = re.compile(r"\s*([^=,;\s]+)=([^,;]*)")


class CaptureLineError(Exception):
    """A line holds no request that can be replayed. `str()` says why."""


class AnswerAloneError(CaptureLineError):
    """A line has an answer and no request: only Output was captured."""


def read_line(line: bytes, *, file: str, number: int) -> CapturedRequest:
    """Return the request of a line. `file`: its path, which names the variant. Raises CaptureLineError."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        cut = not line.endswith(b"\n")
        raise CaptureLineError("it is cut off" if cut else "it is not JSON") from None
    return request_of(record, file=file, number=number)


def request_of(record: Any, *, file: str, number: int) -> CapturedRequest:
    """Return the request of a record. Raises CaptureLineError."""
    try:
        return _request(record, file, number)
    except (KeyError, TypeError, AttributeError):
        raise CaptureLineError("it is not a record of data capture") from None


def _request(record: Any, file: str, number: int) -> CapturedRequest:
    if isinstance(record, list) and record and "prefix" in record[0]:
        raise CaptureLineError("it is a manifest of a batch transform job, which holds no requests")
    data, metadata = record["captureData"], record["eventMetadata"]
    if "endpointInput" not in data and "endpointOutput" in data:
        raise AnswerAloneError("it has an answer and no request: capture Input too")
    content_type, body = _part(data["endpointInput"])
    answer = None
    if data.get("endpointOutput") is not None:
        answer = _answer(data["endpointOutput"], metadata)
    attributes = metadata.get("customAttributes")
    custom = ",".join(attributes) if isinstance(attributes, list) else attributes
    accept = metadata.get("accept")
    if "accept" not in metadata and answer is not None:
        accept = _accept(answer.content_type)
    model = metadata.get("targetModel")
    for text in (content_type, custom, accept, model):
        if text is not None and _NO_HEADER.search(text):
            raise CaptureLineError("a header has characters that are not visible ASCII")
    event_id = metadata.get("eventId") or metadata.get("inferenceId") or f"{file}:{number}"
    return CapturedRequest(
        event_id=str(event_id),
        time=seconds_of(metadata["inferenceTime"]),
        content_type=content_type,
        accept=accept,
        custom_attributes=custom or None,
        variant=variant_of(file) or metadata.get("variant"),
        target_model=model,
        body=body,
        answer=answer,
        attributes=_attributes(metadata, custom, file),
        file=file,
        line=number,
    )


def _part(part: Any) -> tuple[str, bytes]:
    """Return (content type, body) of endpointInput or endpointOutput."""
    data, encoding = part["data"], part.get("encoding", "BASE64")
    content_type = part.get("observedContentType") or OCTETS
    if not isinstance(content_type, str):
        raise TypeError
    if encoding == "BASE64":
        try:
            return content_type, base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise CaptureLineError("its data is not BASE64") from None
    if encoding not in ("CSV", "JSON"):
        raise CaptureLineError(f"its encoding is {encoding!r}; known are CSV, JSON and BASE64")
    try:
        return content_type, data.encode()
    except UnicodeEncodeError:
        raise CaptureLineError("its data is no text") from None


def _answer(part: Any, metadata: Any) -> RecordedAnswer:
    content_type, body = _part(part)
    status, latency_ms = metadata.get("statusCode"), metadata.get("latencyMs")
    return RecordedAnswer(
        body=body,
        content_type=content_type,
        status=status if isinstance(status, int) else None,
        latency_ms=float(latency_ms) if isinstance(latency_ms, int | float) else None,
    )


def _accept(answered: str) -> str | None:
    """Return what the caller may have asked for: the type of the answer, unless it is an error's page."""
    accept = media_type(answered)
    return None if accept in (OCTETS, "text/html") else accept


def seconds_of(text: str) -> float:
    """Return seconds since 1970 of a moment; UTC unless it names another zone. Raises CaptureLineError."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp()
    except (ValueError, OverflowError):
        raise CaptureLineError("its inferenceTime is not a time") from None


def variant_of(file: str) -> str | None:
    """Return the variant of a path ENDPOINT/VARIANT/yyyy/mm/dd/hh/NAME; None if it has no such folders."""
    folders = _FOLDERS.search(file)
    return folders[2] if folders else None


def _attributes(metadata: dict[str, Any], custom: str | None, file: str) -> dict[str, str]:
    scalars = {
        name: str(value) for name, value in metadata.items() if isinstance(value, str | int | float)
    }
    pairs = {match[1]: match[2].strip() for match in _PAIR.finditer(custom or "")}
    variant = variant_of(file)
    return ({"variant": variant} if variant else {}) | scalars | pairs


def write_line(request: CapturedRequest, more: dict[str, Any] | None = None) -> bytes:
    """Return a line, without its end, that `read_line` reads as this request. `more`: further keys."""
    data = {"endpointInput": captured_part("INPUT", request.content_type, request.body)}
    metadata: dict[str, Any] = {"eventId": request.event_id, "inferenceTime": utc(request.time)}
    metadata |= {
        name: value
        for name, value in request.attributes.items()
        if name in ("inferenceId", "invocationSource")
    }
    metadata["accept"] = request.accept
    if request.variant:
        metadata["variant"] = request.variant
    if request.custom_attributes:
        metadata["customAttributes"] = [request.custom_attributes]
    if request.target_model:
        metadata["targetModel"] = request.target_model
    if (answer := request.answer) is not None:
        data["endpointOutput"] = captured_part("OUTPUT", answer.content_type, answer.body)
        metadata |= {"statusCode": answer.status, "latencyMs": answer.latency_ms}
    record = {"captureData": data, "eventMetadata": metadata, "eventVersion": "0"} | (more or {})
    return json.dumps(record).encode()
