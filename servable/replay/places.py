"""PLACE, where captured requests lie: a file, a folder, or an S3 prefix; read in parts, never whole.

What reading skips is named by file and reason, and counted; reading goes on.

SageMaker writes s3://PREFIX/ENDPOINT/VARIANT/yyyy/mm/dd/hh/NAME.jsonl, by the hour of the invocation, in UTC.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servable.console.terminal import escaped_name

# More files than a screen shows are in the run's folder.
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


@dataclass(frozen=True, kw_only=True)
class ReadLines:
    """The captured lines that were read for a replay."""

    read: int = 0
    skipped: int = 0
    """Lines among them that hold no request that can be replayed."""
    unread_files: tuple[str, ...] = ()
    """Files of data capture that were skipped as a whole."""


class SkippedLines:
    """`add` each line as it comes; `all` has a SkipCount for each file and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], SkipCount] = {}

    def add(self, file: str, line: int, reason: str) -> None:
        """Count a line, from 1; 0 is the whole file."""
        file = escaped_name(file)
        count = self._counts.setdefault((file, reason), SkipCount(file, reason, 0, line))
        count.lines += 1 if line else 0

    @property
    def all(self) -> list[SkipCount]:
        return list(self._counts.values())


def skipped_lines(skipped: Sequence[SkipCount]) -> list[str]:
    """Return a sentence for each file and reason, those of many files cut short."""
    lines = [str(count) for count in skipped[:SHOWN]]
    if len(skipped) > SHOWN:
        lines.append(f"and {len(skipped) - SHOWN:,} more; --json lists all")
    return lines


SUFFIX = ".jsonl"
# Bodies are at most 6 MB, 8 MB in BASE64, in both directions; what is longer is no line of data capture.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
MOST_LINE_BYTES = 32_000_000
_CHUNK_BYTES = 1 << 20
# Parts of objects in S3 that are kept: as many as the files of an hour are read in turns.
_PART_BYTES = 256 * 1024
_MOST_PARTS = 256


class PlaceError(Exception):
    """PLACE cannot be read. `str()` is a whole sentence."""


class UnreadableFileError(PlaceError):
    """The disk refuses one file; the others can be read."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A file of a place. `name`: as messages show it, a path or s3://bucket/key."""

    name: str
    size: int


class LocalPlace:
    """A file, or a folder with all its subfolders."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def files(self) -> list[CaptureFile]:
        """Return all files, by name. Raises PlaceError."""
        if not self._path.exists():
            raise PlaceError(
                f"{self._path}: there is no such file or folder; allowed: a file or folder of captured "
                "requests, or s3://BUCKET/PREFIX"
            )
        paths = [self._path]
        if self._path.is_dir():
            paths = sorted(path for path in self._path.rglob("*") if path.is_file())
        return [CaptureFile(str(path), path.stat().st_size) for path in paths]

    def chunks(self, file: CaptureFile) -> Iterator[bytes]:
        """Yield the bytes of a file from its beginning. Raises PlaceError."""
        with _read_errors(file), Path(file.name).open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                yield chunk

    def read(self, file: CaptureFile, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset`. Raises PlaceError."""
        with _read_errors(file), Path(file.name).open("rb", buffering=0) as opened:
            opened.seek(offset)
            return opened.read(size)


class S3Place:
    """A prefix, read with boto3; nothing of it is written to the disk."""

    def __init__(self, uri: str, client: Any) -> None:
        self._bucket, _, self._prefix = uri.removeprefix("s3://").partition("/")
        self._client = client
        self._parts: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def files(self) -> list[CaptureFile]:
        pages = self._client.get_paginator("list_objects_v2")
        with _read_errors(CaptureFile(f"s3://{self._bucket}/{self._prefix}", 0)):
            listed = [
                CaptureFile(f"s3://{self._bucket}/{entry['Key']}", entry["Size"])
                for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix)
                for entry in page.get("Contents", [])
                if not entry["Key"].endswith("/")
            ]
        return sorted(listed, key=lambda file: file.name)

    def chunks(self, file: CaptureFile) -> Iterator[bytes]:
        with _read_errors(file):
            body = self._client.get_object(Bucket=self._bucket, Key=self._key(file))["Body"]
            yield from body.iter_chunks(_CHUNK_BYTES)

    def read(self, file: CaptureFile, offset: int, size: int) -> bytes:
        first, last = offset // _PART_BYTES, (offset + size - 1) // _PART_BYTES
        whole = b"".join(self._part(file, number) for number in range(first, last + 1))
        begin = offset - first * _PART_BYTES
        return whole[begin : begin + size]

    def _part(self, file: CaptureFile, number: int) -> bytes:
        kept = self._parts.pop((file.name, number), None)
        if kept is None:
            begin = number * _PART_BYTES
            end = min(file.size, begin + _PART_BYTES) - 1
            with _read_errors(file):
                answer = self._client.get_object(
                    Bucket=self._bucket, Key=self._key(file), Range=f"bytes={begin}-{end}"
                )
                kept = answer["Body"].read()
        self._parts[(file.name, number)] = kept
        while len(self._parts) > _MOST_PARTS:
            self._parts.popitem(last=False)
        return kept

    def _key(self, file: CaptureFile) -> str:
        return file.name.removeprefix(f"s3://{self._bucket}/")


CapturePlace = LocalPlace | S3Place


@contextmanager
def _read_errors(file: CaptureFile) -> Iterator[None]:
    """Turn errors of the disk or of AWS into a PlaceError."""
    try:
        yield
    except OSError as error:
        raise UnreadableFileError(f"{file.name}: cannot be read: {error.strerror}") from None
    except Exception as error:
        # Where S3 is asked, it is imported; folders are read without it.
        botocore = sys.modules.get("botocore.exceptions")
        if botocore is None or not isinstance(error, botocore.BotoCoreError | botocore.ClientError):
            raise
        raise PlaceError(
            f"{file.name}: cannot be read: {error}; reading needs s3:ListBucket, s3:GetObject "
            "and kms:Decrypt of its key"
        ) from None


def place_of(place: str, client: Callable[[], Any]) -> CapturePlace:
    """Return the place that was given. `client`: makes the boto3 client of S3, if it is one there."""
    return S3Place(place, client()) if place.startswith("s3://") else LocalPlace(Path(place))


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (number from 1, offset, the line with its end); None for a line that is too long."""
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


def captured_files(place: CapturePlace, skipped: SkippedLines) -> Iterator[CaptureFile]:
    """Yield the files of data capture; others are skipped by name. Raises PlaceError."""
    for file in place.files():
        if file.name.endswith(SUFFIX):
            yield file
        else:
            skipped.add(file.name, 0, f"its name does not end in {SUFFIX}")


def captured_lines(
    place: CapturePlace, file: CaptureFile, skipped: SkippedLines
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, offset, line) of a file, empty lines apart. Raises PlaceError.

    What is too long, and what the disk refuses, is skipped by name.
    """
    try:
        for number, offset, line in lines_of(place.chunks(file)):
            if line is None:
                skipped.add(file.name, number, "it is longer than any line of data capture")
            elif line.strip():
                yield number, offset, line
    except UnreadableFileError as error:
        skipped.add(file.name, 0, str(error).removeprefix(f"{file.name}: "))
