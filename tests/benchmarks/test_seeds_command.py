"""python -m benchmarks.seeds: what it keeps, forgets and refuses."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import frame
from benchmarks.seeds import __main__ as command
from benchmarks.seeds import bench


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Two experiments that measure nothing, and a result file of our own; reads it."""
    monkeypatch.setattr(frame, "result_file", lambda name: tmp_path / "result.json")
    monkeypatch.setattr(frame, "write_page", lambda: None)
    monkeypatch.setattr(frame, "markdown", str)
    monkeypatch.setattr(bench, "make_models", lambda folder, names: None)
    monkeypatch.setattr(command, "EXPERIMENTS", {"first": _measuring(1), "second": _measuring(2)})
    return lambda: {name: one["found"] for name, one in frame.read("seeds").items()}


def _measuring(found: Any) -> Any:
    def measured(_: object) -> Any:
        if isinstance(found, BaseException):
            raise found
        return found

    return SimpleNamespace(MODELS=(), measured=measured)


def test_one_experiment_leaves_the_others_results(kept: Callable[[], dict[str, Any]]) -> None:
    command.main([])
    command.EXPERIMENTS["second"] = _measuring(3)
    command.main(["second"])
    assert kept() == {"first": 1, "second": 3}


def test_models_that_cannot_be_made_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'No module named keras' >&2\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(RuntimeError, match="no models: No module named keras"):
        bench.make_models(tmp_path, ["small"])


def test_each_result_says_its_own_run(
    kept: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main([])
    monkeypatch.setattr("time.strftime", lambda *_: "later")
    command.main(["second"])
    runs = {name: one["run"] for name, one in frame.read("seeds").items()}
    assert (runs["second"], runs["first"] != "later") == ("later", True)


def test_a_run_of_all_forgets_what_was_measured_before(kept: Callable[[], dict[str, Any]]) -> None:
    command.main([])
    command.EXPERIMENTS["first"] = _measuring(KeyboardInterrupt())
    command.main([])
    assert kept() == {}


def test_what_was_finished_before_an_interruption_is_kept(
    kept: Callable[[], dict[str, Any]],
) -> None:
    command.EXPERIMENTS["second"] = _measuring(KeyboardInterrupt())
    assert (command.main([]), kept()) == (130, {"first": 1})


def test_an_unknown_experiment_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["trasport"])
    assert (ended.value.code, "allowed: baseline, transport" in capsys.readouterr().err) == (
        2,
        True,
    )


def test_a_result_is_json_that_can_be_read_by_others(kept: Callable[[], dict[str, Any]]) -> None:
    command.main(["first"])
    assert json.loads(frame.result_file("seeds").read_text(encoding="utf-8"))["first"]["found"] == 1
