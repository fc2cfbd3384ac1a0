import io
import os
import resource
import tarfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from servable_tensors.archive import ArchiveError, unpack


def _archive_of(member: tarfile.TarInfo, folder: Path) -> Path:
    archive = folder / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(member)
    return archive


def _member(name: str, kind: bytes = tarfile.REGTYPE, linkname: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, linkname
    return member


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (_member("1/evil", tarfile.SYMTYPE, "/etc/passwd"), "'1/evil' is a link to '/etc/passwd'"),
        (_member("1/evil", tarfile.LNKTYPE, "../x"), "'1/evil' is a link to '../x'"),
        (_member("/etc/evil"), "'/etc/evil' is an absolute path"),
        (_member("1/../../evil"), "'1/../../evil' is a path with '..'"),
        (_member("1/evil", tarfile.CHRTYPE), "'1/evil' is a device or a pipe"),
        (_member("1/evil", tarfile.FIFOTYPE), "'1/evil' is a device or a pipe"),
    ],
)
def test_what_could_reach_outside_the_folder_is_refused(
    member: tarfile.TarInfo, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError) as refusal:
        unpack(_archive_of(member, tmp_path), tmp_path / "unpacked")
    assert sentence in str(refusal.value)


def test_a_file_that_is_no_whole_tar_gz_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    archive.write_bytes(b"PK not a tar")
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz: not a readable \.tar\.gz"):
        unpack(archive, tmp_path)

    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, "1/saved_model.pb")
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(ArchiveError, match="not a readable"):
        unpack(archive, tmp_path / "unpacked")


def test_files_are_written_below_the_folder(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, "./1/variables/file")
    unpack(archive, tmp_path / "unpacked")
    assert (tmp_path / "unpacked/1/variables/file").read_bytes() == Path(__file__).read_bytes()


@pytest.mark.long
def test_progress_is_reported_in_bytes_of_the_archive(tmp_path: Path) -> None:
    archive, large = tmp_path / "model.tar.gz", tmp_path / "large"
    large.write_bytes(os.urandom(9_000_000))
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(large, "1/large")
    reports: list[tuple[int, int]] = []
    unpack(archive, tmp_path / "unpacked", progress=lambda *report: reports.append(report))
    read, sizes = zip(*reports, strict=True)
    assert len(read) == 2  # one for each 8 MiB
    assert sorted(read) == list(read)
    assert read[0] < 8_900_000 < read[-1] <= archive.stat().st_size
    assert set(sizes) == {archive.stat().st_size}
    assert (tmp_path / "unpacked/1/large").read_bytes() == large.read_bytes()


@pytest.mark.parametrize(("folders", "refused"), [(99, False), (100, True), (2000, True)])
def test_folders_that_lie_too_deep_are_refused_in_a_sentence(
    folders: int, refused: bool, tmp_path: Path
) -> None:
    member = _member("/".join(["d"] * folders + ["saved_model.pb"]))
    archive = _archive_of(member, tmp_path)
    with pytest.raises(ArchiveError, match="deeper than 100") if refused else nullcontext():
        unpack(archive, tmp_path / "unpacked")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An archive with a file of 4 MiB."""
    archive, member = tmp_path / "large.tar.gz", _member("1/variables/shard")
    member.size = 4 << 20
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(member, io.BytesIO(os.urandom(member.size)))
    return archive


def test_a_full_disk_is_blamed_on_the_folder_and_not_on_the_archive(
    large: Path, small_disk: Path
) -> None:
    folder = small_disk / "model"
    with pytest.raises(ArchiveError) as caught:
        unpack(large, folder)
    assert str(caught.value) == (
        f"{folder}: cannot be written: No space left on device; make room there, or set TMPDIR to another "
        "folder"
    )


def test_a_limit_on_the_size_of_files_is_not_answered_with_another_folder(
    large: Path, tmp_path: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(ArchiveError, match="File too large; raise the limit") as caught:
            unpack(large, tmp_path / "unpacked")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "TMPDIR" not in str(caught.value)
