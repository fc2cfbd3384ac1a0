"""Records of data capture, and of a transform job's input: split, put into requests, filtered, and joined.

Nothing here needs a package outside of Python: commands without any extra read recordings.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)

Sources: API_TransformInput.html, API_DataProcessing.html and batch-transform-data-processing.md of
SageMaker's guide (2026-11-27). AWS does not say how long a request is counted, nor how a filter's list
becomes a row; both are ours.
"""

import base64
import csv
import datetime
import io
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

# The text encodings. SageMaker takes them for the types that CaptureContentTypeHeader names, BASE64 else:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CaptureContentTypeHeader.html (2026-11-22)
_TEXT = {"application/json": "JSON", "application/jsonlines": "JSON", "text/csv": "CSV"}


def parse_media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def build_captured_part(mode: str, content_type: str, body: bytes) -> dict[str, str]:
    """Return endpointInput or endpointOutput, by `mode`. A body that isn't UTF-8 becomes BASE64."""
    encoding = _TEXT.get(parse_media_type(content_type), "BASE64")
    try:
        data = body.decode() if encoding != "BASE64" else ""
    except UnicodeDecodeError:
        encoding = "BASE64"
    if encoding == "BASE64":
        data = base64.b64encode(body).decode()
    return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}


def format_utc(seconds: float) -> str:
    """Return the inferenceTime for seconds since 1970, with microseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_TOO_LONG = "Too much data for max payload size"
_OF_ALGORITHM = "output from the algorithm"
_RECORD_IO = 0xCED7230A  # dmlc-core's recordio.h
_STEP = re.compile(r"\.?\[([^\]]+)\]|\.([\w-]+|\*)")
_PART = re.compile(r"\s*(?:'([^']*)'|(\*)|(-?\d+)|(-?\d*):(-?\d*))\s*(?:,|$)")
_QUOTED = re.compile(r'(?:^|(?<=,))"(?:[^"]|"")*"(?=,|$)')


class TransformError(Exception):
    """The error of a file that cannot be processed. `str()` is its text in the job's log.

    `record`: the number, from 1, of the record that cannot be read.
    """

    record: int | None = None


def compute_relative_name(prefix: str, key: str) -> str:
    """Return a result's name: the input's key below the folder that `prefix` is, or is in."""
    is_folder = key.startswith(f"{prefix.rstrip('/')}/")
    return key.removeprefix(prefix if is_folder else prefix.rpartition("/")[0]).lstrip("/")


def read_records(body: BinaryIO, split: str, limit: int, *, single: bool) -> Iterator[bytes]:
    """Yield the records of a file. Raises `TransformError` for one of more than `limit` bytes.

    Frames of TFRecord and RecordIO are kept, unless each record is its own request (`single`).
    """
    if split == "None":
        yield _check_size(body.read(limit + 1), limit)
    elif split == "Line":
        while line := body.readline(limit + 2):
            yield _check_size(line.removesuffix(b"\n"), limit)
    else:
        read = _read_tf_records if split == "TFRecord" else _read_record_io
        frames = read(body, limit)
        for frame, start, end in frames:
            yield frame[start:end] if single else frame


def _check_size(record: bytes, limit: int) -> bytes:
    if len(record) > limit:
        raise TransformError(_TOO_LONG)
    return record


def _read_record(body: BinaryIO, length: int, more: int, limit: int) -> bytes:
    """Return a record of `length` bytes, with the `more` bytes of its frame."""
    if length > limit:
        raise TransformError(_TOO_LONG)
    part = body.read(length + more)
    if len(part) < length + more:
        raise TransformError("The file ends within a record")
    return part


def _read_tf_records(body: BinaryIO, limit: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield frames, each with the positions where its record begins and ends."""
    while head := body.read(12):
        (length,) = struct.unpack("<Q", head[:8].ljust(8, b"\xff"))
        yield head + _read_record(body, length, 4, limit), 12, 12 + length


def _read_record_io(body: BinaryIO, limit: int) -> Iterator[tuple[bytes, int, int]]:
    while head := body.read(8):
        magic, word = struct.unpack("<II", head.ljust(8, b"\0"))
        if magic != _RECORD_IO or word >> 29:  # the upper bits: a record in several parts
            raise TransformError("The file is not RecordIO of whole records")
        yield head + _read_record(body, word, -word % 4, limit), 8, 8 + word


@dataclass
class Batch:
    """A request: its body, the lines of the file from which it was made, and their number."""

    body: bytearray
    source: bytearray
    count: int = 0


