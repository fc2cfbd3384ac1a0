"""The search: what it finds, when it stops, and that nothing is lost when it is killed."""

import dataclasses
import itertools
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from servable.tune.search.recommended import choose_point, estimate_effects
from servable.tune.search.search import Search, SearchResult, propose, restore_trials
from servable.tune.search.space import Budget, Measurement, Point, Space, Trial, compute_logarithms
from servable.tune.tune import TimePlan
from tests.servable.tune.container_formula import container
from tests.servable.tune.measured import require
from tests.servable.tune.surfaces import FAMILIES, search_ours

GRID = {
    "tfs_processes": (1, 2, 4, 8),
    "gunicorn_workers": (1, 4, 8, 16),
    "inter_op_threads": (1, 2, 4, 8),
    "onednn": (False, True),
}


def value(point: Point) -> float:
    """Best at 4 servers, 8 workers, 2 threads; with noise that the point itself draws."""
    off = abs(math.log2(int(point["tfs_processes"] or 1)) - 2)
    off += abs(math.log2(int(point["gunicorn_workers"] or 1)) - 3) / 2
    off += abs(math.log2(int(point["inter_op_threads"] or 1)) - 1) / 3
    drawn = zlib.crc32(repr(sorted(point.items())).encode())
    return 200 * math.exp(-off / 3) * (1 + (drawn % 100 - 50) / 1000)


SLOW = {"tfs_processes": 1, "gunicorn_workers": 1, "inter_op_threads": 1, "onednn": True}
FIRST = {name: values[0] for name, values in GRID.items()}


def measured_value(point: Point) -> Measurement:
    return Measurement(value=value(point))


def searched(
    start: Point,
    measure: Callable[[Point], Measurement] = measured_value,
    *,
    trials: int = 18,
    confirm: int = 2,
    file: Path | None = None,
) -> SearchResult:
    search = Search(Space(GRID), [start], confirm=confirm, file=file)
    return search.run(measure, Budget(trials=trials))


@pytest.mark.long
def test_noisy_measurements_find_nine_tenths_of_the_best_and_20_percent_that_were_planted() -> None:
    surface = FAMILIES["queueing, 4 cores"](0)
    assert surface.values[search_ours(surface, 0, 0.05)["point"]] >= 0.9 * surface.values.max()

    noise = np.random.default_rng(4)

    def measure(point: Point) -> Measurement:
        planted = 1.2 if point["tfs_processes"] == GRID["tfs_processes"][-1] else 1.0
        return Measurement(value=100 * planted * float(np.exp(noise.normal(0, 0.2))))

    found = searched(FIRST, measure, trials=40)
    assert (len(found.trials), found.stopped) == (40, "20 trials are done")


@pytest.mark.long
def test_in_a_large_space_the_best_points_neighbors_are_tried() -> None:
    surface = container(5, lies_in="batch threads")
    assert surface.values[search_ours(surface, 5, 0.05)["point"]] >= 0.9 * surface.values.max()


def test_a_space_of_few_points_ends_and_a_confirmed_run_takes_no_more_pairs(tmp_path: Path) -> None:
    for points in [1, 2, 3]:
        space = Space({"tfs_processes": (1, 2, 4)[:points]})
        search = Search(space, [{"tfs_processes": 1}], confirm=2)
        assert len(search.run(lambda _: Measurement(value=100.0), Budget(trials=40)).trials) <= 40

    # Each further look at the same pairs would be another chance of a false verdict.
    search = Search(Space(GRID), [], confirm=2, file=tmp_path / "study")
    runs = [search.run(measured_value, Budget(trials=trials)) for trials in (18, 80)]
    assert [len(run.trials) for run in runs] == [18, 18]


def test_todays_settings_are_first_and_the_choice_is_the_best_that_ran() -> None:
    start = {"tfs_processes": 2, "gunicorn_workers": 8, "inter_op_threads": 4, "onednn": False}
    assert searched(start, trials=1, confirm=0).trials[0].point == start

    def measure(point: Point) -> Measurement:
        processes = int(point["tfs_processes"] or 0)
        if processes == 8:
            return Measurement(value=0.0, failure="out of memory")
        return Measurement(value=100.0 * processes)

    found = require(searched(FIRST, measure, trials=20, confirm=0).choice)
    assert found.point["tfs_processes"] == 4
    nothing = Measurement(value=0.0, failure="no")
    assert searched(FIRST, lambda _: nothing, trials=12, confirm=0).choice is None

    grid = {"batching.max_batch_size": (None, 8), "batching.timeout_micros": (0, 1000, 5000)}
    assert len(Space(grid)) == 4
    space = Space({"onednn": (False, True), "tfs_processes": (0, 1)})
    assert space.find_number({"onednn": True, "tfs_processes": 1}) == 3
    assert compute_logarithms([0.0, 50.0, 100.0])[0] == compute_logarithms([50.0])[0]


