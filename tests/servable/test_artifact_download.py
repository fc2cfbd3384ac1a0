"""An archive in S3, served from this computer: downloaded once, whole, and only if its hash is right."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from botocore.response import StreamingBody

from infra.parameters.model import Artifact
from model_packaging.refusal import PackagingError
from servable.serve.serve import cached, fetch

BODY = b"0123456789" * 1000
URI = "s3://models/run-17/model.tar.gz"
ARTIFACT = Artifact(uri=URI, sha256=hashlib.sha256(BODY).hexdigest())


class Bucket:
    """One object of S3, which notes the first byte of every request and may break off."""

    def __init__(self, body: bytes = BODY, breaks_after: int | None = None) -> None:
        self.body, self.breaks_after = body, breaks_after
        self.first_bytes: list[int] = []

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": len(self.body)}

    def get_object(self, **request: Any) -> dict[str, Any]:
        first = int(request["Range"].removeprefix("bytes=").removesuffix("-"))
        self.first_bytes.append(first)
        rest = self.body[first:][: self.breaks_after]
        return {"Body": StreamingBody(io.BytesIO(rest), content_length=len(self.body) - first)}


def quiet(there: int, size: int) -> None:
    """Report nothing."""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "archive.tar.gz"


def test_the_archive_is_there_whole_and_not_downloaded_again(target: Path) -> None:
    assert fetch(ARTIFACT, Bucket(), target, quiet).read_bytes() == BODY

    fetch(ARTIFACT, Bucket(), target, quiet)
    bucket = Bucket()
    fetch(ARTIFACT, bucket, target, quiet)
    assert bucket.first_bytes == []


def test_progress_ends_at_the_objects_size(target: Path) -> None:
    reported: list[tuple[int, int]] = []
    fetch(ARTIFACT, Bucket(), target, lambda *progress: reported.append(progress))
    assert reported[-1] == (len(BODY), len(BODY))


def test_an_interrupted_download_goes_on_where_it_ended(target: Path) -> None:
    with pytest.raises(Exception, match="bytes"):
        fetch(ARTIFACT, Bucket(breaks_after=4000), target, quiet)
    bucket = Bucket()
    fetch(ARTIFACT, bucket, target, quiet)
    assert (bucket.first_bytes, target.read_bytes()) == ([4000], BODY)


def test_an_interrupted_download_has_no_name_yet(target: Path) -> None:
    with pytest.raises(Exception, match="bytes"):
        fetch(ARTIFACT, Bucket(breaks_after=4000), target, quiet)
    assert not target.exists()


def test_other_bytes_than_the_file_names_are_refused(target: Path) -> None:
    with pytest.raises(PackagingError, match="replaced since it was pinned"):
        fetch(ARTIFACT, Bucket(BODY[:-1] + b"!"), target, quiet)
    assert list(target.parent.iterdir()) == []


def test_an_archive_is_kept_under_its_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cached(ARTIFACT) == tmp_path / "servable" / "archives" / f"{ARTIFACT.sha256}.tar.gz"
