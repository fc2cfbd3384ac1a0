"""`servable rehearse --compare`: policies on the same random days, a diff if one is better, and the page."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from infra.parameters.placement import find_placement
from servable.measured import document
from servable.rehearse import comparison, output, page
from servable.rehearse.command import rehearse
from servable.rehearse.comparison import PolicyResult, PolicyTrial
from servable.rehearse.output import join_minutes
from servable_scaling.rehearsal.fleet import InstanceModel, Service
from servable_scaling.rehearsal.scenario import Scenario
from tests.checkouts import ROOT
from tests.servable.rehearse.test_rehearse import SCALED

Run = Callable[..., Result]
Write = Callable[..., ValidFile]
# Six times as many requests at once: only a larger minimum holds the objective.
HOUR = "".join(f"{minute},{3000 if minute < 20 else 18_000}\n" for minute in range(40))
SPARSE = SCALED.replace("min_instances = 2", "min_instances = 1").replace(
    "safety_factor = 0.7", "safety_factor = 1.0"
)
SCENARIO = Scenario(
    requests=[1.0], model=InstanceModel(1, Service(0.1, 0.1), 1), routing="random",
    resource="endpoint/a/variant/b", instances=1, start_minutes=1,
)  # fmt: skip


@pytest.fixture
def compared(environment: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run --compare over five random days like HOUR."""
    monkeypatch.setattr(comparison, "DAYS", 5)
    (tmp_path / "hour.csv").write_text(HOUR)

    def run(*options: str, text: str = SPARSE) -> Result:
        monkeypatch.chdir(environment(text).root)
        arguments = ["prod", "--day", str(tmp_path / "hour.csv"), *options]
        return CliRunner().invoke(rehearse, arguments, standalone_mode=False)

    return run


def test_every_combination_of_values_is_tried_after_the_file_and_others_are_rejected(
    environment: Write,
) -> None:
    def listed(*options: str, text: str = SCALED) -> dict[str, dict[str, str]]:
        placed = find_placement(environment(text).environment, "primary")
        assert placed is not None
        return comparison.list_policies(options, placed)

    policies = listed("target=40,60", "minimum=2,3")
    pairs = [f"target {target} %, minimum {count}" for target in (40, 60) for count in (2, 3)]
    assert [*policies] == ["the file", *pairs]
    assert policies["the file"] == {}
    assert policies["target 40 %, minimum 3"] == {
        "variants.primary.scaling.safety_factor": "0.4",
        "variants.primary.min_instances": "3",
    }

    labels = listed("")
    assert {"target 70 %, minimum 3", "target 40 %, minimum 6"} <= labels.keys()
    # The file's target and four others, with minimums of 2, 3, 4, and 6; and the file itself.
    assert len(labels) == 5 * 4 + 1

    text = SCALED.replace("max_instances = 12\n", "").partition("[variants.primary.scaling]")[0]
    assert [*listed("", text=text)] == ["the file", *(f"minimum {count}" for count in (2, 3, 4, 6))]
    for options, said in [
        (["targets=40"], "did you mean target?"),
        (["schedule=none"], "allowed: minimum=2,4 .* try any other key with --set"),
        (["target=0"], "'0' isn't a percentage; allowed: above 0 and at most 100"),
        (["target="], "'' isn't a percentage"),
        (["minimum=two"], "'two' isn't a number of instances"),
        (["minimum=2", "minimum=3"], "pass each name only once, with all its values"),
    ]:
        with pytest.raises(click.UsageError, match=said.replace("?", r"\?")):
            listed(*options)


def result(*days: tuple[float, float], usd: float | None = 1.0) -> PolicyResult:
    """(cost, minutes outside) of each day."""
    trial = PolicyTrial(label="minimum 2", keys={}, scenario=SCENARIO, usd_per_hour=usd)
    return PolicyResult(
        trial=trial, days=[comparison.DayResult(cost, broken, 0) for cost, broken in days]
    )


