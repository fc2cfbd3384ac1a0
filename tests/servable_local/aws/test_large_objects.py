"""Objects that are longer than a request in memory, as boto3 sends and fetches them."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from servable_local.aws.moto_patches.s3 import content_of
from servable_local.aws.server import Server
from tests.servable_local.aws.local_account import Account

_PART_BYTES = 5 << 20
BODY = random.Random(0).randbytes(2 * _PART_BYTES + 12_345)
_BUCKET = "large-objects"


@pytest.fixture(scope="module")
def folder(server: Server) -> Path:
    """The folder of the objects' files; other tests' lie there too."""
    return server._objects


@pytest.fixture
def others(folder: Path) -> set[Path]:
    """The files that were there before this test's."""
    return set(folder.iterdir())


@pytest.fixture
def s3(account: Account, others: set[Path]) -> Iterator[Any]:
    """A client, with BODY uploaded in three parts as `large`."""
    client = account.client("s3")
    client.create_bucket(Bucket=_BUCKET)
    parts = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES)
    file = account.aws.folder / "body"
    file.write_bytes(BODY)
    client.upload_file(str(file), _BUCKET, "large", Config=parts)
    yield client
    for one in client.list_objects_v2(Bucket=_BUCKET)["Contents"]:
        client.delete_object(Bucket=_BUCKET, Key=one["Key"])
    client.delete_bucket(Bucket=_BUCKET)


def body(s3: Any, key: str = "large", **more: str) -> bytes:
    found: bytes = s3.get_object(Bucket=_BUCKET, Key=key, **more)["Body"].read()
    return found


def test_what_was_uploaded_is_one_file_that_is_downloaded_linked_and_copied(
    s3: Any, account: Account, tmp_path: Path, folder: Path, others: set[Path]
) -> None:
    file = account.aws.folder / "fetched"
    s3.download_file(
        _BUCKET, "large", str(file), Config=TransferConfig(multipart_threshold=1 << 20)
    )
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(BODY).digest()
    first, last = _PART_BYTES - 3, _PART_BYTES + 4
    assert body(s3, Range=f"bytes={first}-{last}") == BODY[first : last + 1]

    content_of(account.number, "us-east-1", _BUCKET, "large").link(tmp_path / "archive")
    assert (tmp_path / "archive").stat().st_nlink == 2
    assert (tmp_path / "archive").read_bytes() == BODY

    (file,) = set(folder.iterdir()) - others
    s3.copy_object(Bucket=_BUCKET, Key="copy", CopySource=f"{_BUCKET}/large")
    assert set(folder.iterdir()) - others == {file}
    assert body(s3, "copy") == BODY


def test_its_file_goes_with_it(s3: Any, folder: Path, others: set[Path]) -> None:
    s3.put_object(Bucket=_BUCKET, Key="large", Body=b"small")
    assert set(folder.iterdir()) <= others


def test_what_is_aborted_or_forged_leaves_no_file(s3: Any, folder: Path) -> None:
    before = len(list(folder.iterdir()))
    upload = {"Bucket": _BUCKET, "Key": "other"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    s3.upload_part(**upload, PartNumber=1, Body=BODY)
    s3.abort_multipart_upload(**upload)
    assert len(list(folder.iterdir())) == before

    def change(request: Any, **_: Any) -> None:
        request.body = b"x" + BODY[1:]

    before = len(list(folder.iterdir()))
    s3.meta.events.register("before-send.s3.PutObject", change)
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        s3.put_object(Bucket=_BUCKET, Key="forged", Body=BODY)
    s3.meta.events.unregister("before-send.s3.PutObject", change)
    assert len(list(folder.iterdir())) == before
