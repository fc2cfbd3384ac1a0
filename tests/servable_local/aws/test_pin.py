"""`servable pin ENV`, against the local AWS."""

import gzip
import hashlib
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servable.pin.command import (
    PinError,
    PinnedArchive,
    find_newest_approved,
    measure_archive,
    write_pin,
)
from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT, Ran, run_in
from tests.conftest import VALID
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account

BODY = gzip.compress(b"an archive" * 1_000_000, mtime=0)
URI = "s3://models/run-17/model.tar.gz"
TEXT = VALID.replace(
    'saved_model = "model"',
    f'# written by the training job\nartifact = {{ uri = "{URI}", sha256 = "{"0" * 64}" }}  # pinned',
)


@dataclass(frozen=True)
class Pinned:
    """What `servable pin prod` made of its file, in an account with the archive."""

    account: Account
    file: Path
    ran: Ran

    @property
    def text(self) -> str:
        return self.file.read_text()


def servable(account: Account, file: Path, *arguments: str) -> Ran:
    inside = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment = account.aws.environment_over(inside, account=account.number)
    return run_in(
        file.parents[1], sys.executable, "-m", "servable", *arguments, environment=environment
    )


@pytest.fixture(scope="module")
def pinned(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> Pinned:
    account = Account(embedded, launcher)
    s3 = account.client("s3")
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="run-17/model.tar.gz", Body=BODY)
    file = tmp_path_factory.mktemp("pinned") / "environments" / "prod.toml"
    file.parent.mkdir()
    file.write_text(TEXT.replace("eu-west-1", "us-east-1"))
    return Pinned(account, file, servable(account, file, "pin", "prod"))


def test_pin_writes_hash_and_sizes_and_keeps_comments(pinned: Pinned) -> None:
    assert pinned.ran.returncode == 0
    assert f'sha256 = "{hashlib.sha256(BODY).hexdigest()}"' in pinned.text
    assert f"size_bytes = {len(BODY)}" in pinned.text
    assert "size_gib = 0.01" in pinned.text
    kept = [comment in pinned.text for comment in ("# written by the training job", "# pinned")]
    assert kept == [True, True]
    assert servable(pinned.account, pinned.file, "check", "prod").stdout.startswith("prod  ok")


def test_what_is_no_gzip_has_no_size_unpacked(pinned: Pinned) -> None:
    s3 = pinned.account.client("s3")
    s3.put_object(Bucket="models", Key="other/model.tar.gz", Body=b"no gzip")
    assert measure_archive(s3, "s3://models/other/model.tar.gz").size_gib is None


def test_pinning_again_changes_nothing(pinned: Pinned, tmp_path: Path) -> None:
    file = tmp_path / "prod.toml"
    file.write_text(TEXT)
    found = measure_archive(pinned.account.client("s3"), URI)
    assert [write_pin(file, "ranker", found), write_pin(file, "ranker", found)] == [True, False]


def test_what_cannot_be_pinned_is_a_sentence(pinned: Pinned) -> None:
    with pytest.raises(
        PinError, match="s3://models/none.tar.gz: cannot be read: .*NoSuchKey.*; check"
    ):
        measure_archive(pinned.account.client("s3"), "s3://models/none.tar.gz")

    ran = servable(pinned.account, pinned.file, "pin", "prdo")
    assert ran.returncode == 2
    assert "there is no environment 'prdo'; allowed: prod" in ran.stderr

    nobodys = {**os.environ, "PYTHONPATH": str(ROOT), "AWS_PROFILE": "nobody"}
    project = pinned.file.parents[1]
    ran = run_in(project, sys.executable, "-m", "servable", "pin", "prod", environment=nobodys)
    said = "prod: The config profile (nobody) could not be found; check your AWS configuration\n"
    assert (ran.returncode, ran.stderr) == (1, said)


@pytest.mark.parametrize(
    ("image", "line"),
    [
        (f"{'1' * 12}.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-inference:2.19.0-cpu", '"2.19"'),
        (f"{'1' * 12}.dkr.ecr.eu-west-1.amazonaws.com/serving:v3", 'serving:v3"'),
    ],
)
def test_a_package_gets_its_archive_and_image(tmp_path: Path, image: str, line: str) -> None:
    file = tmp_path / "prod.toml"
    alone = 'artifact = { model_package = "ranker/7" }'
    file.write_text(VALID.replace('saved_model = "model"', alone))
    write_pin(file, "ranker", PinnedArchive(URI, "a" * 64, 12, None), image=image)
    text = file.read_text()
    assert [part in text for part in (f'uri = "{URI}"', 'package = "ranker/7"', line)] == [True] * 3


@pytest.fixture
def registry(embedded: LocalAws, launcher: Launcher) -> Any:
    """Three versions of ranker: approved, approved, waiting for approval."""
    sagemaker = Account(embedded, launcher).client("sagemaker")
    sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
    for status in ("Approved", "Approved", "PendingManualApproval"):
        sagemaker.create_model_package(
            ModelPackageGroupName="ranker", ModelApprovalStatus=status,
            ModelPackageDescription="a version")  # fmt: skip
    return sagemaker


def test_the_newest_version_is_the_newest_approved_one(registry: Any) -> None:
    assert find_newest_approved(registry, "ranker/1") == "ranker/2"
    registry.create_model_package_group(ModelPackageGroupName="other")
    with pytest.raises(PinError, match="other: no version is approved"):
        find_newest_approved(registry, "other/1")


def test_another_version_is_written_beside_its_archive(tmp_path: Path) -> None:
    file = tmp_path / "prod.toml"
    alone = 'artifact = { model_package = "ranker/1" }'
    file.write_text(VALID.replace('saved_model = "model"', alone))
    write_pin(file, "ranker", PinnedArchive(URI, "a" * 64, 12, None), package="ranker/2")
    assert 'model_package = "ranker/2"' in file.read_text()


def test_the_page_of_p2_puts_its_archive_into_the_local_s3_and_pins_it(
    embedded: LocalAws, launcher: Launcher, tmp_path: Path
) -> None:
    page = (ROOT / "examples/pages/README.md").read_text()
    (put,) = (line.strip() for line in page.splitlines() if line.strip().startswith("python -c"))
    shutil.copytree(ROOT / "examples" / "pages", tmp_path / "examples" / "pages")
    account = Account(embedded, launcher)
    inside = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment = account.aws.environment_over(inside, account=account.number)
    _, option, program = shlex.split(put)
    ran = run_in(tmp_path, sys.executable, option, program, environment=environment)
    assert ran.returncode == 0, ran.stderr
    pinning = ["-m", "servable", "pin", "p2", "--environments", "examples/pages"]
    ran = run_in(tmp_path, sys.executable, *pinning, environment=environment)
    assert ran.returncode == 0, ran.stderr
    packed = hashlib.sha256((tmp_path / "model.tar.gz").read_bytes()).hexdigest()
    written = "".join(file.read_text() for file in (tmp_path / "examples/pages").glob("*.toml"))
    assert packed in written
