"""Disk full, files that cannot be read or do not hold still: a sentence, and nothing left behind."""

import errno
import os
import re
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, Servable
from model_packaging.refusal import PackagingError


def _without_code(inputs: ArchiveInputs) -> ArchiveInputs:
    """The graph comes first then, so that progress is told while it is open."""
    return ArchiveInputs(servables=(Servable(name=inputs.name, folder=inputs.servables[0].folder),))


def test_a_file_that_is_written_while_it_is_packed_is_refused(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    graph = version / "saved_model.pb"
    before = graph.stat()

    def rewrite(*_: int) -> None:
        graph.write_bytes(b"A GRAPH")
        os.utime(graph, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(PackagingError, match="changed while it was read"):
        pack(_without_code(inputs), tmp_path / "a.tar.gz", progress=rewrite)

    graph = version / "saved_model.pb"

    def grow(*_: int) -> None:
        with graph.open("ab") as file:
            file.write(b"more")

    with pytest.raises(
        PackagingError, match="changed while it was read; try again when no process writes"
    ):
        pack(_without_code(inputs), tmp_path / "a.tar.gz", progress=grow)


def test_a_file_that_shrank_since_it_was_listed_is_refused(
    inputs: ArchiveInputs, version: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "readv", lambda *_: 0)
    with pytest.raises(PackagingError, match="changed while it was read"):
        pack(inputs, tmp_path / "a.tar.gz")


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
    with pytest.raises(PackagingError) as caught:
        pack(_without_code(inputs), out / "a.tar.gz")
    said = f"{closed}: cannot be read: Permission denied; let this user read it"
    assert str(caught.value) == said
    assert list(out.iterdir()) == []


def test_a_full_disk_is_said_left_empty_and_keeps_the_archive_that_was_there(
    inputs: ArchiveInputs, version: Path, small_disk: Path
) -> None:
    (version / "variables" / "shard").write_bytes(os.urandom(4 << 20))
    archive = small_disk / "a.tar.gz"
    said = f"{archive}: cannot be written: No space left on device"
    with pytest.raises(PackagingError, match=re.escape(said)):
        pack(inputs, archive)
    assert list(small_disk.iterdir()) == []
    archive.write_bytes(b"before")
    with pytest.raises(PackagingError):
        pack(inputs, archive)
    assert archive.read_bytes() == b"before"


def test_a_limit_on_the_size_of_files_is_not_answered_with_another_folder(
    inputs: ArchiveInputs, version: Path, out: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (version / "variables" / "shard").write_bytes(os.urandom(4 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(PackagingError, match="File too large; raise the limit") as caught:
            pack(inputs, out / "a.tar.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "choose a folder" not in str(caught.value)
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
    with pytest.raises(PackagingError, match="cannot be written: Input/output error"):
        pack(inputs, tmp_path / "out" / "a.tar.gz")
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
    with pytest.raises(
        PackagingError, match="cannot be read: Permission denied; let this user read it"
    ):
        pack(_without_code(inputs), out / "a.tar.gz")
