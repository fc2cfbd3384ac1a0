"""`servable load ENV --gate`: check that ENV sustains the traffic that its file expects."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click
import numpy as np

from infra.parameters.environment import Environment
from servable.latencies import bin_number
from servable.load.measurement import LoadCurve, LoadStep
from servable.load.objective import Objective, overloaded
from servable.load.options import LoadOptions

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


def expected(environment: Environment, options: LoadOptions) -> LoadOptions:
    """Fill in rate and objective from the file. Raises click.UsageError for a missing one."""
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
    seconds = expected_seconds(options.step_seconds, rates or (math.inf,))
    return dataclasses.replace(
        options, rates=rates, p99_ms=p99_ms, least_seconds=seconds, step_seconds=seconds
    )


def expected_seconds(seconds: float, rates: Sequence[float]) -> float:
    """Return the length of a step: at least that of the requests and pauses by which a gate can be told."""
    return max(seconds, _LEAST_SECONDS, *(math.ceil(_LEAST_REQUESTS / rate) for rate in rates))


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """Verdict over all rates, and a line for each."""

    held: Held
    lines: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.held]

    def as_object(self) -> dict[str, Any]:
        """Return the verdict as an object for JSON."""
        return {"held": self.held == "met", "verdict": self.held, "lines": self.lines}


def verdict(curve: LoadCurve, objective: Objective) -> GateVerdict:
    """Met where every step is met; not met where one is not; else it cannot be told."""
    if not curve.steps:
        return GateVerdict(held="cannot be told", lines=("gate: nothing was measured",))
    judged = [_judged(step, objective) for step in curve.steps]
    lines = [_line(step, objective, *each) for step, each in zip(curve.steps, judged, strict=True)]
    worst = max((held for held, _ in judged), key=_BY_WEIGHT.index)
    return GateVerdict(held=worst, lines=tuple(lines))


def _line(step: LoadStep, objective: Objective, held: Held, why: str) -> str:
    p99_ms = step.latencies.p99_ms if step.latencies.count else math.nan
    shown = (
        f"{step.load:g} requests/s: p99 {p99_ms:.1f} ms, at most {objective.most_ms:g}; "
        f"{100 * step.failed_share:.2g} % failed, at most {100 * objective.most_failed_share:g}"
    )
    return "; ".join(filter(None, (f"gate: {held}, {shown}", why)))


def _judged(step: LoadStep, objective: Objective) -> tuple[Held, str]:
    """(verdict, reason). A request that was sent late counts its lateness: worse, never better."""
    meant = step.load * step.seconds
    # Random arrivals differ from their mean by chance, four standard deviations hardly ever.
    if step.sent < meant - 4 * math.sqrt(meant):
        return (
            "cannot be told",
            f"only {step.sent} of {meant:.0f} requests were sent: raise --processes",
        )
    slow = EventCount(
        step.latencies.above(objective.most_ms).count,
        step.latencies.count,
        design_effect([tail.above(objective.most_ms).count for tail in step.tails]),
        step.latencies.bins.get(bin_number(objective.most_ms), 0),
    )
    failed = EventCount(step.failed, step.sent, design_effect(step.failures))
    allowed = 1 - objective.percent / 100
    failing = failed.held(objective.most_failed_share)
    slowness = slow.held(allowed)
    if failing == "NOT met":
        return failing, "too many requests failed"
    behind = overloaded(step)
    if behind or slowness == "NOT met":
        why = "answers fall behind what is sent" if behind else "too slow"
        # By its own slowness, or by the lateness of the generator.
        return (
            ("NOT met", why)
            if step.refused is None
            else ("cannot be told", f"{why}; {step.refused}")
        )
    if failing == slowness == "met":
        return "met", ""
    if slowness == "met":
        missing = _missing(failed, objective.most_failed_share, "failed", step)
    else:
        missing = _missing(slow, allowed, "were slower", step)
    return "cannot be told", missing


@dataclass(frozen=True)
class EventCount:
    """`count` of `number` requests. `together`: so many of them tell as much as a single one alone."""

    count: int
    number: int
    together: float = 1.0
    unsure: int = 0
    """Latencies within 1 % of the objective among the others: they count in no verdict's favour."""

    def held(self, allowed: float) -> Held:
        """Whether they show a share of at most `allowed`, by `share_held`, rounded to neither side."""
        number = math.floor(self.number / self.together)
        most = math.ceil((self.count + self.unsure) / self.together)
        if share_held(most, number, allowed) == "met":
            return "met"
        fewest = share_held(int(self.count / self.together), number, allowed)
        return "NOT met" if fewest == "NOT met" else "cannot be told"


