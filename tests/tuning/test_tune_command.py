"""`servable tune` as a user runs it. What is measured is a formula; the rest is the command's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import operations.tune
from cli.tune import tune
from tests.checkouts import ROOT
from tests.conftest import RANKER, VALID
from tests.tuning.formula_trials import HOLD, FormulaTrials
from tuning.load_generator import LoadError
from tuning.report.content import RUN, Content

FEW = ["--setting", "gunicorn_workers", "--setting", "tfs_processes", "--setting", "onednn"]
COMMENT = "# how much it is asked"


def made(folder: Path) -> Path:
    """A project with the environment `prod`."""
    (folder / "environments").mkdir(parents=True)
    shutil.copytree(RANKER, folder / "model")
    (folder / "code").mkdir()
    (folder / "code" / "inference.py").write_text("def handler(data, context): ...\n")
    (folder / "a.json").write_text('{"instances": [[1.0]]}')
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    text += f"[traffic]\npeak_rps = 100  {COMMENT}\n"
    (folder / "environments" / "prod.toml").write_text(text)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = made(tmp_path / "project")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(operations.tune, "LocalTrials", FormulaTrials)
    for name in ("log", "fails", "flat"):
        monkeypatch.setattr(FormulaTrials, name, None)
    # Of this process: they stay pytest's.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return folder


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(
        tune, ["prod", "--body", "a.json", *FEW, *arguments], standalone_mode=False
    )


WRONG = {
    "no such environment": ["stage"],
    "no such variant": ["prod", "--variant", "other"],
    "no such setting": ["prod", "--setting", "colour"],
    "no such objective": ["prod", "--for", "fun"],
    "no trial": ["prod", "--trials", "0"],
    "no time": ["prod", "--minutes", "0"],
    "no budget": ["prod", "--target", "sagemaker"],
    "a budget for nothing": ["prod", "--dollars", "1"],
    "AWS of a local run": ["prod", "--endpoint-url", "http://127.0.0.1:1"],
    "another machine of this one": ["prod", "--instance-types", "ml.c5.2xlarge"],
    "half a list": ["prod", "--target", "sagemaker", "--dollars", "1", "--instance-types", "a,"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_use_ends_with_2(arguments: list[str], project: Path) -> None:
    assert CliRunner().invoke(tune, [*arguments, "--body", "a.json"]).exit_code == 2


def test_what_check_refuses_is_not_measured(project: Path) -> None:
    file = project / "environments" / "prod.toml"
    file.write_text(file.read_text().replace('"model"', '"no_model"'))
    assert ran().return_value == 1


def test_without_a_request_it_says_what_to_give(project: Path) -> None:
    said = CliRunner().invoke(tune, ["prod"], standalone_mode=False)
    assert (said.return_value, "--body" in said.output) == (1, True)


def test_what_cannot_be_measured_ends_with_1_and_no_trace(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "fails", LoadError)
    said = ran()
    assert (said.return_value, said.stderr.splitlines()[-1]) == (
        1,
        "servable tune: as the test wants",
    )


def test_ctrl_c_ends_with_130(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FormulaTrials, "fails", KeyboardInterrupt)
    assert ran().return_value == 130


def test_the_better_settings_are_shown_and_the_file_stays(project: Path) -> None:
    before = (project / "environments" / "prod.toml").read_text()
    said = ran("--trials", "12")
    after = (project / "environments" / "prod.toml").read_text()
    assert ("+gunicorn_workers = 8" in said.stdout, after) == (True, before), said.output


def test_written_the_file_has_them_and_keeps_its_comments(project: Path) -> None:
    ran("--trials", "12", "--write")
    after = (project / "environments" / "prod.toml").read_text()
    assert ("gunicorn_workers = 8" in after, COMMENT in after) == (True, True), after


def test_where_nothing_is_better_the_file_stays_also_with_write(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "flat", True)
    before = (project / "environments" / "prod.toml").read_text()
    said = ran("--trials", "12", "--write", "--json")
    after = (project / "environments" / "prod.toml").read_text()
    assert (json.loads(said.stdout)["written"], after) == (False, before)


def test_programs_are_told_the_same(project: Path) -> None:
    said = json.loads(ran("--trials", "12", "--json").stdout)
    content = Content.read(Path(said["report"]).with_name(RUN))
    assert content.recommendation is not None
    choice = content.recommendation.choice
    assert (said["settings"], said["better"], said["trials"]) == (
        dict(choice.point),
        True,
        len(content.trials),
    )


def test_this_machine_s_numbers_set_no_alarm(project: Path) -> None:
    said = json.loads(ran("--trials", "12", "--json").stdout)
    assert (said["relative"], "alarms" in said["diff"]) == (True, False)


def test_forced_they_do(project: Path) -> None:
    said = json.loads(ran("--trials", "12", "--json", "--force-local-numbers").stdout)
    assert "p99_latency_ms" in said["diff"]


def test_for_cost_what_is_made_most_of_is_predictions_per_dollar(project: Path) -> None:
    said = json.loads(ran("--trials", "8", "--json", "--for", "cost").stdout)
    (first, *_) = Content.read(Path(said["report"]).with_name(RUN)).trials
    assert first.measured.value == pytest.approx(3600 * first.measured.about["rps"]["value"])


def test_every_trial_is_told_with_what_is_left(project: Path) -> None:
    lines = [line for line in ran("--trials", "8").stderr.splitlines() if "/8 " in line]
    assert lines
    assert all("min of trials left" in line for line in lines)


def test_finished_it_measures_nothing_again(project: Path) -> None:
    ran("--trials", "8")
    assert not [line for line in ran("--trials", "8").stderr.splitlines() if "/8 " in line]


def test_new_begins_anew(project: Path) -> None:
    ran("--trials", "8")
    assert [line for line in ran("--trials", "8", "--new").stderr.splitlines() if "/8 " in line]


@dataclass(frozen=True)
class Killed:
    """A run that was killed with -9 in its fifth trial, and the same command again."""

    trials: list[dict[str, object]]
    uninterrupted: list[dict[str, object]]
    finished: int
    """Measurements that came to their end, of both runs together."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = made(tmp_path_factory.mktemp("killed") / "project")
    log = folder / "log"
    first = started(folder, log, **{HOLD: "5"})
    deadline = time.monotonic() + 60
    while said(log, "begin") < 5 and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    again = started(folder, log)
    again.communicate(timeout=100)
    plain = made(tmp_path_factory.mktemp("plain") / "project")
    whole = started(plain, plain / "log")
    whole.communicate(timeout=100)
    return Killed(trials=trials(folder), uninterrupted=trials(plain), finished=said(log, "end"))


def started(folder: Path, log: Path, **variables: str) -> "subprocess.Popen[bytes]":
    command = ["-m", "tests.tuning.formula_trials", str(log), "tune", "prod", "--body", "a.json"]
    return subprocess.Popen(
        [sys.executable, *command, *FEW, "--trials", "16"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def said(log: Path, what: str) -> int:
    return log.read_text().count(f'["{what}"') if log.exists() else 0


def trials(folder: Path) -> list[dict[str, object]]:
    (run,) = (folder / ".servable" / "tuning").glob(f"*/{RUN}")
    return [dict(one.point) for one in Content.read(run).trials]


def test_killed_and_resumed_it_ends_with_the_same_trials(killed: Killed) -> None:
    assert killed.trials == killed.uninterrupted


def test_killed_and_resumed_no_trial_is_measured_twice(killed: Killed) -> None:
    assert killed.finished == len(killed.trials)
