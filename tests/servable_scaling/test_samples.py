"""Statistics of what a metric was told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.statistics import (
    Samples,
    UnknownStatisticError,
    check_statistic,
    statistic,
)

VALUES = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=1, max_size=200)


def _of(values: list[float]) -> Samples:
    samples = Samples()
    for value in values:
        samples.add(value)
    return samples


@given(VALUES)
def test_the_average_is_the_sum_by_the_count(values: list[float]) -> None:
    assert statistic(_of(values), "Average") == pytest.approx(sum(values) / len(values))


@given(VALUES)
def test_the_bounds_are_the_least_and_the_most(values: list[float]) -> None:
    samples = _of(values)
    found = statistic(samples, "Minimum"), statistic(samples, "Maximum")
    assert found == (min(values), max(values))


@given(VALUES, st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank(values: list[float], percent: int) -> None:
    rank = math.ceil(len(values) * percent / 100)
    assert statistic(_of(values), f"p{percent}") == sorted(values)[rank - 1]


def test_the_median_of_two_is_the_lower() -> None:
    assert statistic(_of([1.0, 2.0]), "p50") == 1.0


@given(VALUES, VALUES)
def test_two_stretches_together_are_what_they_would_be_in_one(
    first: list[float], second: list[float]
) -> None:
    together = _of(first)
    together.merge(_of(second))
    assert statistic(together, "p90") == statistic(_of(first + second), "p90")


def test_percentiles_of_very_many_values_are_kept_to_half_a_percent() -> None:
    samples = _of([1_000_000.0 + 7 * one for one in range(50_000)])
    exact = 1_000_000 + 7 * (math.ceil(50_000 * 0.99) - 1)
    assert statistic(samples, "p99") == pytest.approx(exact, rel=0.005)


def test_very_many_values_take_little_room() -> None:
    assert len(_of([float(one) for one in range(50_000)]).values) < 5000


def test_the_sum_of_very_many_values_stays_exact() -> None:
    assert statistic(_of([float(one) for one in range(10_000)]), "Sum") == 49_995_000


def test_a_statistic_set_has_no_percentiles() -> None:
    samples = Samples()
    samples.add_set(count=2, total=3, least=1, most=2)
    assert statistic(samples, "p50") is None


def test_nothing_has_no_statistic() -> None:
    assert statistic(Samples(), "Sum") is None


def test_a_statistic_that_is_not_emulated_is_named() -> None:
    with pytest.raises(UnknownStatisticError, match="tm99"):
        check_statistic("tm99")
