"""Effects that are sudden: which there may be, which are taken to be there, and who is believed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable.tune.search.chains import evidence, put_on, take_off
from servable.tune.search.kernel import Array
from servable.tune.search.model import Model, left_out
from servable.tune.search.opinions import Opinions, say
from servable.tune.search.space import Point, Space
from servable.tune.search.steps import Steps
from servable.tune.search.sudden import LEARN_FROM, Sudden
from servable.tune.search.trial import bent, logarithms

GRID = {"tfs_processes": (1, 2, 4), "gunicorn_workers": (1, 8), "onednn": (False, True)}
SPACE = Space(GRID)
EVERY = np.arange(len(SPACE))
NOISE = 0.02
SEEDS = st.integers(0, 2**32 - 1)


def many(point: Point) -> bool:
    return (point["tfs_processes"], point["gunicorn_workers"]) == (4, 8)


def told(*, without: int | None = None) -> tuple[list[int], list[float]]:
    """All points but one, twice: where both settings are many 200, elsewhere 100, with noise."""
    noise = np.random.default_rng(3)
    known = [number for number in range(len(SPACE)) if number != without] * 2
    worth = [200.0 if many(SPACE.point(number)) else 100.0 for number in known]
    return known, [float(one * np.exp(noise.normal(0, NOISE))) for one in worth]


def taught(*, without: int | None = None) -> Sudden:
    sudden = Sudden(SPACE, noise=NOISE)
    assert sudden.learn(*told(without=without))
    return sudden


def covariance(chance: np.random.Generator, count: int) -> Array:
    some = chance.normal(size=(count, count))
    found: Array = some @ some.T + np.eye(count)
    return found


def inverted(covariance: Array) -> Array:
    return np.asarray(np.linalg.inv(covariance), np.float64)


def likelihood(covariance: Array, y: Array) -> float:
    """Logarithm, but for a constant."""
    return float(-(y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1]) / 2)


def test_between_values_that_follow_each_other_there_may_be_a_step() -> None:
    assert Steps.of(SPACE).setting.tolist() == [0, 0, 1, 2]


def test_a_point_is_above_the_steps_below_its_value() -> None:
    above = Steps.of(SPACE).above[:2]
    servers = [SPACE.point(number)["tfs_processes"] for number in EVERY.tolist()]
    assert above.sum(axis=0).tolist() == [(1, 2, 4).index(int(one or 0)) for one in servers]


def test_a_corner_is_of_two_settings() -> None:
    steps = Steps.of(SPACE)
    assert (steps.setting[steps.corners[:, 0]] != steps.setting[steps.corners[:, 2]]).all()


def test_each_pair_of_settings_is_as_likely_to_have_a_corner() -> None:
    steps = Steps.of(SPACE)
    first = steps.setting[steps.corners[:, [0, 2]]].tolist()
    shares = {
        pair: sum(
            share for one, share in zip(first, steps.corner_share, strict=True) if one == list(pair)
        )
        for pair in ((0, 1), (0, 2), (1, 2))
    }
    assert list(shares.values()) == pytest.approx([1 / 3] * 3)


def test_every_point_lies_in_one_of_the_four_corners_of_two_steps() -> None:
    steps = Steps.of(SPACE)
    assert (steps.inside(np.arange(4), EVERY).sum(axis=0) == 1).all()


@given(seed=SEEDS, variance=st.floats(0.0, 2.0))
@settings(max_examples=30, deadline=None)
def test_an_effect_put_on_is_the_inverse_with_it(seed: int, variance: float) -> None:
    chance = np.random.default_rng(seed)
    before, column = covariance(chance, 5), (chance.random(5) < 0.5).astype(float)
    inverse = inverted(before)[None]
    put_on(inverse, inverse @ column, column, np.array([variance]))
    after = before + variance * np.outer(column, column)
    assert inverse[0] @ after == pytest.approx(np.eye(5), abs=1e-6)


@given(seed=SEEDS, variance=st.floats(0.0, 2.0))
@settings(max_examples=30, deadline=None)
def test_an_effect_put_on_and_taken_off_was_never_there(seed: int, variance: float) -> None:
    chance = np.random.default_rng(seed)
    before, column = inverted(covariance(chance, 5)), chance.normal(size=5)
    inverse = before[None].copy()
    put_on(inverse, inverse @ column, column, np.array([variance]))
    take_off(inverse, inverse @ column, column, np.array([variance]))
    assert inverse[0] == pytest.approx(before, abs=1e-6)


@given(seed=SEEDS, variance=st.floats(0.0, 2.0))
@settings(max_examples=30, deadline=None)
def test_evidence_is_how_much_likelier_an_effect_makes_the_measurements(
    seed: int, variance: float
) -> None:
    chance = np.random.default_rng(seed)
    before, column, y = covariance(chance, 5), chance.normal(size=5), chance.normal(size=5)
    seen = np.linalg.solve(before, column)
    found = evidence(np.array([variance]), seen @ column, seen @ y)
    after = before + variance * np.outer(column, column)
    assert found[0] == pytest.approx(likelihood(after, y) - likelihood(before, y), abs=1e-6)


@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_measurement_left_out_is_expected_from_the_others(seed: int) -> None:
    chance = np.random.default_rng(seed)
    every, y = covariance(chance, 5), chance.normal(size=5)
    to, others = every[0, 1:], np.linalg.inv(every[1:, 1:])
    mean, variance = to @ others @ y[1:], every[0, 0] - to @ others @ to
    density = -(np.log(2 * np.pi * variance) + (y[0] - mean) ** 2 / variance) / 2
    assert left_out(np.linalg.inv(every), y)[0] == pytest.approx(density)


def test_a_point_never_measured_is_expected_as_its_corner_is() -> None:
    both = next(number for number in EVERY.tolist() if many(SPACE.point(number)))
    expected = taught(without=both).expected(np.array([both]))
    mean = np.mean([one.mean[0] for one in expected])
    assert np.exp(mean) == pytest.approx(200.0, rel=0.1)


def test_what_was_measured_is_expected_as_it_was() -> None:
    expected = np.mean([one.mean for one in taught().expected(EVERY)], axis=0)
    assert {many(SPACE.point(number)) for number in EVERY[expected > np.log(150)].tolist()} == {
        True
    }


def test_deviation_is_the_root_of_a_point_s_covariance_with_itself() -> None:
    sudden = taught()
    found = [one.deviation for one in sudden.expected(EVERY)]
    assert np.array(found) ** 2 == pytest.approx(
        np.array([np.diag(one) for one in sudden.together(EVERY)]), abs=1e-9
    )


def test_of_few_measurements_nothing_is_learnt() -> None:
    known, values = told()
    few = LEARN_FROM - 1
    assert not Sudden(SPACE, noise=NOISE).learn(known[:few], values[:few])


def test_where_there_is_no_choice_nothing_is_learnt() -> None:
    assert not Sudden(Space({"onednn": (True,)}), noise=NOISE).learn([0] * 30, [1.0] * 30)


def test_of_one_setting_steps_are_learnt_though_it_has_no_corners() -> None:
    sudden = Sudden(Space({"onednn": (False, True)}), noise=NOISE)
    assert sudden.learn([0, 1] * 10, [100.0, 200.0] * 10)
    low, high = np.mean([one.mean for one in sudden.expected(np.arange(2))], axis=0)
    assert high - low == pytest.approx(np.log1p(np.log(2)), rel=0.1)  # Bent.


def test_measurements_that_agree_are_taken_for_less_noisy_than_expected() -> None:
    sudden = Sudden(SPACE, noise=NOISE)
    sudden.learn(told()[0], [100.0] * len(told()[0]))
    assert np.mean([one.noise for one in sudden.expected(EVERY)]) < 0.8 * NOISE


def test_learnt_one_by_one_it_expects_what_it_expects_learnt_at_once() -> None:
    known, values = told()
    one_by_one = Sudden(SPACE, noise=NOISE)
    for count in range(LEARN_FROM, len(known) + 1):
        one_by_one.learn(known[:count], values[:count])
    found = [[one.mean.tolist() for one in it.expected(EVERY)] for it in (one_by_one, taught())]
    assert found[0] == found[1]


def test_taught_something_else_it_forgets_what_it_knew() -> None:
    known, values = told()
    other = Sudden(SPACE, noise=NOISE)
    other.learn(known, values[::-1])
    other.learn(known, values)
    found = [[one.mean.tolist() for one in it.expected(EVERY)] for it in (other, taught())]
    assert found[0] == found[1]


def opinions(*, sudden: bool) -> Opinions:
    known, values = told()
    at = SPACE.features
    model = Model(at[known], bent(logarithms(values)), noise=NOISE)
    return Opinions(model, at, taught() if sudden else None)


def test_each_opinion_has_the_say_it_earned() -> None:
    known, values = told()
    model = Model(SPACE.features[known], bent(logarithms(values)), noise=NOISE)
    share = say(model.left_out(), taught().left_out())
    every = opinions(sudden=True)
    sudden = np.arange(len(every.expected(EVERY))) >= model.answers
    assert every.average(list(sudden.astype(float)[:, None]))[0] == pytest.approx(share)


def test_on_terraces_the_sudden_opinion_is_heard() -> None:
    assert len(opinions(sudden=True).expected(EVERY)) > len(opinions(sudden=False).expected(EVERY))


def test_what_has_earned_no_more_has_the_smaller_say() -> None:
    told = np.full((3, 20), -1.0)
    assert 0.1 < say(told, told) < 0.5


@pytest.mark.parametrize(("better", "low", "high"), [(-1.0, 0.0, 0.01), (1.0, 0.99, 1.0)])
def test_what_expects_better_has_the_larger_say(better: float, low: float, high: float) -> None:
    told = np.full((3, 20), -1.0)
    assert low <= say(told, told + better) <= high


def test_of_several_answers_the_harmonic_mean_counts() -> None:
    several = np.log([[1.0], [3.0]])
    even = np.log([[1.5]])
    assert say(even, several) == pytest.approx(say(even, even))


def test_an_answer_that_a_measurement_surprises_counts_against_it() -> None:
    even = np.full((3, 20), -1.0)
    surprised = even.copy()
    surprised[0, 0] = -20.0
    assert say(even, surprised) < say(even, even)
