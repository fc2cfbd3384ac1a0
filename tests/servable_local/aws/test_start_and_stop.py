"""The local AWS is started, found and ended: by processes that stand in for its own, which takes 2 s."""

import importlib.util
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from servable_local.aws import lifecycle
from servable_local.aws.lifecycle import (
    EXIT_HELD,
    EXIT_PORT_TAKEN,
    LocalAwsStartError,
    StateFile,
    down,
    status,
    up,
)
from servable_local.aws.local_aws import LocalAws
from servable_local.container import ports
from tests.servable_handler.raw_server import RawServer
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.test_own_process import holder


@pytest.fixture(scope="module")
def health() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server that answers for a local AWS: its address, and the answer, which tests change."""
    answer: dict[str, Any] = {}

    def serve(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            body = json.dumps(answer).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)

    with RawServer(serve) as server:
        yield f"http://127.0.0.1:{server.port}", answer


@pytest.fixture
def running(tmp_path: Path, health: tuple[str, dict[str, Any]]) -> Iterator[LocalAws]:
    """A local AWS that runs in `tmp_path`: this process."""
    url, answer = health
    answer["pid"] = os.getpid()
    state = LocalAws(url, os.getpid(), "today", tmp_path, "secret", seconds_per_minute=2.0)
    file = StateFile(tmp_path)
    with file.hold():
        file.write(state)
        yield state


# --- finding it
def test_one_that_answers_with_its_process_runs(
    running: LocalAws, tmp_path: Path, health: tuple[str, dict[str, Any]]
) -> None:
    assert status(folder=tmp_path) == running
    assert up(folder=tmp_path).already_up
    health[1]["pid"] = 1
    assert status(folder=tmp_path) is None
    StateFile(tmp_path).write(replace(running, url="http://127.0.0.1:1"))
    assert status(folder=tmp_path) is None


# --- starting it
def started(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> Any:
    """The process that is started next: its exit codes, one for each look at it, the last for ever."""
    process = Mock(pid=1)
    process.poll.side_effect = itertools.chain(codes, itertools.repeat(codes[-1]))
    monkeypatch.setattr(lifecycle, "spawn_process", Mock(return_value=process))
    return process


def test_why_it_does_not_start_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "describe_holder", lambda port: f"; holder of {port}")
    monkeypatch.setattr(lifecycle, "_START_SECONDS", 0.05)
    cases: list[tuple[list[int | None], str, int | None]] = [
        ([EXIT_PORT_TAKEN], "port 81 is already in use; holder of 81", 1),
        ([None, 7], "exited with code 7 while starting; see .*aws.log", None),
        ([None], "did not respond within", 1),
    ]
    for codes, problem, ended in cases:
        process = started(monkeypatch, *codes)
        with pytest.raises(LocalAwsStartError, match=problem):
            up(folder=tmp_path, port=81)
        assert ended in (None, process.terminate.call_count)

    for free, remedy in [(999_999, "1.0 MB are free"), (1_000_000, "see ")]:
        started(monkeypatch, 1)
        monkeypatch.setattr(shutil, "disk_usage", Mock(return_value=Mock(free=free)))
        with pytest.raises(LocalAwsStartError, match=remedy):
            up(folder=tmp_path)

    process = started(monkeypatch, None)
    clock = Mock(sleep=Mock(side_effect=KeyboardInterrupt), monotonic=Mock(return_value=0.0))
    monkeypatch.setattr(lifecycle, "time", clock)
    with pytest.raises(KeyboardInterrupt):
        up(folder=tmp_path)
    assert process.terminate.call_count == 1


def test_of_two_at_once_the_one_without_the_lock_is_ended(
    running: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = status(folder=tmp_path)
    for pid, already_up, ended in [(running.pid, False, 0), (1, True, 1)]:
        process = started(monkeypatch, EXIT_HELD)
        process.pid = pid
        monkeypatch.setattr(lifecycle, "_find_running", Mock(side_effect=[None, found]))
        assert up(folder=tmp_path).already_up == already_up
        assert process.terminate.call_count == ended


def test_a_process_that_does_not_end_in_time_is_killed() -> None:
    for waited, killed in [(None, 0), ([subprocess.TimeoutExpired("it", 1), None], 1)]:
        process = Mock(wait=Mock(side_effect=waited))
        lifecycle.stop_process(process)
        assert (process.terminate.call_count, process.kill.call_count) == (1, killed)


@pytest.mark.parametrize("with_parent", [False, True])
def test_it_is_started_in_a_session_of_its_own_without_settings_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_parent: bool
) -> None:
    popen = Mock()
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setenv("AWS_PROFILE", "of another cloud")
    monkeypatch.setenv("LC_MARK", "kept")
    minute = None if with_parent else 2.5
    lifecycle.spawn_process(tmp_path, 81, minute, 3, with_parent=with_parent)
    ((words,), more) = popen.call_args
    tail = ["--minute", "manual" if with_parent else "2.5", "--containers", "3"]
    assert words[1:] == [
        "-m", "servable_local.aws", "--folder", str(tmp_path), "--port", "81", *tail,
        *(["--with-parent"] if with_parent else []),
    ]  # fmt: skip
    assert more["start_new_session"] is True
    assert more["stdin"] == (subprocess.PIPE if with_parent else subprocess.DEVNULL)
    kept = {name: value for name, value in more["env"].items() if name[:4] in ("AWS_", "LC_M")}
    none = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    assert kept == {**none, "AWS_EC2_METADATA_DISABLED": "true", "LC_MARK": "kept"}


# --- ending it
@pytest.mark.parametrize(("kind", "number"), [("hears", signal.SIGTERM), ("deaf", signal.SIGKILL)])
def test_down_ends_the_process_that_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    monkeypatch.setattr(lifecycle, "STOP_SECONDS", 20.0 if kind == "hears" else 0.1)
    with holder(tmp_path, kind) as process:
        (tmp_path / "aws.json").write_text("{")
        assert down(folder=tmp_path)
    assert (process.returncode, (tmp_path / "aws.json").exists()) == (-number, False)
    (tmp_path / "aws.json").write_text("{}")  # left by a killed one
    assert (down(folder=tmp_path), (tmp_path / "aws.json").exists()) == (False, False)


def test_down_ends_one_that_has_not_taken_its_lock_yet(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "servable_local.aws", "--folder", str(tmp_path)]
    code = "import time; time.sleep(60)"
    # Its command line, as `ps` shows it, of a process that only sleeps.
    (tmp_path / "servable_local").mkdir()
    (tmp_path / "servable_local" / "__init__.py").touch()
    (tmp_path / "servable_local" / "aws.py").write_text(code)
    environment = {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as process:
        until(lambda: psutil.Process(process.pid).cmdline() == words)
        assert down(folder=tmp_path)
    assert process.returncode == -signal.SIGTERM


def test_down_ends_one_that_a_killed_up_has_just_started_in_its_folder_alone(
    tmp_path: Path,
) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
    process = lifecycle.spawn_process(folder, 0, with_parent=False, seconds_per_minute=60.0)
    try:
        while not psutil.Process(process.pid).cmdline():
            pass  # Linux shows it a moment after the program has begun
        assert not down(folder=other)
        assert process.poll() is None
        assert down(folder=folder)
        assert process.wait(15) != 0
    finally:
        process.kill()
        process.wait()


def test_hosts_without_a_proxy_do_not_grow_when_evaluated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = LocalAws("http://127.0.0.1:1", 1, "", tmp_path, "secret")
    monkeypatch.setenv("NO_PROXY", "example.com")
    first = aws.environment()["NO_PROXY"]
    monkeypatch.setenv("NO_PROXY", first)
    assert aws.environment()["NO_PROXY"] == first == "example.com,127.0.0.1,localhost"


def test_without_moto_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install servable-local"):
        up(folder=Path("nowhere"))
