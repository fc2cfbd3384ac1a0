"""`servable tune` as a user runs it. What is measured is a formula; the rest is the command's own."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

import servable.tune.page
import servable.tune.tune
from servable.load.load_generator import LoadError
from servable.load.measurement import LoadCurve
from servable.measured.precision import Latencies
from servable.tune.command import tune
from servable.tune.page import RUN, Content
from servable.tune.run import RUNS, TuneError, lock_folder
from servable.tune.search.search import SearchResult
from servable.tune.search.space import Point
from servable.tune.trials import LocalTrials, NotServedError
from tests.checkouts import ROOT
from tests.conftest import RANKER, VALID
from tests.servable.tune.formula_trials import HOLD, FormulaTrials, value
from tests.servable.tune.measured import curve, step

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


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servable.tune.tune, "LocalTrials", FormulaTrials)
        # The page has tests of its own, and takes the longest.
        patch.setattr(servable.tune.page, "write", lambda folder, *_, **__: folder / "report.html")
        # Of this process: they stay pytest's.
        patch.setattr(signal, "signal", lambda *_: None)
        yield patch


@pytest.fixture(scope="module")
def project(patched: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made(tmp_path_factory.mktemp("tuned") / "project")
    patched.chdir(folder)
    return folder


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(tune, ["prod", "--body", "a.json", *FEW, *arguments])


WRONG = {
    "no such environment": ["stage"],
    "no such variant": ["prod", "--variant", "other"],
    "no such setting": ["prod", "--setting", "colour"],
    "no such objective": ["prod", "--for", "fun"],
    "no trial": ["prod", "--trials", "0"],
    "no time": ["prod", "--minutes", "0"],
    "no budget": ["prod", "--target", "sagemaker"],
    "a budget for nothing": ["prod", "--dollars", "1"],
    "AWS of a local run": ["prod", "--local"],
    "another machine of this one": ["prod", "--instance-types", "ml.c5.2xlarge"],
    "half a list": ["prod", "--target", "sagemaker", "--dollars", "1", "--instance-types", "a,"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_use_ends_with_2(arguments: list[str], project: Path) -> None:
    assert CliRunner().invoke(tune, [*arguments, "--body", "a.json"]).exit_code == 2


def returned(*arguments: str) -> Result:
    return CliRunner().invoke(
        tune,
        ["prod", "--body", "a.json", *FEW, "--p99-ms", "77", *arguments],
        standalone_mode=False,
    )


def test_what_cannot_be_tuned_is_said_at_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (project / "environments" / "prod.toml").read_text()
    (project / "environments" / "bad.toml").write_text(text.replace('"model"', '"no_model"'))
    said = CliRunner().invoke(tune, ["bad", "--body", "a.json"], standalone_mode=False)
    (project / "environments" / "bad.toml").unlink()
    assert (said.return_value, "no_model" in said.stderr) == (2, True)
    said = CliRunner().invoke(tune, ["prod"], standalone_mode=False)
    assert (said.return_value, "--body" in said.output) == (2, True)
    said = returned("--minutes", "1", "--p99-ms", "71")
    assert (
        said.return_value,
        said.stderr.startswith("servable tune: 1 minutes are too short"),
    ) == (2, True)
    assert "pass --trials 5 or more" in ran("--trials", "4", "--p99-ms", "77").output

    monkeypatch.setattr("infra.parameters.environment.Prices.find_instance_price", lambda *_: None)
    said = returned("--for", "cost").stderr
    assert "ml.c5.xlarge: the price is unknown; set it in prices.instance_usd_per_hour" in said


def test_where_aws_does_not_answer_it_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said = returned("--target", "sagemaker", "--dollars", "1")
    assert (said.return_value, "could not be reached" in said.stderr) == (2, True)


def test_a_run_that_fails_says_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FormulaTrials, "fails", LoadError)
    said = returned()
    last = said.stderr.splitlines()[-1]
    assert (said.return_value, last) == (2, "servable tune: as the test wants")
    monkeypatch.setattr(FormulaTrials, "fails", KeyboardInterrupt)
    assert returned().return_value == 130


def not_served(*_: object) -> NoReturn:
    raise NotServedError("no ping")


def test_settings_that_do_not_start_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(trials: FormulaTrials, *asked: Any) -> LoadCurve:
        return not_served() if asked[-1] == "choice" else whole(trials, *asked)

    whole = FormulaTrials.measure_full_curve
    monkeypatch.setattr(FormulaTrials, "measure_full_curve", stopped)
    said = returned("--trials", "12", "--p99-ms", "78").stderr
    assert "the chosen settings failed to start: no ping; run the same command again" in said

    monkeypatch.setattr(FormulaTrials, "_choose_objective", not_served)
    said = ran("--setting", "inter_op_threads").stderr
    assert "today's settings don't start: no ping" in said


def test_on_a_busy_computer_it_stops(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = step(1, 50.0, 200.0, send_lags=Latencies.from_milliseconds([90.0] * 101))

    def busy(trials: FormulaTrials, *asked: Any) -> LoadCurve:
        return curve(late)

    monkeypatch.setattr(FormulaTrials, "measure_full_curve", busy)
    said = returned("--p99-ms", "79")
    assert said.return_value == 2
    assert (
        f"servable tune: today's settings: {late.rejection}; run the same command again on an idle computer"
        in said.stderr
    )


def test_a_busy_computer_is_reported_before_any_trial(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([80.0, 60.0, 10.0, 90.0])
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: next(seconds))
    busy_share = LocalTrials.measure_busy_share
    assert busy_share(Mock()) == 0.1  # the first idle second
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: 80.0)
    monkeypatch.setattr(FormulaTrials, "measure_busy_share", busy_share)
    monkeypatch.setattr(FormulaTrials, "fails", LoadError)
    lines = returned("--p99-ms", "81").stderr.splitlines()
    said = [line for line in lines if "other programs use 80% of this computer's CPU" in line]
    assert len(said) == 1
    assert lines.index(said[0]) < next(
        at for at, line in enumerate(lines) if "combinations" in line
    )


def test_two_runs_of_the_same_question_are_held_apart(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path / "run"),
        pytest.raises(TuneError, match="in progress"),
        lock_folder(tmp_path / "run"),
    ):
        pass


def test_another_alarm_or_price_is_a_new_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "_choose_objective", not_served)
    file = project / "environments" / "prod.toml"
    (project / RUNS).mkdir(parents=True, exist_ok=True)  # whichever test comes first
    before, known = file.read_text(), set((project / RUNS).iterdir())
    for limit_ms in (701, 702):
        file.write_text(f"{before}[alarms]\np99_latency_ms = {limit_ms}\n")
        ran()
    file.write_text(before)
    assert len(set((project / RUNS).iterdir()) - known) == 2
    for goal, runs in [("cost", 2), ("throughput", 1)]:
        monkeypatch.setattr(FormulaTrials, "_choose_objective", not_served)
        found = []
        for usd in (7, 8):
            price = f'prices.instance_usd_per_hour={{"ml.c5.xlarge" = {usd}}}'
            ran("--for", goal, "--setting", "gunicorn_workers", "--set", price)
            found.append(set((project / RUNS).iterdir()))
        # Other tests of this file may have begun the first one.
        assert len(found[1] - found[0]) == runs - 1


def test_the_better_settings_are_shown_and_the_file_stays(shown: "Shown") -> None:
    assert "at most 9: two load curves of about" in shown.result.stderr
    assert "they detect a gain of" in shown.result.stderr
    assert "not tried: gunicorn_worker_class, gunicorn_threads" in shown.result.stderr
    assert ("+gunicorn_workers = 8" in shown.result.stdout, shown.after) == (True, shown.before)
    assert "+++ environments/prod.toml" in shown.result.stdout
    assert " 1/12 " in shown.result.stderr


def test_too_few_dollars_are_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SearchResult(trials=(), stopped="the dollars are spent", choice=None)
    monkeypatch.setattr(servable.tune.tune, "_run_search", lambda *_: nothing)
    assert "the dollars are spent; raise that limit" in returned("--p99-ms", "79").stderr


CHANCE = random.Random(1)


def unsure(point: Point) -> float:
    return 100.0 * math.exp(CHANCE.gauss(0, 0.3))


@dataclass(frozen=True)
class Shown:
    result: Result
    before: str
    after: str


@pytest.fixture(scope="module")
def shown(project: Path) -> Shown:
    """Twelve trials, for people."""
    file = project / "environments" / "prod.toml"
    before = file.read_text()
    return Shown(ran("--trials", "12"), before, file.read_text())


@pytest.fixture(scope="module")
def told(shown: "Shown") -> Result:
    """The same command again, for programs."""
    return ran("--trials", "12", "--json")


@pytest.fixture(scope="module")
def written(told: Result, project: Path) -> str:
    """The file, once everything was written that can be."""
    file = project / "environments" / "prod.toml"
    before = file.read_text()
    ran("--trials", "12", "--write", "--force-local-numbers")
    after = file.read_text()
    file.write_text(before)
    return after


def test_programs_are_told_the_same_and_nothing_is_measured_again(told: Result) -> None:
    said = json.loads(told.stdout)
    content = Content.read(Path(said["report"]).with_name(RUN))
    assert content.recommendation is not None
    choice = dict(content.recommendation.choice.point)
    wanted = (choice, True, len(content.trials))
    assert (said["settings"], said["better"], said["trials"]) == wanted
    assert (said["relative"], "alarms" in said["diff"]) == (True, False)
    assert said["not_tried"]["inter_op_threads"] == "--setting excludes it"
    assert "rows_per_request isn't stated" in said["not_tried"]["batching.batch_threads"]
    assert not [line for line in told.stderr.splitlines() if "/12 " in line]


def test_written_the_file_has_the_settings_and_keeps_its_comments(written: str) -> None:
    assert ("gunicorn_workers = 8" in written, COMMENT in written) == (True, True), written
    assert "p99_latency_ms" in written


@pytest.mark.parametrize(
    ("rps", "limit", "code"),
    [(value, "91", 0), (lambda point: 100.0, "92", 1), (unsure, "93", 3)],
    ids=["better", "not better", "cannot be told"],
)
def test_the_verdict_is_the_exit_code(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    rps: Callable[[Point], float],
    limit: str,
    code: int,
) -> None:
    monkeypatch.setattr(FormulaTrials, "rps", staticmethod(rps))
    assert returned("--trials", "12", "--p99-ms", limit).return_value == code


def test_where_nothing_is_better_the_file_stays(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "rps", staticmethod(lambda point: 100.0))
    before = (project / "environments" / "prod.toml").read_text()
    said = ran("--trials", "12", "--write", "--json", "--p99-ms", "99")
    after = (project / "environments" / "prod.toml").read_text()
    assert (json.loads(said.stdout)["written"], after) == (False, before)


def test_new_and_for_cost_it_begins_anew_with_predictions_per_dollar(shown: "Shown") -> None:
    price = ("--set", 'prices.instance_usd_per_hour={"ml.c5.xlarge" = 2}')
    said = ran("--trials", "8", "--json", "--for", "cost", *price, "--new")
    (first, *_) = Content.read(Path(json.loads(said.stdout)["report"]).with_name(RUN)).trials
    assert first.measured.value == pytest.approx(1800 * first.measured.about["rps"]["value"])


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
    command = [
        "-m",
        "tests.servable.tune.formula_trials",
        str(log),
        "tune",
        "prod",
        "--body",
        "a.json",
    ]
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
    return [dict(trial.point) for trial in Content.read(run).trials]


@pytest.mark.long
def test_killed_and_resumed_it_ends_with_the_same_trials_and_repeats_none(killed: Killed) -> None:
    assert killed.trials == killed.uninterrupted
    assert killed.finished == len(killed.trials)
