"""python -m benchmarks.seeds: what it keeps, forgets and refuses."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import page
from benchmarks.seeds import __main__ as command
from benchmarks.seeds import models, pictures, results, server


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Two experiments that measure nothing, and a result file of our own; reads it."""
    monkeypatch.setattr(results, "RESULT", tmp_path / "result.json")
    monkeypatch.setattr(pictures, "FOLDER", tmp_path)
    monkeypatch.setattr(pictures, "draw", lambda name, found: None)
    monkeypatch.setattr(page, "write", lambda: None)
    monkeypatch.setattr(models, "made", lambda folder, names: {})
    monkeypatch.setattr(command, "EXPERIMENTS", {"first": _measuring(1), "second": _measuring(2)})
    return lambda: {name: one["found"] for name, one in results.read().items()}


def _measuring(found: Any) -> Any:
    def measured(bench: object) -> Any:
        if isinstance(found, BaseException):
            raise found
        return found

    return SimpleNamespace(MODELS=(), SECONDS=1.0, measured=measured)


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
        models.made(tmp_path, ["small"])


def test_each_result_says_its_own_run(
    kept: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    command.main([])
    monkeypatch.setattr("time.strftime", lambda *_: "later")
    command.main(["second"])
    runs = {name: one["run"] for name, one in results.read().items()}
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


def test_progress_is_told_with_an_estimate(
    kept: Callable[[], dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([])
    assert "0 s of about 2  first: begins" in capsys.readouterr().err


def test_an_unknown_experiment_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["trasport"])
    assert (ended.value.code, "allowed: baseline, transport" in capsys.readouterr().err) == (
        2,
        True,
    )


def test_without_docker_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["--docker"]) == 1
    assert "there is no `docker` on this machine" in capsys.readouterr().err


DOCKER = """#!{python}
import sys
words = sys.argv[-1]
if "stat" in words:
    print("1 (a) b) S 0 1 1 0 -1 4 1 1 1 1 12 3 0 0 20 0 1 0 5 1 1")
    print("7 (tensorflow_mode) S 1 1 1 0 -1 4 1 1 1 1 100 5 0 0 20 0 1 0 5 1 1")
else:
    print("Rss: 9 kB\\nPss:                1000 kB\\nPss_Anon: 7 kB\\nPss: 24 kB")
"""


def test_in_the_real_image_cpu_and_memory_are_read_inside_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "docker"
    script.write_text(DOCKER.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    container: Any = SimpleNamespace(url="", name="it")
    image = server._Image(container)
    found = [image.cpu().gateway_ms, image.cpu().model_server_ms, image.memory_mb()]
    assert found == pytest.approx([150, 1050, 1024 * 1024 / 1e6])


def test_a_result_is_json_that_can_be_read_by_others(kept: Callable[[], dict[str, Any]]) -> None:
    command.main(["first"])
    assert json.loads(results.RESULT.read_text(encoding="utf-8"))["first"]["found"] == 1
