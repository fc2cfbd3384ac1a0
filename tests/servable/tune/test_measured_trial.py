"""A trial's curve: what a search learns from it, and when it learns nothing."""

import pytest

from servable.load.load_generator import LoadError
from servable.load.measurement import LoadCurve
from servable.load.objective import Objective, knee
from servable.measured.precision import Latencies
from servable.tune.trials import lateness, limit_beside
from tests.servable.tune.measured import curve, step

HUNDRED = Objective(most_ms=100.0)
LATE = Latencies.of([50.0] * 100)


def late(found: LoadCurve) -> bool:
    return lateness(found, knee(found, HUNDRED)) is not None


def test_only_the_highest_load_that_may_be_the_knee_must_not_be_late() -> None:
    assert late(curve(step(4, 300.0), step(8, 400.0), step(16, 500.0, send_lags=LATE)))
    assert not late(curve(step(4, 300.0), step(8, 400.0, send_lags=LATE), step(16, 500.0)))
    broken = step(8, 400.0, 200.0)
    assert not late(curve(step(4, 300.0), broken, step(16, 400.0, 300.0, send_lags=LATE)))
    assert late(curve(step(4, 300.0, send_lags=LATE)))


def test_where_one_caller_got_no_answer_no_limit_is_made_up() -> None:
    broken = step(1, 0.0, latencies=Latencies.of([]), errors={"500 Internal Server Error": 3})
    wanted = r"none of 3 requests \(3 500 Internal Server Error\).*servable invoke"
    with pytest.raises(LoadError, match=wanted):
        limit_beside(broken, None)
