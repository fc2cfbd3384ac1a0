"""The verdict of a search: what the pairs of trials at its end show of the choice."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable.tune.search.recommended import (
    ChosenPoint,
    choose_point,
    compare_pairs,
    estimate_shown_gain,
    plan_pair_count,
)
from servable.tune.search.space import TRIALS, Measurement, Space, Trial
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
    found = choose_point(FOUR, START, trials)
    assert found is not None
    return found


def test_without_pairs_it_cannot_be_told_and_a_choice_that_fails_is_refuted() -> None:
    assert chosen().confirmation.verdict == "cannot be told"
    assert chosen(searched=SEARCHED[:1]).confirmation.verdict == "cannot be told"

    assert chosen(*PAIRS, *PAIRS).recommended_point == FOUR.build_point(BETTER)
    assert chosen((BETTER, 180.0), (START, 185.0)).recommended_point == FOUR.build_point(START)
    assert chosen((2, 140.0), (START, 100.0)).point == FOUR.build_point(2)

    assert chosen(*PAIRS, (BETTER, 0.0), (START, 100.0)).confirmation.verdict == "not better"
    failed = [trial(START, 100.0), trial(1, 0.0)]
    assert chosen(searched=failed).confirmation.verdict == "not better"


def test_pairs_are_compared_in_either_order_as_in_a_textbook_s_paired_t_test() -> None:
    gain = chosen(*PAIRS).confirmation.gain
    assert gain is not None
    assert gain.value == pytest.approx(math.sqrt(190 / 101 * 185 / 99) - 1)

    # By scipy.stats.ttest_1samp(log ratios, 0).confidence_interval(0.99), SciPy 1.17.1.
    gain = compare_pairs([(math.exp(log), 1.0) for log in (0.10, 0.20, 0.15, 0.05)]).gain
    assert gain is not None
    ends = [math.log1p(end) for end in (gain.low, gain.high)]
    assert ends == pytest.approx([-0.06351, 0.31351], abs=0.001)


CALM = [(120.0, 100.0), (121.0, 100.0), (119.0, 100.0), (120.0, 100.0)]


def test_a_verdict_has_three_values_and_pairs_that_something_else_slowed_are_left_out() -> None:
    assert compare_pairs([*CALM, (60.0, 100.0)]).verdict == "better"
    assert compare_pairs([*CALM, (60.0, 100.0), (60.0, 100.0)]).verdict == "cannot be told"
    cases: list[tuple[tuple[float, ...], str]] = [
        ((1.20, 1.22, 1.18), "better"),
        ((0.80, 0.82, 0.78), "not better"),
        ((1.00, 1.005, 0.995), "not better"),
        ((1.30, 1.00, 0.95), "cannot be told"),
    ]
    for ratios, verdict in cases:
        assert compare_pairs([(100 * ratio, 100.0) for ratio in ratios]).verdict == verdict


LOGS = st.lists(st.floats(-0.2, 0.2), min_size=3, max_size=9)


@given(logs=LOGS)
@settings(max_examples=60, deadline=None)
def test_as_many_pairs_as_are_said_to_be_needed_would_tell(logs: list[float]) -> None:
    found = compare_pairs([(math.exp(log), 1.0) for log in logs])
    if found.needed is not None:
        # As many more of the same: their deviation is hardly below that of these.
        times = math.ceil(1.2 * found.needed / len(logs)) + 1
        assert (
            compare_pairs([(math.exp(log), 1.0) for log in logs * times]).verdict
            != "cannot be told"
        )


@given(noise=st.floats(0.01, 0.5), trials=st.integers(8, 200))
def test_pairs_take_at_most_half_of_the_trials(noise: float, trials: int) -> None:
    assert 2 <= plan_pair_count(noise, trials, least=2) <= trials / 4


def test_more_noise_needs_more_pairs_and_a_large_gain_fewer() -> None:
    planned = [plan_pair_count(noise, TRIALS, least=2) for noise in (0.02, 0.05, 0.2)]
    assert planned == sorted({*planned})
    planned = [plan_pair_count(0.06, TRIALS, least=2, gain=gain) for gain in (0.0, 0.1, 1.0)]
    assert planned[0] == planned[1] > planned[2] == 4


@pytest.mark.long
def test_a_gain_that_pairs_are_said_to_show_is_shown_and_none_of_the_same_settings() -> None:
    for pairs in [4, 8]:
        chance, gain = np.random.default_rng(pairs), estimate_shown_gain(0.06, pairs)
        measured = np.exp(chance.normal(0, 0.06, (1000, pairs, 2)))
        measured[..., 0] *= 1 + gain
        shown = [compare_pairs(each).verdict == "better" for each in measured.tolist()]
        assert 0.8 <= np.mean(shown) <= 0.95
    for pairs in [3, 10]:
        # Draws of a rate of 2.5 % are above 3.8 % less than once in a thousand times.
        chance, draws = np.random.default_rng(pairs), 1500
        measured = np.exp(chance.normal(0, 0.2, (draws, pairs, 2))).tolist()
        assert sum(compare_pairs(each).verdict == "better" for each in measured) <= 0.038 * draws


@pytest.mark.long
def test_a_planted_setting_is_kept_and_where_today_s_are_best_none_is() -> None:
    kept = [search((("one_setting", 0.4, 0.05, "normal"), 11, number))[1] for number in (0, 1)]
    assert sum(kept) >= 1
    jobs = ((("today_best", 0.0, 0.2, "heavy_tails"), 12, number) for number in (0, 1))
    assert sum(verdict == "better" for verdict, _, _ in map(search, jobs)) == 0
