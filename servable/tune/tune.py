"""Search a variant's settings, here or on temporary endpoints, and propose changes of its file.

A run lies in .servable/tuning/ENV-VARIANT-KEY; the same question goes on where it stopped.
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
from servable.load.objective import Objective, knee
from servable.load.temporary.endpoints import BudgetSpentError
from servable.project import environment_edit
from servable.tune import page
from servable.tune.page import RUN, Content
from servable.tune.recommendation import recommend
from servable.tune.run import TRIALS_FILE, Run, TuneError, TuneOptions, TuneProgress, alone
from servable.tune.search.recommended import ChosenPoint, effects, pairs_planned, shown_gain
from servable.tune.search.search import Search, SearchResult, kept_trials
from servable.tune.search.space import NOISE, Budget, Trial
from servable.tune.trials import (
    LocalTrials,
    NotServedError,
    ReferenceLoad,
    TemporaryTrials,
    Trials,
    kept_objective,
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
    """`minutes` of everything; `confirm`: the least trials that are kept back to confirm the choice."""

    minutes: float
    curve_seconds: float
    """Seconds of one load curve."""
    trial_seconds: float
    confirm: int
    trials: int
    """At most, those that confirm included."""

    @property
    def trials_minutes(self) -> float:
        """Minutes that the load curves leave for the trials."""
        return max(0.0, self.minutes - CURVES * self.curve_seconds / 60)

    @property
    def fit(self) -> int:
        """Trials that fit, those that confirm included."""
        return min(self.trials, int(60 * self.trials_minutes / max(self.trial_seconds, 0.001)))

    @property
    def refusal(self) -> str | None:
        """Why no comparison fits, and how many minutes would; None where one does."""
        least = min(self.trials, LEAST_TRIALS + self.confirm)
        if self.fit >= least:
            return None
        needed = math.ceil((CURVES * self.curve_seconds + least * self.trial_seconds) / 60)
        return (
            f"{self.minutes:g} minutes hold no comparison: two load curves take about "
            f"{self.curve_seconds:.0f} s each, and {least} trials ({self.confirm} of them to confirm "
            f"the choice) about {self.trial_seconds:.0f} s each; give --minutes {needed} or more"
        )

    def __str__(self) -> str:
        seconds = min(60 * self.minutes, 2 * self.curve_seconds + self.fit * self.trial_seconds)
        return (
            f"about {seconds / 60:.1f} minutes, at most {self.minutes:g}: two load curves of about "
            f"{self.curve_seconds:.0f} s, and about {self.fit} trials of about "
            f"{self.trial_seconds:.0f} s, from {self.confirm} to half of them to confirm the choice. "
            f"If a trial varies by {NOISE:.0%}, they show a gain of "
            f"{shown_gain(NOISE, pairs_planned(NOISE, self.fit, least=CONFIRM)):.0%} in nine of ten runs"
        )


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

    Raises TuneError, LaunchError, LoadError, PackagingError, TemporaryError, ValueError for what cannot be
    asked, KeyboardInterrupt (resumable).
    """
    run = Run(loaded, placement, options, progress)
    with alone(run.folder):
        if anew:
            shutil.rmtree(run.folder, ignore_errors=True)
        with _trials(run) as trials:
            minutes = run.options.minutes
            # Before anything is measured; a run that goes on knows better already.
            if minutes is not None and not (run.folder / TRIALS_FILE).exists():
                refusal = _time_plan(run, trials, minutes, None, ()).refusal
                if refusal is not None:
                    raise TuneError(refusal)
            try:
                objective = trials.objective()
                found = _searched(run, trials, objective)
                choice = _choice(found, objective)
                choice, curve = _curve_of(run, trials, choice, objective)
            except NotServedError as error:
                raise TuneError(f"today's settings do not start: {error}") from None
            except (TuneError, LoadError) as error:
                raise type(error)(f"{error}{_left_report(run, str(error))}") from None
            price = trials.price_of(run.machines.kind_of(choice.kept))
        return _answer(run, found, choice, curve, objective, price)


def _time_plan(
    run: Run, trials: Trials, minutes: float, around: ReferenceLoad | None, done: tuple[Trial, ...]
) -> TimePlan:
    """Plan the minutes from measured durations, and before any from the shortest steps."""
    curve, trial = trials.seconds_expected()
    return TimePlan(
        minutes=minutes,
        curve_seconds=around.seconds if around else curve,
        trial_seconds=max((one.seconds for one in done[-5:]), default=trial),
        confirm=2 * CONFIRM,
        trials=run.options.trials,
    )


def _left_report(run: Run, why: str) -> str:
    """Write the page of a run without an answer, and return where it lies; "" if nothing was measured."""
    try:
        curve = LoadCurve.read(run.folder / TODAY / CURVE)
        objective = kept_objective(run.folder)
    except (OSError, ValueError):
        return ""
    trials = tuple(kept_trials(run.folder / TRIALS_FILE))
    content = _content(run, curve, objective, trials, why)
    content.write(run.folder / RUN)
    return f"\nreport of what was measured: {page.write(run.folder, [content])}"


