"""`servable load ENV --gate`: check that ENV sustains the traffic that its file expects."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click
import numpy as np
from numpy.typing import NDArray

from infra.parameters.environment import Environment
from servable.load.measurement import LoadCurve, LoadStep
from servable.load.objective import Objective, is_overloaded
from servable.load.options import LoadOptions
from servable.measured.precision import find_bin

Held = Literal["met", "cannot be told", "NOT met"]
_BY_WEIGHT: tuple[Held, ...] = ("met", "cannot be told", "NOT met")
_EXIT_CODES: dict[Held, int] = {"met": 0, "NOT met": 1, "cannot be told": 3}
# A false "met" comes in at most one run of a hundred, and so does a false "NOT met". MLPerf's loadgen
# decides at 99 % too.
CONFIDENCE = 0.99
# Two of 1,000 may be slow, and from two nobody sees whether they come together: docs/verdicts.md.
_LEAST_REQUESTS = 2000
# A collector's pauses come every few seconds. 30 s contain three that are too long, or by chance none, and
# passed in 7 % of made-up runs; 120 s in less than 1 %.
_LEAST_SECONDS = 120.0
# The variance of fewer blocks says little.
_LEAST_BLOCKS = 8
# The share of the slowest twentieth is compared in blocks of at most a 24th of the run: longer blocks are so
# few that the largest variance of all lengths would be too large by chance.
_SHARE_BLOCKS = 24
# So many groups tell their size to a quarter (2.326 / sqrt(100)), with 99 % confidence.
_MANY_GROUPS = 100
# 33 hours of the shortest run; who waits longer than that would rather lower the rate.
_MOST_TIMES_LONGER = 1000.0


def fill_in_traffic(environment: Environment, options: LoadOptions) -> LoadOptions:
    """Return the options with the rates and the p99 objective filled in from ENV's file.

    The options' own values take precedence. Raises click.UsageError if a value is missing.
    """
    peak_rps = environment.traffic.peak_rps
    rates = options.rates or ((peak_rps,) if peak_rps else None)
    p99_ms = options.p99_ms or environment.alarms.p99_latency_ms
    missing = [
        f"{key} in ENV's file, or {option}"
        for value, key, option in (
            (rates, "traffic.peak_rps", "--rates"),
            (p99_ms, "alarms.p99_latency_ms", "--p99-ms"),
        )
        if not value
    ]
    if missing:
        raise click.UsageError(
            f"--gate: the expected traffic is unknown; set {'; and '.join(missing)}"
        )
    # Each step takes its whole time.
    seconds = compute_step_seconds(options.step_seconds, rates or (math.inf,))
    return dataclasses.replace(
        options, rates=rates, p99_ms=p99_ms, least_seconds=seconds, step_seconds=seconds
    )


def compute_step_seconds(seconds: float, rates: Sequence[float]) -> float:
    """Return the length of a load step: `seconds`, or longer if the gate needs more to decide.

    The gate needs a minimum duration and a minimum number of requests.
    """
    return max(seconds, _LEAST_SECONDS, *(math.ceil(_LEAST_REQUESTS / rate) for rate in rates))


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """The verdict over all rates, and a line of text for each rate."""

    held: Held
    lines: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.held]

    def as_object(self) -> dict[str, Any]:
        """Return the verdict as an object for JSON."""
        return {"held": self.held == "met", "verdict": self.held, "lines": self.lines}


def evaluate_gate(curve: LoadCurve, objective: Objective) -> GateVerdict:
    """Return "met" if every step is met and "NOT met" if any step isn't.

    Otherwise the verdict is "cannot be told", that is, inconclusive.
    """
    if not curve.steps:
        return GateVerdict(held="cannot be told", lines=("gate: nothing was measured",))
    judged = [_evaluate_step(step, objective) for step in curve.steps]
    lines = [
        _format_line(step, objective, *each) for step, each in zip(curve.steps, judged, strict=True)
    ]
    worst = max((held for held, _ in judged), key=_BY_WEIGHT.index)
    return GateVerdict(held=worst, lines=tuple(lines))


def _format_line(step: LoadStep, objective: Objective, held: Held, why: str) -> str:
    p99_ms = step.latencies.p99_ms if step.latencies.count else math.nan
    shown = (
        f"{step.load:g} requests/s: p99 {p99_ms:.1f} ms, at most {objective.most_ms:g}; "
        f"{100 * step.failed_share:.2g} % failed, at most {100 * objective.most_failed_share:g}"
    )
    return "; ".join(filter(None, (f"gate: {held}, {shown}", why)))


def _evaluate_step(step: LoadStep, objective: Objective) -> tuple[Held, str]:
    """Return (verdict, reason) for one step.

    The lateness of a request that was sent late counts as latency, so it can only worsen the
    verdict.
    """
    meant = step.load * step.seconds
    # Random arrivals differ from their mean by chance, four standard deviations hardly ever.
    if step.request_count < meant - 4 * math.sqrt(meant):
        return (
            "cannot be told",
            f"only {step.request_count} of {meant:.0f} requests were sent: raise --processes",
        )
    slow = EventCount(
        step.latencies.select_above(objective.most_ms).count,
        step.latencies.count,
        _group_slow(step, objective.most_ms),
        step.latencies.bins.get(find_bin(objective.most_ms), 0),
    )
    failed = EventCount(step.failure_count, step.request_count, Grouping.from_counts(step.failures))
    allowed = 1 - objective.percent / 100
    failing = failed.evaluate(objective.most_failed_share)
    slowness = slow.evaluate(allowed)
    if failing == "NOT met":
        return failing, "too many requests failed"
    behind = is_overloaded(step)
    if behind or slowness == "NOT met":
        why = "answers fall behind what is sent" if behind else "too slow"
        # By its own slowness, or by the lateness of the generator.
        return (
            ("NOT met", why)
            if step.rejection is None
            else ("cannot be told", f"{why}; {step.rejection}")
        )
    if failing == slowness == "met":
        return "met", ""
    if slowness == "met":
        missing = _explain_uncertainty(failed, objective.most_failed_share, "failed", step)
    else:
        missing = _explain_uncertainty(slow, allowed, "were slower", step)
    return "cannot be told", missing


@dataclass(frozen=True)
class Grouping:
    """How strongly requests cluster: `size` of them tell as much as one independent request."""

    size: float = 1.0
    groups: float = math.inf
    """Number of groups from which `size` was estimated."""

    @classmethod
    def from_counts(cls, counts: Sequence[int]) -> "Grouping":
        """Estimate the group size from the number of events in each half second."""
        return cls._estimate(np.array(counts, float), None, _LEAST_BLOCKS)

    @classmethod
    def from_shares(cls, counts: Sequence[int], answered: Sequence[int]) -> "Grouping":
        """Estimate the group size from the share of events in each half second.

        The share doesn't depend on how many requests arrive in it.
        """
        return cls._estimate(np.array(counts, float), np.array(answered, float), _SHARE_BLOCKS)

    @classmethod
    def _estimate(
        cls, counts: NDArray[np.float64], answered: NDArray[np.float64] | None, least: int
    ) -> "Grouping":
        """Compare the variance of the number of events with that of independent events.

        Requests that a stall makes slow cluster, so their number varies more, by this factor. The
        factor is 1 where chance alone explains the variance: a larger one would arise by chance
        in one of a hundred runs. Blocks of several lengths are compared, since a stall may
        outlast one block; the largest factor counts. Source: Kish, Survey Sampling, 1965, section
        8.2.
        """
        largest, total = 1.0, float(counts.sum())
        share = total / answered.sum() if answered is not None and answered.any() else 0.0
        while len(counts) >= least and counts.any():
            free, mean = len(counts) - 1, float(counts.mean())
            expected = mean if answered is None else share * answered
            spread = float(((counts - expected) ** 2).sum()) / (mean * (1 - share))
            # The 99 % quantile of chi-square. Source: Wilson and Hilferty, 1931.
            chance = free * (1 - 2 / (9 * free) + 2.326 * math.sqrt(2 / (9 * free))) ** 3
            largest = max(largest, spread / free if spread > chance else 1.0)
            counts = _join_pairs(counts)
            answered = None if answered is None else _join_pairs(answered)
        return cls(largest, total / largest if largest > 1 else math.inf)

    def compute_upper_bound(self, longer: float = 1.0) -> float:
        """Return the upper end of the interval of the size, for a run `longer` times as long.

        The interval assumes groups of exponential lengths. It is a 99 % bound if there are few
        groups. It is a 95 % bound if there are many, because their size is the largest over many
        block lengths and so tends to be too large.
        """
        groups = self.groups * longer
        quantile = 1.645 if groups >= _MANY_GROUPS else 2.326
        return self.size * math.exp(quantile / math.sqrt(groups))


def _join_pairs(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    joined: NDArray[np.float64] = counts[: len(counts) // 2 * 2].reshape(-1, 2).sum(axis=1)
    return joined


def _group_slow(step: LoadStep, most_ms: float) -> Grouping:
    """Return how strongly the requests slower than `most_ms` cluster.

    On a busy instance, latencies depend on each other for seconds, and a run of minutes may not
    contain the long queues that break the objective. The slowest twentieth of the requests shows
    this with many more groups than the slow requests themselves.
    """
    slow = Grouping.from_counts([tail.select_above(most_ms).count for tail in step.tails])
    if not any(step.answered):
        return slow
    slowest = Grouping.from_shares([tail.count for tail in step.tails], step.answered)
    alike = slowest.size > 1 and slowest.size >= slow.size / 2
    if alike and (slowest.groups >= _MANY_GROUPS or slowest.compute_upper_bound() >= slow.size):
        # A queue: both come together in the same way, and the slowest twentieth tells better how.
        return slowest
    return slow if slow.compute_upper_bound() >= slowest.compute_upper_bound() else slowest


@dataclass(frozen=True)
class EventCount:
    """A count of events: `count` of `number` requests had the event."""

    count: int
    number: int
    grouping: Grouping = Grouping()
    unsure: int = 0
    """Latencies within 1 % of the objective among the others: they count in no verdict's favour."""

    def evaluate(self, allowed: float, longer: float = 1.0) -> Held:
        """Return whether the events show a share of at most `allowed`.

        `longer`: extrapolate to a run that is this many times as long.
        """
        together = self.grouping.compute_upper_bound(longer)
        number = math.floor(self.number * longer / together)
        most = (self.count + self.unsure) * longer / together
        # A part of a group counts as a whole one, unless many groups show their size.
        many = self.grouping.groups * longer >= _MANY_GROUPS
        if (
            evaluate_share(most if many and together > 1 else math.ceil(most), number, allowed)
            == "met"
        ):
            return "met"
        fewest = evaluate_share(int(self.count * longer / together), number, allowed)
        return "NOT met" if fewest == "NOT met" else "cannot be told"


