"""README.md's commands for a model of one's own, typed as they stand into a fresh copy of the project."""

import shutil
from pathlib import Path

import pytest

from tests.checkouts import ROOT
from tests.docs.test_tutorial import MINE, copied, run

_README = (ROOT / "README.md").read_text(encoding="utf-8")
README = (
    _README.partition("## Your model")[2].partition("```sh\n")[2].partition("```")[0].splitlines()
)
# Ours is installed: the copy's own `make install` would fetch 4 GB.
NOT_TYPED = ("make install", "source .venv/bin/activate")


def test_the_readme_reaches_a_prediction_of_ones_own_model_in_ten_commands() -> None:
    (at,) = [n for n, one in enumerate(README, 1) if one.startswith("servable invoke")]
    assert at <= 10


def test_the_readme_reaches_a_prediction_on_its_first_screen() -> None:
    assert "servable invoke my-model" in "\n".join(_README.splitlines()[:30])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_of_the_readme_reach_a_prediction(tmp_path: Path) -> None:
    lines = [one for one in README if not one.startswith(NOT_TYPED)]
    with copied(tmp_path) as copy:
        shutil.copytree(ROOT / "examples" / "ranker" / "model", copy / MINE / "my_model")
        ran = run(copy, "\n".join(["set -e -o pipefail", *lines]), timeout_seconds=540)
    assert ran.returncode == 0, ran.stdout[-6000:]
    assert '"outputs"' in ran.stdout, ran.stdout[-6000:]
