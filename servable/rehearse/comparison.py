"""Compare policies (minimums and targets) on the same random days, computed on all cores."""

import ctypes
import itertools
import math
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import tomlkit

from infra.parameters.finding import suggest_name
from infra.parameters.loading import ValidFile, load_environment
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import (
    MeasuredInstance,
    build_scenario,
    list_scaling_delays,
)
from servable.measured.student_t import compute_t
from servable.project import environment_edit
from servable.project.environment_edit import KeyChange
from servable.project.environments import list_errors
from servable.rehearse.rehearsal import find_variant
from servable.verdict import Verdict
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import generate_random_day

# Random days of a comparison, the same for every policy.
DAYS = 20
# A policy passes a day with at most so many minutes outside, that is one minute in twenty days.
HELD_MINUTES = 0.05
# The maximum number of policies that are checked on different days, until one of them passes.
MOST_JUDGED = 5
# Percent of the measured maximum, if --compare names no value. Our choice: AWS starts with 50 %.
TARGETS = (40, 50, 60, 70, 80)
FILE = "the file"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
Progress = Callable[[Callable[[], str]], None]
"""It gets a function that returns the line to show."""


@dataclass(frozen=True, kw_only=True)
class PolicyTrial:
    """A policy: keys of the environment file with their values as TOML, none for the file's policy."""

    label: str
    keys: Mapping[str, str]
    scenario: Scenario
    usd_per_hour: float | None
    """Price of an instance; None: unknown, and costs are in instance hours."""


class DayResult(NamedTuple):
    """The result of one day, or the averages of several days."""

    cost: float
    """Dollars, or instance hours if no price is known."""
    broken_minutes: float
    """Minutes outside of the objective that are to be expected: a minute counts by its probability."""
    refused_share: float


@dataclass(frozen=True, kw_only=True)
class PolicyResult:
    """A policy with the results of its days, in the order of their seeds."""

    trial: PolicyTrial
    days: Sequence[DayResult]

    @property
    def average(self) -> DayResult:
        return DayResult(*map(statistics.fmean, zip(*self.days, strict=True)))

    @property
    def is_passing(self) -> bool:
        """Return whether the policy meets the objective on every day."""
        return all(day.broken_minutes <= HELD_MINUTES for day in self.days)


@dataclass(frozen=True, kw_only=True)
class Advantage:
    """The best policy minus the file's, with 95 % intervals, on days not used to choose it."""

    cost: tuple[float, float, float]
    broken: tuple[float, float, float]
    """(mean, low, high)"""
    holds: bool


@dataclass(frozen=True, kw_only=True)
class PolicyComparison:
    """The compared policies, the file's first, and the best one. `left_out`: {policy: reason}."""

    compared: Sequence[PolicyResult]
    best: PolicyResult | None
    """None: no policy meets the objective on every day, and on others that did not choose it."""
    advantage: Advantage | None
    left_out: Mapping[str, str]

    @property
    def has_price(self) -> bool:
        return self.compared[0].trial.usd_per_hour is not None

    @property
    def verdict(self) -> Verdict:
        return "does not hold" if self.best is None else "holds"


def list_policies(options: Sequence[str], placed: Placement) -> dict[str, dict[str, str]]:
    """Return the keys of the file's policy, and of every combination of the values, by label.

    Raises UsageError.
    """
    if placed.variant.can_sleep:
        raise click.UsageError(
            f"--compare: {placed.name} scales to zero, so it has no minimum; try other minutes with "
            f"--set {placed.build_key('sleep_after_minutes')}=MINUTES"
        )
    given = [_parse_values(option) for option in filter(None, options)]
    chosen = dict(given or _list_usual_values(placed))
    if len(given) > len(chosen):
        raise click.UsageError("--compare: pass each name only once, with all its values")
    target_key = placed.build_key("scaling.safety_factor")
    minimum_key = placed.build_key("min_copies" if placed.variant.component else "min_instances")
    policies: dict[str, dict[str, str]] = {FILE: {}}
    for values in itertools.product(*chosen.values()):
        words, keys = [], {}
        for name, value in zip(chosen, values, strict=True):
            if name == "target":
                words.append(f"target {value} %")
                keys[target_key] = f"{float(value) / 100:g}"
            else:
                words.append(f"minimum {value}")
                keys[minimum_key] = value
        policies.setdefault(", ".join(words), keys)
    return policies


