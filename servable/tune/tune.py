"""Search a variant's settings, here or on temporary endpoints, and propose changes to its file.

A run's folder is .servable/tuning/ENV-VARIANT-KEY; the same search resumes where it stopped.
"""

import dataclasses
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servable.load.objective import find_knee
from servable.measured.measurement import LoadCurve, LoadError
from servable.measured.temporary import BudgetSpentError
from servable.project import environment_edit
from servable.tune import page
from servable.tune.page import RUN, Content
from servable.tune.recommendation import Recommendation, recommend
from servable.tune.run import TRIALS_FILE, Run, lock_folder
from servable.tune.search.recommended import (
    REPEATS,
    ChosenPoint,
    estimate_effects,
    estimate_shown_gain,
    plan_pair_count,
)
from servable.tune.search.search import Search, SearchResult
from servable.tune.search.space import NOISE, Budget, Noise, Trial
from servable.tune.trials import NOT_SERVED, LocalTrials, TemporaryTrials, Trials

# The minimum number of pairs of trials of the choice and of today's settings, at the end.
CONFIRM = 2
# The load curves of today's settings and of the choice take as long as so many of today's: a step of the
# second may have to be measured again.
CURVES = 2.5
# Loads of one trial, and of a curve up to a hundred users, refined around the knee.
TRIAL_STEPS, CURVE_STEPS = 3, 8
# Today's settings and four rules of thumb: fewer trials would compare today's settings with almost nothing.
LEAST_TRIALS = 5


@dataclass(frozen=True, kw_only=True)
class TimePlan:
    """How the total `minutes` are divided, and what the trials in them can show."""

    minutes: float
    curve_seconds: float
    trial_seconds: float
    trials: int
    """The maximum, including those that confirm the choice."""

    @property
    def trials_minutes(self) -> float:
        return max(0.0, self.minutes - CURVES * self.curve_seconds / 60)

    @property
    def trial_count(self) -> int:
        """Return the number of trials that fit, including those that confirm the choice."""
        return min(self.trials, int(60 * self.trials_minutes / max(self.trial_seconds, 0.001)))

    @property
    def rejection(self) -> str | None:
        """Return why no comparison fits and how many minutes would suffice; None if one fits."""
        least = min(self.trials, LEAST_TRIALS + 2 * CONFIRM)
        if self.trial_count >= least:
            return None
        needed = math.ceil((CURVES * self.curve_seconds + least * self.trial_seconds) / 60)
        return (
            f"{self.minutes:g} minutes are too short for a comparison: two load curves take about "
            f"{self.curve_seconds:.0f} s each, and {least} trials ({2 * CONFIRM} of them to confirm "
            f"the choice) about {self.trial_seconds:.0f} s each; pass --minutes {needed} or more"
        )

    def __str__(self) -> str:
        trials_seconds = self.trial_count * self.trial_seconds
        seconds = min(60 * self.minutes, 2 * self.curve_seconds + trials_seconds)
        return (
            f"about {seconds / 60:.1f} minutes, at most {self.minutes:g}: two load curves of about "
            f"{self.curve_seconds:.0f} s, and about {self.trial_count} trials of about "
            f"{self.trial_seconds:.0f} s, from {2 * CONFIRM} to half of them to confirm the choice; "
            f"{describe_precision(self.trial_count)}"
        )


def describe_precision(trials: int) -> str:
    """Describe what gain a number of trials can show."""
    gain = estimate_shown_gain(NOISE, plan_pair_count(Noise(NOISE, REPEATS), trials, least=CONFIRM))
    return f"if a trial varies by {NOISE:.0%}, they detect a gain of {gain:.0%} in nine of ten runs"


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    report: Path
    content: Content
    advice: Recommendation
    after: str
    """The file with the recommendation."""
    diff: str
    """Diff of the file with its path in the project, so that `git apply` accepts it there."""


def tune(run: Run, *, anew: bool) -> TuneResult:
    """Search a variant's settings.

    Raises LaunchError, LoadError, PackagingError, ValueError for
    invalid options, KeyboardInterrupt (resumable).
    """
    with lock_folder(run.folder):
        if anew:
            shutil.rmtree(run.folder, ignore_errors=True)
        with (LocalTrials if run.options.account is None else TemporaryTrials)(run) as trials:
            if not (run.folder / TRIALS_FILE).exists():
                _announce_plan(trials)
            try:
                found = _run_search(trials)
                choice, curve = _measure_choice(trials, found)
            except NOT_SERVED as error:
                raise LoadError(f"today's settings don't start: {error}") from None
        return _build_result(trials, found, choice, curve)


