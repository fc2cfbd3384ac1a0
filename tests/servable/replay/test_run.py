"""Which run a replay goes on with."""

import json
from pathlib import Path

import pytest

from servable.replay.run import RUN, run_folder

QUESTION = {"place": "captured", "models": ["a"]}


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    return run_folder(tmp_path, "prod", QUESTION)


def test_an_unfinished_run_of_the_same_question_goes_on(
    unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = [path.stat().st_mode & 0o777 for path in (unfinished, unfinished / RUN)]
    assert modes == [0o700, 0o600]
    assert run_folder(tmp_path, "prod", QUESTION) == unfinished
    assert run_folder(tmp_path, "prod", QUESTION | {"models": ["b"]}) != unfinished
    monkeypatch.chdir(tmp_path)
    assert run_folder(tmp_path, "prod", QUESTION) != unfinished
    (unfinished / RUN).write_text(json.dumps({"finished": True}))
    assert run_folder(tmp_path, "prod", QUESTION) != unfinished