@pytest.mark.long
def test_a_real_gain_has_an_interval_above_nothing_and_luck_has_not() -> None:
    found = searched(SLOW)
    choice = require(found.choice)
    assert choice.is_better
    # Confirmed in pairs that begin with either.
    again = [trial.point == SLOW for trial in found.trials if trial.confirms]
    assert again == [False, True, True, False]
    effects = estimate_effects(Space(GRID), found.trials, choice)
    assert {name for name in SLOW if SLOW[name] != choice.point[name]} >= effects.keys()
    assert min(back.high for back in effects.values()) < 1

    noise = np.random.default_rng(3)

    def measure(point: Point) -> Measurement:
        return Measurement(value=100 * float(np.exp(noise.normal(0, 0.05))))

    assert not require(searched(FIRST, measure, trials=30).choice).is_better
    # Where today's settings win, the best of the others is compared with them.
    space = Space(GRID)
    best = max((space.build_point(number) for number in range(len(space))), key=value)
    last = searched(best).trials[-4:]
    assert [trial.point == best for trial in last] == [False, True, True, False]


def test_a_lucky_measurement_is_not_chosen_over_several_good_ones() -> None:
    space = Space({"tfs_processes": (1, 2, 4, 8), "onednn": (False, True)})
    good, lucky = space.build_point(0), space.build_point(len(space) - 1)
    others = [(space.build_point(3), 60.0), (space.build_point(4), 70.0), (lucky, 103.0)]
    trials = [
        Trial(number=at, point=point, measured=Measurement(value=value), seconds=1.0)
        for at, (point, value) in enumerate([*[(good, 100.0)] * 4, *others])
    ]
    assert require(choose_point(space, 3, trials)).point == good


def test_a_confirmation_that_is_resumed_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, numbers = searched(SLOW).trials, itertools.count(1)

    def measure(point: Point) -> Measurement:
        if next(numbers) == len(whole) - 2:  # the second of four that confirm
            raise KeyboardInterrupt
        return measured_value(point)

    with pytest.raises(KeyboardInterrupt):
        searched(SLOW, measure, file=tmp_path / "study")
    found = searched(SLOW, measure, file=tmp_path / "study")
    assert [trial.point for trial in found.trials] == [trial.point for trial in whole]
    assert [trial.point == SLOW for trial in whole[-4:]] == [False, True, True, False]


def test_a_proposal_knows_how_many_trials_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(wraps=propose)
    monkeypatch.setattr("servable.tune.search.search.propose", asked)
    searched(SLOW, trials=11, confirm=0)
    assert {call.args[-1] for call in asked.call_args_list} == {11}


def test_resumed_or_cut_off_it_ends_with_the_same_trials(tmp_path: Path) -> None:
    def search(name: str, trials: int) -> list[str]:
        found = searched(SLOW, trials=trials, confirm=0, file=tmp_path / name).trials
        return [json.dumps(dict(trial.point)) for trial in found]

    whole = search("whole", 14)
    choice = Search(Space(GRID), [SLOW], file=tmp_path / "whole").find_choice()
    assert json.dumps(require(choice).point) in whole
    assert [search("study", trials) for trials in (3, 9, 14)] == [whole[:3], whole[:9], whole]

    written = (tmp_path / "study").read_bytes()
    search("study", 12)
    assert (tmp_path / "study").read_bytes() == written

    study = tmp_path / "cut"
    search("cut", 9)
    study.write_bytes(study.read_bytes()[:-20])
    assert (search("cut", 14), len(restore_trials(study))) == (whole, 14)


def test_minutes_and_dollars_are_a_budget_and_planned_for_load_curves_and_trials() -> None:
    trials = [trial(50.0)]
    ends = [Budget(minutes=minutes).explain_end(trials) for minutes in (1, 2)]
    assert ends == ["0.8 of 1 minutes are spent", None]

    trials = [trial(30.0)] * 2
    budget = Budget(trials=40, minutes=10)
    assert (budget.count_fitting_trials(()), budget.count_fitting_trials(trials)) == (40, 20)

    ends = [Budget(usd=usd).explain_end([trial(1800.0, usd=2.0)]) for usd in (3.9, 4.1)]
    assert [one is not None for one in ends] == [True, False]

    assert Budget(minutes=5).reserve_trials(4, [trial(30.0)]).minutes == 3.0
    assert Budget(trials=10).reserve_trials(4, []).trials == 6
    assert Budget(usd=5.0).reserve_trials(4, [trial(usd=0.5)]).usd == 3.0

    assert (PLAN.trial_count, PLAN.rejection) == (9, None)

    shorter = dataclasses.replace(PLAN, minutes=4.9)
    assert (shorter.rejection or "").endswith("pass --minutes 5 or more")
    assert dataclasses.replace(PLAN, minutes=4, trials=6).rejection is None

    short = TimePlan(minutes=1, curve_seconds=61, trial_seconds=23, trials=40)
    asked = int((short.rejection or "").split("--minutes ")[1].split()[0])
    assert dataclasses.replace(short, minutes=asked).rejection is None

    fewer = dataclasses.replace(PLAN, minutes=9.5, trials=5)
    # Two load curves of 48 s and five trials of 20 s.
    assert str(fewer).startswith("about 3.3 minutes, at most 9.5: two load curves of about 48 s")
    for part in ["at most 5:", "about 48 s", "about 9 trials of about 20 s"]:
        assert part in str(PLAN)


def trial(seconds: float = 30.0, **about: float) -> Trial:
    return Trial(number=0, point={}, measured=Measurement(value=1.0, about=about), seconds=seconds)


# 2.5 load curves of 48 s are two minutes, and nine trials of 20 s three.
PLAN = TimePlan(minutes=5, curve_seconds=48, trial_seconds=20, trials=40)
