"""`servable pin ENV`, against the embedded AWS."""

import gzip
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.aws import EmbeddedAws, running
from operations.pin import PinError, read, write
from tests.checkouts import ROOT
from tests.conftest import VALID

BODY = gzip.compress(b"an archive" * 1_000_000, mtime=0)
URI = "s3://models/run-17/model.tar.gz"
TEXT = VALID.replace(
    'saved_model = "model"',
    f'# written by the training job\nartifact = {{ uri = "{URI}", sha256 = "{"0" * 64}" }}  # pinned',
)


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with running() as found:
        s3 = found.client("s3")
        s3.create_bucket(Bucket="models")
        s3.put_object(Bucket="models", Key="run-17/model.tar.gz", Body=BODY)
        yield found


@pytest.fixture
def file(project: Path) -> Path:
    found = project / "environments" / "prod.toml"
    found.write_text(TEXT.replace("eu-west-1", "us-east-1"))
    return found


def servable(aws: EmbeddedAws, file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = aws.environment_over({**os.environ, "PYTHONPATH": str(ROOT)})
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=file.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_pin_writes_the_hash_of_what_lies_there(aws: EmbeddedAws, file: Path) -> None:
    assert servable(aws, file, "pin", "prod").returncode == 0
    assert f'sha256 = "{hashlib.sha256(BODY).hexdigest()}"' in file.read_text()


def test_pin_writes_the_size(aws: EmbeddedAws, file: Path) -> None:
    servable(aws, file, "pin", "prod")
    assert f"size_bytes = {len(BODY)}" in file.read_text()


def test_pin_writes_the_size_unpacked(aws: EmbeddedAws, file: Path) -> None:
    servable(aws, file, "pin", "prod")
    assert "size_gib = 0.01" in file.read_text()


def test_what_is_no_gzip_has_no_size_unpacked(aws: EmbeddedAws) -> None:
    s3 = aws.client("s3")
    s3.put_object(Bucket="models", Key="other/model.tar.gz", Body=b"no gzip")
    assert read(s3, "s3://models/other/model.tar.gz").size_gib is None


def test_pin_keeps_comments(aws: EmbeddedAws, file: Path) -> None:
    servable(aws, file, "pin", "prod")
    kept = [
        comment in file.read_text() for comment in ("# written by the training job", "# pinned")
    ]
    assert kept == [True, True]


def test_a_pinned_file_is_clean(aws: EmbeddedAws, file: Path) -> None:
    servable(aws, file, "pin", "prod")
    assert servable(aws, file, "check", "prod").stdout.startswith("prod  ok")


def test_pinning_again_changes_nothing(aws: EmbeddedAws, file: Path) -> None:
    pinned = read(aws.client("s3"), URI)
    assert [write(file, "ranker", pinned), write(file, "ranker", pinned)] == [True, False]


def test_an_object_that_is_not_there_is_a_sentence(aws: EmbeddedAws) -> None:
    with pytest.raises(
        PinError, match="s3://models/none.tar.gz: cannot be read: .*NoSuchKey.*; check"
    ):
        read(aws.client("s3"), "s3://models/none.tar.gz")


def test_an_unknown_environment_exits_2(aws: EmbeddedAws, file: Path) -> None:
    ran = servable(aws, file, "pin", "prdo")
    assert (ran.returncode, "there is no environment 'prdo'; allowed: prod" in ran.stderr) == (
        2,
        True,
    )


def test_a_profile_that_is_not_there_is_a_sentence(file: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "cli", "pin", "prod"],
        cwd=file.parents[1],
        env={**os.environ, "PYTHONPATH": str(ROOT), "AWS_PROFILE": "nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (
        1,
        "prod: The config profile (nobody) could not be found; check your AWS configuration\n",
    )
