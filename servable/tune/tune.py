"""Search a variant's settings, here or on temporary endpoints, and propose changes to its file.

A run's folder is .servable/tuning/ENV-VARIANT-KEY; the same search resumes where it stopped.
"""

import dataclasses
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from servable.load.load_generator import LoadError
from servable.load.measurement import CURVE, LoadCurve
from servable.load.objective import Objective, find_knee
from servable.load.temporary import BudgetSpentError
from servable.project import environment_edit
from servable.tune import page
from servable.tune.page import RUN, Content
from servable.tune.recommendation import recommend
from servable.tune.run import TRIALS_FILE, Run, TuneError, TuneOptions, TuneProgress, lock_folder
from servable.tune.search.recommended import (
    ChosenPoint,
    estimate_effects,
    estimate_shown_gain,
    plan_pairs,
)
from servable.tune.search.search import Search, SearchResult, read_trials
from servable.tune.search.space import NOISE, Budget, Trial
from servable.tune.trials import (
    LocalTrials,
    NotServedError,
    ReferenceLoad,
    TemporaryTrials,
    Trials,
    read_objective,
)

# The least pairs of trials of the choice and of today's settings, at the end.
CONFIRM = 2
TODAY, CHOICE = "today", "choice"
# The two load curves around the trials take as long as so many of today's settings: a step of the
# second may have to be measured again.
CURVES = 2.5
# Fewer compare today's settings with next to nothing: they and four rules of thumb.
LEAST_TRIALS = 5


@dataclass(frozen=True, kw_only=True)
class TimePlan:
    """How the total `minutes` are divided, and what the trials in them can show."""

    minutes: float
    curve_seconds: float
    trial_seconds: float
    trials: int
    """At most, those that confirm included."""
    confirm: int = 2 * CONFIRM
    """The least trials that are kept back to confirm the choice."""

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
        least = min(self.trials, LEAST_TRIALS + self.confirm)
        if self.trial_count >= least:
            return None
        needed = math.ceil((CURVES * self.curve_seconds + least * self.trial_seconds) / 60)
        return (
            f"{self.minutes:g} minutes hold no comparison: two load curves take about "
            f"{self.curve_seconds:.0f} s each, and {least} trials ({self.confirm} of them to confirm "
            f"the choice) about {self.trial_seconds:.0f} s each; give --minutes {needed} or more"
        )

    def __str__(self) -> str:
        seconds = min(
            60 * self.minutes, 2 * self.curve_seconds + self.trial_count * self.trial_seconds
        )
        return (
            f"about {seconds / 60:.1f} minutes, at most {self.minutes:g}: two load curves of about "
            f"{self.curve_seconds:.0f} s, and about {self.trial_count} trials of about "
            f"{self.trial_seconds:.0f} s, "
            f"from {self.confirm} to half of them to confirm the choice; "
            f"{describe_precision(self.trial_count)}"
        )


def describe_precision(trials: int) -> str:
    """Describe what gain a number of trials can show."""
    shown = estimate_shown_gain(NOISE, plan_pairs(NOISE, trials, least=CONFIRM))
    return f"if a trial varies by {NOISE:.0%}, they show a gain of {shown:.0%} in nine of ten runs"


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    report: Path
    content: Content
    after: str
    """The file with the recommendation."""
    file: Path
    diff: str
    """Diff of the file by its path from the project, as `patch` and `git apply` take it there."""


