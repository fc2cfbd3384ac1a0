"""An upload to a disk without room: the response has AWS's format, and nothing is left on the disk."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from servable_local.aws.server import Server
from tests.servable_local.aws.local_account import Account

MIB = 1 << 20
BUCKET = "full-disk"


@pytest.fixture
def small_disk(server: Server) -> Iterator[Path]:
    """A disk of 8 MiB instead of the folder of objects."""
    disk = server._objects
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root mounts a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def s3(account: Account) -> Iterator[Any]:
    client = account.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.delete_bucket(Bucket=BUCKET)


def used(disk: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in disk.iterdir())


@pytest.mark.long
def test_an_upload_without_room_is_rejected_at_once_and_leaves_nothing(
    s3: Any, small_disk: Path, tmp_path: Path
) -> None:
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=BUCKET, Key="large", Body=bytes(20 * MIB))
    error = caught.value.response["Error"]
    assert error["Code"] == "InternalError"
    assert error["Message"] == (
        f"the object cannot be stored in {small_disk}: No space left on device; make room in {small_disk}, "
        "then send it again"
    )
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert used(small_disk) == 0
    s3.put_object(Bucket=BUCKET, Key="small", Body=bytes(MIB))
    assert used(small_disk) == MIB
    s3.delete_object(Bucket=BUCKET, Key="small")

    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="large")["UploadId"]
    part = {"Bucket": BUCKET, "Key": "large", "UploadId": upload}
    s3.upload_part(**part, PartNumber=1, Body=b"1" * (5 * MIB))
    for _ in range(2):
        with pytest.raises(ClientError, match="cannot be stored"):
            s3.upload_part(**part, PartNumber=2, Body=b"2" * (5 * MIB))
        assert used(small_disk) == 5 * MIB
    s3.abort_multipart_upload(**part)
    assert used(small_disk) == 0

    (tmp_path / "model").write_bytes(bytes(24 * MIB))
    parts = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    with pytest.raises(S3UploadFailedError, match="No space left on device"):
        s3.upload_file(str(tmp_path / "model"), BUCKET, "model", Config=parts)
    assert used(small_disk) == 0


def test_a_limit_on_the_size_of_files_is_named_with_its_remedy(s3: Any) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, limits[1]))
    try:
        with pytest.raises(ClientError, match=r"File too large; raise the limit .*ulimit -f"):
            s3.put_object(Bucket=BUCKET, Key="large", Body=bytes(2 * MIB))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
