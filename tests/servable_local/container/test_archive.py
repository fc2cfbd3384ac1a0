"""What is unpacked of an archive, where the image finds models and code in it, and whose folders it loads."""

import os
import resource
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tarfile import CHRTYPE, FIFOTYPE, LNKTYPE, REGTYPE, SYMTYPE, TarInfo
from tarfile import open as open_tar
from typing import Any

import pytest

from servable_local.container.gunicorn.app import explain_foreign_access
from servable_tensors.archive import ArchiveError, LayoutError, find_code, find_models, unpack
from tests.conformance.archives import pack

Files = Callable[..., Path]


def _unpack_member(folder: Path, name: str, kind: bytes = REGTYPE, linkname: str = "") -> None:
    member = TarInfo(name)
    member.type, member.linkname = kind, linkname
    with open_tar(folder / "model.tar.gz", "w:gz") as tar:
        tar.addfile(member)
    unpack(folder / "model.tar.gz", folder / "unpacked")


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (("1/evil", SYMTYPE, "/etc/passwd"), "'1/evil' is a link to '/etc/passwd'"),
        (("1/evil", LNKTYPE, "../x"), "'1/evil' is a link to '../x'"),
        (("/etc/evil",), "'/etc/evil' is an absolute path"),
        (("1/../../evil",), "'1/../../evil' is a path with '..'"),
        (("1/evil", CHRTYPE), "'1/evil' is a device or a pipe"),
        (("1/evil", FIFOTYPE), "'1/evil' is a device or a pipe"),
    ],
)
def test_what_could_reach_outside_the_folder_is_refused(
    member: tuple[Any, ...], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError) as refusal:
        _unpack_member(tmp_path, *member)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(("folders", "refused"), [(99, False), (100, True), (2000, True)])
def test_folders_that_lie_too_deep_are_refused_in_a_sentence(
    folders: int, refused: bool, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError, match="deeper than 100") if refused else nullcontext():
        _unpack_member(tmp_path, "/".join(["d"] * folders + ["saved_model.pb"]))


def test_files_are_written_below_the_folder_of_a_whole_tar_gz_alone(tmp_path: Path) -> None:
    archive, here = tmp_path / "model.tar.gz", Path(__file__)
    archive.write_bytes(b"PK not a tar")
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz: not a readable \.tar\.gz"):
        unpack(archive, tmp_path)

    pack(archive, folders={"1/saved_model.pb": here})
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(ArchiveError, match="not a readable"):
        unpack(archive, tmp_path / "cut")

    unpack(pack(archive, folders={"./1/variables/file": here}), tmp_path / "unpacked")
    assert (tmp_path / "unpacked/1/variables/file").read_bytes() == here.read_bytes()


@pytest.mark.long
def test_progress_is_reported_in_bytes_of_the_archive(tmp_path: Path) -> None:
    archive, large = tmp_path / "model.tar.gz", os.urandom(9_000_000)
    pack(archive, {"1/large": large})
    reports: list[tuple[int, int]] = []
    unpack(archive, tmp_path / "unpacked", progress=lambda *report: reports.append(report))
    read, sizes = zip(*reports, strict=True)
    assert len(read) == 2  # one for each 8 MiB
    assert sorted(read) == list(read)
    assert read[0] < 8_900_000 < read[-1] <= archive.stat().st_size
    assert set(sizes) == {archive.stat().st_size}
    assert (tmp_path / "unpacked/1/large").read_bytes() == large


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An archive with a file of 4 MiB."""
    return pack(tmp_path / "large.tar.gz", {"1/variables/shard": os.urandom(4 << 20)})


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


@pytest.fixture
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """files("1/saved_model.pb", …): a new folder with these files."""

    def made(*names: str) -> Path:
        root = tmp_path_factory.mktemp("archive")
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        return root

    return made


def test_a_model_is_named_after_its_folder_and_a_version_is_a_number(files: Files) -> None:
    root = files("1/saved_model.pb", "2/saved_model.pb")
    assert find_models(root) == {"model": {1: root / "1", 2: root / "2"}}
    root = files("a/1/saved_model.pb", "export/b/7/saved_model.pb")
    assert list(find_models(root)) == ["a", "b"]

    root = files("a/0012/saved_model.pb")
    assert find_models(root)["a"] == {12: root / "a/0012"}
    root = files("a/1/saved_model.pb", "a/latest/saved_model.pb")
    assert list(find_models(root)["a"]) == [1]


def test_versions_that_the_image_refuses_or_hangs_on_are_refused(files: Files) -> None:
    with pytest.raises(LayoutError, match="version 0"):
        find_models(files("00/saved_model.pb"), takes_zero=False)
    root = files("0/saved_model.pb")
    assert find_models(root) == {"model": {0: root / "0"}}
    with pytest.raises(LayoutError, match=r"it contains model/saved_model\.pb, readme\.txt"):
        find_models(files("model/saved_model.pb", "readme.txt"))
    # A folder without a SavedModel ends the container; a file of that name is waited for.
    for second in ("a/2/readme.txt", "a/2"):
        with pytest.raises(LayoutError, match=r"a/2 has no saved_model\.pb"):
            find_models(files("a/1/saved_model.pb", second))


def test_each_of_three_names_switches_the_python_side_on(files: Files) -> None:
    root = files("code/inference.py/x")
    code = find_code(root)
    assert code is not None
    assert code.inference == root / "code/inference.py"
    for name in ("code/inference.py", "code/lib/x.py", "code/requirements.txt"):
        assert find_code(files(name)) is not None
    assert find_code(files("1/saved_model.pb", "code/readme.txt")) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    made = tmp_path / "outer" / "model"
    made.mkdir(parents=True)
    made.chmod(0o755)
    return made


def test_folders_that_every_user_can_write_to_are_named_unless_nobody_reaches_them(
    folder: Path,
) -> None:
    outer = folder.parent
    assert explain_foreign_access(folder) is None
    outer.chmod(0o777)
    assert str(explain_foreign_access(folder)).startswith(f"{outer}: every user can write to it; ")

    outer.chmod(0o1777)
    assert explain_foreign_access(folder) is None
    folder.chmod(0o1777)
    assert str(explain_foreign_access(folder)).startswith(f"{folder}: every user")

    # pytest's own folder below /tmp is 0700, as what tempfile.mkdtemp makes.
    (folder / "inner").mkdir(mode=0o755)
    folder.chmod(0o700)
    outer.chmod(0o777)
    assert explain_foreign_access(folder / "inner") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_parent_of_another_user_is_named(folder: Path) -> None:
    os.chown(folder.parent, 12345, 12345)
    named = f"{folder.parent}: belongs to another user"
    assert str(explain_foreign_access(folder)).startswith(named)
