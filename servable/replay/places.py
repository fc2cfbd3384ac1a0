"""Read captured requests from PLACE: a file, a folder, or an S3 prefix; in parts, never whole.

What reading skips is reported by file and reason, and counted; reading continues.

SageMaker writes s3://PREFIX/ENDPOINT/VARIANT/yyyy/mm/dd/hh/NAME.jsonl, by the hour of the
invocation, in UTC. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
(2026-11-22)
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from servable.console.terminal import escape_name

# The maximum number of messages about skipped lines.
SHOWN = 10


@dataclass(slots=True)
class SkipCount:
    """Lines of one file that were skipped for one reason."""

    file: str
    reason: str
    lines: int
    """0: the whole file."""
    first_line: int
    """Line from 1; 0: the whole file."""

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.file}: skipped: {self.reason}"
        if self.lines == 1:
            return f"{self.file}, line {self.first_line}: skipped: {self.reason}"
        return f"{self.file}: {self.lines:,} lines skipped, the first is {self.first_line}: {self.reason}"


class SkippedLines:
    """Skipped lines: call `add` for each; `counts` has a SkipCount per file and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], SkipCount] = {}

    def add(self, file: str, line: int, reason: str) -> None:
        """Count a skipped line; `line` starts at 1, and 0 means the whole file."""
        file = escape_name(file)
        count = self._counts.setdefault((file, reason), SkipCount(file, reason, 0, line))
        count.lines += 1 if line else 0

    @property
    def counts(self) -> list[SkipCount]:
        return list(self._counts.values())


def format_skipped(skipped: Sequence[SkipCount]) -> list[str]:
    """Return a sentence for each file and reason; a long list is cut short."""
    lines = [str(count) for count in skipped[:SHOWN]]
    if len(skipped) > SHOWN:
        lines.append(f"and {len(skipped) - SHOWN:,} more; --json lists all")
    return lines


SUFFIX = ".jsonl"
# Bodies are at most 6 MB, 8 MB in BASE64, in both directions; a longer line isn't one of data capture.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
MOST_LINE_BYTES = 32_000_000
_CHUNK_BYTES = 1 << 20
# Parts of objects in S3 that are kept: as many as the files of an hour are read in turns.
_PART_BYTES = 256 * 1024
_MOST_PARTS = 256


class PlaceError(Exception):
    """The error if PLACE can't be read. `str()` is a whole sentence."""


class UnreadableFileError(PlaceError):
    """The error if one file can't be read; other files may be readable."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A file of captured requests. `name`: as messages show it, a path or s3://bucket/key."""

    name: str
    size: int


class LocalPlace:
    """A file, or a folder with all its subfolders."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list_files(self) -> list[CaptureFile]:
        """Return all files, sorted by name. Raises PlaceError."""
        if not self._path.exists():
            raise PlaceError(
                f"{self._path}: no such file or folder; allowed: a file or folder of captured "
                "requests, or s3://BUCKET/PREFIX"
            )
        paths = [self._path]
        if self._path.is_dir():
            paths = sorted(path for path in self._path.rglob("*") if path.is_file())
        return [CaptureFile(str(path), path.stat().st_size) for path in paths]

    def iterate_chunks(self, file: CaptureFile) -> Iterator[bytes]:
        """Yield the bytes of a file from its beginning. Raises PlaceError."""
        with _convert_read_errors(file), Path(file.name).open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                yield chunk

    def read(self, file: CaptureFile, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset`. Raises PlaceError."""
        with _convert_read_errors(file), Path(file.name).open("rb", buffering=0) as opened:
            opened.seek(offset)
            return opened.read(size)