def tune(
    loaded: ValidFile,
    placement: Placement,
    options: TuneOptions,
    progress: TuneProgress,
    *,
    anew: bool,
) -> TuneResult:
    """Search a variant's settings.

    Raises TuneError, LaunchError, LoadError, PackagingError, TemporaryError, ValueError for
    invalid options, KeyboardInterrupt (resumable).
    """
    run = Run(loaded, placement, options, progress)
    with lock_folder(run.folder):
        if anew:
            shutil.rmtree(run.folder, ignore_errors=True)
        with _create_trials(run) as trials:
            # Before anything is measured; a run that goes on knows better already.
            if not (run.folder / TRIALS_FILE).exists():
                plan = _plan_time(run, trials, None, (), refuse=True)
                few = f"at most {options.trials} trials; {describe_precision(options.trials)}"
                progress.stage(str(plan or few))
            try:
                objective = trials.decide_objective()
                found = _run_search(run, trials, objective)
                choice = _require_choice(found, objective)
                choice, curve = _measure_choice(run, trials, choice, objective)
            except NotServedError as error:
                raise TuneError(f"today's settings do not start: {error}") from None
            except (TuneError, LoadError) as error:
                raise type(error)(f"{error}{_write_partial_report(run, str(error))}") from None
            price = trials.find_price(run.machines.find_instance_type(choice.recommended_point))
        return _build_result(run, found, choice, curve, objective, price)


def _plan_time(
    run: Run, trials: Trials, around: ReferenceLoad | None, done: tuple[Trial, ...], *, refuse: bool
) -> TimePlan | None:
    """Plan the minutes from measured durations, or from the shortest steps before any trial.

    Returns None if there is no limit. `refuse`: raise TuneError if no comparison fits.
    """
    if run.options.minutes is None:
        return None
    curve, trial = trials.estimate_seconds()
    plan = TimePlan(
        minutes=run.options.minutes,
        curve_seconds=around.seconds if around else curve,
        trial_seconds=max((one.seconds for one in done[-5:]), default=trial),
        trials=run.options.trials,
    )
    if refuse and plan.rejection is not None:
        raise TuneError(plan.rejection + "; the same command goes on from here" * bool(done))
    return plan


def _write_partial_report(run: Run, why: str) -> str:
    """Write the page of a run without a result, and return a line with its path.

    Returns "" if nothing was measured.
    """
    try:
        curve = LoadCurve.read(run.folder / TODAY / CURVE)
        objective = read_objective(run.folder)
    except (OSError, ValueError):
        return ""
    trials = tuple(read_trials(run.folder / TRIALS_FILE))
    content = _build_content(run, curve, objective, trials, why)
    content.write(run.folder / RUN)
    return f"\nreport of what was measured: {page.write(run.folder, [content])}"


def _build_content(
    run: Run, curve: LoadCurve, objective: Objective, trials: tuple[Trial, ...], stopped: str
) -> Content:
    return Content(
        label=f"{run.loaded.name}, {run.placement.name}",
        curve=curve,
        knee=find_knee(curve, objective),
        trials=trials,
        stopped=stopped,
        goal=run.options.goal,
        left_out=run.machines.left_out,
    )


def _measure_choice(
    run: Run, trials: Trials, choice: ChosenPoint, objective: Objective
) -> tuple[ChosenPoint, LoadCurve]:
    """Return the choice with its comparison, and the load curve of the recommended settings.

    The choice's load curve may refute it; today's settings then stay.
    """
    today = LoadCurve.read(run.folder / TODAY / CURVE)  # `around` has kept it
    if not choice.is_better:
        return choice, today
    run.progress.stage("the load curve of the choice")
    try:
        curve = trials.measure_full_curve(choice.point, objective, CHOICE)
    except NotServedError as error:
        raise TuneError(
            f"the choice did not start again: {error}; the same command goes on"
        ) from None
    carried, before = find_knee(curve, objective), find_knee(today, objective)
    worse = carried is None or (before is not None and carried.rps.high < before.rps.low)
    # Goals other than throughput weigh the price too: fewer requests may be worth it.
    if worse and (carried is None or run.options.goal == "throughput"):
        refuted = dataclasses.replace(choice.confirmation, refuted=True)
        return dataclasses.replace(choice, confirmation=refuted), today
    return choice, curve


