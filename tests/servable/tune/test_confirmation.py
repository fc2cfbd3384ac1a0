"""The verdict of a search: what the pairs of trials at its end show of the choice."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable.tune.search.recommended import (
    REPEATS,
    ChosenPoint,
    Confirmation,
    choose_point,
    compare_with_today,
    estimate_shown_gain,
    plan_pair_count,
)
from servable.tune.search.space import TRIALS, Measurement, Noise, Space, Trial
from tests.servable.tune.measured import require
from tests.verdicts.tune import search

FOUR = Space({"workers": (1, 2, 4, 8)})
START, BETTER = 0, 3


def trial(point: int, value: float, *, confirms: int = 0) -> Trial:
    measured = Measurement(value=value, failure=None if value else "no ping")
    return Trial(
        number=0, point=FOUR.build_point(point), measured=measured, seconds=1.0, confirms=confirms
    )


SEARCHED = [trial(START, 100.0), trial(1, 110.0), trial(2, 150.0), trial(BETTER, 200.0)]
# In the order of the search: the choice, twice today's settings, the choice.
PAIRS = ((BETTER, 190.0), (START, 101.0), (START, 99.0), (BETTER, 185.0))


def chosen(*again: tuple[int, float], searched: Sequence[Trial] = SEARCHED) -> ChosenPoint:
    trials = [*searched, *(trial(*each, confirms=len(again)) for each in again)]
    return require(choose_point(FOUR, START, trials))


def test_without_pairs_it_cannot_be_told_and_a_choice_that_fails_is_refuted() -> None:
    assert chosen().confirmation.verdict == "cannot be told"
    assert chosen(searched=SEARCHED[:1]).confirmation.verdict == "cannot be told"

    assert chosen(*PAIRS, *PAIRS).recommended_point == FOUR.build_point(BETTER)
    assert chosen((BETTER, 180.0), (START, 185.0)).recommended_point == FOUR.build_point(START)
    assert chosen((2, 140.0), (START, 100.0)).point == FOUR.build_point(2)

    assert chosen(*PAIRS, (BETTER, 0.0), (START, 100.0)).confirmation.verdict == "not better"
    failed = [trial(START, 100.0), trial(1, 0.0)]
    assert chosen(searched=failed).confirmation.verdict == "not better"


def compare(
    choice: Sequence[float], today: Sequence[float], *, repeats: Sequence[float] = ()
) -> Confirmation:
    """Compare values in turn, after `repeats` of a third point."""
    turns = [value for pair in zip(choice, today, strict=True) for value in pair]
    numbers = [1] * len(repeats) + [BETTER, START] * len(choice)
    again = np.arange(len(numbers)) >= len(repeats)
    values = np.array([*repeats, *turns])
    return compare_with_today(np.array(numbers), values, again, START)


def test_pairs_are_compared_in_either_order_with_the_noise_of_all_repeats() -> None:
    gain = require(chosen(*PAIRS).confirmation.gain)
    assert gain.value == pytest.approx(math.sqrt(190 / 101 * 185 / 99) - 1)

    # By scipy.stats.ttest_ind(choice, today).confidence_interval(0.99), SciPy 1.17.1.
    choice, today = np.exp([(0.10, 0.20, 0.15, 0.05), (0.0, 0.02, -0.03, 0.01)]).tolist()
    gain = require(compare(choice, today).gain)
    ends = [math.log1p(end) for end in (gain.low, gain.high)]
    assert ends == pytest.approx([-0.0012, 0.2512], abs=0.001)

    widths = []
    for repeats in ([], [100.0] * 9, [80.0, 90.0, 100.0, 110.0, 120.0]):
        found = require(compare([120.0, 122.0], [100.0, 98.0], repeats=repeats).gain)
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] < widths[2]


def test_a_verdict_has_three_values_and_what_something_else_slowed_is_left_out() -> None:
    cases: list[tuple[list[float], str]] = [
        ([120.0, 122.0, 118.0], "better"),
        ([80.0, 82.0, 78.0], "not better"),
        ([100.0, 100.5, 99.5], "not better"),
        ([130.0, 100.0, 95.0], "cannot be told"),
        ([120.0], "cannot be told"),
        ([120.0, 0.0], "not better"),
        # One of three was slowed, but settings that are often slow are slow.
        ([60.0, 120.0, 121.0], "better"),
        ([60.0, 60.0, 120.0, 121.0, 120.0], "cannot be told"),
    ]
    for choice, verdict in cases:
        today = [100.0, 99.0, 101.0, 100.0, 100.0][: len(choice)]
        assert compare(choice, today).verdict == verdict, choice
    assert compare([120.0, 121.0], [100.0, 50.0], repeats=[99.0, 101.0]).verdict == "cannot be told"
    trials = [*SEARCHED, trial(BETTER, 198.0)]
    slowed = ((BETTER, 190.0), (START, 101.0), (START, 50.0), (BETTER, 185.0))
    assert chosen(*slowed, searched=trials).confirmation.verdict == "better"
    # The second pair was interrupted.
    assert chosen(*slowed[:3], searched=trials).confirmation.pairs == 1


LOGS = st.lists(st.floats(-0.2, 0.2), min_size=3, max_size=9)


@given(logs=LOGS)
@settings(max_examples=60, deadline=None)
def test_as_many_pairs_as_are_said_to_be_needed_would_tell(logs: list[float]) -> None:
    def repeat(times: int) -> Confirmation:
        return compare(np.exp(logs * times).tolist(), [1.0] * (times * len(logs)))

    found = repeat(1)
    if found.needed is not None:
        # As many more of the same: their deviation is hardly below that of these.
        times = math.ceil(1.2 * found.needed / len(logs)) + 1
        assert repeat(times).verdict != "cannot be told"


@given(noise=st.floats(0.01, 0.5), repeats=st.integers(1, 20), trials=st.integers(8, 200))
def test_pairs_take_at_most_half_of_the_trials(noise: float, repeats: int, trials: int) -> None:
    assert 2 <= plan_pair_count(Noise(noise, repeats), trials, least=2) <= trials / 4


def test_more_noise_needs_more_pairs_and_a_large_gain_or_more_repeats_need_fewer() -> None:
    def plan(noise: float = 0.06, repeats: int = REPEATS, gain: float = 0.0) -> int:
        return plan_pair_count(Noise(noise, repeats), TRIALS, least=2, gain=gain)

    assert plan(0.02) < plan(0.05) < plan(0.2)
    assert plan() == plan(gain=0.1) > plan(gain=1.0) == 2
    assert plan(repeats=1, gain=0.4) > plan(repeats=30, gain=0.4)


@pytest.mark.long
def test_a_gain_that_pairs_are_said_to_show_is_shown_and_none_of_the_same_settings() -> None:
    def measure_share(pairs: int, noise: float, gain: float, draws: int) -> float:
        chance = np.random.default_rng(pairs)
        measured = np.exp(chance.normal(0, noise, (draws, 2, pairs)))
        repeats = np.exp(chance.normal(0, noise, (draws, REPEATS + 1)))
        better = [
            compare((choice * (1 + gain)).tolist(), today.tolist(), repeats=others).verdict
            for (choice, today), others in zip(measured, repeats.tolist(), strict=True)
        ]
        return better.count("better") / draws

    for pairs in [2, 4, 8]:
        assert 0.8 <= measure_share(pairs, 0.06, estimate_shown_gain(0.06, pairs), 1000) <= 0.95
    for pairs in [2, 3, 10]:
        # Draws of a rate of 2.5 % are above 3.8 % less than once in a thousand times.
        assert measure_share(pairs, 0.2, 0.0, 1500) <= 0.038


@pytest.mark.long
def test_a_planted_setting_is_kept_and_where_today_s_are_best_none_is() -> None:
    kept = [search((("one_setting", 0.4, 0.05, "normal"), 11, number))[1] for number in (0, 1)]
    assert sum(kept) >= 1
    jobs = ((("today_best", 0.0, 0.2, "heavy_tails"), 12, number) for number in (0, 1))
    assert sum(verdict == "better" for verdict, _, _ in map(search, jobs)) == 0
