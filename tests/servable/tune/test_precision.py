"""How well a number is known, held against numbers that are known."""

from itertools import islice

import numpy as np
import pytest

from servable.load.load_target import Arrivals, times
from servable.measured.precision import Interval, Latencies, percentile, readable, throughput

WINDOW_SECONDS = 0.1


def test_a_throughput_s_interval_holds_the_truth_in_19_of_20_runs() -> None:
    random = np.random.default_rng(0)
    found = [throughput(random.poisson(30, 100), WINDOW_SECONDS) for _ in range(400)]
    held = sum(one.low <= 300 <= one.high for one in found)
    assert 0.92 <= held / 400 <= 0.98


def test_of_too_little_nothing_is_known() -> None:
    assert throughput([30] * 19, WINDOW_SECONDS).half_width_share >= 1
    assert throughput([0] * 40, WINDOW_SECONDS).value == 0
    assert percentile([Latencies()], 99) is None


def test_a_percentile_s_interval_holds_the_truth_in_most_runs() -> None:
    random = np.random.default_rng(0)
    truth_ms = 10 * np.log(100)
    found = [
        percentile([Latencies.of(random.exponential(10, 300).tolist()) for _ in range(10)], 99)
        for _ in range(100)
    ]
    held = sum(one is not None and one.low <= truth_ms <= one.high for one in found)
    assert held / 100 >= 0.88


def test_latencies_that_drift_are_known_less_well_than_those_that_do_not() -> None:
    steady = [Latencies.of([10.0, 11.0, 12.0] * 50)] * 10
    drifting = [Latencies.of([10.0 * number, 11.0, 12.0] * 50) for number in range(1, 11)]
    one, other = percentile(steady, 95), percentile(drifting, 95)
    assert one is not None
    assert other is not None
    assert other.half_width_share > one.half_width_share


@pytest.mark.parametrize("arrivals", ["poisson", "constant"])
def test_arrivals_come_at_their_rate(arrivals: Arrivals) -> None:
    last = list(islice(times(200.0, arrivals, 0), 20_000))[-1]
    assert last == pytest.approx(100.0, rel=0.02)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (75_123.0, "75,120"),
        (75_000.0, "75,000"),
        (1234.5, "1,234"),
        (12.5, "12.5"),
        (0.01236, "0.01236"),
        (0.0, "0"),
    ],
)
def test_numbers_are_written_as_people_do(value: float, written: str) -> None:
    assert readable(value) == written


@pytest.mark.parametrize(
    ("value", "half", "written"),
    [
        (351.234, 19.3, "351 (332 to 371)"),
        (75_123.0, 4_200.0, "75,100 (70,900 to 79,300)"),
        (0.01234, 0.00212, "0.0123 (0.0102 to 0.0145)"),
        (351.234, 0.0, "351.2 (351.2 to 351.2)"),
        (3.2, 500.0, "3 (-500 to 500)"),
    ],
)
def test_no_digit_is_written_beyond_the_interval(value: float, half: float, written: str) -> None:
    interval = Interval(value=value, low=value - half, high=value + half)
    assert str(interval) == written
    assert interval.short == written.partition(" ")[0]