def _create_trials(run: Run) -> Trials:
    """Return the trials of a target. Raises TuneError if a price is missing, before anything is spent."""
    trials = LocalTrials(run) if run.options.account is None else TemporaryTrials(run)
    if run.options.account is None and run.options.goal != "cost":
        return trials
    unknown = [kind for kind in run.machines.kinds if trials.find_price(kind) is None]
    if unknown:
        raise TuneError(
            f"{', '.join(unknown)}: no source states the price; write it into "
            "prices.instance_usd_per_hour"
        )
    return trials


def _run_search(run: Run, trials: Trials, objective: Objective) -> SearchResult:
    options, machines = run.options, run.machines
    search = Search(
        machines.space, machines.initial_points, confirm=CONFIRM, file=run.folder / TRIALS_FILE
    )
    if options.trials <= 2 * CONFIRM and not search.list_trials():
        raise TuneError(
            f"--trials {options.trials} leaves none to search with: {2 * CONFIRM} are kept to confirm "
            f"the choice; give --trials {2 * CONFIRM + 1} or more"
        )
    run.progress.began(run.folder, machines, len(search.list_trials()), objective)
    around = trials.find_reference_load(objective)
    # The choice's curve takes and costs about as much as that of today's settings.
    kept = search.list_trials()
    plan = _plan_time(run, trials, around, kept, refuse=not kept)
    if plan:
        run.progress.stage(str(plan))
    trials_usd = sum(trial.usd for trial in kept)
    usd = options.dollars - (trials.spent_usd - trials_usd) - around.usd
    budget = Budget(
        trials=options.trials,
        minutes=plan.trials_minutes if plan else None,
        usd=usd if options.account is not None else None,
    )

    def report_trial(trial: Trial) -> None:
        done = search.list_trials()
        run.progress.trial(trial, budget.estimate_seconds_left(done))
        if len(done) == 1 and (plan := _plan_time(run, trials, around, done, refuse=True)):
            run.progress.stage(str(plan))

    try:
        return search.run(
            lambda point: trials.measure_trial(point, objective, around.users), budget, report_trial
        )
    except BudgetSpentError as spent:
        return SearchResult(
            trials=search.list_trials(), stopped=str(spent), choice=search.find_choice()
        )


def _require_choice(found: SearchResult, objective: Objective) -> ChosenPoint:
    if found.choice is not None:
        return found.choice
    if found.trials:
        raise TuneError(
            f"no setting met p{objective.percent:g} at most {objective.most_ms:g} ms; "
            "give a higher --p99-ms, or a smaller body"
        )
    raise TuneError(
        f"no trial was made beside the load curve of today's settings: {found.stopped}; give more"
    )


def _build_result(
    run: Run,
    found: SearchResult,
    choice: ChosenPoint,
    curve: LoadCurve,
    objective: Objective,
    usd_per_hour: float | None,
) -> TuneResult:
    """Return the recommendation, the diff, and the page. `curve`: of the recommended settings."""
    file = run.loaded.root / run.loaded.file
    content = _build_content(run, curve, objective, found.trials, found.stopped)
    at, step = content.knee, content.knee_step
    if at is None or step is None:
        raise TuneError("today's settings no longer meet the objective; run it on a quiet computer")
    asked, known = curve.asked, estimate_effects(run.machines.space, found.trials, choice)
    advice = recommend(
        run.environment,
        run.placement.name,
        asked=asked,
        choice=choice,
        effects=known,
        knee=at,
        latencies=step.latencies,
        force_local_numbers=run.options.force_local_numbers,
    )
    content = dataclasses.replace(
        content,
        effects=known,
        recommendation=advice,
        usd_per_hour=None if asked.is_relative else usd_per_hour,
    )
    content.write(run.folder / RUN)
    before = file.read_text(encoding="utf-8")
    note = f"measured {asked.started_at[:10]}, servable tune"
    after = (
        environment_edit.apply_changes(before, advice.changes, note=note)
        if advice.changes
        else before
    )
    diff = environment_edit.format_diff(run.loaded.file, before, after)
    report = page.write(run.folder, [content], diff=diff)
    return TuneResult(report=report, content=content, after=after, file=file, diff=diff)
