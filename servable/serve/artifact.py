"""An archive that lies in S3, downloaded once for this computer: verified, resumable, with progress."""

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.model import Artifact
from model_packaging.refusal import PackagingError
from servable.console.lines import bytes_progress
from servable.project.account import Account

CHUNK_BYTES = 8 * 1024 * 1024
Report = Callable[[int, int], None]
"""Called with the bytes that are there and the size of the object."""


def cached(artifact: Artifact) -> Path:
    """Path of the archive on this computer, once it is downloaded: named as its hash."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "servable" / "archives" / f"{artifact.sha256}.tar.gz"


def downloaded(artifact: Artifact, account: Account) -> Path:
    """Return the archive on this computer; download it with a progress bar if it is not there.

    Raises `PackagingError` if it cannot be read, or if its bytes are not those that the file names.
    """
    target = cached(artifact)
    if target.exists():
        return target
    try:
        with bytes_progress() as bar:
            task = bar.add_task(f"download {artifact.uri}", total=None)
            s3 = account.client("s3")
            return fetch(
                artifact,
                s3,
                target,
                lambda there, size: bar.update(task, completed=there, total=size),
            )
    except (BotoCoreError, ClientError) as wrong:
        problem = f"cannot be downloaded: {wrong}"
        remedy = (
            "check your credentials (s3:GetObject, and kms:Decrypt of its key) and the uri; what is "
            "there already is kept, and the next call goes on after it"
        )
        raise PackagingError(Path(artifact.uri), problem, remedy) from None


def fetch(artifact: Artifact, s3: Any, target: Path, report: Report) -> Path:
    """Download to TARGET.part, from where an earlier call ended, and rename it if its hash is right.

    A second process that wants the same archive waits for the first. Raises boto3's errors, and
    `PackagingError` for another hash; the part is then deleted.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with part.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if target.exists():  # the other process has just finished
            part.unlink(missing_ok=True)
            return target
        digest = _received(artifact, s3, file, report)
        if digest != artifact.sha256:
            part.unlink()
            raise PackagingError(
                Path(artifact.uri),
                f"its SHA-256 is {digest} and not {artifact.sha256}: the object was replaced since it "
                "was pinned",
                "if that is meant, `servable pin` with the environment's name writes the hash of what "
                "lies there now",
            )
        file.flush()
        os.fsync(file.fileno())
        part.replace(target)
    return target


def _received(artifact: Artifact, s3: Any, file: BinaryIO, report: Report) -> str:
    """Append what is missing to `file`, and return the SHA-256 of the whole in hex."""
    bucket, _, key = artifact.uri.removeprefix("s3://").partition("/")
    size = s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
    file.seek(0, os.SEEK_END)
    if file.tell() > size:
        file.truncate(0)
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    there = file.tell()
    report(there, size)
    if there < size:
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={there}-")["Body"]
        for chunk in body.iter_chunks(CHUNK_BYTES):
            file.write(chunk)
            digest.update(chunk)
            there += len(chunk)
            report(there, size)
    return digest.hexdigest()
