"""What cannot be in an archive: the path, what is wrong, what to do."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.inputs import ArchiveInputs
from tests.packaging.conftest import refusal


def names(inputs: ArchiveInputs) -> list[str]:
    return [entry.name for entry in inputs.build_tree().entries]


def refused(inputs: ArchiveInputs) -> str:
    return refusal(inputs.build_tree)


def test_a_link_is_packed_as_what_it_points_to_inside_its_folder_or_refused(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("")
    link = version / "link"
    for target, problem in [
        ("../../secret", "is a link to a path outside its folder"),
        ("/etc/hostname", "is a link to a path outside its folder"),
        ("variables", "is a link to a folder"),
        ("gone", "is a broken link"),
        ("link", "is a broken link"),
    ]:
        link.symlink_to(target)
        assert refused(inputs) == f"{link}: {problem}; replace it with a copy"
        link.unlink()
    link.symlink_to("saved_model.pb")
    size = {entry.name: entry.status.st_size for entry in inputs.build_tree().files}
    assert size["ranker/1/link"] == len(b"a graph")

    (version.parent / "2").symlink_to("1")
    assert refused(inputs).startswith(f"{version.parent / '2'}: is a link to a folder")


def test_a_pipe_and_a_socket_are_refused(
    inputs: ArchiveInputs, version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(version)  # a socket's address has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "is a socket, not a file or a folder; remove it" in refused(inputs)
    os.mkfifo(version / "pipe")
    assert refused(inputs) == f"{version / 'pipe'}: is a pipe, not a file or a folder; remove it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_device_is_refused(inputs: ArchiveInputs, version: Path) -> None:
    try:
        os.mknod(version / "device", 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container lets nobody make device files")
    assert "is a device, not a file or a folder; remove it" in refused(inputs)


def test_a_name_that_is_not_utf8_is_refused(inputs: ArchiveInputs, version: Path) -> None:
    try:
        (version / os.fsdecode(b"\xff")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    assert "has a name that is not UTF-8; rename it" in refused(inputs)


def test_a_model_or_version_whose_folder_would_be_another_is_refused(
    inputs: ArchiveInputs, version: Path
) -> None:
    for model in ["/etc", "..", "", "a/b", "code"]:
        named = replace(inputs, servables=(replace(inputs.servables[0], name=model),))
        said = f"the model's name {model!r} cannot be the name of a folder next to code/"
        assert said in refused(named)
    (version.parent / "01").mkdir()
    (version.parent / "01" / "saved_model.pb").write_bytes(b"a graph")
    assert "is a second version 1" in refused(inputs)


def test_caches_version_control_and_what_we_make_ourselves_are_left_out(
    inputs: ArchiveInputs, version: Path
) -> None:
    before = names(inputs)
    left_out = [version / ".DS_Store", version / ".git", version / ".pytest_cache"]
    left_out += [version / ".servable", version / ".servable-0.part", version / "__pycache__"]
    for folder in left_out:
        folder.mkdir()
        (folder / "inside").write_bytes(b"")
        assert names(inputs) == before
    # What lies beside versions is listed, too.
    (version.parent / ".git").mkdir()
    (version.parent / "notes.txt").write_bytes(b"")
    beside = [version.parent / ".git", version.parent / "notes.txt"]
    assert sorted(inputs.build_tree().left_out) == sorted(beside + left_out)


@pytest.fixture
def deep(version: Path) -> Iterator[Path]:
    """Taken away by rm: pytest's own way goes one Python call deeper with each folder."""
    (version / "deep").mkdir()
    yield version / "deep"
    subprocess.run(["rm", "-rf", str(version / "deep")], check=True)


def test_folders_deeper_than_pythons_stack_are_packed(inputs: ArchiveInputs, deep: Path) -> None:
    for _ in range(sys.getrecursionlimit() + 100):
        deep = deep / "a"
        deep.mkdir()
    assert len(names(inputs)) > sys.getrecursionlimit()


def test_names_too_long_for_the_disk_say_so(inputs: ArchiveInputs, deep: Path) -> None:
    here = os.open(deep, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("a" * 250, dir_fd=here)
        below = os.open("a" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert refused(inputs).endswith("cannot be read: File name too long; shorten its names")


def test_a_version_the_server_cannot_count_is_refused(inputs: ArchiveInputs, version: Path) -> None:
    high = version.rename(version.parent / str(2**63))
    assert refused(inputs).startswith(f"{high}: is above {2**63 - 1}, the highest version")
