"""Where a local AWS says that it runs, and the lock that proves it."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from servable_local.aws import lifecycle
from servable_local.aws.lifecycle import (
    StateFile,
    find_default_folder,
    write_client_settings,
)
from servable_local.aws.local_aws import LocalAws


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / ".servable")


@pytest.fixture
def state(file: StateFile) -> LocalAws:
    return LocalAws("http://127.0.0.1:4566", 7, "now", file.folder, "s")


def test_who_holds_the_lock_is_read_with_what_it_wrote(file: StateFile, state: LocalAws) -> None:
    assert (file.is_held(), file.read(), file.find_holder()) == (False, None, None)
    with file.hold():
        assert (file.read(), file.find_holder()) == (None, os.getpid())
    with file.hold() as locked:
        file.write(state)
        assert (locked, file.is_held(), file.read()) == (True, True, state)
    with file.hold():
        file.write(state)
    assert (file.path.exists(), file.is_held(), file.read(), file.find_holder()) == (
        True, False, None, None,
    )  # fmt: skip


def test_a_damaged_file_is_nobody(file: StateFile) -> None:
    for text in ["", "{", '{"pid": 1}', "[]"]:
        with file.hold():
            file.path.write_text(text)
            assert file.read() is None
    with file.hold():
        (file.folder / "aws.lock").write_text("who")
        assert file.find_holder() is None


def test_one_process_has_the_lock(file: StateFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_RETRY_SECONDS", 0.05)
    with file.hold(), file.hold() as second:
        assert (second, file.find_holder()) == (False, os.getpid())


def test_the_lock_is_waited_for_and_free_after_the_block(file: StateFile) -> None:
    with file.hold():
        pass
    asking = (file.folder / "aws.lock").open("rb")
    fcntl.flock(asking, fcntl.LOCK_SH)
    threading.Timer(0.05, asking.close).start()
    with file.hold() as locked:
        assert locked
    for _ in range(2):
        with file.hold() as locked:
            assert locked


def test_the_state_is_its_owners_alone_and_is_removed(file: StateFile, state: LocalAws) -> None:
    with file.hold():
        part = file.path.with_suffix(".part")
        part.write_text("left by a kill")
        part.chmod(0o644)
        file.write(state)
        assert (file.path.stat().st_mode & 0o777, part.exists()) == (0o600, False)
        assert file.folder.stat().st_mode & 0o777 == 0o700
    with file.hold():
        file.write(state)
        file.remove()
        file.remove()
        assert (file.path.exists(), file.read()) == (False, None)


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_default_folder() == tmp_path / ".servable"


def test_clients_settings_are_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "left").write_text("by an earlier run")
    write_client_settings(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["cdk", "config", "credentials"]
    assert "signature_version = s3v4" in (folder / "config").read_text()
    assert (folder.stat().st_mode & 0o777, (folder / "credentials").read_text()) == (0o700, "")
