"""`servable load ENV --gate`: check that ENV sustains the traffic that its file expects."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import click
import numpy as np
from numpy.typing import NDArray

from infra.parameters.environment import Environment
from servable.load.objective import Objective, is_overloaded
from servable.load.options import LoadOptions
from servable.measured.measurement import LoadCurve, LoadStep
from servable.measured.precision import find_bin
from servable.verdict import GateVerdict, Held

_BY_WEIGHT: tuple[Held, ...] = ("met", "cannot be told", "NOT met")
# At most one run of a hundred is a false "met", and at most one a false "NOT met". MLPerf's loadgen decides
# at 99 %, too.
CONFIDENCE = 0.99
# Of 1,000 requests, two may be slow, and two don't show whether slow requests cluster: docs/verdicts.md.
_LEAST_REQUESTS = 2000
# A garbage collector pauses every few seconds. Runs of 30 s, which may contain no pause by chance, passed
# falsely in 7 % of simulations; runs of 120 s in less than 1 %.
_LEAST_SECONDS = 120.0
# The variance of fewer blocks is too uncertain.
_LEAST_BLOCKS = 8
# The share of the slowest twentieth is compared in blocks of at most a 24th of the run. There are so few
# longer blocks that the largest variance of all lengths would be too large by chance.
_SHARE_BLOCKS = 24
# From so many groups, their size is known within a quarter (2.326 / sqrt(100)), with 99 % confidence.
_MANY_GROUPS = 100
# 33 hours, for the shortest run: a lower rate is then the better choice.
_MOST_TIMES_LONGER = 1000.0


def fill_in_traffic(environment: Environment, options: LoadOptions) -> LoadOptions:
    """Return the options with the rates and the p99 objective filled in from ENV's file.

    The options' own values take precedence. Raises click.UsageError if a value is missing.
    """
    peak_rps = environment.traffic.peak_rps
    rates = options.rates or ((peak_rps,) if peak_rps else ())
    p99_ms = options.p99_ms or environment.alarms.p99_latency_ms
    missing = [] if rates else ["traffic.peak_rps in ENV's file, or --rates"]
    missing += [] if p99_ms else ["alarms.p99_latency_ms in ENV's file, or --p99-ms"]
    if missing:
        raise click.UsageError(
            f"--gate: the expected traffic is unknown; set {'; and '.join(missing)}"
        )
    # No step ends early.
    seconds = compute_step_seconds(options.step_seconds, rates)
    return dataclasses.replace(
        options, rates=rates, p99_ms=p99_ms, least_seconds=seconds, step_seconds=seconds
    )


def compute_step_seconds(seconds: float, rates: Sequence[float]) -> float:
    """Return `seconds`, or the longer duration of a load step that the gate needs to decide."""
    return max(seconds, _LEAST_SECONDS, *(math.ceil(_LEAST_REQUESTS / rate) for rate in rates))


def evaluate_gate(curve: LoadCurve, objective: Objective) -> GateVerdict:
    """Return the worst verdict of the steps, with a line for each; "cannot be told": inconclusive."""
    if not curve.steps:
        return GateVerdict("cannot be told", ["gate: nothing was measured"])
    worst, lines = 0, []
    for step in curve.steps:
        held, why = _evaluate_step(step, objective)
        worst = max(worst, _BY_WEIGHT.index(held))
        p99 = f"{step.latencies.p99_ms:.1f} ms" if step.latencies.count else "unknown"
        line = (
            f"gate: {held}, {step.load:g} requests/s: p99 {p99}, at most "
            f"{objective.most_ms:g}; {100 * step.failed_share:.3g} % failed, at most "
            f"{100 * objective.most_failed_share:g}"
        )
        lines.append(f"{line}; {why}" if why else line)
    return GateVerdict(_BY_WEIGHT[worst], lines)


def _evaluate_step(step: LoadStep, objective: Objective) -> tuple[Held, str]:
    """Return (verdict, reason) for one step.

    A request's lateness is part of its latency, so it can only worsen the verdict.
    """
    planned = step.load * step.seconds
    # The number of random arrivals hardly ever deviates by four standard deviations.
    if step.request_count < planned - 4 * math.sqrt(planned):
        why = f"only {step.request_count} of {planned:.0f} requests were sent; raise --processes"
        return "cannot be told", why
    slow = EventCount(
        step.latencies.select_above(objective.most_ms).count,
        step.latencies.count,
        _group_slow_requests(step, objective.most_ms),
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
        why = "responses can't keep up with the requests" if behind else "too slow"
        if step.rejection is None:
            return "NOT met", why
        # The generator's lateness may be the cause.
        return "cannot be told", f"{why}; {step.rejection}"
    if failing == slowness == "met":
        return "met", ""
    if slowness == "met":
        missing = _explain_uncertainty(failed, objective.most_failed_share, "failed", step)
    else:
        missing = _explain_uncertainty(slow, allowed, "were slower", step)
    return "cannot be told", f"{missing}; {step.rejection}" if step.rejection else missing


@dataclass(frozen=True)
class Grouping:
    """How strongly requests cluster: `size` of them are worth one independent request."""

    size: float = 1.0
    groups: float = math.inf
    """Number of groups from which `size` was estimated."""

    @classmethod
    def from_counts(
        cls, events: Sequence[int], responses: Sequence[int] | None = None
    ) -> "Grouping":
        """Estimate the group size from the events in each half second.

        Requests that a stall makes slow cluster, so their number varies more than that of
        independent events, by this factor. The factor is 1 where chance alone explains the
        variance: a larger one would arise by chance in one of a hundred runs. Blocks of several
        lengths are compared, since a stall may outlast one block; the largest factor counts.
        Source: Kish, Survey Sampling, 1965, section 8.2.

        `responses`: compare the events' share of these, which doesn't depend on the arrivals.
        """
        counts, share = np.array(events, float), 0.0
        largest, total = 1.0, float(counts.sum())
        answered = None if responses is None else np.array(responses, float)
        if answered is not None and answered.any():
            share = total / answered.sum()
        least = _LEAST_BLOCKS if answered is None else _SHARE_BLOCKS
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
        """Return an upper bound of the size, for a run `longer` times as long.

        It assumes groups of exponential lengths, with 99 % confidence, or 95 % for many groups:
        their size is the largest over many block lengths and so tends to be too large.
        """
        groups = self.groups * longer
        quantile = 1.645 if groups >= _MANY_GROUPS else 2.326
        return self.size * math.exp(quantile / math.sqrt(groups))


def _join_pairs(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    joined: NDArray[np.float64] = counts[: len(counts) // 2 * 2].reshape(-1, 2).sum(axis=1)
    return joined


def _group_slow_requests(step: LoadStep, most_ms: float) -> Grouping:
    """Return how strongly the requests slower than `most_ms` cluster.

    On a busy instance, latencies depend on each other for seconds, and a run of minutes may not
    contain the long queues that break the objective. The slowest twentieth of the requests shows
    this with many more groups than the slow requests themselves.
    """
    slow = Grouping.from_counts([tail.select_above(most_ms).count for tail in step.tails])
    if not any(step.answered):
        return slow
    slowest = Grouping.from_counts([tail.count for tail in step.tails], step.answered)
    alike = slowest.size > 1 and slowest.size >= slow.size / 2
    if alike and (slowest.groups >= _MANY_GROUPS or slowest.compute_upper_bound() >= slow.size):
        # Both cluster alike, as in a queue, and the slowest twentieth shows it more precisely.
        return slowest
    return slow if slow.compute_upper_bound() >= slowest.compute_upper_bound() else slowest


@dataclass(frozen=True)
class EventCount:
    """A count of events: `count` of `number` requests had the event."""

    count: int
    number: int
    grouping: Grouping = Grouping()
    unsure: int = 0
    """Further latencies within 1 % of the objective: they count in no verdict's favor."""

    def evaluate(self, allowed: float, longer: float = 1.0) -> Held:
        """Return whether the events show a share of at most `allowed`.

        `longer`: extrapolate to a run that is this many times as long.
        """
        together = self.grouping.compute_upper_bound(longer)
        number = math.floor(self.number * longer / together)
        most = (self.count + self.unsure) * longer / together
        # A part of a group counts as a whole one, unless many groups show their size.
        if together == 1 or self.grouping.groups * longer < _MANY_GROUPS:
            most = math.ceil(most)
        if evaluate_share(most, number, allowed) == "met":
            return "met"
        fewest = evaluate_share(int(self.count * longer / together), number, allowed)
        return "NOT met" if fewest == "NOT met" else "cannot be told"


