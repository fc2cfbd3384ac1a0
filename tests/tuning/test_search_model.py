"""What the search expects of points, and what it thinks a measurement is worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuning.search import gain
from tuning.search.kernel import SIZES, Array, Levels, covariance
from tuning.search.model import Expected, Model
from tuning.search.space import Space

SETTINGS, LEVELS = 3, 4
GRIDS = st.lists(st.tuples(*[st.integers(0, LEVELS - 1)] * SETTINGS), min_size=2, max_size=12).map(
    lambda ranks: np.array(ranks, float) / (LEVELS - 1)
)
PARAMETERS = st.lists(
    st.floats(-2.0, 1.0), min_size=SETTINGS + SIZES, max_size=SETTINGS + SIZES
).map(lambda found: np.array(found))
SEEDS = st.integers(0, 2**32 - 1)


def directly(one: Array, other: Array, parameters: Array) -> Array:
    """The same formula without levels."""
    scaled = np.sqrt(3) * np.abs(one[:, None] - other[None]) / np.exp(parameters[:SETTINGS])
    each = (1 + scaled) * np.exp(-scaled)
    alone, together = np.exp(2 * parameters[SETTINGS:])
    found: Array = alone * each.mean(axis=-1) + together * each.prod(axis=-1)
    return found


@given(one=GRIDS, other=GRIDS, parameters=PARAMETERS)
@settings(max_examples=30, deadline=None)
def test_a_kernel_looked_up_is_the_kernel_computed(
    one: Array, other: Array, parameters: Array
) -> None:
    found = covariance(Levels.of(one, other), parameters)
    assert found == pytest.approx(directly(one, other, parameters))


@given(points=GRIDS, parameters=PARAMETERS)
@settings(max_examples=30, deadline=None)
def test_a_covariance_has_no_negative_variance_in_any_direction(
    points: Array, parameters: Array
) -> None:
    found = covariance(Levels.of(points, points), parameters)
    assert np.linalg.eigvalsh(found).min() > -1e-8 * np.trace(found)


@given(points=GRIDS, seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_same_measurements_give_the_same_model(points: Array, seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=len(points))
    once, again = (Model(points, y, noise=0.05).mean(points) for _ in range(2))
    assert once.tolist() == again.tolist()


@given(points=GRIDS, seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_measurement_is_never_expected_to_make_the_answer_worse(points: Array, seed: int) -> None:
    at = np.unique(points, axis=0)
    model = Model(at, np.random.default_rng(seed).normal(size=len(at)), noise=0.05)
    worth = gain.of_answering(
        model.expected(at)[0], model.together(at)[0], np.ones(len(at), dtype=bool)
    )
    assert worth.min() >= 0


def test_a_repeat_that_cannot_win_is_worth_nothing() -> None:
    known = Expected(np.array([0.0, -3.0]), np.array([0.03, 0.03]), 0.05)
    together = np.diag(known.deviation**2)
    first, hopeless = gain.of_answering(known, together, np.array([True, True]))
    assert (first < 1e-6, hopeless < 1e-6) == (True, True)


def test_a_repeat_that_could_still_win_is_worth_something() -> None:
    known = Expected(np.array([0.0, -0.01]), np.array([0.03, 0.03]), 0.05)
    worth = gain.of_answering(known, np.diag(known.deviation**2), np.array([True, True]))
    assert worth.min() > 1e-3


@given(points=GRIDS, seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_chance_lies_between_never_and_always(points: Array, seed: int) -> None:
    ran = np.random.default_rng(seed).random(len(points)) < 0.7
    found = gain.chance_to_run(points, points, ran)
    assert (found.min() >= 0, found.max() <= 1) == (True, True)


def test_what_failed_makes_its_neighbours_unlikely_and_not_those_far_away() -> None:
    line = np.linspace(0, 1, 5)[:, None]
    ran = np.array([True, True, True, False, False])
    found = gain.chance_to_run(line, line, ran)
    assert (found[0] > 0.9, found[4] < 0.1) == (True, True)


def test_a_rule_without_batching_finds_a_point_without_it() -> None:
    grid = {"batching.max_batch_size": (None, 8), "batching.timeout_micros": (0, 1000, 5000)}
    space = Space(grid)
    found = space.point(
        space.nearest({"batching.max_batch_size": None, "batching.timeout_micros": 1000})
    )
    assert found["batching.max_batch_size"] is None