def evaluate_share(count: float, number: int, allowed: float) -> Held:
    """Return whether the requests show a share of at most `allowed`, with 99 % confidence.

    `count` of `number` requests had the event. If each request is slow independently, a share of
    exactly `allowed` is called met in at most one run of a hundred, and not met in as many.
    Source: the early stopping of MLPerf's loadgen,
    https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc (2026-11-23).
    """
    if number and _compute_tail_probability(count, number, allowed) <= 1 - CONFIDENCE:
        return "met"
    if count >= 1 and 1 - _compute_tail_probability(count - 1, number, allowed) <= 1 - CONFIDENCE:
        return "NOT met"
    return "cannot be told"


def _compute_tail_probability(count: float, number: int, share: float) -> float:
    """Return the probability of at most `count` events among `number` requests.

    Each request has the event with probability `share`. Between two whole counts, the logarithm
    of the probability is interpolated.
    """
    log, log_not, whole = math.log(share), math.log1p(-share), math.lgamma(number + 1)
    terms = [
        math.exp(
            whole
            - math.lgamma(k + 1)
            - math.lgamma(number - k + 1)
            + k * log
            + (number - k) * log_not
        )
        for k in range(min(math.ceil(count), number) + 1)
    ]
    least, part = math.fsum(terms[: math.floor(count) + 1]), count - math.floor(count)
    return math.pow(least, 1 - part) * math.pow(math.fsum(terms), part)


def _explain_uncertainty(events: EventCount, allowed: float, what: str, step: LoadStep) -> str:
    """Describe what was measured, and how long a run would decide if the share stays the same."""
    seen = f"{events.count:,} of {events.number:,} requests {what}"
    if events.unsure:
        seen += f", {events.unsure:,} within 1 % of the objective"
    if (together := events.grouping.compute_upper_bound()) > 1:
        independent = max(1, math.floor(events.number / together))
        seen += f"; they come together and tell as much as {independent:,} independent ones"
    # At the limit no number of requests tells.
    tells = events.count + events.unsure < allowed * events.number
    longer = 1.0
    while tells and longer < _MOST_TIMES_LONGER:
        longer *= 1.1
        if events.evaluate(allowed, longer) == "met":
            seconds = math.ceil(step.seconds * longer)
            minutes = math.ceil(seconds / 60)
            return (
                f"{seen}; at that share {minutes:,} minutes would suffice: --step-seconds {seconds}"
            )
    return f"{seen}, about as many as are allowed"