def test_the_best_is_the_cheapest_on_the_better_side_and_json_says_whether_it_holds() -> None:
    holds, cheap, dear = result((12, 0)), result((9, 5)), result((14, 0))
    assert comparison.sort_by_cost([dear, holds, cheap]) == [cheap, holds, dear]
    assert not result((9, 0), (9, 0), (9, 1)).is_passing
    assert result((10, 3), (20, 5)).average == comparison.DayResult(15, 4, 0)
    # 1 to 5: mean 3, standard deviation 1.5811, t of 4 is 2.776: 3 +- 1.963.
    assert comparison.compute_interval([1, 2, 3, 4, 5]) == pytest.approx(
        (3, 1.037, 4.963), abs=0.01
    )
    cases: list[tuple[list[tuple[float, float]], list[tuple[float, float]], bool]] = [
        # A saving that differs from day to day, one on every day, one that breaks the objective.
        ([(10, 0)] * 6, [(9, 0), (12, 0), (8, 0), (11, 0), (9, 0), (10.5, 0)], False),
        ([(10 + day, 0) for day in range(6)], [(9 + 1.01 * day, 0) for day in range(6)], True),
        ([(10, 0)] * 6, [(9, 1)] * 6, False),
        # The file's policy breaks the objective: fewer minutes outside count, at a higher cost too.
        ([(10, 5)] * 6, [(12, 0)] * 6, True),
        ([(10, 5)] * 6, [(9, 5)] * 6, False),
    ]
    for file, best, holds in cases:
        assert comparison.compute_advantage(result(*file), result(*best)).holds is holds
    for best, verdict, unit in [(1.0, "holds", "usd"), (None, "does not hold", "instance hours")]:
        found = result((10, 3), usd=best)
        left = {"minimum 99": "min_instances = 99 is too many; allowed: 1 to 12"}
        made = comparison.PolicyComparison(
            compared=[found], best=found if best else None, advantage=None, left_out=left
        )
        no_better = comparison.Advantage(cost=(0,) * 3, broken=(0,) * 3, holds=False)
        unshown = replace(made, best=found, advantage=no_better)
        assert comparison.propose_edit(None, unshown, write=True) == ""  # type: ignore[arg-type]
        stored = output.build_comparison_json(made, "", write=True)
        assert (stored["verdict"], stored["unit"], stored["written"]) == (verdict, unit, False)
        first, left_out, last = output.list_comparison_conclusions(made)
        assert first == "1 policy on the same 1 random days"
        assert left_out.endswith("1 policy, such as minimum 99: min_instances = 99 is too many")
        assert last.startswith("the file's policy is the best" if best else "no policy meets")


def test_the_cheapest_that_passes_on_other_days_too_is_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The file's, one that breaks the objective, one that breaks it on other days, and two that pass.
    policies = [result(day, day) for day in ((15, 0), (9, 5), (11, 0), (12, 0), (14, 0))]
    judged: list[int] = []

    def look_up(trials: list[PolicyTrial], turn: int, _: object) -> list[PolicyResult]:
        at = [[one.trial is trial for one in policies].index(True) for trial in trials]
        judged.extend(at * turn)
        return [result((11, 3)) if turn and number == 2 else policies[number] for number in at]

    monkeypatch.setattr(comparison, "rehearse_policies", look_up)
    found = comparison.compare_policies([one.trial for one in policies], lambda _: None, {})
    assert (found.best, judged) == (policies[3], [0, 2, 3])


@pytest.mark.long
def test_the_best_is_written_and_its_page_has_its_verdict_and_the_diff(
    compared: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page"
    ran = compared("--write", "--compare", "minimum=1,9,99", "--output", str(page))
    assert (ran.exception, ran.return_value) == (None, 0), ran.output
    assert "better than the file's policy: minimum 9: " in ran.output
    assert "1 policy, such as minimum 99: " in ran.output
    assert ran.output.splitlines()[-2:-1] == ["written"]
    assert "min_instances = 9 #" in (Path.cwd() / "environments" / "prod.toml").read_text()
    text = (page / "report.html").read_text()
    assert [file.name for file in (page / "pictures").iterdir()] == ["day.png"]
    holds, breaks = ('<strong class="verdict holds">', '<strong class="verdict does-not-hold">')
    assert text.index(holds) < text.index(breaks) < text.index("<nav")
    assert "better than the file&#39;s policy: minimum 9" in text
    assert "+min_instances = 9 #" in text


@pytest.mark.long
def test_a_file_whose_policy_is_the_best_stays(compared: Run) -> None:
    text = SPARSE.replace("min_instances = 1", "min_instances = 9")
    found: Any = json.loads(compared("--compare", "minimum=1,9", "--json", text=text).stdout)
    assert (found["best"], found["diff"], found["days"]) == ("the file", "", 5)
    assert found["advantage"] is None
    by_policy = {row["policy"]: row["minutes_outside_a_day"] for row in found["policies"]}
    assert list(by_policy) == ["the file", "minimum 1"]
    assert by_policy["minimum 1"] > by_policy["the file"]


@pytest.mark.long
def test_every_day_is_computed_and_turns_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "DAYS", 3)
    trial = result((1, 0), usd=None).trial
    busy = replace(trial, scenario=replace(trial.scenario, requests=[100.0] * 50))
    several = [busy, replace(busy, usd_per_hour=3.0)]
    hours, dollars = comparison.rehearse_policies(several, 0, lambda _: None)
    assert dollars.average.cost == pytest.approx(3 * hours.average.cost)
    first, other = hours.days, comparison.rehearse_policies([busy], 1, lambda _: None)[0].days
    assert (len(first), len({day.cost for day in other})) == (3, 1)
    shares = [{day.refused_share for day in days} for days in (first, other)]
    assert [len(days) for days in shares] == [3, 3]
    assert not shares[0] & shares[1]


