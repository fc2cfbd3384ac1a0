"""Steps as a measurement would have them, for tests of what reads them."""

from typing import Any, TypeVar

from servable.measured.measurement import LoadCurve, LoadStep, MeasuredTarget
from servable.measured.precision import Interval, Latencies

ASKED = MeasuredTarget(
    target="local",
    address="http://127.0.0.1:8080",
    started_at="2026-11-21T12:00:00Z",
    machine="2 cores",
)

Known = TypeVar("Known")


def require(found: Known | None) -> Known:
    """Return what a test needs to be there."""
    assert found is not None
    return found


def interval(value: float, share: float = 0.02) -> Interval:
    return Interval(value=value, low=value * (1 - share), high=value * (1 + share))


def step(users: int | None, rps: float, p50_ms: float = 10.0, **told: Any) -> LoadStep:
    """Answers spread evenly between half of `p50_ms` and one and a half of it."""
    spread = [p50_ms * (0.5 + number / 100) for number in range(101)]
    given: dict[str, Any] = {
        "users": users,
        "warm_up_seconds": 1.0,
        "seconds": 10.0,
        "throughput_rps": interval(rps),
        "latencies": Latencies.from_milliseconds(spread),
        "send_lags": Latencies.from_milliseconds([0.1] * 101),
        "generator_cpu_share": 0.2,
    }
    return LoadStep(**(given | told))


def curve(*steps: LoadStep) -> LoadCurve:
    return LoadCurve(asked=ASKED, loop="closed", steps=steps)
