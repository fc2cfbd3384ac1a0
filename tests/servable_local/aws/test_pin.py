"""`servable pin ENV`, against the local AWS."""

import gzip
import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from servable.pin.command import (
    PinError,
    PinnedArchive,
    find_newest_approved,
    measure_archive,
    write_pin,
)
from tests.checkouts import ROOT, Ran, run_in
from tests.conftest import VALID
from tests.servable_local.aws.local_account import Account

BODY = gzip.compress(b"an archive" * 1_000_000, mtime=0)
URI = "s3://models/run-17/model.tar.gz"
TEXT = VALID.replace(
    'saved_model = "model"',
    f'# written by the training job\nartifact = {{ uri = "{URI}", sha256 = "{"0" * 64}" }}  # pinned',
)


@pytest.fixture(scope="module")
def account(accounts: Account) -> Account:
    """An account with an archive."""
    account = accounts.another()
    s3 = account.client("s3")
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="run-17/model.tar.gz", Body=BODY)
    return account


def servable(account: Account, project: Path, *arguments: str, **variables: str) -> Ran:
    inside = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment = account.aws.environment_over(inside, account=account.number) | variables
    return run_in(project, sys.executable, "-m", "servable", *arguments, environment=environment)


@pytest.mark.long  # each command takes a second
def test_pin_writes_hash_and_sizes_and_keeps_comments(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "environments" / "prod.toml"
    file.parent.mkdir()
    file.write_text(TEXT.replace("eu-west-1", "us-east-1"))
    assert servable(account, tmp_path, "pin", "prod").returncode == 0
    text = file.read_text()
    assert f'sha256 = "{hashlib.sha256(BODY).hexdigest()}"' in text
    assert f"size_bytes = {len(BODY)}" in text
    assert "size_gib = 0.01" in text
    assert "# written by the training job" in text
    assert "# pinned" in text
    assert servable(account, tmp_path, "check", "prod").stdout.startswith("prod  ok")

    ran = servable(account, tmp_path, "pin", "prdo")
    assert ran.returncode == 2
    assert "there is no environment 'prdo'; allowed: prod" in ran.stderr
    nobodys = {**os.environ, "PYTHONPATH": str(ROOT), "AWS_PROFILE": "nobody"}
    command = [sys.executable, "-m", "servable", "pin", "prod"]
    ran = run_in(tmp_path, *command, environment=nobodys)
    said = "prod: The config profile (nobody) could not be found; check your AWS configuration\n"
    assert (ran.returncode, ran.stderr) == (1, said)


def test_pinning_again_changes_nothing(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "prod.toml"
    file.write_text(TEXT)
    found = measure_archive(account.client("s3"), URI)
    assert [write_pin(file, "ranker", found), write_pin(file, "ranker", found)] == [True, False]


def test_what_is_no_gzip_or_not_there_is_seen(account: Account) -> None:
    s3 = account.client("s3")
    s3.put_object(Bucket="models", Key="other/model.tar.gz", Body=b"no gzip")
    assert measure_archive(s3, "s3://models/other/model.tar.gz").size_gib is None
    message = "s3://models/none.tar.gz: cannot be read: .*NoSuchKey.*; check"
    with pytest.raises(PinError, match=message):
        measure_archive(s3, "s3://models/none.tar.gz")


def test_a_package_gets_its_archive_and_image_or_another_version(tmp_path: Path) -> None:
    file = tmp_path / "prod.toml"
    packed = PinnedArchive(URI, "a" * 64, 12, None)

    def pinned(**more: str) -> str:
        alone = 'artifact = { model_package = "ranker/7" }'
        file.write_text(VALID.replace('saved_model = "model"', alone))
        write_pin(file, "ranker", packed, **more)
        return file.read_text()

    registry = f"{'1' * 12}.dkr.ecr.eu-west-1.amazonaws.com"
    images = {"tensorflow-inference:2.19.0-cpu": '"2.19"', "serving:v3": 'serving:v3"'}
    for image, line in images.items():
        text = pinned(image=f"{registry}/{image}")
        assert f'uri = "{URI}"' in text
        assert 'package = "ranker/7"' in text
        assert line in text
        assert write_pin(file, "ranker", packed, image=f"{registry}/serving:v4")
    assert 'model_package = "ranker/8"' in pinned(package="ranker/8")


def test_the_newest_version_is_the_newest_approved_one(account: Account) -> None:
    sagemaker = account.client("sagemaker")
    for name in ("ranker", "other"):
        sagemaker.create_model_package_group(ModelPackageGroupName=name)
    for status in ("Approved", "Approved", "PendingManualApproval"):
        given = {"ModelPackageGroupName": "ranker", "ModelApprovalStatus": status}
        sagemaker.create_model_package(**given, ModelPackageDescription="a version")
    assert find_newest_approved(sagemaker, "ranker/1") == "ranker/2"
    with pytest.raises(PinError, match="other: no version is approved"):
        find_newest_approved(sagemaker, "other/1")


@pytest.mark.long  # two commands
def test_the_page_of_p2_puts_its_archive_into_the_local_s3_and_pins_it(
    account: Account, tmp_path: Path
) -> None:
    page = (ROOT / "examples/pages/README.md").read_text()
    (put,) = (line.strip() for line in page.splitlines() if line.strip().startswith("python -c"))
    shutil.copytree(ROOT / "examples" / "pages", tmp_path / "examples" / "pages")
    account = account.another()
    environment = account.aws.environment_over(dict(os.environ), account=account.number)
    ran = run_in(tmp_path, sys.executable, *shlex.split(put)[1:], environment=environment)
    assert ran.returncode == 0, ran.stderr
    ran = servable(account, tmp_path, "pin", "p2", "--environments", "examples/pages")
    assert ran.returncode == 0, ran.stderr
    packed = hashlib.sha256((tmp_path / "model.tar.gz").read_bytes()).hexdigest()
    written = "".join(file.read_text() for file in (tmp_path / "examples/pages").glob("*.toml"))
    assert packed in written