def _parse_values(option: str) -> tuple[str, list[str]]:
    name, _, text = option.partition("=")
    if name not in ("minimum", "target"):
        raise click.UsageError(
            f"--compare {option}: allowed: minimum=2,4 (instances) and target=50,70 (percent of the "
            f"measured maximum); {suggest_name(name, ['minimum', 'target'])}; try any other key with --set"
        )
    values = [value.strip() for value in text.split(",")]
    for value in values:
        if name == "minimum" and not value.isdecimal():
            raise click.UsageError(f"--compare {option}: {value!r} isn't a number of instances")
        if name == "target" and not _is_percent(value):
            raise click.UsageError(
                f"--compare {option}: {value!r} isn't a percentage; allowed: above 0 and at most 100"
            )
    return name, values


def _is_percent(value: str) -> bool:
    try:
        return 0 < float(value) <= 100
    except ValueError:
        return False


def _list_usual_values(placed: Placement) -> list[tuple[str, list[str]]]:
    """Return up to four minimums and, for a variant that scales, targets."""
    variant = placed.variant
    least, most = variant.capacity if variant.is_scaled else (variant.min_instances, None)
    minimums = sorted({least, least + 1, 2 * least, 3 * least})
    counts = [str(count) for count in minimums if most is None or count <= most]
    if variant.scaling is None or not variant.is_scaled:
        return [("minimum", counts)]
    own = f"{100 * variant.scaling.safety_factor:g}"
    return [("target", list(dict.fromkeys([own, *map(str, TARGETS)]))), ("minimum", counts)]


def plan_trials(
    loaded: ValidFile,
    folder: Path,
    placed: Placement,
    policies: Mapping[str, Mapping[str, str]],
    requests: Sequence[float],
    measured: MeasuredInstance,
    deploy_at: int | None = None,
) -> tuple[list[PolicyTrial], dict[str, str]]:
    """Return (the trials that `servable check` accepts, {policy: why it is left out}).

    A policy with the same scenario as an earlier one is dropped.
    """
    before, left_out = set(list_errors(loaded)), {}
    price = loaded.environment.prices.find_instance_price(
        placed.instance.name, loaded.environment.region
    )
    trials: list[PolicyTrial] = []
    for label, keys in policies.items():
        sets = {**loaded.overrides, **keys}
        again = load_environment(loaded.root, folder, loaded.name, sets, "--compare")
        if not isinstance(again, ValidFile):
            left_out[label] = str(again.findings[0])
            continue
        problems = [problem for problem in list_errors(again) if problem not in before]
        if problems:
            left_out[label] = problems[0]
            continue
        where = find_variant(again, placed.name)
        *_, slowest = list_scaling_delays(where)
        planned = build_scenario(
            again.environment, where, requests, measured, deploy_at, pace=slowest
        ).reduce_to_scaling()
        if not any(other.scenario == planned for other in trials):
            usd = None if price is None else price.usd_per_hour
            trials.append(PolicyTrial(label=label, keys=keys, scenario=planned, usd_per_hour=usd))
    return trials, left_out


def compare_policies(
    trials: Sequence[PolicyTrial], progress: Progress, left_out: Mapping[str, str]
) -> PolicyComparison:
    """Choose the best policy on some days, check it on others. The first trial is the file's."""
    compared = rehearse_policies(trials, 0, progress)
    file = best = advantage = None
    for result in sort_by_cost(result for result in compared if result.is_passing)[:MOST_JUDGED]:
        if file is None:
            (file,) = rehearse_policies(trials[:1], 1, progress)
        again = file
        if result.trial is not trials[0]:
            (again,) = rehearse_policies([result.trial], 1, progress)
        if again.is_passing:
            best = result
            advantage = None if again is file else compute_advantage(file, again)
            break
    return PolicyComparison(compared=compared, best=best, advantage=advantage, left_out=left_out)


