"""`servable tune` as a user runs it. What is measured is a formula; the rest is the command's own."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

import servable.tune.page
import servable.tune.tune
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from servable.measured.measurement import LoadCurve, LoadError
from servable.measured.precision import Latencies
from servable.measured.temporary import Ledger
from servable.project.provided import LaunchError
from servable.tune import container_space
from servable.tune.command import tune
from servable.tune.page import RUN, Content
from servable.tune.run import RUNS, TRIALS_FILE, lock_folder
from servable.tune.search.search import Search, SearchResult
from servable.tune.search.space import Budget, Measurement, Point, Space
from servable.tune.trials import LocalTrials
from tests.checkouts import ROOT
from tests.conftest import VALID, make_project
from tests.servable.tune.formula_trials import HOLD, FormulaTrials
from tests.servable.tune.measured import curve, require, step
from tests.servable.tune.servers import list_open_to_others

FEW = ["--setting", "gunicorn_workers", "--setting", "tfs_processes", "--setting", "onednn"]
COMMENT = "# how much it is asked"


def made(folder: Path) -> Path:
    """A project with the environment `prod`."""
    folder.mkdir()
    make_project(folder)
    (folder / "a.json").write_text('{"instances": [[1.0]]}')
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    text += f"[traffic]\npeak_rps = 100  {COMMENT}\n"
    (folder / "environments" / "prod.toml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servable.tune.tune, "LocalTrials", FormulaTrials)
        # The page has tests of its own, and takes the longest.
        patch.setattr(servable.tune.page, "write", lambda folder, *_, **__: folder / "report.html")
        # Every search of this file tries the same settings, and checking each takes the longest.
        rejecting, known = container_space._find_rejecting_rules, dict[str, set[str]]()

        def remembered(loaded: ValidFile, placement: Placement, point: Point) -> set[str]:
            variant = loaded.environment.variants[placement.name]
            key = f"{variant.model_dump_json()} {sorted(point.items())}"
            if key not in known:
                known[key] = rejecting(loaded, placement, point)
            return known[key]

        patch.setattr(container_space, "_find_rejecting_rules", remembered)
        # Of this process: they stay pytest's.
        patch.setattr(signal, "signal", lambda *_: None)
        folder = made(tmp_path_factory.mktemp("tuned") / "project")
        patch.chdir(folder)
        yield folder


def ran(*arguments: str) -> Result:
    given = ["prod", "--body", "a.json", *FEW, *arguments]
    return CliRunner().invoke(tune, given, standalone_mode=False)


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


def test_wrong_use_ends_with_2_and_what_cannot_be_tuned_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in WRONG.values():
        assert CliRunner().invoke(tune, [*arguments, "--body", "a.json"]).exit_code == 2

    text = (project / "environments" / "prod.toml").read_text()
    (project / "environments" / "bad.toml").write_text(text.replace('"model"', '"no_model"'))
    said = CliRunner().invoke(tune, ["bad", "--body", "a.json"], standalone_mode=False)
    (project / "environments" / "bad.toml").unlink()
    assert (said.return_value, "no_model" in said.stderr) == (2, True)
    said = CliRunner().invoke(tune, ["prod"], standalone_mode=False)
    assert (said.return_value, "--body" in said.output) == (2, True)
    said = returned("--minutes", "1", "--p99-ms", "71")
    short = said.stderr.startswith("servable tune: 1 minutes are too short")
    assert (said.return_value, short) == (2, True)
    assert "pass --trials 5 or more" in ran("--trials", "4", "--p99-ms", "77").output

    asked = Mock(side_effect=LoadError)
    with monkeypatch.context() as patch:
        patch.setattr("servable.tune.command.load_bodies", asked)
        ran("--variant", "primary")
    assert asked.call_args.kwargs["variant"] == "primary"  # whose model's request is sent

    monkeypatch.setattr("infra.parameters.environment.Prices.find_instance_price", lambda *_: None)
    said = returned("--for", "cost").stderr
    assert "ml.c5.xlarge: the price is unknown; set it in prices.instance_usd_per_hour" in said


def returned(*arguments: str) -> Result:
    return ran("--p99-ms", "77", *arguments)


def test_where_aws_does_not_answer_it_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ACCESS_KEY_ID": "123456789012", "SECRET_ACCESS_KEY": "nothing"}
    for name, value in {**keys, "MAX_ATTEMPTS": "1", "ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    said = returned("--target", "sagemaker", "--dollars", "1")
    assert (said.return_value, "could not be reached" in said.stderr) == (2, True)


@pytest.mark.long
def test_a_run_that_fails_says_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FormulaTrials, "fails", LoadError)
    said = returned()
    last = said.stderr.splitlines()[-1]
    assert (said.return_value, last) == (2, "servable tune: as the test wants")
    monkeypatch.setattr(FormulaTrials, "fails", KeyboardInterrupt)
    assert returned().return_value == 130
    monkeypatch.undo()

    def stopped(trials: FormulaTrials, *asked: Any) -> LoadCurve:
        return not_served() if asked[-1] == "choice" else whole(trials, *asked)

    whole = FormulaTrials.measure_full_curve
    monkeypatch.setattr(FormulaTrials, "measure_full_curve", stopped)
    said = returned("--trials", "12", "--p99-ms", "78").stderr
    assert "the chosen settings failed to start: no ping; run the same command again" in said

    monkeypatch.setattr(FormulaTrials, "_measure_curve", not_served)
    said = ran("--setting", "inter_op_threads").stderr
    assert "today's settings don't start: no ping" in said
    monkeypatch.undo()

    nothing = SearchResult(trials=(), stopped="the dollars are spent", choice=None)
    monkeypatch.setattr(servable.tune.tune, "_run_search", lambda *_: nothing)
    assert "the dollars are spent; raise that limit" in returned("--p99-ms", "79").stderr


def not_served(*_: object) -> NoReturn:
    raise LaunchError("no ping")


def test_a_busy_computer_is_reported_before_any_trial_and_stops_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = step(1, 50.0, 200.0, send_lags=Latencies.from_milliseconds([90.0] * 101))
    monkeypatch.setattr(FormulaTrials, "measure_full_curve", lambda *_: curve(late))
    said = returned("--p99-ms", "79")
    why = f"today's settings: {late.rejection}; run the same command again on an idle computer"
    assert (said.return_value, f"servable tune: {why}" in said.stderr) == (2, True)
    monkeypatch.undo()

    seconds = iter([80.0, 60.0, 10.0, 90.0])
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: next(seconds))
    busy_share = LocalTrials.measure_busy_share
    assert busy_share(Mock()) == 0.1  # the first idle second
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: 80.0)
    monkeypatch.setattr(FormulaTrials, "measure_busy_share", busy_share)
    monkeypatch.setattr(FormulaTrials, "fails", LoadError)
    lines = returned("--p99-ms", "81").stderr.splitlines()
    kinds = ("other programs use 80% of this computer's CPU", "combinations")
    found = [kind for line in lines for kind in kinds if kind in line]
    assert found[: found.index(kinds[1]) + 1] == [*kinds]
    assert found.count(kinds[0]) == 1


@pytest.mark.long
def test_another_alarm_or_price_is_a_new_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "_measure_curve", not_served)
    file = project / "environments" / "prod.toml"
    (project / RUNS).mkdir(parents=True, exist_ok=True)  # whichever test comes first
    before, known = file.read_text(), set((project / RUNS).iterdir())
    for limit_ms in (701, 702):
        file.write_text(f"{before}[alarms]\np99_latency_ms = {limit_ms}\n")
        ran()
    file.write_text(before)
    assert len(set((project / RUNS).iterdir()) - known) == 2
    for goal, runs in [("cost", 2), ("throughput", 1)]:
        found = []
        for usd in (7, 8):
            price = f'prices.instance_usd_per_hour={{"ml.c5.xlarge" = {usd}}}'
            ran("--for", goal, "--setting", "gunicorn_workers", "--set", price)
            found.append(set((project / RUNS).iterdir()))
        # Other tests of this file may have begun the first one.
        assert len(found[1] - found[0]) == runs - 1


def started(folder: Path, log: Path, **variables: str) -> "subprocess.Popen[bytes]":
    command = ["-m", "tests.servable.tune.formula_trials", str(log), "tune", "prod"]
    return subprocess.Popen(
        [sys.executable, *command, "--body", "a.json", *FEW, "--trials", "16"],
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
def test_the_better_settings_are_shown_and_told_to_programs_and_written_if_wanted(
    project: Path,
) -> None:
    file = project / "environments" / "prod.toml"
    before = file.read_text()
    shown = ran("--trials", "12")
    assert (shown.return_value, file.read_text()) == (0, before)
    for words in (
        "at most 9: two load curves of about",
        "they detect a gain of",
        "not tried: gunicorn_worker_class, gunicorn_threads",
        " 1/12 ",
    ):
        assert words in shown.stderr
    assert "+gunicorn_workers = 8" in shown.stdout
    assert "+++ environments/prod.toml" in shown.stdout

    # The same again is answered from what was kept.
    told = ran("--trials", "12", "--json")
    said = json.loads(told.stdout)
    content = Content.read(Path(said["report"]).with_name(RUN))
    choice = dict(require(content.recommendation).choice.point)
    wanted = (choice, True, len(content.trials))
    assert (said["settings"], said["better"], said["trials"]) == wanted
    assert (said["relative"], "alarms" in said["diff"]) == (True, False)
    assert said["not_tried"]["inter_op_threads"] == "--setting excludes it"
    assert "rows_per_request isn't stated" in said["not_tried"]["batching.batch_threads"]
    assert not [line for line in told.stderr.splitlines() if "/12 " in line]

    ran("--trials", "12", "--write", "--force-local-numbers")
    written = file.read_text()
    file.write_text(before)
    assert ("gunicorn_workers = 8" in written, COMMENT in written) == (True, True), written
    assert "p99_latency_ms" in written

    # For cost it begins anew, with predictions per dollar.
    price = ("--set", 'prices.instance_usd_per_hour={"ml.c5.xlarge" = 2}')
    said = json.loads(ran("--trials", "8", "--json", "--for", "cost", *price, "--new").stdout)
    (first, *_) = Content.read(Path(said["report"]).with_name(RUN)).trials
    assert first.measured.value == pytest.approx(1800 * first.measured.about["rps"]["value"])


@pytest.mark.long
def test_where_nothing_is_better_the_file_stays_and_the_exit_code_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FormulaTrials, "rps", staticmethod(lambda point: 100.0))
    before = (project / "environments" / "prod.toml").read_text()
    said = ran("--trials", "12", "--write", "--json", "--p99-ms", "99")
    assert (said.return_value, json.loads(said.stdout)["written"]) == (1, False)
    assert (project / "environments" / "prod.toml").read_text() == before

    chance = random.Random(1)
    unsure = staticmethod(lambda point: 100.0 * math.exp(chance.gauss(0, 0.3)))
    monkeypatch.setattr(FormulaTrials, "rps", unsure)
    assert returned("--trials", "12", "--p99-ms", "93").return_value == 3


@pytest.mark.long
def test_killed_and_resumed_it_ends_with_the_same_trials_and_repeats_none(tmp_path: Path) -> None:
    folder, plain = made(tmp_path / "killed"), made(tmp_path / "plain")
    log = folder / "log"
    first = started(folder, log, **{HOLD: "5"})
    deadline = time.monotonic() + 60
    while said(log, "begin") < 5 and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    for one in (started(folder, log), started(plain, plain / "log")):
        one.communicate(timeout=100)
    assert trials(folder) == trials(plain)
    assert said(log, "end") == len(trials(folder))


def test_runs_of_the_same_question_are_held_apart_and_private_whatever_the_umask_is(
    tmp_path: Path,
) -> None:
    folder = tmp_path / RUNS / "prod-blue-0123"
    before = os.umask(0)
    try:
        (tmp_path / ".servable").mkdir()  # open to all, from an earlier version
        with lock_folder(folder):
            with pytest.raises(LoadError, match="in progress"), lock_folder(folder):
                pass
            search = Search(Space({"tfs_processes": (1, 2)}), [], file=folder / TRIALS_FILE)
            search.run(lambda point: Measurement(value=1.0), Budget(trials=1))
            Ledger(folder / "ledger.json").record_start("copy", 1.0)
    finally:
        os.umask(before)
    assert {path.name for path in folder.iterdir()} == {TRIALS_FILE, "ledger.json"}
    assert list_open_to_others(tmp_path / ".servable") == []
