"""The latency objective of a load test, and the two points of a load curve that follow from it.

The knee is the highest load that meets the objective; beyond saturation, more load brings no more
throughput. Steps are noisy, so a monotone curve is fitted to them first. The interval comes from
a parametric bootstrap: every step is drawn repeatedly from its measured distribution.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from servable.measured.measurement import LoadCurve, LoadStep
from servable.measured.precision import Interval

# If an open loop's responses are less than this share of its requests, the queue grows.
_KEPT_UP_SHARE = 0.95


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A latency percentile with its limit, and the share of requests that may fail."""

    percent: float = 99.0
    most_ms: float
    most_failed_share: float = 0.01
    """A smaller share can't be estimated in a step of seconds."""

    def __str__(self) -> str:
        return f"p{self.percent:g} within {self.most_ms:g} ms"

    def compute_latency_ms(self, step: LoadStep) -> float:
        """Return the objective's latency percentile; infinity for a step that fails.

        If the server doesn't keep up, its latency grows with time: the result is above the limit.
        """
        if not step.latencies.count or step.failed_share > self.most_failed_share:
            return float("inf")
        found = step.latencies.compute_percentile_ms(self.percent)
        return max(found, 1.05 * self.most_ms) if is_overloaded(step) else found

    def is_met_by(self, step: LoadStep) -> bool:
        return self.compute_latency_ms(step) <= self.most_ms

    def estimate_spread(self, step: LoadStep) -> float:
        """Return the standard deviation of the percentile's logarithm."""
        known = {95.0: step.p95_interval_ms, 99.0: step.p99_interval_ms}.get(self.percent)
        if known is None or not 0 < known.low <= known.high:
            return 0.1  # typical of a tail percentile in a step of a few hundred responses
        # A bin of the latencies is 1 % wide.
        return float(max(0.005, np.log(known.high / known.low) / 3.92))


def is_overloaded(step: LoadStep) -> bool:
    """Return whether this is an open loop whose responses can't keep up with the requests."""
    if step.rate_rps is None:
        return False
    # Compare with what was sent, because random arrivals differ from their mean rate.
    return step.throughput_rps.value < _KEPT_UP_SHARE * step.request_count / step.seconds


Goal = Literal["throughput", "cost"]


def compute_usd_per_million(rps: float, usd_per_hour: float) -> float:
    """Return US dollars per million requests if an instance is always at this load."""
    return usd_per_hour / (rps * 3600) * 1_000_000


Numbers = NDArray[np.float64]


def fit_rising(values: Numbers, weights: Numbers) -> Numbers:
    """Fit, by weighted least squares, values that never fall."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            before = pools.pop()
            together = before[1] + pool[1]
            mean = (before[0] * before[1] + pool[0] * pool[1]) / together
            pool = (mean, together, before[2] + pool[2])
        pools.append(pool)
    return np.array([value for value, _, count in pools for _ in range(count)])


def fit_one_peak(values: Numbers, weights: Numbers) -> Numbers:
    """Fit values that rise to one of the points and then fall: the best fit of every peak."""
    fits: list[Numbers] = []
    for peak in range(len(values)):
        up = fit_rising(values[: peak + 1], weights[: peak + 1])
        down = fit_rising(values[peak:][::-1], weights[peak:][::-1])[::-1]
        fits.append(np.concatenate([up[:-1], [max(up[-1], down[0])], down[1:]]))
    return min(fits, key=lambda fit: float((weights * (fit - values) ** 2).sum()))


_DRAWS = 400
# Near saturation, the blocks of a step resemble each other and vary too little. With this factor, the
# interval contains the known knee of simulated queues in about 19 of 20 runs (seeds 0-5).
_WIDER = 2.0
# The plateau is formed by the steps whose smoothed throughput is at least this share of the highest. Steps
# are known within 5 % at best, mostly within 2 %: a larger share would select the luckiest steps.
_PLATEAU_SHARE = 0.96
# Saturation begins at this share of the plateau: more users only wait.
_FULL_SHARE = 0.95


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The load beyond which throughput no longer grows."""

    load: Interval
    """Users, or requests sent per second."""
    rps: Interval
    """Responses per second at that load."""
    bounded: bool
    """False: no step went beyond it, so this is a lower bound."""


