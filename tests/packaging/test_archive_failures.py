"""Disk full, files that do not hold still, kill -9: a sentence, and nothing half left behind."""

import errno
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.archive import Packed, pack
from model_packaging.inputs import ArchiveInputs, Servable
from tests.packaging.conftest import refusal


def _without_code(inputs: ArchiveInputs) -> ArchiveInputs:
    """The graph comes first then, so that progress is told while it is open."""
    return replace(inputs, code=None)


def test_a_file_that_is_written_while_it_is_packed_is_refused(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    graph = version / "saved_model.pb"
    before = graph.stat()

    def rewrite(*_: int) -> None:
        graph.write_bytes(b"A GRAPH")
        os.utime(graph, ns=(before.st_atime_ns, before.st_mtime_ns))

    def grow(*_: int) -> None:
        with graph.open("ab") as file:
            file.write(b"more")

    for change in (rewrite, grow):
        said = refusal(pack, _without_code(inputs), tmp_path / "a.tar.gz", progress=change)
        assert "changed while it was read; try again when no process writes" in said


def test_a_file_that_shrank_since_it_was_listed_is_refused(
    inputs: ArchiveInputs, version: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "readv", lambda *_: 0)
    assert "changed while it was read" in refusal(pack, inputs, tmp_path / "a.tar.gz")


@pytest.fixture
def nobody() -> Iterator[None]:
    """A user whom permissions hold back, as they do not hold back root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def closed(inputs: ArchiveInputs, version: Path) -> Path:
    """A file that nobody but its owner may read, in folders that everybody may pass."""
    shard = version / "variables" / "shard"
    shard.write_bytes(b"weights")
    shard.chmod(0o000)
    for folder in version.parents:
        if os.geteuid() == 0 and folder.is_relative_to(Path(tempfile.gettempdir())):
            folder.chmod(folder.stat().st_mode | 0o055)
    return shard


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder that everybody may write."""
    folder = tmp_path / "out"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_a_file_that_this_user_may_not_read_is_named_and_leaves_nothing(
    inputs: ArchiveInputs, closed: Path, out: Path, nobody: None
) -> None:
    said = refusal(pack, _without_code(inputs), out / "a.tar.gz")
    assert said == f"{closed}: cannot be read: Permission denied; let this user read it"
    assert list(out.iterdir()) == []


def test_a_full_disk_is_said_left_empty_and_keeps_the_archive_that_was_there(
    inputs: ArchiveInputs, version: Path, small_disk: Path
) -> None:
    (version / "variables" / "shard").write_bytes(os.urandom(4 << 20))
    archive = small_disk / "a.tar.gz"
    said = f"{archive}: cannot be written: No space left on device"
    assert said in refusal(pack, inputs, archive)
    assert list(small_disk.iterdir()) == []
    archive.write_bytes(b"before")
    assert said in refusal(pack, inputs, archive)
    assert archive.read_bytes() == b"before"


def test_a_limit_on_the_size_of_files_is_not_answered_with_another_folder(
    inputs: ArchiveInputs, version: Path, out: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (version / "variables" / "shard").write_bytes(os.urandom(4 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        said = refusal(pack, inputs, out / "a.tar.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ("File too large; raise the limit" in said, "choose a folder" in said) == (True, False)
    assert list(out.iterdir()) == []


def test_an_interrupted_packing_and_a_failure_of_the_disk_leave_nothing(
    inputs: ArchiveInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(inputs, tmp_path / "out" / "a.tar.gz", progress=interrupt)
    assert list((tmp_path / "out").iterdir()) == []

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    said = refusal(pack, inputs, tmp_path / "out" / "a.tar.gz")
    assert "cannot be written: Input/output error" in said
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_this_user_may_not_enter_is_named(
    inputs: ArchiveInputs, closed: Path, out: Path, nobody: None
) -> None:
    if os.geteuid() == 65534:
        os.seteuid(0)
        inputs.servables[0].folder.parent.chmod(0o700)
        os.seteuid(65534)
    else:
        inputs.servables[0].folder.chmod(0o000)
    said = refusal(pack, _without_code(inputs), out / "a.tar.gz")
    assert "cannot be read: Permission denied; let this user read it" in said


RANDOM = random.Random(7)
# What the child says before it is killed, and after which share of the packing's time, or seconds.
# The rename follows the fsync, whose end the child tells: from before it to after it.
KILLS = [
    *(("starts", round(RANDOM.random(), 3)) for _ in range(15)),
    *(("on the disk", seconds) for seconds in (0.0, 0.0001, 0.0003, 0.001, 0.01)),
]

CHILD = """
import os, sys
from pathlib import Path
from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, Servable
fsync = os.fsync
def told(descriptor):
    fsync(descriptor)
    print("on the disk", flush=True)
os.fsync = told
inputs = ArchiveInputs(servables=(Servable(name="m", folder=Path(sys.argv[1])),))
print("starts", flush=True)
pack(inputs, Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ArchiveInputs, Packed]]:
    """A model of 100 MB, and the archive that it becomes."""
    folder = tmp_path_factory.mktemp("killed")
    version = folder / "model" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"a graph")
    with (version / "weights").open("wb") as file:
        for number in range(100):
            file.write(random.Random(number).randbytes(1_000_000))
    inputs = ArchiveInputs(servables=(Servable(name="m", folder=folder / "model"),))
    whole = pack(inputs, folder / "whole.tar.gz")
    whole.path.unlink()
    yield inputs, whole
    (version / "weights").unlink()


@pytest.mark.long
@pytest.mark.parametrize(("line", "after"), KILLS)
def test_killed_while_packing_or_around_the_rename_nothing_half_has_the_name(
    killable: tuple[ArchiveInputs, Packed], tmp_path: Path, line: str, after: float
) -> None:
    inputs, whole = killable
    target = tmp_path / "out" / "model.tar.gz"
    command = [sys.executable, "-c", CHILD, str(inputs.servables[0].folder), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            while child.stdout.readline().strip() != line:
                assert child.poll() is None
            time.sleep(after * whole.seconds if line == "starts" else after)
        finally:
            child.kill()
    if target.exists():
        assert hashlib.sha256(target.read_bytes()).hexdigest() == whole.sha256
    assert pack(inputs, target).sha256 == whole.sha256  # the next run succeeds
    assert [path.name for path in target.parent.iterdir()] == [target.name]