@pytest.mark.long
def test_ctrl_c_ends_a_comparison_and_its_processes(environment: Callable[..., ValidFile]) -> None:
    command = [sys.executable, "-m", "servable", "rehearse", "prod", "--compare"]
    with subprocess.Popen(
        [*command, "--set", "traffic.profile=daily"], cwd=environment(SCALED).root,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert "days; about" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()  # its processes hold it too: the end of all of them
    assert (process.returncode, said.splitlines()[-1]) == (130, "interrupted; nothing was written")


@pytest.mark.long
def test_the_page_of_a_day_starts_with_the_verdict_and_enlarges_what_matters(
    environment: Callable[..., ValidFile], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times: list[str] = []
    drawn = document.render_png

    def draw(figure: Any) -> bytes:
        axis = figure.axes[-1].xaxis
        times.append(" ".join(axis.get_major_formatter().format_ticks(axis.get_ticklocs())))
        return drawn(figure)

    monkeypatch.setattr(document, "render_png", draw)
    monkeypatch.chdir(environment(SPARSE).root)
    counts = [HOUR.count("1")] * 1440
    counts[700] = 30_000
    lines = (f"{minute},{count}\n" for minute, count in enumerate(counts))
    (tmp_path / "day.csv").write_text("".join(lines))
    options = ["--day", str(tmp_path / "day.csv"), "--output", str(tmp_path / "page")]
    ran = CliRunner().invoke(rehearse, ["prod", *options])
    assert ran.exception is None, ran.output
    text = (tmp_path / "page" / "report.html").read_text()
    verdict = '<strong class="verdict does-not-hold">Does not hold</strong>'
    assert text.index(f"{verdict} The file&#39;s day: breaks") < text.index("<nav")
    # 30 minutes before 11:40, and behind the minutes in which the backlog is answered.
    enlarged, whole = times
    assert enlarged.startswith("11:10 11:15 11:20 ")
    assert whole == f"{' '.join(f'{hour:02}:00' for hour in range(0, 24, 2))} 1d 00:00"


def test_what_matters_is_the_longest_run_outside_or_what_is_nearest_to_it() -> None:
    quiet = {"waiting": 0.0, "breaks": 0.0, "use": 0.1}
    tight = "The minute with the least spare capacity"
    cases: list[tuple[list[int], dict[int, dict[str, float]], int, int, str]] = [
        ([100, 400, 401], {}, 370, 432, "The longest time outside of the objective"),
        (list(range(100, 900)), {}, 70, 191, "The start of the longest time outside"),
        ([5], {}, 0, 36, "The longest time outside of the objective"),
        ([], {300: {"waiting": 5.0}}, 270, 331, "When most callers find no copy"),
        ([], {800: {"breaks": 0.2}, 900: {"use": 0.9}}, 770, 831, tight),
        ([], {1400: {"use": 0.9}}, 1370, 1431, tight),
    ]
    for broken, at, begin, end, why in cases:
        some: list[Any] = [SimpleNamespace(**quiet | at.get(minute, {})) for minute in range(1440)]
        waiting = sum(minute.waiting for minute in some)
        day = SimpleNamespace(minutes=some, broken=broken, waiting_callers=waiting)
        found = page._find_relevant_minutes(SimpleNamespace(day=day))  # type: ignore[arg-type]
        assert found == (begin, end, why)
    assert join_minutes([3, 4, 5, 9, 11, 12]) == [(3, 5), (9, 9), (11, 12)]