@dataclass(frozen=True, kw_only=True)
class Knee(Saturation):
    """The highest load that meets the objective."""

    objective: Objective


def find_knee(curve: LoadCurve, objective: Objective) -> Knee | None:
    """Return the knee; None if the lowest valid load misses the objective, or no step is valid."""
    steps = curve.valid_steps
    if not steps or not objective.is_met_by(steps[0]):
        return None
    loads = np.array([step.load for step in steps])
    latencies_ms = np.array([objective.compute_latency_ms(step) for step in steps])
    # Latency of a failing step: large enough to exceed the limit in any average with its neighbors.
    beyond_ms = objective.most_ms * 10
    logs = np.log(np.minimum(latencies_ms, beyond_ms))
    spread = np.array([objective.estimate_spread(step) for step in steps])
    rps, noise = _read_throughput(steps)
    random = np.random.default_rng(0)

    # A failing step shows that the knee is below it, but not how far.
    fails, most = np.isinf(latencies_ms), np.log(objective.most_ms)

    def draw_logs() -> Numbers:
        drawn: Numbers = logs + random.normal(size=len(steps)) * _WIDER * spread
        unknown = most + random.uniform(0, float(np.log(beyond_ms) - most), len(steps))
        drawn[fails] = unknown[fails]
        return drawn

    def locate_knee(logs: Numbers, rps: Numbers) -> tuple[float, float]:
        load = float(np.interp(most, fit_rising(logs, 1 / spread**2), loads))
        if curve.loop == "open":
            return load, load
        return load, float(np.interp(load, loads, fit_one_peak(rps, 1 / noise**2)))

    drawn = [
        locate_knee(draw_logs(), np.maximum(random.normal(rps, noise), 1e-9)) for _ in range(_DRAWS)
    ]
    load, at = map(_build_interval, locate_knee(logs, rps), zip(*drawn, strict=True))
    bounded = bool((latencies_ms > objective.most_ms).any())
    return Knee(objective=objective, load=load, rps=at, bounded=bounded)


def find_saturation(curve: LoadCurve) -> Saturation | None:
    """Return the saturation; None if there is no valid step with a response."""
    steps = tuple(step for step in curve.valid_steps if step.latencies.count)
    if not steps:
        return None
    loads = np.array([step.load for step in steps])
    rps, noise = _read_throughput(steps)
    random = np.random.default_rng(0)

    def locate_saturation(rps: Numbers) -> tuple[float, float]:
        fit = fit_one_peak(rps, 1 / noise**2)
        flat = fit >= _PLATEAU_SHARE * fit.max()
        most = float(np.average(rps[flat], weights=1 / noise[flat] ** 2))
        up_to_peak = int(np.argmax(fit)) + 1
        full = _FULL_SHARE * most
        return float(np.interp(full, fit[:up_to_peak], loads[:up_to_peak])), most

    # A throughput that is hardly known could be drawn below 0.
    drawn = [locate_saturation(np.maximum(random.normal(rps, noise), 1e-9)) for _ in range(_DRAWS)]
    load, most = map(_build_interval, locate_saturation(rps), zip(*drawn, strict=True))
    plateau_rps = _PLATEAU_SHARE * most.value
    flat = int((fit_one_peak(rps, 1 / noise**2) >= plateau_rps).sum())
    bounded = flat > 1 or rps[-1] < plateau_rps or is_overloaded(steps[-1])
    return Saturation(load=load, rps=most, bounded=bool(bounded))


def _read_throughput(steps: tuple[LoadStep, ...]) -> tuple[Numbers, Numbers]:
    """Return (values, standard deviations) of the steps' throughput."""
    values = np.array([step.throughput_rps.value for step in steps])
    wide = np.array([step.throughput_rps.high - step.throughput_rps.low for step in steps])
    return values, np.maximum(wide / 3.92, 1e-3 * np.maximum(values, 1e-9))


def _build_interval(value: float, drawn: tuple[float, ...]) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5]).tolist()
    return Interval(value=value, low=min(low, value), high=max(high, value))