class JsonPath:
    """A path in the part of JSONPath that SageMaker supports. Raises ValueError for any other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps: list[list[Any]] = []
        at = 1
        while at < len(text) or text[:1] != "$":
            step = _STEP.match(text, at) if text.startswith("$") else None
            if step is None:
                raise ValueError(
                    f"{text}: not a JSONPath that SageMaker supports; allowed: $, .name, *, ['a','b'], "
                    "[0,2] and [1:3]"
                )
            self._steps.append([step[2]] if step[2] else self._parse_parts(step[1]))
            at = step.end()

    def _parse_parts(self, text: str) -> list[Any]:
        """Return the names, indexes and slices between brackets."""
        parts: list[Any] = []
        at = 0
        while at < len(text):
            part = _PART.match(text, at)
            if part is None:
                raise ValueError(f"{self.text}: [{text}] isn't supported in a JSONPath")
            name, every, index, start, end = part.groups()
            if name is not None or every:
                parts.append(name if name is not None else every)
            else:
                parts.append(int(index) if index else slice(int(start or 0), int(end or -1)))
            at = part.end()
        return parts

    def select(self, value: Any) -> Any:
        """Return the value at the path, a list or object for several. Raises `TransformError`."""
        try:
            return self._select(value, self._steps)
        except (LookupError, TypeError):
            raise TransformError(f"{self.text} selects nothing in a record") from None

    def _select(self, value: Any, steps: list[list[Any]]) -> Any:
        if not steps:
            return value
        parts, *rest = steps
        if parts == ["*"]:
            every = value.values() if isinstance(value, dict) else value
            return [self._select(item, rest) for item in every]
        if len(parts) == 1 and not isinstance(parts[0], slice):
            return self._select(value[parts[0]], rest)
        if isinstance(parts[0], str):
            return {part: self._select(value[part], rest) for part in parts}
        chosen: list[Any] = []
        for part in parts:
            # "The colon tells SageMaker to include all of the elements between two values, inclusive."
            first, last = (part.start, part.stop) if isinstance(part, slice) else (part, part)
            if isinstance(part, slice):
                first, last = (at + len(value) if at < 0 else at for at in (first, last))
            chosen += [self._select(value[at], rest) for at in range(first, last + 1)]
        return chosen


class DataProcessing:
    """A CreateTransformJob request's filters and join. Raises ValueError for unsupported ones."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        given = request.get("DataProcessing", {})
        self._input = JsonPath(given.get("InputFilter", "$"))
        self._output = JsonPath(given.get("OutputFilter", "$"))
        self.joins = given.get("JoinSource") == "Input"
        self.selects = self.joins or self._output.text != "$"
        took, gave = request["TransformInput"], request["TransformOutput"]
        self._type = parse_media_type(took.get("ContentType", ""))
        self._csv = self._type == "text/csv"
        if not self.selects and self._input.text == "$":
            return
        if self._type not in ("text/csv", "application/json", "application/jsonlines"):
            problem = f"DataProcessing needs CSV or JSON, but ContentType is {self._type!r}."
            raise ValueError(problem)
        if parse_media_type(gave.get("Accept", "")) != self._type:
            raise ValueError("With DataProcessing, Accept must equal ContentType.")
        lines = (took.get("SplitType"), gave.get("AssembleWith"))
        if self._csv and lines != ("Line", "Line"):
            raise ValueError("CSV with DataProcessing needs SplitType and AssembleWith Line.")

    def build_batches(
        self, found: Iterator[bytes], limit: int, *, single: bool, end: bytes
    ) -> Iterator[Batch]:
        """Yield requests of at most `limit` bytes, records joined by `end`; `single`: one record each."""
        batch = Batch(bytearray(), bytearray())
        for number, record in enumerate(found, 1):
            try:
                sent = record if self._input.text == "$" else self._filter_record(record)
            except TransformError as error:
                error.record = number
                raise
            if batch.count and (single or len(batch.body) + len(end) + len(sent) > limit):
                yield batch
                batch = Batch(bytearray(), bytearray())
            if batch.count:
                batch.body += end
                batch.source += end
            batch.body += sent
            batch.source += record if self.selects else b""
            batch.count += 1
        if batch.count:
            yield batch

    def _filter_record(self, record: bytes) -> bytes:
        if self._csv:
            return _format_csv(self._input.select(_parse_csv(record, "input")))
        return _format_json(self._input.select(_parse_json(record, "input")))

    def build_results(self, batch: Batch, answer: bytes) -> Iterator[bytes]:
        """Yield the output's records for the response to one request, without their line ends."""
        if not self.selects:
            yield answer
            return
        whole = self._type == "application/json" and batch.count == 1
        sources, answers = (
            [bytes(body)] if whole else bytes(body).removesuffix(b"\n").split(b"\n")
            for body in (batch.source, answer)
        )
        if len(sources) != len(answers):
            if self._csv:
                for output in answers:  # JSON over several lines isn't CSV, and is reported as such
                    _parse_csv(output, _OF_ALGORITHM)
            problem = f"{len(answers)} output records for {len(sources)} inputs"
            raise TransformError(f"{problem}: cannot join or filter them")
        for source, output in zip(sources, answers, strict=True):
            yield self._build_result(source, output)

    def _build_result(self, source: bytes, output: bytes) -> bytes:
        if self._csv:
            before = _parse_csv(source, "input") if self.joins else []
            return _format_csv(self._output.select(before + _parse_csv(output, _OF_ALGORITHM)))
        value = _parse_json(output, _OF_ALGORITHM)
        if self.joins:
            given = _parse_json(source, "input")
            given = given if isinstance(given, dict) else {"SageMakerInput": given}
            value = given | {"SageMakerOutput": value}
        return _format_json(self._output.select(value))


def _parse_csv(line: bytes, whose: str) -> list[str]:
    text = line.decode("utf-8", "replace").rstrip("\r")
    if '"' in _QUOTED.sub("", text):
        raise TransformError(f'Failed to parse {whose} as CSV: bare " in non quoted field')
    try:
        return next(csv.reader([text]), [])
    except csv.Error as error:
        raise TransformError(f"Failed to parse {whose} as CSV: {error}") from None


def _format_csv(value: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(value if isinstance(value, list) else [value])
    return text.getvalue().encode()


def _parse_json(record: bytes, whose: str) -> Any:
    try:
        return json.loads(record)
    except ValueError as error:
        raise TransformError(f"Failed to parse {whose} as JSON: {error}") from None


def _format_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
