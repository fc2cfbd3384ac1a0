"""The records of a transform job: counted in files and results, and the first of them copied for a trial."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from infra.parameters.batch.job import OF_LINES, media_type
from servable_tensors.records import TransformError, name_below, records

MB = 1 << 20
# More is not read from S3 to be counted: it takes minutes, and out of AWS $0.09 a GB.
MOST_COUNTED_BYTES = 10**9
LOCAL_CONTAINER = "local container"
# The longest record that a job can send.
_MOST_RECORD_BYTES = 100 * MB
_SPACE = re.compile(r"\s*")


class BatchError(Exception):
    """A job cannot be started or followed. `str()` is a whole sentence with the remedy."""


def count_records(body: IO[bytes], request: Mapping[str, Any]) -> int:
    """Count the records of an input, as the CreateTransformJob request splits it. Raises `BatchError`."""
    took = request["TransformInput"]
    if took.get("CompressionType") == "Gzip":
        body = cast(IO[bytes], gzip.GzipFile(fileobj=body))
    try:
        if took.get("SplitType", "None") == "Line":
            return _lines(body)
        return sum(1 for _ in _records(body, request))
    except (TransformError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BatchError(f"an input is not what the file says of it: {error}") from None


def count_answers(body: IO[bytes], request: Mapping[str, Any]) -> int | None:
    """Count the records that a result answers; None for a form in which they cannot be told apart.

    Raises ValueError for a result that is not of its form.
    """
    gave, processing = request["TransformOutput"], request.get("DataProcessing", {})
    accept = media_type(gave.get("Accept", ""))
    # What is joined or filtered has a line for each record, whatever the answers were.
    selects = processing.get("JoinSource") == "Input" or processing.get("OutputFilter", "$") != "$"
    if gave.get("AssembleWith") == "Line" and (selects or accept in OF_LINES):
        return _lines(body)
    if accept != "application/json":
        return None
    if request.get("BatchStrategy") != "MultiRecord":
        return sum(1 for _ in _documents(body))
    # An answer of the container without code: one object for all lines of a request.
    counts = [_rows(document) for document in _documents(body)]
    return None if None in counts else sum(filter(None, counts))


def first_records(body: IO[bytes], request: Mapping[str, Any], limit: int) -> tuple[bytes, int]:
    """Return an input of the first `limit` records of another, in the same form, and how many they are."""
    gzipped = request["TransformInput"].get("CompressionType") == "Gzip"
    if gzipped:
        body = cast(IO[bytes], gzip.GzipFile(fileobj=body))
    first = [*islice(_records(body, request), limit)]
    end = b"\n" if request["TransformInput"].get("SplitType") == "Line" else b""
    content = b"".join(record + end for record in first)
    return gzip.compress(content, mtime=0) if gzipped else content, len(first)


def _records(body: IO[bytes], request: Mapping[str, Any]) -> Iterator[bytes]:
    split = request["TransformInput"].get("SplitType", "None")
    return records(cast(BinaryIO, body), split, _MOST_RECORD_BYTES, single=False)


def _lines(body: IO[bytes]) -> int:
    count, last = 0, b"\n"
    while chunk := body.read(MB):
        count, last = count + chunk.count(b"\n"), chunk
    return count + (not last.endswith(b"\n"))


def _documents(body: IO[bytes]) -> Iterator[Any]:
    """JSON texts one after the other. Raises ValueError for what is none."""
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
        raise ValueError(f"a result is no JSON: {text[:100]!r}")


def _rows(document: Any) -> int | None:
    rows = document.get("predictions") if isinstance(document, dict) else None
    return len(rows) if isinstance(rows, list) else None


@dataclass(frozen=True)
class LocalFile:
    """A file of the table, and the file of its result."""

    input: Path
    result: Path


def files_of(given: Path, output: Path) -> list[LocalFile]:
    """The files of a table, a file or a folder, and their results below `output`. Raises `BatchError`."""
    if not given.is_dir():
        return [LocalFile(given, output / f"{given.name}.out")]
    if output.resolve().is_relative_to(given.resolve()):
        raise BatchError(f"{output}: is inside the input {given}; give another --output")
    names = sorted(path.relative_to(given) for path in given.rglob("*") if path.is_file())
    if not names:
        raise BatchError(f"{given}: there are no files in it; give another --input")
    return [LocalFile(given / name, output / f"{name}.out") for name in names]


@dataclass(frozen=True)
class InputObject:
    """An object that a job reads. Its result is `name` and .out below the output's prefix."""

    key: str
    name: str
    size: int


