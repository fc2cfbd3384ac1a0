"""Count the records of a transform job's inputs and results, and copy some for a trial."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar, cast

from infra.parameters.batch.job import OF_LINES, parse_media_type
from servable.project.account import split_uri
from servable_tensors.records import TransformError, compute_relative_name, read_records

MB = 1 << 20
# Larger tables aren't read from S3 to count them: it takes minutes, and costs $0.09 a GB outside of AWS.
MOST_COUNTED_BYTES = 10**9
LOCAL_CONTAINER = "local container"
# The longest record that a job can send.
_MOST_RECORD_BYTES = 100 * MB
_SPACE = re.compile(r"\s*")
Request = Mapping[str, Any]
"""The parameters of CreateTransformJob, or its description."""
Counted = TypeVar("Counted", int, int | None)


class BatchError(Exception):
    """The error if a job can't be started or followed. `str()` is a whole sentence with the remedy."""


def count_records(body: IO[bytes], request: Request) -> int:
    """Count the records of an input, split as the CreateTransformJob request splits it.

    Raises `BatchError`.
    """
    took = request["TransformInput"]
    if took.get("CompressionType") == "Gzip":
        body = cast(IO[bytes], gzip.GzipFile(fileobj=body))
    try:
        if took.get("SplitType", "None") == "Line":
            return _count_lines(body)
        return sum(1 for _ in _iterate_records(body, request))
    except (TransformError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BatchError(f"an input doesn't match its settings in the file: {error}") from None


def count_result_records(body: IO[bytes], request: Request) -> int | None:
    """Count the records that a result contains responses for.

    Returns None for a format in which they can't be told apart. Raises ValueError for a result
    that isn't in its format.
    """
    gave, processing = request["TransformOutput"], request.get("DataProcessing", {})
    accept = parse_media_type(gave.get("Accept", ""))
    # A joined or filtered result has a line for each record, whatever the responses were.
    selects = processing.get("JoinSource") == "Input" or processing.get("OutputFilter", "$") != "$"
    if gave.get("AssembleWith") == "Line" and (selects or accept in OF_LINES):
        return _count_lines(body)
    if accept != "application/json":
        return None
    if request.get("BatchStrategy") != "MultiRecord":
        return sum(1 for _ in _iterate_documents(body))
    # A response of the container without code: one object for all lines of a request.
    return add_counts([_count_predictions(document) for document in _iterate_documents(body)])


def add_counts(counts: Sequence[int | None]) -> int | None:
    """Return the sum, or None if one of the counts is None."""
    return None if None in counts else sum(filter(None, counts))


def count_file(
    file: Path, request: Request, count: Callable[[IO[bytes], Request], Counted]
) -> Counted:
    """Return what `count` returns for a file. Raises `BatchError` with the file's name."""
    try:
        with file.open("rb") as body:
            return count(body, request)
    except BatchError as error:
        raise BatchError(f"{file}: {error}") from None


def read_first_records(body: IO[bytes], request: Request, limit: int) -> tuple[bytes, int]:
    """Return an input with the first `limit` records of another, and their number.

    The new input has the same format.
    """
    gzipped = request["TransformInput"].get("CompressionType") == "Gzip"
    if gzipped:
        body = cast(IO[bytes], gzip.GzipFile(fileobj=body))
    first = [*islice(_iterate_records(body, request), limit)]
    end = b"\n" if request["TransformInput"].get("SplitType") == "Line" else b""
    content = b"".join(record + end for record in first)
    return gzip.compress(content, mtime=0) if gzipped else content, len(first)


def _iterate_records(body: IO[bytes], request: Request) -> Iterator[bytes]:
    split = request["TransformInput"].get("SplitType", "None")
    return read_records(cast(BinaryIO, body), split, _MOST_RECORD_BYTES, single=False)


def _count_lines(body: IO[bytes]) -> int:
    count, last = 0, b"\n"
    while chunk := body.read(MB):
        count, last = count + chunk.count(b"\n"), chunk
    return count + (not last.endswith(b"\n"))


def _iterate_documents(body: IO[bytes]) -> Iterator[Any]:
    """Yield JSON documents that follow one another. Raises ValueError for text that isn't JSON."""
    decoder, text = json.JSONDecoder(), ""
    reader = io.TextIOWrapper(cast(BinaryIO, body), encoding="utf-8", errors="replace")
    while chunk := reader.read(MB):
        text, at = text + chunk, 0
        while (start := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            try:
                document, at = decoder.raw_decode(text, start)
            except ValueError:
                break  # its end is in the next chunk
            yield document
        text = text[at:]
    if text.strip():
        raise ValueError(f"a result isn't JSON: {text[:100]!r}")


def _count_predictions(document: Any) -> int | None:
    rows = document.get("predictions") if isinstance(document, dict) else None
    return len(rows) if isinstance(rows, list) else None


@dataclass(frozen=True)
class LocalFile:
    """A file of the table, and the file for its result."""

    input: Path
    result: Path


def list_files(given: Path, output: Path) -> list[LocalFile]:
    """Return the files of a table (a file or a folder), with their results below `output`.

    Raises `BatchError`.
    """
    if not given.is_dir():
        return [LocalFile(given, output / f"{given.name}.out")]
    if output.resolve().is_relative_to(given.resolve()):
        problem = f"{output}: the output is inside the input {given}"
        raise BatchError(f"{problem}; use a different --output")
    names = sorted(path.relative_to(given) for path in given.rglob("*") if path.is_file())
    if not names:
        raise BatchError(f"{given}: the folder contains no files; use a different --input")
    return [LocalFile(given / name, output / f"{name}.out") for name in names]


@dataclass(frozen=True)
class InputObject:
    """An object that a job reads. The key of its result is the output's prefix, `name`, and ".out"."""

    key: str
    name: str
    size: int


class TransformObjects:
    """The objects in S3 that a CreateTransformJob request reads and writes."""

    def __init__(self, s3: Any, request: Request) -> None:
        """List the input. Raises `BatchError` if there is none, and one of `AwsError`."""
        self._s3, self._request = s3, request
        source = request["TransformInput"]["DataSource"]["S3DataSource"]
        if (kind := source["S3DataType"]) != "S3Prefix":
            raise BatchError(f"the job reads a {kind}; --attach supports only S3Prefix")
        self._bucket, prefix = split_uri(source["S3Uri"])
        self.inputs = [
            InputObject(item["Key"], compute_relative_name(prefix, item["Key"]), item["Size"])
            for item in _list_objects(s3, self._bucket, prefix)
            if not item["Key"].endswith("/")
        ]
        if not self.inputs:
            remedy = "upload the table, or use a different --input"
            raise BatchError(f"{source['S3Uri']}: found no objects; {remedy}")
        self.size = sum(item.size for item in self.inputs)
        bucket, prefix = split_uri(request["TransformOutput"]["S3OutputPath"])
        self._output = bucket, f"{prefix.strip('/')}/".lstrip("/")

    def _open(self, bucket: str, key: str) -> IO[bytes]:
        body = self._s3.get_object(Bucket=bucket, Key=key)["Body"]
        return cast(IO[bytes], io.BufferedReader(body, MB))

    def count_input_records(self, item: InputObject) -> int:
        return count_records(self._open(self._bucket, item.key), self._request)

    def list_results(self, since: datetime) -> dict[str, int]:
        """Return the sizes of the results written since `since`, by the name of their input."""
        bucket, prefix = self._output
        names = {f"{prefix}{item.name}.out": item.name for item in self.inputs}
        # S3 tells whole seconds.
        since = since.replace(microsecond=0) - timedelta(seconds=1)
        return {
            names[item["Key"]]: item["Size"]
            for item in _list_objects(self._s3, bucket, prefix)
            if item["Key"] in names and item["LastModified"] >= since
        }

    def count_output_records(self, names: Iterable[str]) -> int | None:
        """Count the records in the results; None if one can't be counted."""
        bucket, prefix = self._output
        bodies = (self._open(bucket, f"{prefix}{name}.out") for name in names)
        return add_counts([count_result_records(body, self._request) for body in bodies])

    def copy_first_records(self, limit: int, uri: str, kms_key: str | None) -> int:
        """Copy the first `limit` records to objects under `uri`; return their number.

        The objects keep their names.
        """
        bucket, prefix = split_uri(uri)
        key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
        copied = 0
        for item in self.inputs:
            with self._open(self._bucket, item.key) as body:
                content, count = read_first_records(body, self._request, limit - copied)
            self._s3.put_object(Bucket=bucket, Key=f"{prefix}{item.name}", Body=content, **key)
            copied += count
            if copied >= limit:
                break
        return copied

    def remove_input(self) -> None:
        """Delete the job's input: the copy of the first records that a trial read."""
        for item in self.inputs:
            self._s3.delete_object(Bucket=self._bucket, Key=item.key)


def _list_objects(s3: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", [])
