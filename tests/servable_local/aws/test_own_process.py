"""The process of a local AWS: its arguments, what it writes, and how it ends. Its server is a stand-in."""

import fcntl
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from servable_local.aws import __main__ as program
from servable_local.aws import lifecycle
from servable_local.aws.clock import ManualClock, ScaledClock
from servable_local.aws.lifecycle import (
    EXIT_HELD,
    EXIT_PORT_TAKEN,
    StateFile,
    find_default_folder,
    write_client_settings,
)
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.boto_members import until

# Holds the lock until SIGTERM, or, with `deaf`, until SIGKILL.
_HOLDER = """
import fcntl, os, signal, sys, time
file = open(sys.argv[1] + "/aws.lock", "ab")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0); file.write(str(os.getpid()).encode()); file.flush()
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(60)
"""


def holder(folder: Path, kind: str = "hears") -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-S", "-E", "-c", _HOLDER, str(folder), kind]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


class Server:
    """Stands in for the server of the process."""

    port, url = 81, "http://127.0.0.1:81"
    access = SimpleNamespace(secret_access_key="secret")

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.closed = False
        Server.last = self
        if given["port"] == 80:
            raise SystemExit

    last: "Server"

    def start(self) -> None:
        """Signals the process as soon as it says that it runs."""
        folder = self.given["folder"].parent

        def ended() -> None:
            file = folder / "aws.json"
            until(file.exists)
            self.state = json.loads(file.read_text())
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=ended, daemon=True).start()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Runs the process's `main` here; signals and the umask are as before then."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers, mask = [signal.getsignal(number) for number in numbers], os.umask(0o022)
    monkeypatch.setattr(program, "Server", Server)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["aws", "--folder", str(tmp_path / "state"), *words])
        return program.main()

    yield run
    os.umask(mask)
    signal.set_wakeup_fd(-1)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def test_the_process_serves_as_it_is_told_and_writes_where_it_is(
    process: Any, tmp_path: Path
) -> None:
    code = process("--port", "81", "--minute", "2.5", "--containers", "3")
    given, clock = Server.last.given, Server.last.given["clock"]
    assert (code, Server.last.closed, StateFile(tmp_path / "state").is_held()) == (0, True, False)
    assert (given["port"], given["most_containers"], clock.seconds_per_minute) == (81, 3, 2.5)
    assert isinstance(clock, ScaledClock)

    process()
    state = Server.last.state
    assert state.pop("started").endswith("+00:00")
    assert state == {
        "pid": os.getpid(), "port": 81, "url": "http://127.0.0.1:81", "most_containers": 1,
        "secret_access_key": "secret", "seconds_per_minute": 60.0,
    }  # fmt: skip
    assert not (tmp_path / "state" / "aws.json").exists()
    assert (Server.last.given["port"], Server.last.given["most_containers"]) == (0, 1)


def test_without_tensorflow_endpoints_have_no_container_unless_a_number_is_stated(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for found, most in [(True, 1), (None, 0)]:
        monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value=found))
        process()
        assert Server.last.given["most_containers"] == most


def test_the_process_removes_what_a_killed_one_left(process: Any, tmp_path: Path) -> None:
    stale = tmp_path / "state" / "endpoints" / "archives-1"
    stale.mkdir(parents=True)
    process("--minute", "manual")
    endpoints = tmp_path / "state" / "endpoints"
    assert isinstance(Server.last.given["clock"], ManualClock)
    assert (stale.exists(), endpoints.stat().st_mode & 0o777) == (False, 0o700)
    assert (tmp_path / "state" / "client" / "config").exists()


def test_the_process_says_that_its_folder_or_port_is_taken(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable_local.aws.lifecycle._RETRY_SECONDS", 0.0)
    (tmp_path / "state").mkdir()
    with holder(tmp_path / "state") as other:
        code = process()
        other.kill()
    assert (code, EXIT_HELD) == (3, 3)
    assert (process("--port", "80"), EXIT_PORT_TAKEN) == (4, 4)


def test_a_private_process_ends_with_its_parents_pipe_and_removes_its_folder(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "start", lambda self: None)
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        os.write(writing, b"x")  # what it is told is no end
        os.close(writing)
        assert process("--with-parent") == 0
    assert (Server.last.closed, (tmp_path / "state").exists()) == (True, False)


def test_a_private_process_lives_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    looks = iter([1, 1, 1, 2])
    monkeypatch.setattr(os, "getppid", lambda: next(looks))
    monkeypatch.setattr(program, "_PARENT_CHECK_SECONDS", 0.001)
    done, ends = socket.socketpair()
    with done, ends, os.fdopen(reading) as pipe, os.fdopen(writing, "w"):
        monkeypatch.setattr(sys, "stdin", pipe)
        program._watch_parent(1, ends)
        assert (done.recv(9), list(looks)) == (b"\0", [])


# --- where it says that it runs, and the lock that proves it
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
    assert (file.path.exists(), file.is_held()) == (True, False)
    assert (file.read(), file.find_holder()) == (None, None)


def test_a_damaged_file_is_nobody(file: StateFile) -> None:
    for text in ["", "{", '{"pid": 1}', "[]"]:
        with file.hold():
            file.path.write_text(text)
            assert file.read() is None
    with file.hold():
        (file.folder / "aws.lock").write_text("who")
        assert file.find_holder() is None


def test_one_process_has_the_lock_which_is_waited_for_and_free_after_the_block(
    file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, file.hold():
        patched.setattr(lifecycle, "_RETRY_SECONDS", 0.05)
        with file.hold() as second:
            assert (second, file.find_holder()) == (False, os.getpid())
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