def design_effect(counts: Sequence[int]) -> float:
    """Return how many of the events tell as much as one that is independent. `counts`: by half second.

    Requests that a stall makes slow come together, so their number varies more than that of independent
    ones, whose variance is their mean: by this factor. It is 1 where chance alone explains the variance in
    one of a hundred runs. It is the upper end of the 99 % interval of so many stalls of exponential lengths.
    Blocks of several lengths are compared, since a stall may outlast one.
    Source: Kish, Survey Sampling, 1965, section 8.2.
    """
    largest, blocks = 1.0, np.array(counts, float)
    while len(blocks) >= _LEAST_BLOCKS and blocks.any():
        free = len(blocks) - 1
        spread = float(((blocks - blocks.mean()) ** 2).sum() / blocks.mean())
        # The 99 % quantile of chi-square. Source: Wilson and Hilferty, 1931.
        chance = free * (1 - 2 / (9 * free) + 2.326 * math.sqrt(2 / (9 * free))) ** 3
        largest = max(largest, spread / free if spread > chance else 1.0)
        blocks = blocks[: len(blocks) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stalls = sum(counts) / largest
    return largest * math.exp(2.326 / math.sqrt(stalls)) if largest > 1 else 1.0


def share_held(count: int, number: int, allowed: float) -> Held:
    """Whether `count` of `number` requests show a share of at most `allowed`, with 99 % confidence.

    A share of exactly `allowed` is called met in at most one run of a hundred, and not met in as many, if
    each request is slow by itself.
    Source: the early stopping of MLPerf's loadgen,
    https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc (2026-11-23).
    """
    if number and _at_most(count, number, allowed) <= 1 - CONFIDENCE:
        return "met"
    if count and 1 - _at_most(count - 1, number, allowed) <= 1 - CONFIDENCE:
        return "NOT met"
    return "cannot be told"


def _at_most(count: int, number: int, share: float) -> float:
    """Probability of at most `count` events among `number`, each of probability `share`."""
    log, log_not, whole = math.log(share), math.log1p(-share), math.lgamma(number + 1)
    return math.fsum(
        math.exp(
            whole
            - math.lgamma(k + 1)
            - math.lgamma(number - k + 1)
            + k * log
            + (number - k) * log_not
        )
        for k in range(min(count, number) + 1)
    )


def _missing(events: EventCount, allowed: float, what: str, step: LoadStep) -> str:
    """How many requests would tell, if as many of a hundred are so as now."""
    seen = f"{events.count:,} of {events.number:,} requests {what}"
    if events.unsure:
        seen += f", {events.unsure:,} within 1 % of the objective"
    if events.together > 1:
        seen += f", up to {events.together:.0f} together"
    # At the limit no number of requests tells.
    most = events.count + events.unsure
    for times in range(1, 101 if most < allowed * events.number else 1):
        more = math.ceil(_LEAST_REQUESTS / 4 * events.together) * times
        count = math.ceil(most * more / max(events.number, 1))
        if more > events.number and EventCount(count, more, events.together).held(allowed) == "met":
            return f"{seen}; at that share {more:,} would tell: --step-seconds {math.ceil(more / step.load)}"
    return f"{seen}, about as many as are allowed"
