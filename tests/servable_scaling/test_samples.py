"""Statistics of what a metric was told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.query import (
    Samples,
    UnknownStatisticError,
    check_statistic,
    compute_statistic,
    parse_percent,
)

VALUES = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=1, max_size=200)


def _of(values: list[float]) -> Samples:
    samples = Samples()
    for value in values:
        samples.add(value)
    return samples


@given(VALUES)
def test_average_and_bounds_are_those_of_the_values(values: list[float]) -> None:
    assert compute_statistic(_of(values), "Average") == pytest.approx(sum(values) / len(values))

    samples = _of(values)
    found = compute_statistic(samples, "Minimum"), compute_statistic(samples, "Maximum")
    assert found == (min(values), max(values))


@given(VALUES, st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank(values: list[float], percent: int) -> None:
    rank = math.ceil(len(values) * percent / 100)
    assert compute_statistic(_of(values), f"p{percent}") == sorted(values)[rank - 1]


def test_the_median_of_two_is_the_lower_and_p0_and_p100_are_the_ends() -> None:
    assert compute_statistic(_of([1.0, 2.0]), "p50") == 1.0
    samples = _of([3.0, 1.0, 2.0])
    assert (compute_statistic(samples, "p100"), compute_statistic(samples, "p0")) == (3.0, 1.0)


@given(VALUES, VALUES)
def test_two_stretches_together_are_what_they_would_be_in_one(
    first: list[float], second: list[float]
) -> None:
    together = _of(first)
    together.merge(_of(second))
    assert compute_statistic(together, "p90") == compute_statistic(_of(first + second), "p90")


def test_very_many_values_take_little_room_and_stay_precise() -> None:
    samples = _of([1_000_000.0 + 7 * one for one in range(50_000)])
    exact = 1_000_000 + 7 * (math.ceil(50_000 * 0.99) - 1)
    assert compute_statistic(samples, "p99") == pytest.approx(exact, rel=0.005)

    assert len(_of([float(one) for one in range(50_000)]).values) < 5000
    assert compute_statistic(_of([float(one) for one in range(10_000)]), "Sum") == 49_995_000
    coarse = _of([1000.0 + one for one in range(2001)])
    assert {f"{value:.0f}"[3:] for value in coarse.values} == {"0"}


def test_a_statistic_set_counts_in_all_but_percentiles() -> None:
    samples = _of([5.0])
    samples.add_set(count=3, total=9, least=1, most=7)
    names = ("SampleCount", "Sum", "Average", "Minimum", "Maximum")
    assert [compute_statistic(samples, name) for name in names] == [4, 14, 3.5, 1, 7]

    samples = Samples()
    samples.add_set(count=2, total=3, least=1, most=2)
    assert compute_statistic(samples, "p50") is None

    samples = _of([5.0])
    samples.add_set(count=1, total=5, least=5, most=5)
    assert compute_statistic(samples, "p50") is None


def test_nothing_has_no_statistic_and_unknown_ones_are_named() -> None:
    assert compute_statistic(Samples(), "Sum") is None
    with pytest.raises(UnknownStatisticError, match="tm99"):
        check_statistic("tm99")
    assert parse_percent("Average") is None


def test_a_percentile_has_a_name_of_its_own_and_another_name_is_refused() -> None:
    for percent in ["p0", "p50", "p99.9", "p99.99", "p100"]:
        check_statistic(percent)
        assert parse_percent(percent) == float(percent[1:])
    for name in ["p101", "p", "p-1", "P99", "Average2", ""]:
        with pytest.raises(UnknownStatisticError, match="allowed: SampleCount, Average, Sum"):
            compute_statistic(Samples(), name)


def test_a_value_may_stand_for_several_samples() -> None:
    samples = Samples()
    samples.add(1.0, times=3)
    samples.add(5.0)
    found = [compute_statistic(samples, name) for name in ("SampleCount", "Sum", "p75", "p76")]
    assert found == [4, 8, 1.0, 5.0]


def test_few_different_values_are_exact_and_coarse_ones_stay_coarse() -> None:
    samples = _of([1_000_000.0 + one for one in range(2000)])
    assert (compute_statistic(samples, "p50"), samples.coarse) == (1_000_999.0, False)
    samples.add(5.0)
    assert (samples.coarse, compute_statistic(samples, "Minimum")) == (True, 5.0)

    coarse, exact = _of([1000.0 + one for one in range(2001)]), _of([1234.0])
    exact.merge(coarse)
    exact.add(1235.0)
    assert (exact.coarse, 1234.0 in exact.values, 1235.0 in exact.values) == (True, False, False)