def _content(
    run: Run, curve: LoadCurve, objective: Objective, trials: tuple[Trial, ...], stopped: str
) -> Content:
    return Content(
        label=f"{run.loaded.name}, {run.placement.name}",
        curve=curve,
        knee=knee(curve, objective),
        trials=trials,
        stopped=stopped,
        goal=run.options.goal,
        left_out=run.machines.left_out,
    )


def _curve_of(
    run: Run, trials: Trials, choice: ChosenPoint, objective: Objective
) -> tuple[ChosenPoint, LoadCurve]:
    """Return the settings that are kept. The choice's curve may refute it: then today's settings stay."""
    today = LoadCurve.read(run.folder / TODAY / CURVE)  # `around` has kept it
    if not choice.better:
        return choice, today
    run.progress.stage("the load curve of the choice")
    try:
        curve = trials.full_curve(choice.point, objective, CHOICE)
    except NotServedError as error:
        raise TuneError(
            f"the choice did not start again: {error}; the same command goes on"
        ) from None
    carried, before = knee(curve, objective), knee(today, objective)
    worse = carried is None or (before is not None and carried.rps.high < before.rps.low)
    # Goals other than throughput weigh the price too: fewer requests may be worth it.
    if worse and (carried is None or run.options.goal == "throughput"):
        refuted = dataclasses.replace(choice.confirmation, refuted=True)
        return dataclasses.replace(choice, confirmation=refuted), today
    return choice, curve


def _trials(run: Run) -> Trials:
    """Return the trials of a target. Raises TuneError if a price is missing, before anything is spent."""
    trials = LocalTrials(run) if run.options.account is None else TemporaryTrials(run)
    if run.options.account is None and run.options.goal != "cost":
        return trials
    unknown = [kind for kind in run.machines.kinds if trials.price_of(kind) is None]
    if unknown:
        raise TuneError(
            f"{', '.join(unknown)}: no source states the price; write it into "
            "prices.instance_usd_per_hour"
        )
    return trials


def _searched(run: Run, trials: Trials, objective: Objective) -> SearchResult:
    options, machines = run.options, run.machines
    search = Search(machines.space, machines.wanted, confirm=CONFIRM, file=run.folder / TRIALS_FILE)
    if options.trials <= 2 * CONFIRM and not search.trials():
        raise TuneError(
            f"--trials {options.trials} leaves none to search with: {2 * CONFIRM} are kept to confirm "
            f"the choice; give --trials {2 * CONFIRM + 1} or more"
        )
    run.progress.began(run.folder, machines, len(search.trials()), objective)
    around = trials.around(objective)
    # The choice's curve takes and costs about as much as that of today's settings.
    minutes = options.minutes
    if minutes is not None:
        plan = _time_plan(run, trials, minutes, around, search.trials())
        if plan.refusal is not None and not search.trials():
            raise TuneError(plan.refusal)
        run.progress.stage(str(plan))
        minutes = plan.trials_minutes
    trials_usd = sum(trial.usd for trial in search.trials())
    usd = options.dollars - (trials.spent_usd - trials_usd) - around.usd
    budget = Budget(
        trials=options.trials, minutes=minutes, usd=usd if options.account is not None else None
    )
    try:
        return search.run(
            lambda point: trials.trial(point, objective, around.users),
            budget,
            lambda trial: _told(run, trials, around, search.trials(), budget),
        )
    except BudgetSpentError as spent:
        return SearchResult(trials=search.trials(), stopped=str(spent), choice=search.choice())


def _told(
    run: Run, trials: Trials, around: ReferenceLoad, done: tuple[Trial, ...], budget: Budget
) -> None:
    """Report the last trial. Raises TuneError where the first one shows that no comparison fits."""
    run.progress.trial(done[-1], budget.seconds_left(done))
    if run.options.minutes is None or len(done) > 1:
        return
    plan = _time_plan(run, trials, run.options.minutes, around, done)
    if plan.refusal is not None:
        raise TuneError(f"{plan.refusal}; the same command goes on from here")
    run.progress.stage(str(plan))


def _choice(found: SearchResult, objective: Objective) -> ChosenPoint:
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


def _answer(
    run: Run,
    found: SearchResult,
    choice: ChosenPoint,
    curve: LoadCurve,
    objective: Objective,
    usd_per_hour: float | None,
) -> TuneResult:
    """Return the recommendation, the diff, the page. `curve`: of the settings that are kept."""
    file = run.loaded.root / run.loaded.file
    content = _content(run, curve, objective, found.trials, found.stopped)
    at, step = content.knee, content.at_knee
    if at is None or step is None:
        raise TuneError("today's settings no longer meet the objective; run it on a quiet computer")
    asked, known = curve.asked, effects(run.machines.space, found.trials, choice)
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
        usd_per_hour=None if asked.relative else usd_per_hour,
    )
    content.write(run.folder / RUN)
    before = file.read_text(encoding="utf-8")
    note = f"measured {asked.started_at[:10]}, servable tune"
    after = environment_edit.edited(before, advice.changes, note=note) if advice.changes else before
    diff = environment_edit.diff(run.loaded.file, before, after)
    report = page.write(run.folder, [content], diff=diff)
    return TuneResult(report=report, content=content, after=after, file=file, diff=diff)