class S3Place:
    """An S3 prefix, read with boto3; nothing is written to the disk."""

    def __init__(self, uri: str, client: Any) -> None:
        self._bucket, _, self._prefix = uri.removeprefix("s3://").partition("/")
        self._client = client
        self._read_part = lru_cache(_MOST_PARTS)(self._fetch_part)

    def list_files(self) -> list[CaptureFile]:
        pages = self._client.get_paginator("list_objects_v2")
        with _convert_read_errors(CaptureFile(f"s3://{self._bucket}/{self._prefix}", 0)):
            listed = [
                CaptureFile(f"s3://{self._bucket}/{entry['Key']}", entry["Size"])
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix)
                for entry in page.get("Contents", [])
                if not entry["Key"].endswith("/")
            ]
        return sorted(listed, key=lambda file: file.name)

    def iterate_chunks(self, file: CaptureFile) -> Iterator[bytes]:
        with _convert_read_errors(file):
            yield from self._open(file).iter_chunks(_CHUNK_BYTES)

    def read(self, file: CaptureFile, offset: int, size: int) -> bytes:
        first, last = offset // _PART_BYTES, (offset + size - 1) // _PART_BYTES
        whole = b"".join(self._read_part(file, number) for number in range(first, last + 1))
        return whole[offset - first * _PART_BYTES :][:size]

    def _fetch_part(self, file: CaptureFile, number: int) -> bytes:
        begin = number * _PART_BYTES
        end = min(file.size, begin + _PART_BYTES) - 1
        with _convert_read_errors(file):
            content: bytes = self._open(file, Range=f"bytes={begin}-{end}").read()
            return content

    def _open(self, file: CaptureFile, **options: str) -> Any:
        """Return the object's stream of bytes."""
        key = file.name.removeprefix(f"s3://{self._bucket}/")
        return self._client.get_object(Bucket=self._bucket, Key=key, **options)["Body"]


CapturePlace = LocalPlace | S3Place


@contextmanager
def _convert_read_errors(file: CaptureFile) -> Iterator[None]:
    """Convert errors of the disk or of AWS to a PlaceError."""
    try:
        yield
    except OSError as error:
        raise UnreadableFileError(f"{file.name}: cannot be read: {error.strerror}") from None
    except Exception as error:
        # S3 clients have imported it; local files are read without it.
        botocore = sys.modules.get("botocore.exceptions")
        if botocore is None or not isinstance(error, botocore.BotoCoreError | botocore.ClientError):
            raise
        raise PlaceError(
            f"{file.name}: cannot be read: {error}; reading needs s3:ListBucket, s3:GetObject "
            "and kms:Decrypt of its key"
        ) from None


def open_place(place: str, client: Callable[[], Any]) -> CapturePlace:
    """Return the place for a path or S3 URI.

    `client`: creates the boto3 client of S3; called only for an S3 URI.
    """
    return S3Place(place, client()) if place.startswith("s3://") else LocalPlace(Path(place))


def split_lines(chunks: Iterator[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (number from 1, offset, line with its newline). The line is None if it is too long."""
    number, offset, rest, dropped = 1, 0, b"", 0
    for chunk in chunks:
        parts = (rest + chunk).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield number, offset, None if dropped else part + b"\n"
            number, offset, dropped = number + 1, offset + dropped + len(part) + 1, 0
        if len(rest) > MOST_LINE_BYTES:
            dropped, rest = dropped + len(rest), b""
    if rest or dropped:
        yield number, offset, None if dropped else rest


def iterate_capture_files(place: CapturePlace, skipped: SkippedLines) -> Iterator[CaptureFile]:
    """Yield the files of data capture; add other files to `skipped`. Raises PlaceError."""
    for file in place.list_files():
        if file.name.endswith(SUFFIX):
            yield file
        else:
            skipped.add(file.name, 0, f"its name does not end in {SUFFIX}")


def iterate_captured_lines(
    place: CapturePlace, file: CaptureFile, skipped: SkippedLines
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, offset, line) for each line of a file that isn't empty.

    Lines that are too long, and a file that the disk can't read, are added to `skipped`. Raises
    PlaceError.
    """
    try:
        for number, offset, line in split_lines(place.iterate_chunks(file)):
            if line is None:
                skipped.add(file.name, number, "it is longer than any line of data capture")
            elif line.strip():
                yield number, offset, line
    except UnreadableFileError as error:
        skipped.add(file.name, 0, str(error).removeprefix(f"{file.name}: "))
