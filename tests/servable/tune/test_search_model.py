"""What the search expects of points, and its expected improvement by a measurement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable.tune.search.gaussian_process import (
    Array,
    GaussianProcess,
    Prediction,
    compute_covariance,
)
from servable.tune.search.search import (
    AGAIN_FROM,
    LAST,
    SELECTED,
    STARTS,
    compute_expected_improvement,
    estimate_chance_to_run,
    list_rules_of_thumb,
    propose,
)
from servable.tune.search.space import (
    NOISE,
    NOISE_REPEATS,
    PROGRAMS,
    TRIALS,
    Noise,
    Space,
    compress_poor_values,
    estimate_noise,
    find_undisturbed,
)

SETTINGS, LEVELS = 3, 4
GRIDS = st.lists(st.tuples(*[st.integers(0, LEVELS - 1)] * SETTINGS), min_size=2, max_size=12).map(
    lambda ranks: np.array(ranks, float) / (LEVELS - 1)
)
PARAMETERS = st.lists(st.floats(-2.0, 1.0), min_size=SETTINGS + 2, max_size=SETTINGS + 2).map(
    lambda found: np.array(found)
)
SEEDS = st.integers(0, 2**32 - 1)


def directly(one: Array, other: Array, parameters: Array) -> Array:
    """The same formula for all settings at once."""
    scaled = np.sqrt(3) * np.abs(one[:, None] - other[None]) / np.exp(parameters[:SETTINGS])
    each = (1 + scaled) * np.exp(-scaled)
    alone, together = np.exp(2 * parameters[SETTINGS:])
    found: Array = alone * each.mean(axis=-1) + together * each.prod(axis=-1)
    return found


@given(one=GRIDS, other=GRIDS, parameters=PARAMETERS)
@settings(max_examples=30, deadline=None)
def test_a_covariance_adds_settings_alone_and_together(
    one: Array, other: Array, parameters: Array
) -> None:
    found = compute_covariance(one, other, parameters[:SETTINGS], parameters[SETTINGS:])
    assert found == pytest.approx(directly(one, other, parameters))


@given(points=GRIDS, parameters=PARAMETERS)
@settings(max_examples=30, deadline=None)
def test_a_covariance_has_no_negative_variance(points: Array, parameters: Array) -> None:
    found = compute_covariance(points, points, parameters[:SETTINGS], parameters[SETTINGS:])
    assert np.linalg.eigvalsh(found).min() > -1e-8 * np.trace(found)


@given(points=GRIDS, seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_same_measurements_give_the_same_model_with_chances(points: Array, seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=len(points))
    once, again = (GaussianProcess(points, y, noise=0.05).predict(points).mean for _ in range(2))
    assert once.tolist() == again.tolist()

    ran = np.random.default_rng(seed).random(len(points)) < 0.7
    model = GaussianProcess(points, ran.astype(float), noise=0.1)
    found = estimate_chance_to_run(model.predict(points))
    assert (found.min() >= 0, found.max() <= 1) == (True, True)


def test_what_failed_makes_its_neighbours_unlikely_and_one_odd_measurement_is_not_believed() -> (
    None
):
    known = Prediction(np.array([0.0, -0.01, -3.0]), np.array([0.03, 0.03, 0.03]), 0.05)
    _, close, hopeless = compute_expected_improvement(known, 0.0)
    assert (close > 1e-3, hopeless < 1e-6) == (True, True)

    line = np.linspace(0, 1, 5)[:, None]
    model = GaussianProcess(line, np.array([1.0, 1.0, 1.0, 0.0, 0.0]), noise=0.1)
    found = estimate_chance_to_run(model.predict(line))
    assert (found[0] > 0.9, found[4] < 0.1) == (True, True)

    line = np.linspace(0, 1, 11)[:, None]
    logs = np.zeros(11)
    logs[5] = np.log(0.5)
    found = GaussianProcess(line, logs, noise=0.05).predict(line)
    assert found.mean[5] > np.log(0.9)


def test_counts_stand_by_their_logarithm_and_anything_else_by_its_rank() -> None:
    column = Space({"gunicorn_workers": (1, 2, 4, 16)}).features[:, 0]
    assert column == pytest.approx([0, 0.25, 0.5, 1])
    column = Space({"batching.timeout_micros": (0, 1000, 5000)}).features[:, 0]
    assert column == pytest.approx([0, 0.5, 1])
    for four in ["tfs_processes", "inter_op_threads", "intra_op_threads"]:
        space, one = Space(COUNTS), dict.fromkeys(COUNTS, 1)
        at = space.find_number({**one, four: 4})
        assert space.features[at, -1] == pytest.approx(np.log(4) / np.log(16 * 4 * 4))

    grid = {"batching.max_batch_size": (None, 8), "batching.timeout_micros": (0, 1000, 5000)}
    space = Space(grid)
    found = space.build_point(
        space.find_nearest({"batching.max_batch_size": None, "batching.timeout_micros": 1000})
    )
    assert found["batching.max_batch_size"] is None


COUNTS = {"tfs_processes": (1, 2, 4, 16), "inter_op_threads": (1, 4), "intra_op_threads": (1, 4)}


def test_a_poor_value_is_bent_toward_the_best_and_half_of_it_less() -> None:
    best, poor = compress_poor_values(np.log([100.0, 1.0]))
    assert np.exp(poor - best) > 0.1
    best, half = compress_poor_values(np.log([100.0, 50.0]))
    assert np.exp(half - best) < 3 / 4


@given(logs=st.lists(st.floats(-10, 10), min_size=2, max_size=20).map(np.array))
def test_bent_values_keep_their_order_and_the_best(logs: Array) -> None:
    order = np.argsort(logs, kind="stable")
    assert np.diff(compress_poor_values(logs)[order]).min() >= 0
    assert compress_poor_values(logs).max() == logs.max()


def test_rules_of_thumb_come_first_then_the_best_combinations_and_no_vcpu_is_idle() -> None:
    space, starts, tried = Space(COUNTS), [3, 1, 2, 0, 5, 6, 7, 8, 9, 10, 11], list[int]()
    for _ in range(STARTS + SELECTED):
        values = [10.0 + number for number in tried]
        tried.append(int(propose(space, starts, tried, values)))
    assert tried[:STARTS] == starts[:STARTS]
    assert set(tried[STARTS:]) < set(starts[STARTS:])
    assert tried[STARTS] > 7  # near those that measured well
    for vcpus in [1, 2, 4, 8, 36]:
        rules = list_rules_of_thumb(Space(COUNTS), vcpus=vcpus)
        assert vcpus < 8 or len({tuple(rule.values()) for rule in rules}) == 16
        lone = [rule for rule in rules if rule["tfs_processes"] == 1]
        assert min(int(rule["inter_op_threads"] or 0) for rule in lone) >= vcpus


def test_the_last_measurements_repeat_what_could_be_the_best() -> None:
    space, noise = Space(COUNTS), np.random.default_rng(2)
    tried = [0, *range(AGAIN_FROM // 4)] * 7
    values = [100 * float(np.exp(noise.normal(0, 0.02) - 0.1 * (one > 2))) for one in tried]
    for trials, first in [(TRIALS, TRIALS - LAST), (AGAIN_FROM + 1, AGAIN_FROM)]:
        for done, repeats in [(first - 1, False), (first, True)]:
            number = propose(space, tried[:7], tried[:done], values[:done], trials)
            assert (number in tried) == repeats


def test_new_points_change_each_program_in_turn_and_a_disturbed_measurement_comes_again() -> None:
    threads = {"gunicorn_threads": (1, 8), "batching.timeout_micros": (0, 1000)}
    space = Space({"tfs_processes": (1, 2, 4), "gunicorn_workers": (1, 2), **threads})
    for done in (2, 3, 4):
        number = propose(space, [0], [0] * done, [100.0] * done)
        changed = np.flatnonzero(space.ranks[int(number)] != space.ranks[0])
        owners = {space.names[one].startswith(PROGRAMS[done % 3] or "tfs") for one in changed}
        assert owners == {True}
    assert space.find_neighbors(0, "gunicorn").sum() == 4

    line = Space({"tfs_processes": tuple(range(1, 12))})
    values = [50.0 if one == 5 else 100.0 for one in range(11)]
    assert propose(line, [0], [0, *range(11)], [100.0, *values]) == 5


def test_repeats_say_how_noisy_a_measurement_is_without_those_that_something_slowed() -> None:
    logs = np.random.default_rng(1).normal(0, 0.2, 200)
    found = estimate_noise(np.repeat(np.arange(50), 4), logs)
    assert found.deviation == pytest.approx(0.2, rel=0.15)
    assert found.degrees == 150 + NOISE_REPEATS
    assert estimate_noise(np.arange(3), np.arange(3.0)) == Noise(NOISE, NOISE_REPEATS)
    assert estimate_noise(np.zeros(2, int), np.array([1.0, 3.0]), assumed=0) == Noise(2**0.5, 1)
    for values, learnt in [
        ([100.0, 64.0, 100.0], [True, False, True]),
        ([100.0, 66.0, 100.0], [True, True, True]),
        ([50.0, 100.0], [False, True]),
        ([0.0, 100.0], [True, True]),
    ]:
        assert find_undisturbed(np.zeros(len(values), int), values).tolist() == learnt
