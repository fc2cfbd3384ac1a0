"""Every output on a page that begins with `$ servable` is what the command prints now.

The table of docs/updating.md says of each cell what `plan` says beforehand.
"""

import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from infra.parameters.rollout import FAULTS
from servable.load import run
from servable.load.load_test import Schedule
from servable.load.objective import Objective
from tests.checkouts import ROOT
from tests.docs import outputs
from tests.docs.outputs import Shown
from tests.servable.tune.queueing import curve
from tests.servable_local.aws.synthesised import STRATEGIES, predicted, row

SHOWN = [
    # Days are computed, or a template is synthesised: seconds of a processor.
    pytest.param(
        command, marks=[pytest.mark.long] if re.search("compare|daily| plan ", command) else []
    )
    for command in sorted({one.command for one in outputs.made_from_files()})
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return outputs.project(tmp_path_factory.mktemp("project"))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("command", SHOWN)
def test_a_page_shows_what_the_command_prints(command: str, project: Path) -> None:
    made = outputs.output(command, project)
    wrong = [one.page for one in outputs.shown() if one.command == command and not one.holds(made)]
    assert not wrong, f"{wrong}: python -m tests.docs.outputs writes:\n" + "\n".join(made)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("words", outputs.typed(), ids=" ".join)
def test_a_command_that_needs_files_alone_works(words: tuple[str, ...], project: Path) -> None:
    code, said = outputs.run(words, project)
    assert code == 0, said


@pytest.mark.long
def test_the_page_on_load_tests_shows_a_simulated_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "write_load_report", Mock(return_value=None))
    objective = Objective(most_ms=100.0)
    schedule = Schedule(loop="closed", objective=objective)
    measured = curve(4, 15.0, schedule, seconds=20.0, seed=0)

    @click.command()
    def load() -> None:
        run.report_result(measured, objective, Path("run"), Mock(gate=False, as_json=False))

    printed = [line.rstrip() for line in CliRunner().invoke(load).output.splitlines()]
    block = (ROOT / "docs/tuning.md").read_text().partition("```text\n")[2].partition("```")[0]
    assert Shown("docs/tuning.md", "servable load", tuple(block.splitlines())).holds(printed)


def test_an_ellipsis_stands_for_any_lines_or_any_text_in_a_line_and_nothing_else() -> None:
    def holds(*lines: str, output: tuple[str, ...] = ("a", "b")) -> bool:
        return Shown("README.md", "servable check", lines).holds(output)

    for lines in [("a", "b"), ("a", "…"), ("…", "b"), ("…",), ("a", "b", "…")]:
        assert holds(*lines)
    for lines in [("a",), ("…", "a"), ("a", "c")]:
        assert not holds(*lines)
    assert holds("a … (d)", output=("a b c (d)",))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_row_of_the_table_of_rollouts_is_what_plan_says(strategy: str) -> None:
    cells = {fault: predicted(strategy, fault) for fault in FAULTS}
    page = (ROOT / "docs" / "updating.md").read_text(encoding="utf-8")
    assert row(strategy, cells) in page.splitlines()
