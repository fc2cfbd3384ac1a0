"""README.md's commands for a model of one's own, typed as they stand into a fresh copy of the project."""

import shutil
from pathlib import Path

import pytest

from tests.checkouts import ROOT
from tests.docs.test_tutorial import copied, run, typed

_README = (ROOT / "README.md").read_text(encoding="utf-8")
README = typed(_README.partition("![")[0])
# They tell, and the deployment does not need them.
TELLING = ("check", "package", "cost", "rehearse")


def test_the_readme_reaches_a_prediction_of_ones_own_model_in_ten_commands() -> None:
    needed = [line for line in README if line.split()[1] not in TELLING]
    (at,) = [n for n, line in enumerate(needed, 1) if line.startswith("servable invoke")]
    assert at <= 10


def test_the_readme_reaches_a_prediction_on_its_first_screen() -> None:
    assert "servable invoke my-model" in "\n".join(_README.splitlines()[:30])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_of_the_readme_reach_a_prediction(tmp_path: Path) -> None:
    # What the first lines install is there: they would fetch 2.3 GB.
    installed = {"uv tool install": ":", "npm ci": f"ln -s {ROOT / 'node_modules'} node_modules"}
    lines = [
        next((there for first, there in installed.items() if line.startswith(first)), line)
        for line in README
    ]
    with copied(tmp_path) as copy:
        shutil.copytree(ROOT / "examples" / "ranker" / "model", copy.parent / "my_model")
        text = "\n".join(["set -e -o pipefail", "cd ..", *lines])
        ran = run(copy, text, timeout_seconds=540)
    assert ran.returncode == 0, ran.stdout[-6000:]
    assert '"outputs"' in ran.stdout, ran.stdout[-6000:]
