"""Steps and curves: what they say of themselves, and that a file gives back what was written."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable.load.objective import Objective, find_knee
from servable.measured.measurement import (
    CURVE,
    Arrivals,
    LoadCurve,
    LoadError,
    generate_arrival_times,
)
from servable.measured.precision import (
    Interval,
    Latencies,
    compute_percentile,
    compute_throughput,
    format_number,
)
from servable.measured.student_t import compute_t
from servable.tune.trials import choose_limit, explain_lateness
from tests.servable.tune.measured import curve, require, step

MILLISECONDS = st.lists(st.floats(0.01, 60_000), min_size=1, max_size=200)


@given(MILLISECONDS, st.sampled_from([50, 90, 95, 99]))
def test_a_percentile_is_within_a_hundredth(values: list[float], percent: int) -> None:
    exact = float(np.percentile(values, percent))
    found = Latencies.from_milliseconds(values).compute_percentile_ms(percent)
    assert found == pytest.approx(exact, rel=0.0101)


@given(MILLISECONDS, MILLISECONDS)
def test_latencies_of_two_processes_add_up(one: list[float], other: list[float]) -> None:
    together = Latencies.from_milliseconds(one) + Latencies.from_milliseconds(other)
    assert together.bins == Latencies.from_milliseconds(one + other).bins


def test_a_file_gives_back_the_steps_which_say_whether_they_are_known_or_refused(
    tmp_path: Path,
) -> None:
    written = curve(step(1, 100.0), step(2, 180.0, errors={"500": 3}, timeouts=1))
    written.write(tmp_path / CURVE)
    assert LoadCurve.read(tmp_path / CURVE) == written

    for high, known in [(104.9, True), (105.1, False)]:
        interval = Interval(value=100.0, low=200.0 - high, high=high)
        assert step(1, 100.0, throughput_rps=interval).has_known_throughput is known
    refused = {(4.9, 10.0): False, (5.1, 10.0): True, (9.8, 100.0): False, (10.3, 100.0): True}
    for lag_ms, p50_ms in refused:
        late = step(1, 100.0, p50_ms, send_lags=Latencies.from_milliseconds([lag_ms] * 100))
        assert (late.rejection is not None) is refused[lag_ms, p50_ms]
    assert step(1, 100.0, errors={"500": 3}, timeouts=2).request_count == 101 + 5


HUNDRED = Objective(most_ms=100.0)
LATE = Latencies.from_milliseconds([50.0] * 100)


def late(found: LoadCurve) -> bool:
    return explain_lateness(found, find_knee(found, HUNDRED)) is not None


def test_only_the_highest_load_that_may_be_the_knee_must_not_be_late() -> None:
    assert late(curve(step(4, 300.0), step(8, 400.0), step(16, 500.0, send_lags=LATE)))
    assert not late(curve(step(4, 300.0), step(8, 400.0, send_lags=LATE), step(16, 500.0)))
    broken = step(8, 400.0, 200.0)
    assert not late(curve(step(4, 300.0), broken, step(16, 400.0, 300.0, send_lags=LATE)))
    assert late(curve(step(4, 300.0, send_lags=LATE)))


def test_the_limit_comes_from_the_quietest_time_of_one_caller_and_none_is_made_up() -> None:
    broken = step(
        1, 0.0, latencies=Latencies.from_milliseconds([]), errors={"500 Internal Server Error": 3}
    )
    wanted = r"none of 3 requests succeeded \(3 500 Internal Server Error\).*servable invoke"
    with pytest.raises(LoadError, match=wanted):
        choose_limit([broken], None)

    steps = [step(1, 100.0, p50_ms) for p50_ms in (30.0, 10.0, 20.0)]
    alone_ms = steps[1].latencies.p99_ms
    assert choose_limit(steps, None).most_ms == pytest.approx(4 * alone_ms, rel=0.05)
    assert choose_limit(steps, 40.0, busy=0.9).most_ms == 40.0
    with pytest.raises(LoadError, match="other programs use 90% of this computer's CPU cores"):
        choose_limit(steps, 20.0, busy=0.9)


WINDOW_SECONDS = 0.1


def test_a_throughput_s_interval_holds_the_truth_and_of_too_little_nothing_is_known() -> None:
    random = np.random.default_rng(0)
    found = [compute_throughput(random.poisson(30, 100), WINDOW_SECONDS) for _ in range(400)]
    held = sum(one.low <= 300 <= one.high for one in found)
    assert 0.92 <= held / 400 <= 0.98

    assert compute_throughput([30] * 19, WINDOW_SECONDS).half_width_share >= 1
    assert compute_throughput([0] * 40, WINDOW_SECONDS).value == 0
    assert compute_percentile([Latencies()], 99) is None


@pytest.mark.long
def test_a_percentile_s_interval_holds_the_truth_in_most_runs() -> None:
    random = np.random.default_rng(0)
    truth_ms = 10 * np.log(100)
    held = 0
    for _ in range(100):
        drawn = random.exponential(10, (10, 300)).tolist()
        found = compute_percentile([*map(Latencies.from_milliseconds, drawn)], 99)
        held += found is not None and found.low <= truth_ms <= found.high
    assert held / 100 >= 0.88


def test_latencies_that_drift_are_known_less_well_than_those_that_do_not() -> None:
    steady = [Latencies.from_milliseconds([10.0, 11.0, 12.0] * 50)] * 10
    drifting = [
        Latencies.from_milliseconds([10.0 * number, 11.0, 12.0] * 50) for number in range(1, 11)
    ]
    one, other = (require(compute_percentile(blocks, 95)) for blocks in (steady, drifting))
    assert other.half_width_share > one.half_width_share


def test_arrivals_come_at_their_rate() -> None:
    cases: list[Arrivals] = ["poisson", "constant"]
    for arrivals in cases:
        last = list(islice(generate_arrival_times(200.0, arrivals, 0), 20_000))[-1]
        assert last == pytest.approx(100.0, rel=0.02)


def test_numbers_are_written_as_people_do_and_the_quantile_is_the_tables() -> None:
    for value, written in [
        (75_123.0, "75,120"),
        (75_000.0, "75,000"),
        (1234.5, "1,234"),
        (12.5, "12.5"),
        (0.01236, "0.01236"),
        (0.0, "0"),
    ]:
        assert format_number(value) == written
    for value, half, written in [
        (351.234, 19.3, "351 (332 to 371)"),
        (75_123.0, 4_200.0, "75,100 (70,900 to 79,300)"),
        (0.01234, 0.00212, "0.0123 (0.0102 to 0.0145)"),
        (351.234, 0.0, "351.2 (351.2 to 351.2)"),
        (3.2, 500.0, "3 (-500 to 500)"),
    ]:
        interval = Interval(value=value, low=value - half, high=value + half)
        assert str(interval) == written
        assert interval.short_text == written.partition(" ")[0]
    for degrees, row in TABLE.items():
        for quantile, t in zip((0.975, 0.995), row, strict=True):
            assert compute_t(quantile, degrees) == pytest.approx(t, rel=0.01)


# Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
TABLE = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    9: (2.262, 3.250),
    19: (2.093, 2.861),
    29: (2.045, 2.756),
    60: (2.000, 2.660),
}
