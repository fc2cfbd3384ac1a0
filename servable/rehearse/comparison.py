"""Policies against each other: the same random days for all of them, on every core."""

import math
import multiprocessing
import os
import signal
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from time import monotonic

from servable.rehearse.alternatives import Alternative
from servable.student_t import t975
from servable_local.container.parent_watchdog import die_with
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day

# A day is held with so many minutes outside beyond those that are allowed: it breaks once in twenty times.
HELD_MINUTES = 0.05
# Policies that are judged on other days, until one of them holds.
MOST_JUDGED = 5
Progress = Callable[[int, int, float], None]
"""(days that are computed, all days, seconds left)"""


@dataclass(frozen=True)
class DayResult:
    """`cost`: dollars, or instance hours where no price is known."""

    cost: float
    broken_minutes: float
    """Minutes outside of the objective that are to be expected: a minute counts by its probability."""
    refused_share: float
    waiting: float = 0.0
    """Callers who find what sleeps without a copy."""


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
    """Nothing else is better in cost, minutes outside, refused or waiting, and as good in the others."""

    @property
    def cost(self) -> float:
        return statistics.fmean(day.cost for day in self.days)

    @property
    def broken(self) -> float:
        """Minutes a day outside of the objective."""
        return statistics.fmean(day.broken_minutes for day in self.days)

    @property
    def refused(self) -> float:
        return statistics.fmean(day.refused_share for day in self.days)

    @property
    def waiting(self) -> float:
        """Callers a day who find what sleeps without a copy."""
        return statistics.fmean(day.waiting for day in self.days)

    def days_held(self, allowed_minutes: float) -> int:
        """Days with at most so many minutes outside of the objective."""
        most = allowed_minutes + HELD_MINUTES
        return sum(day.broken_minutes <= most for day in self.days)


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
    best: PolicyResult | None
    """None: no policy holds the objective on every day, and on others that did not choose it."""
    advantage: Advantage | None
    days: int
    left_out: dict[str, str]

    @property
    def sleeps(self) -> bool:
        """Whether a policy sleeps, so that callers wait."""
        return any(policy.trial.scenario.sleep is not None for policy in self.compared)


def compare(
    trials: Sequence[PolicyTrial],
    *,
    days: int,
    allowed_minutes: float,
    left_out: dict[str, str],
    progress: Progress,
) -> PolicyComparison:
    """The first trial is the file's policy. The best is chosen on some days and judged on others."""
    compared = unbeaten(computed(trials, days, 0, progress))
    file: PolicyResult | None = None
    best = advantage = None
    for policy in chosen(compared, allowed_minutes)[:MOST_JUDGED]:
        if file is None:
            (file,) = computed(trials[:1], days, 1, progress)
        again = file
        if policy.trial is not trials[0]:
            (again,) = computed([policy.trial], days, 1, progress)
        if again.days_held(allowed_minutes) == days:
            best = policy
            advantage = None if again is file else judged(file, again, allowed_minutes)
            break
    return PolicyComparison(
        compared=compared, best=best, advantage=advantage, days=days, left_out=left_out
    )


def chosen(compared: Sequence[PolicyResult], allowed_minutes: float) -> list[PolicyResult]:
    """Those that hold the objective on every day, the cheapest first."""
    held = [each for each in compared if each.days_held(allowed_minutes) == len(each.days)]
    return sorted(held, key=lambda policy: (policy.cost, policy.broken))


def judged(file: PolicyResult, best: PolicyResult, allowed_minutes: float) -> Advantage:
    """The best must be cheaper where the file's policy holds the objective on every day; else hold better."""
    pairs = list(zip(best.days, file.days, strict=True))
    cost = interval([ours.cost - theirs.cost for ours, theirs in pairs])
    broken = interval([ours.broken_minutes - theirs.broken_minutes for ours, theirs in pairs])
    if file.days_held(allowed_minutes) == len(file.days):
        holds = cost[2] < 0 and best.days_held(allowed_minutes) == len(best.days)
    else:
        holds = broken[2] < 0
    return Advantage(cost=cost, broken=broken, holds=holds)


def unbeaten(compared: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Marks those that nothing else beats in cost, minutes outside, refused requests and callers who wait."""

    def beaten(policy: PolicyResult) -> bool:
        own = (policy.cost, policy.broken, policy.refused, policy.waiting)
        for other in compared:
            its = (other.cost, other.broken, other.refused, other.waiting)
            if its != own and all(theirs <= ours for theirs, ours in zip(its, own, strict=True)):
                return True
        return False

    return [replace(policy, unbeaten=not beaten(policy)) for policy in compared]


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): 95 % of Student's t."""
    mean = statistics.fmean(differences)
    quantile = t975(len(differences) - 1)
    half = quantile * statistics.stdev(differences) / math.sqrt(len(differences))
    return mean, mean - half, mean + half


def computed(
    trials: Sequence[PolicyTrial], days: int, turn: int, progress: Progress
) -> list[PolicyResult]:
    """Every policy over every day, on all cores. Another `turn` has other days of the same sizes.

    KeyboardInterrupt ends the processes.
    """
    seeds = range(turn * days, (turn + 1) * days)
    results: dict[tuple[int, int], DayResult] = {}
    begun, whole = monotonic(), len(trials) * len(seeds)
    pool = ProcessPoolExecutor(
        max_workers=min(os.cpu_count() or 1, whole),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        running = {
            pool.submit(_day, trial, seed, (seed % days + 0.5) / days): (number, seed)
            for number, trial in enumerate(trials)
            for seed in seeds
        }
        for done in as_completed(running):
            results[running[done]] = done.result()
            passed = monotonic() - begun
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


def _day(trial: PolicyTrial, seed: int, quantile: float) -> DayResult:
    scenario = trial.scenario
    model = _MODELS.setdefault(scenario.model, scenario.model)
    whole = scenario.sleep is not None
    requests = random_day(scenario.requests, seed, quantile=quantile, whole=whole)
    day = rehearse(replace(scenario, model=model, requests=requests))
    sent = sum(minute.requests for minute in day.minutes)
    return DayResult(
        cost=day.instance_hours * trial.per_hour,
        broken_minutes=day.expected_broken,
        refused_share=day.refused / sent if sent else 0.0,
        waiting=day.waiting,
    )