def _announce_plan(
    trials: Trials, done: Sequence[Trial] = (), curve_seconds: float | None = None
) -> TimePlan | None:
    """Print how the minutes are divided, from measured durations or else from estimates.

    Returns None if there is no limit. Raises LoadError if no comparison fits, until the first trial.
    """
    options, progress = trials.run.options, trials.run.progress
    if options.minutes is None:
        if curve_seconds is None:
            shown = describe_precision(options.trials)
            progress.print_line(f"at most {options.trials} trials; {shown}")
        return None
    curve, trial = (
        trials.start_seconds + steps * (pace.warm_up_seconds + pace.least_seconds)
        for steps, pace in ((CURVE_STEPS, trials.curve_pace), (TRIAL_STEPS, trials.trial_pace))
    )
    plan = TimePlan(
        minutes=options.minutes,
        curve_seconds=curve_seconds or curve,
        trial_seconds=max((one.seconds for one in done[-5:]), default=trial),
        trials=options.trials,
    )
    if plan.rejection is not None and len(done) < 2:
        raise LoadError(plan.rejection + "; then run the same command again" * bool(done))
    progress.print_line(str(plan))
    return plan


def _run_search(trials: Trials) -> SearchResult:
    run, options, machines = trials.run, trials.run.options, trials.machines
    search = Search(
        machines.space, machines.initial_points, confirm=CONFIRM, file=run.folder / TRIALS_FILE
    )
    kept = search.list_trials()
    if options.trials <= 2 * CONFIRM and not kept:
        raise LoadError(
            f"--trials {options.trials} leaves no trials for the search: {2 * CONFIRM} are kept to confirm "
            f"the choice; pass --trials {2 * CONFIRM + 1} or more"
        )
    run.progress.print_start(run.folder, machines, len(kept), trials.objective)
    today = trials.today
    knee = find_knee(today, trials.objective)
    seconds = sum(
        (step.warm_up_seconds + step.seconds for step in today.steps), trials.start_seconds
    )
    # Trials are measured around this load.
    users = max(2.0, round(knee.load.value)) if knee else 2.0
    plan = _announce_plan(trials, kept, seconds)
    usd = None
    if options.account is not None:
        # The choice's curve costs about as much as that of today's settings.
        curve_usd = seconds / 3600 * (trials.find_price(machines.today) or 0.0)
        spent_usd = trials.ledger.usd - sum(trial.usd for trial in kept)
        usd = options.dollars - spent_usd - curve_usd
    budget = Budget(trials=options.trials, minutes=plan.trials_minutes if plan else None, usd=usd)

    def report_trial(trial: Trial) -> None:
        run.progress.print_trial(trial)
        if plan and not trial.number:
            _announce_plan(trials, [trial], seconds)

    try:
        return search.run(lambda point: trials.measure_trial(point, users), budget, report_trial)
    except BudgetSpentError as spent:
        return SearchResult(
            trials=search.list_trials(), stopped=str(spent), choice=search.find_choice()
        )


def _measure_choice(trials: Trials, found: SearchResult) -> tuple[ChosenPoint, LoadCurve]:
    """Return the choice with its comparison, and the load curve of the recommended settings.

    The choice's load curve may refute it; today's settings then stay. Raises LoadError if there
    is no choice.
    """
    choice, objective = found.choice, trials.objective
    if choice is None and not found.trials:
        raise LoadError(f"no trial was measured: {found.stopped}; raise that limit")
    if choice is None:
        raise LoadError(f"no setting met {objective}; pass a higher --p99-ms or a smaller body")
    if not choice.is_better:
        return choice, trials.today
    trials.run.progress.print_line("the load curve of the choice")
    try:
        curve = trials.measure_full_curve(choice.point, "choice")
    except NOT_SERVED as error:
        raise LoadError(
            f"the chosen settings failed to start: {error}; run the same command again"
        ) from None
    sustained, before = find_knee(curve, objective), find_knee(trials.today, objective)
    worse = sustained is None or (before is not None and sustained.rps.high < before.rps.low)
    # Goals other than throughput weigh the price too: fewer requests may be worth it.
    if worse and (sustained is None or trials.run.options.goal == "throughput"):
        refuted = dataclasses.replace(choice.confirmation, refuted=True)
        return dataclasses.replace(choice, confirmation=refuted), trials.today
    return choice, curve


def _build_result(
    trials: Trials, found: SearchResult, choice: ChosenPoint, curve: LoadCurve
) -> TuneResult:
    """Return the recommendation, the diff, and the page. `curve`: of the recommended settings."""
    run, kind = trials.run, trials.machines.find_instance_type(choice.recommended_point)
    content = Content(
        label=f"{run.loaded.name}, {run.placement.name}",
        curve=curve,
        knee=find_knee(curve, trials.objective),
        trials=found.trials,
        stopped=found.stopped,
        goal=run.options.goal,
        left_out=run.machines.left_out,
        usd_per_hour=None if curve.asked.is_relative else trials.find_price(kind),
    )
    advice = recommend(
        run.loaded.environment,
        run.placement.name,
        content,
        choice=choice,
        effects=estimate_effects(run.machines.space, found.trials, choice),
        force_local_numbers=run.options.force_local_numbers,
    )
    content = dataclasses.replace(content, recommendation=advice)
    content.write(run.folder / RUN)
    before = (run.loaded.root / run.loaded.file).read_text(encoding="utf-8")
    note = f"measured {curve.asked.started_at[:10]}, servable tune"
    after = environment_edit.apply_changes(before, advice.changes, note=note)
    diff = environment_edit.format_diff(run.loaded.file, before, after)
    report = page.write(run.folder, [content], diff=diff)
    return TuneResult(report=report, content=content, advice=advice, after=after, diff=diff)
