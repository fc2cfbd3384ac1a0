"""Which run a replay goes on with."""

import json
from pathlib import Path

import pytest

from servable.replay.run import RUN, run_folder

QUESTION = {"place": "captured", "models": ["a"]}


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    return run_folder(tmp_path, "prod", QUESTION)


def test_an_unfinished_run_goes_on(tmp_path: Path, unfinished: Path) -> None:
    assert run_folder(tmp_path, "prod", QUESTION) == unfinished


def test_another_model_is_another_run(tmp_path: Path, unfinished: Path) -> None:
    assert run_folder(tmp_path, "prod", QUESTION | {"models": ["b"]}) != unfinished


def test_a_relative_place_of_another_folder_is_another_run(
    tmp_path: Path, unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_folder(tmp_path, "prod", QUESTION) != unfinished


def test_a_finished_run_is_not_gone_on_with(tmp_path: Path, unfinished: Path) -> None:
    (unfinished / RUN).write_text(json.dumps({"finished": True}))
    assert run_folder(tmp_path, "prod", QUESTION) != unfinished


def test_a_run_is_readable_by_its_owner_alone(unfinished: Path) -> None:
    modes = [path.stat().st_mode & 0o777 for path in (unfinished, unfinished / RUN)]
    assert modes == [0o700, 0o600]
