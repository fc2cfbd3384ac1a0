"""Steps and curves: what they say of themselves, and that a file gives back what was written."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable.load.measurement import CURVE, LoadCurve
from servable.measured.precision import Interval, Latencies
from tests.servable.tune.measured import curve, step

MILLISECONDS = st.lists(st.floats(0.01, 60_000), min_size=1, max_size=200)


@given(MILLISECONDS, st.sampled_from([50, 90, 95, 99]))
def test_a_percentile_is_within_a_hundredth_of_the_single_values(
    values: list[float], percent: int
) -> None:
    exact = float(np.percentile(values, percent, method="inverted_cdf"))
    assert Latencies.of(values).percentile_ms(percent) == pytest.approx(exact, rel=0.0101)


@given(MILLISECONDS, MILLISECONDS)
def test_latencies_of_two_processes_add_up_to_those_of_both(
    one: list[float], other: list[float]
) -> None:
    assert (Latencies.of(one) + Latencies.of(other)).bins == Latencies.of(one + other).bins


def test_a_file_gives_back_the_curve_that_was_written(tmp_path: Path) -> None:
    written = curve(step(1, 100.0), step(2, 180.0, errors={"500": 3}, timeouts=1))
    written.write(tmp_path / CURVE)
    assert LoadCurve.read(tmp_path / CURVE) == written


@pytest.mark.parametrize(("high", "known"), [(104.9, True), (105.1, False)])
def test_a_throughput_is_known_within_5_percent(high: float, known: bool) -> None:
    interval = Interval(value=100.0, low=200.0 - high, high=high)
    assert step(1, 100.0, throughput_rps=interval).known is known


@pytest.mark.parametrize(
    ("lag_ms", "p50_ms", "refused"),
    [(4.9, 10.0, False), (5.1, 10.0, True), (9.8, 100.0, False), (10.3, 100.0, True)],
)
def test_a_step_is_refused_when_requests_were_sent_too_late(
    lag_ms: float, p50_ms: float, refused: bool
) -> None:
    late = step(1, 100.0, p50_ms, send_lags=Latencies.of([lag_ms] * 100))
    assert (late.refused is not None) is refused


def test_errors_and_timeouts_are_counted_beside_the_answers() -> None:
    assert step(1, 100.0, errors={"500": 3}, timeouts=2).sent == 101 + 5