def sort_by_cost(results: Iterable[PolicyResult]) -> list[PolicyResult]:
    """Return the policies, cheapest first."""
    return sorted(results, key=lambda result: result.average[:2])


def compute_advantage(file: PolicyResult, best: PolicyResult) -> Advantage:
    """Compare the best policy with the file's policy.

    The best must be cheaper if the file's policy meets the objective on every day; otherwise it
    must have fewer minutes outside.
    """
    pairs = list(zip(best.days, file.days, strict=True))
    cost = compute_interval([ours.cost - theirs.cost for ours, theirs in pairs])
    broken = compute_interval(
        [ours.broken_minutes - theirs.broken_minutes for ours, theirs in pairs]
    )
    holds = cost[2] < 0 and best.is_passing if file.is_passing else broken[2] < 0
    return Advantage(cost=cost, broken=broken, holds=holds)


def compute_interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return (mean, low, high), where low to high is the 95 % interval of Student's t."""
    mean = statistics.fmean(differences)
    quantile = compute_t(0.975, len(differences) - 1)
    half = quantile * statistics.stdev(differences) / math.sqrt(len(differences))
    return mean, mean - half, mean + half


def rehearse_policies(
    trials: Sequence[PolicyTrial], turn: int, progress: Progress
) -> list[PolicyResult]:
    """Compute every policy over every day, on all cores.

    Each `turn` has its own days, of equal sizes. KeyboardInterrupt ends the processes.
    """
    seeds = range(turn * DAYS, (turn + 1) * DAYS)
    begun, whole = time.monotonic(), len(trials) * len(seeds)
    pool = ProcessPoolExecutor(
        max_workers=min(os.cpu_count() or 1, whole),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare_process,
        initargs=(os.getpid(),),
    )
    try:
        running = [
            [pool.submit(_compute_day, trial, seed, (seed % DAYS + 0.5) / DAYS) for seed in seeds]
            for trial in trials
        ]
        for done, day in enumerate(as_completed(itertools.chain(*running)), 1):
            day.result()  # an error ends the comparison at once
            left = (time.monotonic() - begun) / done * (whole - done)
            progress(partial("{:,} of {:,} days; about {:.0f} s left".format, done, whole, left))
    finally:
        pool.shutdown(cancel_futures=True)
    return [
        PolicyResult(trial=trial, days=[day.result() for day in days])
        for trial, days in zip(trials, running, strict=True)
    ]


def _prepare_process(parent_pid: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides when its processes end
    # The kernel ends this process when its parent has ended, however that ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before the call
        os._exit(1)


# A process computes an instance once for all days and policies.
_MODELS: dict[InstanceModel, InstanceModel] = {}


def _compute_day(trial: PolicyTrial, seed: int, quantile: float) -> DayResult:
    model = _MODELS.setdefault(trial.scenario.model, trial.scenario.model)
    requests = generate_random_day(trial.scenario.requests, seed, quantile=quantile)
    day = rehearse(replace(trial.scenario, model=model, requests=requests))
    sent = sum(minute.requests for minute in day.minutes)
    return DayResult(
        cost=day.instance_hours * (1.0 if trial.usd_per_hour is None else trial.usd_per_hour),
        broken_minutes=day.expected_broken_minutes,
        refused_share=day.refused_requests / sent if sent else 0.0,
    )


def propose_edit(loaded: ValidFile, comparison: PolicyComparison, *, write: bool) -> str:
    """Return the diff of the file with the best policy, empty if no policy has a shown advantage.

    `write`: also write the file.
    """
    best, advantage = comparison.best, comparison.advantage
    if best is None or advantage is None or not advantage.holds:
        return ""
    file = loaded.root / loaded.file
    before = file.read_text(encoding="utf-8")
    changes = [
        KeyChange(key=tuple(key.split(".")), value=tomlkit.value(value), reason="")
        for key, value in best.trial.keys.items()
    ]
    note = f"rehearsed {time.strftime('%Y-%m-%d')}, servable rehearse"
    after = environment_edit.apply_changes(before, changes, note=note)
    if write:
        environment_edit.write(file, after)
    return environment_edit.format_diff(os.fspath(loaded.file), before, after)
