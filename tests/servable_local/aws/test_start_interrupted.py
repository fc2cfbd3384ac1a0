"""A local AWS whose start fails or is killed, and the variables for a shell."""

from pathlib import Path

import psutil
import pytest

from servable_local.aws import LocalAws, down
from servable_local.aws.lifecycle import spawn_process


def test_down_ends_one_that_a_killed_up_has_just_started(tmp_path: Path) -> None:
    process = spawn_process(tmp_path, 0, with_parent=False, seconds_per_minute=60.0)
    try:
        while not psutil.Process(process.pid).cmdline():
            pass  # Linux shows it a moment after the program has begun
        ended = down(folder=tmp_path)
        assert (ended, process.wait(15) != 0) == (True, True)
    finally:
        process.kill()
        process.wait()


def test_down_leaves_one_of_another_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    process = spawn_process(tmp_path / "other", 0, with_parent=False, seconds_per_minute=60.0)
    try:
        assert not down(folder=tmp_path)
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
