"""What is written below .servable is for its owner alone, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_packaging.beside import create_private_folder, open_atomically, touch_private
from servable.package.command import package
from tests.conftest import VALID
from tests.packaging.wheelhouse import wheel


@pytest.fixture
def umask_0() -> Iterator[None]:
    """Files get all rights that their maker does not withhold."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """What below `folder`, itself included, another user has a right to."""
    return [str(one) for one in (folder, *folder.rglob("*")) if mode(one) & 0o077]


@pytest.mark.usefixtures("umask_0")
def test_folders_from_dot_servable_down_are_0700_and_files_0600(tmp_path: Path) -> None:
    create_private_folder(tmp_path / ".servable" / "load" / "run")
    assert {mode(file) for file in (tmp_path / ".servable").glob("**/")} == {0o700}
    target = tmp_path / ".servable" / "archives" / "key.tar.gz"
    with open_atomically(target) as file:
        assert open_to_others(tmp_path / ".servable") == []  # while it is written, too
        file.write(b"content")
    touch_private(target.with_name("lock"))
    assert (mode(target), open_to_others(tmp_path / ".servable")) == (0o600, [])


def test_a_folder_loses_wider_rights_below_dot_servable_alone(tmp_path: Path) -> None:
    (tmp_path / ".servable" / "load").mkdir(parents=True)
    (tmp_path / ".servable" / "load").chmod(0o755)
    (tmp_path / ".servable").chmod(0o777)
    create_private_folder(tmp_path / ".servable" / "load")
    assert open_to_others(tmp_path / ".servable") == []
    (tmp_path / "results").mkdir()
    (tmp_path / "results").chmod(0o755)
    create_private_folder(tmp_path / "results")
    assert mode(tmp_path / "results") == 0o755


@pytest.mark.usefixtures("umask_0")
def test_a_file_elsewhere_has_the_rights_that_the_umask_gives(tmp_path: Path) -> None:
    with open_atomically(tmp_path / "prod.toml") as file:
        file.write(b"content")
    assert mode(tmp_path / "prod.toml") == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / ".servable"
    folder.mkdir()
    folder.chmod(0o777)
    os.chown(folder, 12345, 12345)
    create_private_folder(folder)
    assert mode(folder) == 0o777


@pytest.mark.long
@pytest.mark.usefixtures("umask_0")
def test_archives_and_wheels_can_be_reached_by_their_owner_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    (project / "environments" / "prod.toml").write_text(text)
    (project / "code" / "requirements.txt").write_text("plain\n")
    wheel(project, "plain")
    (project / ".servable").mkdir()
    monkeypatch.chdir(project)
    package.main(["prod", "--find-links", "."], standalone_mode=False)
    made = {path.name for path in (project / ".servable").iterdir()}
    assert {"archives", "wheels", "lib"} <= made
    folders = [path for path in (project / ".servable").iterdir() if path.is_dir()]
    assert {mode(one) for one in (project / ".servable", *folders)} == {0o700}
    assert {mode(path) for path in (project / ".servable" / "archives").iterdir()} == {0o600}


def test_a_file_gets_its_name_when_whole_and_a_killed_writers_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".servable-0123.part").write_bytes(b"half")
    (tmp_path / "film.part").write_bytes(b"theirs")
    with open_atomically(tmp_path / "first") as first:
        first.write(b"first")
        with open_atomically(tmp_path / "second") as second:
            second.write(b"second")
        assert not (tmp_path / "first").exists()
    assert (tmp_path / "first").read_bytes() == b"first"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "film.part"}
