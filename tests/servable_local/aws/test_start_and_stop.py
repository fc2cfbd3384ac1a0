"""The local AWS is started, found and ended: by processes that stand in for its own, which takes 2 s."""

import http.server
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from tests.servable_local.aws.lock_holder import holder


@pytest.fixture(scope="module")
def health() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server that answers for a local AWS: its address, and the answer, which tests change."""
    answer: dict[str, Any] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", answer
        server.shutdown()


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


def test_one_that_answers_with_its_process_runs(running: LocalAws, tmp_path: Path) -> None:
    assert status(folder=tmp_path) == running


def test_one_at_whose_address_another_answers_does_not_run(
    running: LocalAws, tmp_path: Path, health: tuple[str, dict[str, Any]]
) -> None:
    health[1]["pid"] = 1
    assert status(folder=tmp_path) is None


def test_one_that_does_not_answer_does_not_run(running: LocalAws, tmp_path: Path) -> None:
    StateFile(tmp_path).write(replace(running, url="http://127.0.0.1:1"))
    assert status(folder=tmp_path) is None


def test_up_finds_the_one_that_runs(running: LocalAws, tmp_path: Path) -> None:
    assert up(folder=tmp_path).already_up


# --- starting it


class Started:
    """Process that was started: its exit codes, one for each look at it."""

    pid = 1

    def __init__(self, *codes: int | None) -> None:
        self._codes = list(codes)
        self.ended = 0
        self.killed = False

    def poll(self) -> int | None:
        return self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]

    def terminate(self) -> None:
        self.ended += 1

    def wait(self, timeout: float | None = None) -> None:
        if timeout is not None and self.killed is None:
            raise subprocess.TimeoutExpired("it", timeout)

    def kill(self) -> None:
        self.killed = True


def started(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> Started:
    process = Started(*codes)
    monkeypatch.setattr(lifecycle, "spawn_process", lambda *_, **__: process)
    return process


def test_a_port_that_is_taken_is_said_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(monkeypatch, EXIT_PORT_TAKEN)
    monkeypatch.setattr(ports, "describe_holder", lambda port: f"; holder of {port}")
    with pytest.raises(LocalAwsStartError, match="port 81 is already in use; holder of 81"):
        up(folder=tmp_path, port=81)
    assert process.ended == 1


def test_one_that_ends_while_starting_is_said_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(monkeypatch, None, 7)
    with pytest.raises(
        LocalAwsStartError, match="exited with code 7 while starting; see .*aws.log"
    ):
        up(folder=tmp_path)


@pytest.mark.parametrize(("free", "remedy"), [(999_999, "1.0 MB are free"), (1_000_000, "see ")])
def test_where_the_disk_is_full_the_remedy_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, remedy: str
) -> None:
    started(monkeypatch, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(LocalAwsStartError, match=remedy):
        up(folder=tmp_path)


def test_one_that_never_answers_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(monkeypatch, None)
    monkeypatch.setattr(lifecycle, "_START_SECONDS", 0.05)
    with pytest.raises(LocalAwsStartError, match="did not respond within"):
        up(folder=tmp_path)
    assert process.ended == 1


@pytest.mark.parametrize(("same", "already_up", "ended"), [(True, False, 0), (False, True, 1)])
def test_of_two_at_once_the_one_without_the_lock_is_ended(
    same: bool,
    already_up: bool,
    ended: int,
    running: LocalAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = started(monkeypatch, EXIT_HELD)
    process.pid = running.pid if same else 1
    answers = iter([None, status(folder=tmp_path)])
    monkeypatch.setattr(lifecycle, "_find_running", lambda _: next(answers))
    assert (up(folder=tmp_path).already_up, process.ended) == (already_up, ended)


def test_a_ctrl_c_while_it_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = started(monkeypatch, None)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lifecycle, "time", SimpleNamespace(sleep=interrupt, monotonic=lambda: 0.0))
    with pytest.raises(KeyboardInterrupt):
        up(folder=tmp_path)
    assert process.ended == 1


@pytest.mark.parametrize(("hears", "killed"), [(False, False), (None, True)])
def test_a_process_that_does_not_end_in_time_is_killed(hears: bool | None, killed: bool) -> None:
    process: Any = Started(None)
    process.killed = hears
    lifecycle.stop_process(process)
    assert (process.ended, bool(process.killed)) == (1, killed)


@pytest.mark.parametrize("with_parent", [False, True])
def test_it_is_started_in_a_session_of_its_own_without_settings_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_parent: bool
) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **more: calls.append((words, more)))
    monkeypatch.setenv("AWS_PROFILE", "of another cloud")
    monkeypatch.setenv("LC_MARK", "kept")
    minute = None if with_parent else 2.5
    lifecycle.spawn_process(tmp_path, 81, minute, 3, with_parent=with_parent)
    ((words, more),) = calls
    tail = ["--minute", "manual" if with_parent else "2.5", "--containers", "3"]
    assert words[1:] == [
        "-m", "servable_local.aws", "--folder", str(tmp_path), "--port", "81", *tail,
        *(["--with-parent"] if with_parent else []),
    ]  # fmt: skip
    assert (more["start_new_session"], more["stdin"]) == (
        True, subprocess.PIPE if with_parent else subprocess.DEVNULL,
    )  # fmt: skip
    variables = {name: value for name, value in more["env"].items() if name.startswith("AWS_")}
    assert (variables, more["env"]["LC_MARK"]) == (
        {
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        "kept",
    )


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


def test_down_ends_one_that_has_not_taken_its_lock_yet(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "servable_local.aws", "--folder", str(tmp_path)]
    code = "import time; time.sleep(60)"
    # Its command line, as `ps` shows it, of a process that only sleeps.
    (tmp_path / "servable_local").mkdir()
    (tmp_path / "servable_local" / "__init__.py").touch()
    (tmp_path / "servable_local" / "aws.py").write_text(code)
    environment = {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as process:
        deadline = time.monotonic() + 20
        while psutil.Process(process.pid).cmdline() != words and time.monotonic() < deadline:
            time.sleep(0.005)
        assert down(folder=tmp_path)
    assert process.returncode == -signal.SIGTERM


def test_down_where_none_runs_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / "aws.json").write_text("{}")
    assert (down(folder=tmp_path), (tmp_path / "aws.json").exists()) == (False, False)


def test_without_moto_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install servable-local"):
        up(folder=Path("nowhere"))
