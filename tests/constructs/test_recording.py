"""The record of a deployment, as the CDK CLI has it written."""

import os
import resource
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from infra.recording import build_command

pytestmark = pytest.mark.long


def test_only_its_owner_can_read_records(tmp_path: Path) -> None:
    """Also in a folder that an earlier release has made."""
    folder = tmp_path / ".servable" / "deployments"
    folder.mkdir(parents=True, mode=0o755)
    file = folder / "ranker.json"
    subprocess.run(
        build_command({}, file=file, root=tmp_path),
        check=True,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"},
        preexec_fn=lambda: os.umask(0o022) and None,
    )
    assert [path.stat().st_mode & 0o777 for path in (folder, file)] == [0o700, 0o600]


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    """A project on a disk without room."""
    (small_disk / ".servable" / "deployments").mkdir(parents=True)
    with suppress(OSError):
        (small_disk / "filling").write_bytes(bytes(2 << 20))
    return small_disk


def run_recording(file: Path, most_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Record a deployment; `most_bytes` limits the size of files."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    # With the limit, Python would cut off the bytecode of modules that it compiles.
    only = {"PATH": os.defpath, "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        build_command({"settings": "x" * 10_000}, file=file, root=file.parent),
        capture_output=True,
        text=True,
        env=only | {"AWS_EC2_METADATA_DISABLED": "true"},
        preexec_fn=limit,
    )


def test_a_full_disk_is_named_and_keeps_the_record_that_was_there(full_disk: Path) -> None:
    file = full_disk / ".servable" / "deployments" / "ranker.json"
    file.touch()
    ran = run_recording(file)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"{file}: cannot write the deployment's record: No space left on device; make room in "
        f"{file.parent}, then deploy again\n"
    )
    assert list(file.parent.iterdir()) == [file]


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".servable" / "deployments" / "ranker.json"
    ran = run_recording(file, most_bytes=1000)
    assert (ran.returncode, "File too large; raise the limit" in ran.stderr) == (1, True), (
        ran.stderr
    )
    assert list(file.parent.iterdir()) == []
