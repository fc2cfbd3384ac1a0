"""What objects hold: slices and joins are other views of the same files."""

import hashlib
import io
import os
import random
import resource
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.contents import ObjectContent, StoredFile, receive_object
from servable_local.aws.moto_patches.s3 import find_content
from servable_local.aws.server import Server
from servable_local.aws.signed_request import ReceivedRequest
from tests.servable_local.aws.local_account import Account


def files(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_file()]


def stored(folder: Path, body: bytes, *headers: tuple[str, str]) -> ObjectContent:
    folder.mkdir(exist_ok=True)
    request = ReceivedRequest("PUT", "/bucket/key", headers)
    return receive_object(folder, request, io.BytesIO(body), len(body))


CUTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@pytest.mark.long
@given(st.lists(st.binary(max_size=9), max_size=4), CUTS)
def test_slices_of_joined_contents_joined_again_are_those_of_their_bytes(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], cuts: list[tuple[int, int]]
) -> None:
    folder, whole = tmp_path_factory.getbasetemp() / "slices", b"".join(parts)
    joined = ObjectContent.join([stored(folder, part) for part in parts])
    cut = ObjectContent.join(joined[start:stop] for start, stop in cuts)
    assert bytes(cut) == b"".join(whole[start:stop] for start, stop in cuts)


def test_a_file_has_its_sums_and_goes_with_the_last_content_of_it(tmp_path: Path) -> None:
    content = stored(tmp_path, b"abc", ("X-Amz-Sdk-Checksum-Algorithm", "crc32"))
    found = [content.compute_digest(name) for name in ("MD5", "SHA256", "SHA1", "CRC32")]
    assert found == [
        hashlib.md5(b"abc", usedforsecurity=False).digest(),
        hashlib.sha256(b"abc").digest(),
        hashlib.sha1(b"abc", usedforsecurity=False).digest(),
        zlib.crc32(b"abc").to_bytes(4, "big"),
    ]

    content = stored(tmp_path, b"abcdef")
    piece = content[2:4]
    del content
    assert (bytes(piece), len(files(tmp_path))) == (b"cd", 1)
    del piece
    assert files(tmp_path) == []
    file = StoredFile(tmp_path)
    assert file.path.stat().st_mode & 0o077 == 0


def test_linked_parts_become_one_file_that_stays_when_the_object_goes(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    content = ObjectContent.join([stored(folder, body) for body in (b"abc", b"def", b"g")])
    names = [tmp_path / "first", tmp_path / "second"]
    for name in names:
        content.link(name)
    (whole,) = files(folder)
    assert whole.stat().st_nlink == 3
    del content
    assert ([name.read_bytes() for name in names], files(folder)) == ([b"abcdefg"] * 2, [])
    ObjectContent.from_bytes(b"abc").link(tmp_path / "of memory")
    assert (tmp_path / "of memory").read_bytes() == b"abc"


_PART_BYTES = 5 << 20
BODY = random.Random(0).randbytes(2 * _PART_BYTES + 12_345)


@pytest.mark.long
def test_a_large_object_is_one_file_that_goes_with_it(
    server: Server, account: Account, tmp_path: Path
) -> None:
    folder = server._objects
    before, s3 = set(folder.iterdir()), account.client("s3")  # other tests' files lie there too
    bucket = f"objects-{account.number}"

    def read(key: str, **more: str) -> bytes:
        found: bytes = s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read()
        return found

    def made() -> set[Path]:
        return set(folder.iterdir()) - before

    s3.create_bucket(Bucket=bucket)
    parts = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES)
    sent, fetched = account.aws.folder / "body", account.aws.folder / "fetched"
    sent.write_bytes(BODY)
    s3.upload_file(str(sent), bucket, "large", Config=parts)
    s3.download_file(
        bucket, "large", str(fetched), Config=TransferConfig(multipart_threshold=1 << 20)
    )
    assert hashlib.sha256(fetched.read_bytes()).digest() == hashlib.sha256(BODY).digest()
    first, last = _PART_BYTES - 3, _PART_BYTES + 4
    assert read("large", Range=f"bytes={first}-{last}") == BODY[first : last + 1]

    find_content(account.number, "us-east-1", bucket, "large").link(tmp_path / "archive")
    assert (tmp_path / "archive").stat().st_nlink == 2
    assert (tmp_path / "archive").read_bytes() == BODY

    (file,) = made()
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/large")
    assert (made(), read("copy") == BODY) == ({file}, True)

    s3.delete_object(Bucket=bucket, Key="copy")
    s3.put_object(Bucket=bucket, Key="large", Body=b"small")
    assert made() == set()


def test_what_is_aborted_or_forged_leaves_no_file(server: Server, account: Account) -> None:
    folder, s3, bucket = server._objects, account.client("s3"), f"objects-{account.number}"
    s3.create_bucket(Bucket=bucket)
    before = len(list(folder.iterdir()))
    upload = {"Bucket": bucket, "Key": "other"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    s3.upload_part(**upload, PartNumber=1, Body=BODY)
    s3.abort_multipart_upload(**upload)
    assert len(list(folder.iterdir())) == before

    def change(request: Any, **_: Any) -> None:
        request.body = b"x" + BODY[1:]

    s3.meta.events.register("before-send.s3.PutObject", change)
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        s3.put_object(Bucket=bucket, Key="forged", Body=BODY)
    s3.meta.events.unregister("before-send.s3.PutObject", change)
    assert len(list(folder.iterdir())) == before


# --- a disk without room: the response has AWS's format, and nothing is left

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
    remedy = f"No space left on device; make room in {small_disk}, then send it again"
    assert error["Message"] == f"the object cannot be stored in {small_disk}: {remedy}"
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
