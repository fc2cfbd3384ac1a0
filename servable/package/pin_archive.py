"""Writes uri, hash and size of an archive in S3 into the environment file that names it."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from botocore.exceptions import BotoCoreError, ClientError

from model_packaging.existing_archive import UnpackedSize

CHUNK_BYTES = 8 * 1024 * 1024


class PinError(Exception):
    """Why nothing was written. `str()` is the whole sentence."""


@dataclass(frozen=True)
class Pinned:
    """An archive as it lies in S3 now."""

    uri: str
    sha256: str
    size_bytes: int
    size_gib: float | None
    """Unpacked, rounded up; None where it is no gzip."""


def read(s3: Any, uri: str) -> Pinned:
    """Hashes and unpacks the object, chunk by chunk. Raises `PinError` when it cannot be read."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        answer = s3.get_object(Bucket=bucket, Key=key)
        digest = hashlib.sha256()
        size_bytes, unpacked = 0, UnpackedSize()
        for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
            unpacked.take(chunk)
    except (BotoCoreError, ClientError) as wrong:
        raise PinError(
            f"{uri}: cannot be read: {wrong}; check the uri and your credentials"
        ) from None
    return Pinned(uri, digest.hexdigest(), size_bytes, _gib(unpacked.bytes))


def _gib(count: int | None) -> float | None:
    return math.ceil(count / 2**30 * 1000) / 1000 if count else None


def write(file: Path, model: str, pinned: Pinned) -> bool:
    """Puts it into [models.NAME]; comments and order stay. False when the file says so already.

    Raises `PinError` when the file does not name the artifact itself (its base does).
    """
    document: Any = tomlkit.parse(file.read_text(encoding="utf-8"))
    table = document.get("models", {}).get(model, {})
    if "artifact" not in table:
        raise PinError(
            f"{file}: models.{model}.artifact is not in this file; pin the file that holds it"
        )
    stated = dict(table["artifact"])
    wanted = {one: value for one, value in vars(pinned).items() if value is not None}
    if {**stated, **wanted} == stated:
        return False
    for key, value in wanted.items():
        table["artifact"][key] = value
    beside = file.with_suffix(".toml.part")
    beside.write_text(tomlkit.dumps(document), encoding="utf-8")
    beside.replace(file)
    return True
