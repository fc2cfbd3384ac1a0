"""Policies against each other: the same random days for all of them, on every core."""

import math
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from servable.rehearse.alternatives import Alternative
from servable.student_t import t975
from servable_local.container.parent_watchdog import die_with
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day

Progress = Callable[[int, int, float], None]
"""(days that are computed, all days, seconds left)"""


@dataclass(frozen=True)
class DayResult:
    """`cost`: dollars, or instance hours where no price is known."""

    cost: float
    broken_minutes: int
    refused_share: float


@dataclass(frozen=True, kw_only=True)
class PolicyTrial:
    """An alternative as it runs. `per_hour`: dollars of an instance, or 1 to count hours."""

    alternative: Alternative
    scenario: Scenario
    per_hour: float


@dataclass(frozen=True, kw_only=True)
class PolicyResult:
    """A policy with its days, in the order of their seeds."""

    trial: PolicyTrial
    days: Sequence[DayResult]
    unbeaten: bool = False
    """Nothing else is cheaper and holds the objective as well, or as cheap and holds it better."""

    @property
    def cost(self) -> float:
        return statistics.fmean(day.cost for day in self.days)

    @property
    def broken(self) -> float:
        """Minutes a day outside of the objective."""
        return statistics.fmean(day.broken_minutes for day in self.days)


@dataclass(frozen=True, kw_only=True)
class Advantage:
    """The best minus the file's policy, on days that did not choose it: 95 % intervals."""

    cost: tuple[float, float, float]
    broken: tuple[float, float, float]
    """(mean, low, high)"""
    holds: bool


@dataclass(frozen=True, kw_only=True)
class PolicyComparison:
    """`compared`: the file's policy first. `left_out`: {alternative: why}."""

    compared: Sequence[PolicyResult]
    best: PolicyResult
    advantage: Advantage | None
    days: int
    left_out: dict[str, str]


def compare(
    trials: Sequence[PolicyTrial],
    *,
    days: int,
    allowed_minutes: float,
    left_out: dict[str, str],
    progress: Progress,
) -> PolicyComparison:
    """The first trial is the file's policy. The best is chosen on some days and judged on others."""
    compared = unbeaten(computed(trials, range(days), progress))
    best = chosen(compared, allowed_minutes)
    advantage = None
    if best.trial is not trials[0]:
        again = computed([trials[0], best.trial], range(days, 2 * days), progress)
        advantage = judged(again[0], again[1], allowed_minutes)
    return PolicyComparison(
        compared=compared, best=best, advantage=advantage, days=days, left_out=left_out
    )


def chosen(compared: Sequence[PolicyResult], allowed_minutes: float) -> PolicyResult:
    """The cheapest within the allowed minutes; else the one with the fewest outside."""
    within = [policy for policy in compared if policy.broken <= allowed_minutes]
    if within:
        return min(within, key=lambda policy: (policy.cost, policy.broken))
    return min(compared, key=lambda policy: (policy.broken, policy.cost))


def judged(file: PolicyResult, best: PolicyResult, allowed_minutes: float) -> Advantage:
    """The best must be cheaper where the file's policy is within the allowed minutes; else hold better."""
    pairs = list(zip(best.days, file.days, strict=True))
    cost = interval([ours.cost - theirs.cost for ours, theirs in pairs])
    broken = interval([ours.broken_minutes - theirs.broken_minutes for ours, theirs in pairs])
    if file.broken <= allowed_minutes:
        holds = cost[2] < 0 and best.broken <= allowed_minutes
    else:
        holds = broken[2] < 0
    return Advantage(cost=cost, broken=broken, holds=holds)


def unbeaten(compared: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Marks those that nothing else beats in cost and minutes outside of the objective."""

    def beaten(policy: PolicyResult) -> bool:
        return any(
            other.cost <= policy.cost
            and other.broken <= policy.broken
            and (other.cost, other.broken) != (policy.cost, policy.broken)
            for other in compared
        )

    return [replace(policy, unbeaten=not beaten(policy)) for policy in compared]


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): 95 % of Student's t."""
    mean = statistics.fmean(differences)
    quantile = t975(len(differences) - 1)
    half = quantile * statistics.stdev(differences) / math.sqrt(len(differences))
    return mean, mean - half, mean + half


def computed(trials: Sequence[PolicyTrial], seeds: range, progress: Progress) -> list[PolicyResult]:
    """Every policy over every day, on all cores. KeyboardInterrupt ends the processes."""
    results: dict[tuple[int, int], DayResult] = {}
    begun, whole = time.monotonic(), len(trials) * len(seeds)
    pool = ProcessPoolExecutor(
        max_workers=min(os.cpu_count() or 1, whole),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        running = {
            pool.submit(_day, trial, seed): (number, seed)
            for number, trial in enumerate(trials)
            for seed in seeds
        }
        for done in as_completed(running):
            results[running[done]] = done.result()
            passed = time.monotonic() - begun
            progress(len(results), whole, passed / len(results) * (whole - len(results)))
    finally:
        pool.shutdown(cancel_futures=True)
    return [
        PolicyResult(trial=trial, days=[results[number, seed] for seed in seeds])
        for number, trial in enumerate(trials)
    ]


def _begin(parent_pid: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides when its processes end
    die_with(parent_pid)


# What one process has computed of an instance is the same for every day and policy.
_MODELS: dict[InstanceModel, InstanceModel] = {}


def _day(trial: PolicyTrial, seed: int) -> DayResult:
    scenario = trial.scenario
    model = _MODELS.setdefault(scenario.model, scenario.model)
    requests = random_day(scenario.requests, seed)
    day = rehearse(replace(scenario, model=model, requests=requests))
    sent = sum(minute.requests for minute in day.minutes)
    return DayResult(
        cost=day.instance_hours * trial.per_hour,
        broken_minutes=len(day.broken),
        refused_share=day.refused / sent if sent else 0.0,
    )