class TransformObjects:
    """The objects in S3 that a CreateTransformJob request reads and writes."""

    def __init__(self, s3: Any, request: Mapping[str, Any]) -> None:
        """List the input. Raises `BatchError` where there is none, and one of `AwsError`."""
        self._s3, self._request = s3, request
        source = request["TransformInput"]["DataSource"]["S3DataSource"]
        if source["S3DataType"] != "S3Prefix":
            raise BatchError(f"the job reads a {source['S3DataType']}; only a prefix is followed")
        self._bucket, prefix = location(source["S3Uri"])
        self.inputs = [
            InputObject(item["Key"], name_below(prefix, item["Key"]), item["Size"])
            for item in _listed(s3, self._bucket, prefix)
            if not item["Key"].endswith("/")
        ]
        if not self.inputs:
            raise BatchError(
                f"{source['S3Uri']}: no objects there; upload the table, or give another --input"
            )
        self.size = sum(item.size for item in self.inputs)

    def records(self, item: InputObject) -> int:
        body = self._s3.get_object(Bucket=self._bucket, Key=item.key)["Body"]
        return count_records(cast(IO[bytes], io.BufferedReader(body, MB)), self._request)

    def results(self, since: datetime) -> dict[str, int]:
        """Sizes of the results that were written since then, by the name of their input."""
        bucket, prefix = location(self._request["TransformOutput"]["S3OutputPath"])
        prefix = f"{prefix.rstrip('/')}/".lstrip("/")
        names = {item.name for item in self.inputs}
        # S3 tells whole seconds.
        since = since.replace(microsecond=0) - timedelta(seconds=1)
        return {
            name: item["Size"]
            for item in _listed(self._s3, bucket, prefix)
            if (name := item["Key"].removeprefix(prefix).removesuffix(".out")) in names
            and item["Key"].endswith(".out")
            and item["LastModified"] >= since
        }

    def answers(self, names: Iterable[str]) -> int | None:
        """Count the records that results answer; None where one cannot be counted."""
        bucket, prefix = location(self._request["TransformOutput"]["S3OutputPath"])
        counts = []
        for name in names:
            key = "/".join(filter(None, [prefix.strip("/"), f"{name}.out"]))
            body = self._s3.get_object(Bucket=bucket, Key=key)["Body"]
            counts.append(
                count_answers(cast(IO[bytes], io.BufferedReader(body, MB)), self._request)
            )
        return None if None in counts else sum(filter(None, counts))

    def copy_first(self, limit: int, uri: str, kms_key: str | None) -> int:
        """Copy the first `limit` records to objects of the same names under `uri`; return how many."""
        bucket, prefix = location(uri)
        key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
        copied = 0
        for item in self.inputs:
            body = self._s3.get_object(Bucket=self._bucket, Key=item.key)["Body"]
            with body:
                reader = cast(IO[bytes], io.BufferedReader(body, MB))
                content, count = first_records(reader, self._request, limit - copied)
            self._s3.put_object(Bucket=bucket, Key=f"{prefix}{item.name}", Body=content, **key)
            copied += count
            if copied >= limit:
                break
        return copied

    def remove(self) -> None:
        """Remove the input: the copy of first records that a trial read."""
        for item in self.inputs:
            self._s3.delete_object(Bucket=self._bucket, Key=item.key)


def location(uri: str) -> tuple[str, str]:
    """Bucket and key of s3://BUCKET/KEY."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def _listed(s3: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", [])
