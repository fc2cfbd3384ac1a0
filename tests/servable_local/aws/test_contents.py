"""What objects hold: slices and joins are other views of the same files."""

import hashlib
import io
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


@given(st.lists(st.binary(max_size=9), max_size=5), st.integers(0, 50), st.integers(0, 50))
def test_a_slice_of_joined_contents_is_the_slice_of_their_bytes(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], start: int, stop: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "slices"
    joined = ObjectContent.join([stored(folder, part) for part in parts])
    assert bytes(joined[start:stop]) == b"".join(parts)[start:stop]


CUTS = st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 6))


@given(st.lists(CUTS, max_size=6))
def test_slices_of_two_contents_joined_in_any_order_are_their_bytes(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "slices"
    bodies = (b"abcdef", b"ghijkl")
    contents = [stored(folder, body) for body in bodies]
    joined = ObjectContent.join(contents[which][start:stop] for which, start, stop in cuts)
    assert bytes(joined) == b"".join(bodies[which][start:stop] for which, start, stop in cuts)


def test_sums_are_those_of_the_bytes(tmp_path: Path) -> None:
    content = stored(tmp_path, b"abc", ("X-Amz-Sdk-Checksum-Algorithm", "crc32"))
    found = [content.compute_digest(name) for name in ("MD5", "SHA256", "SHA1", "CRC32")]
    assert found == [
        hashlib.md5(b"abc", usedforsecurity=False).digest(),
        hashlib.sha256(b"abc").digest(),
        hashlib.sha1(b"abc", usedforsecurity=False).digest(),
        zlib.crc32(b"abc").to_bytes(4, "big"),
    ]


def test_a_file_goes_with_the_last_content_of_it(tmp_path: Path) -> None:
    content = stored(tmp_path, b"abcdef")
    piece = content[2:4]
    del content
    assert (bytes(piece), len(files(tmp_path))) == (b"cd", 1)
    del piece
    assert files(tmp_path) == []
    file = StoredFile(tmp_path)
    assert file.path.stat().st_mode & 0o077 == 0


def test_linked_parts_become_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    content = ObjectContent.join([stored(folder, body) for body in (b"abc", b"def", b"g")])
    for name in ("first", "second"):
        content.link(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"abcdefg"
    (whole,) = files(folder)
    assert whole.stat().st_nlink == 3


def test_a_linked_file_stays_when_its_object_goes(tmp_path: Path) -> None:
    content = stored(tmp_path / "objects", b"abc")
    content.link(tmp_path / "linked")
    del content
    assert (tmp_path / "linked").read_bytes() == b"abc"


def test_bytes_in_memory_can_be_linked(tmp_path: Path) -> None:
    ObjectContent.from_bytes(b"abc").link(tmp_path / "linked")
    assert (tmp_path / "linked").read_bytes() == b"abc"


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

    find_content(account.number, "us-east-1", _BUCKET, "large").link(tmp_path / "archive")
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