def evaluate_share(count: float, number: int, allowed: float) -> Held:
    """Return whether the requests show a share of at most `allowed`, with 99 % confidence.

    `count` of `number` requests had the event. If requests are independent, a share of exactly
    `allowed` is "met" in at most one run of a hundred, and "NOT met" in at most one, too.

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

    def compute_probability(k: int) -> float:
        ways = whole - math.lgamma(k + 1) - math.lgamma(number - k + 1)
        return math.exp(ways + k * log + (number - k) * log_not)

    terms = [compute_probability(k) for k in range(min(math.ceil(count), number) + 1)]
    least, part = math.fsum(terms[: math.floor(count) + 1]), count - math.floor(count)
    return math.pow(least, 1 - part) * math.pow(math.fsum(terms), part)


def _explain_uncertainty(events: EventCount, allowed: float, what: str, step: LoadStep) -> str:
    """Describe the events, and how long a run would decide if their share stays the same."""
    seen = f"{events.count:,} of {events.number:,} requests {what}"
    if events.unsure:
        seen += f", {events.unsure:,} are within 1 % of the objective"
    if (together := events.grouping.compute_upper_bound()) > 1:
        independent = max(1, math.floor(events.number / together))
        seen += f"; they cluster, so they count as only {independent:,} independent requests"
    # At the limit, no number of requests decides.
    tells = events.count + events.unsure < allowed * events.number
    longer = 1.0
    while tells and longer < _MOST_TIMES_LONGER:
        longer *= 1.1
        if events.evaluate(allowed, longer) == "met":
            seconds = math.ceil(step.seconds * longer)
            minutes = f"{math.ceil(seconds / 60):,} minutes"
            return f"{seen}; at that share {minutes} would suffice; pass --step-seconds {seconds}"
    return f"{seen}, too close to the limit to decide"
