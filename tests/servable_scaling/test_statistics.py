"""Statistics of what a metric was told, and metric math on them."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.query import (
    Expression,
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


@pytest.mark.long
@given(VALUES, VALUES, st.integers(1, 100))
def test_statistics_are_those_of_the_values_whether_added_or_merged(
    values: list[float], more: list[float], percent: int
) -> None:
    samples = _of(values)
    together = _of(more)
    together.merge(samples)
    for found, told in ((samples, values), (together, more + values)):
        assert compute_statistic(found, "Average") == pytest.approx(sum(told) / len(told))
        assert compute_statistic(found, "Minimum") == min(told)
        assert compute_statistic(found, "Maximum") == max(told)
        rank = math.ceil(len(told) * percent / 100)
        assert compute_statistic(found, f"p{percent}") == sorted(told)[rank - 1]


def test_a_percentile_has_a_name_and_p0_and_p100_are_the_ends() -> None:
    assert compute_statistic(_of([1.0, 2.0]), "p50") == 1.0
    samples = _of([3.0, 1.0, 2.0])
    assert (compute_statistic(samples, "p100"), compute_statistic(samples, "p0")) == (3.0, 1.0)

    assert compute_statistic(Samples(), "Sum") is None
    with pytest.raises(UnknownStatisticError, match="tm99"):
        check_statistic("tm99")
    assert parse_percent("Average") is None
    for percent in ["p0", "p50", "p99.9", "p99.99", "p100"]:
        check_statistic(percent)
        assert parse_percent(percent) == float(percent[1:])
    for name in ["p101", "p", "p-1", "P99", "Average2", ""]:
        with pytest.raises(UnknownStatisticError, match="allowed: SampleCount, Average, Sum"):
            compute_statistic(Samples(), name)


def test_few_values_are_exact_and_very_many_coarse_and_precise_in_little_room() -> None:
    samples = _of([1_000_000.0 + one for one in range(2000)])
    assert (compute_statistic(samples, "p50"), samples.coarse) == (1_000_999.0, False)
    samples.add(5.0)
    assert (samples.coarse, compute_statistic(samples, "Minimum")) == (True, 5.0)

    coarse, exact = _of([1000.0 + one for one in range(2001)]), _of([1234.0])
    exact.merge(coarse)
    exact.add(1235.0)
    assert (exact.coarse, 1234.0 in exact.values, 1235.0 in exact.values) == (True, False, False)

    samples = _of([1_000_000.0 + 7 * one for one in range(50_000)])
    exact = 1_000_000 + 7 * (math.ceil(50_000 * 0.99) - 1)
    assert compute_statistic(samples, "p99") == pytest.approx(exact, rel=0.005)

    assert len(_of([float(one) for one in range(50_000)]).values) < 5000
    assert compute_statistic(_of([float(one) for one in range(10_000)]), "Sum") == 49_995_000
    coarse = _of([1000.0 + one for one in range(2001)])
    assert {f"{value:.0f}"[3:] for value in coarse.values} == {"0"}


def test_a_statistic_set_and_a_value_that_stands_for_several_count() -> None:
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

    samples = Samples()
    samples.add(1.0, times=3)
    samples.add(5.0)
    found = [compute_statistic(samples, name) for name in ("SampleCount", "Sum", "p75", "p76")]
    assert found == [4, 8, 1.0, 5.0]


def test_an_expression_says_and_what_has_no_data_is_no_datapoint_unless_beside_what_has() -> None:
    for text, wanted in [
        ("errors / requests * 100", 5.0),
        ("-errors", -1.0),
        ("(errors + requests) * 2 - errors", 41.0),
        ("MAX([errors, requests])", 20.0),
        ("MIN([errors, requests])", 1.0),
        ("SUM([errors, requests])", 21.0),
        ("AVG([errors, requests])", 10.5),
        ("IF(requests > 10, errors, 0)", 1.0),
        ("IF(requests > 30, errors, 0)", 0.0),
        ("FILL(absent, 7)", 7.0),
        ("FILL(errors, 7)", 1.0),
        ("ABS(-2)", 2.0),
        ("SUM([absent, errors])", 1.0),
    ]:
        values = {"errors": 1.0, "requests": 20.0, "absent": None}
        assert Expression(text).compute_value(values) == pytest.approx(wanted)

    for text, result in [("a + b", 1.0), ("b - a", -1.0), ("b / a", 0.0), ("a / b", None)]:
        assert Expression(text).compute_value({"a": 1.0, "b": None}) == result
    for text in ["a + b", "a * 5", "5 - a", "a > 1", "-a", "IF(a > 1, 2, 3)"]:
        assert Expression(text).compute_value({"a": None, "b": None}) is None
    assert Expression("a / b").compute_value({"a": 1.0, "b": 0.0}) is None
    for text in [
        "ANOMALY_DETECTION_BAND(m1)", "SELECT AVG(x) FROM y", "m1 +", "m1.real", "'a'", "[m1]",
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="Cannot parse the expression|is not emulated"):
            Expression(text)


# The documentation's own tables: a metric per list, None where it has no data.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (2026-11-23)
@pytest.mark.parametrize(("text", "m1", "m2", "m3", "result"), [
    ("m1 < m2", (30, 20, 0, 0), (20, None, 20, None), (), (0, 0, 1, 0)),
    ("m1 >= 30", (30, 20, 0, 0), (), (), (1, 0, 0, 0)),
    ("IF(m1, m2, m3)", (1, 1, 0, 0, None), (30, None, 0, 0, 30), (0, 0, 20, None, 20),
     (30, 0, 20, None, None)),
    ("IF(m1, 5, m3)", (1, 1, 0, 0, None), (), (0, 0, 20, None, 20), (5, 5, 20, None, None)),
    ("IF(m1, m2, 5)", (1, 1, 0, 0, None), (30, None, 0, 0, 30), (), (30, 0, 5, 5, None)),
    ("IF(m1 < 400, m1)", (399, 400, None), (), (), (399, None, None)),
])  # fmt: skip
def test_it_gives_the_documented_values(
    text: str,
    m1: tuple[float | None, ...],
    m2: tuple[float | None, ...],
    m3: tuple[float | None, ...],
    result: tuple[float | None, ...],
) -> None:
    points = itertools.zip_longest(m1, m2, m3)
    values = [dict(zip(("m1", "m2", "m3"), point, strict=True)) for point in points]
    assert tuple(Expression(text).compute_value(point) for point in values) == result
