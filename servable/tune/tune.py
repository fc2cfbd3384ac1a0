"""Searches a variant's settings, here or on temporary endpoints, and says what its file should say.

A run lies in .servable/tuning/ENV-VARIANT-KEY; the same question goes on where it stopped.
"""

import shutil
from pathlib import Path

from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement
from servable.tune.answer import Tuned, answer
from servable.tune.asking import Asking, Told
from servable.tune.machine_space import Machines, machines
from servable.tune.objective import Objective
from servable.tune.run import RUNS, STUDY, Run, TuneError, alone
from servable.tune.search.budget import Budget
from servable.tune.search.search import Found, Search
from servable.tune.target import digest, live_of, run_name, trials_of
from servable.tune.temporary import BudgetSpentError
from servable.tune.temporary.live import LiveVariant
from servable.tune.trials.trials import NotServedError, Trials

# Each of the choice and of today's settings, in turn, at the end.
CONFIRM = 2
# The two load curves around the trials take as long as so many of today's settings: a step of the
# second may have to be measured again.
CURVES = 2.5


def tune(loaded: Loaded, placement: Placement, asking: Asking, told: Told, *, anew: bool) -> Tuned:
    """Raises TuneError, LaunchError, LoadError, Refusal, TemporaryError, ValueError for what
    cannot be asked, KeyboardInterrupt (resumable)."""
    assert loaded.environment is not None  # it was placed
    if placement.served.multi_model:
        raise TuneError("several models behind one endpoint: which are loaded decides, not tune")
    kinds = machines(loaded, placement, only=asking.only, instance_types=asking.instance_types)
    if not len(kinds.space):
        raise TuneError("no setting may be tried: all are refused; see `servable check`")
    model = live_of(loaded, placement, asking) or digest(loaded, placement)
    folder = loaded.root / RUNS / run_name(loaded, placement, asking, kinds, model)
    with alone(folder):
        if anew:
            shutil.rmtree(folder, ignore_errors=True)
        return _tuned(loaded, placement, asking, told, kinds=kinds, model=model, folder=folder)


def _tuned(
    loaded: Loaded,
    placement: Placement,
    asking: Asking,
    told: Told,
    *,
    kinds: Machines,
    model: LiveVariant | str,
    folder: Path,
) -> Tuned:
    assert loaded.environment is not None  # it was placed
    run = Run(folder=folder, stage=told.stage)
    with trials_of(kinds, placement, asking, folder, model, told) as trials:
        try:
            objective = run.objective(
                trials,
                kinds.wanted[0],
                most_ms=asking.most_ms,
                stated_ms=loaded.environment.alarms.p99_latency_ms,
                percent=asking.percent,
            )
            search = Search(kinds.space, kinds.wanted, confirm=CONFIRM, file=folder / STUDY)
            told.began(folder, kinds.space, len(search.trials()), objective)
            found = _searched(search, run, trials, objective, asking, told)
        except NotServedError as error:
            raise TuneError(f"today's settings do not start: {error}") from None
        if not found.trials:
            raise TuneError(_none(found.stopped, asking))
        if found.choice is None:
            raise TuneError(
                f"no setting met p{objective.percent:g} at most {objective.most_ms:g} ms; "
                "give a higher --p99-ms, or a smaller body"
            )
        told.stage("the load curve of the choice")
        try:
            curve = trials.full_curve(found.choice.point, objective, "choice")
        except NotServedError as error:
            raise TuneError(
                f"the choice did not start again: {error}; the same command goes on"
            ) from None
        price = trials.usd_per_hour(found.choice.point)
    tuned = answer(
        kinds,
        placement.name,
        folder,
        found=found,
        curve=curve,
        objective=objective,
        goal=asking.goal,
        usd_per_hour=price,
        force_local_numbers=asking.force_local_numbers,
    )
    if tuned is None:
        raise TuneError("the choice did not meet the objective again; run it on a quiet machine")
    return tuned


def _none(stopped: str, asking: Asking) -> str:
    if asking.trials <= 2 * CONFIRM:
        return (
            f"no trial was made: {2 * CONFIRM} are kept to confirm the choice; "
            f"give --trials {2 * CONFIRM + 1} or more"
        )
    return f"no trial was made beside the load curve of today's settings: {stopped}; give more"


def _searched(
    search: Search, run: Run, trials: Trials, objective: Objective, asking: Asking, told: Told
) -> Found:
    tried = trials.machines.space
    around = run.around(trials, tried, trials.machines.wanted[0], objective)
    # The choice's curve takes about as long, and costs as much, as the one of today's settings did.
    minutes = asking.minutes
    if minutes is not None:
        minutes = max(0.0, minutes - CURVES * around.seconds / 60)
    told_usd = sum(float(one.measured.about.get("usd", 0.0)) for one in search.trials())
    usd = asking.dollars - (trials.spent_usd - told_usd) - around.usd
    budget = Budget(
        trials=asking.trials, minutes=minutes, usd=usd if asking.account is not None else None
    )
    try:
        return search.run(
            lambda point: trials.trial(point, objective, around.users),
            budget,
            lambda trial: told.trial(trial, budget.seconds_left(search.trials())),
        )
    except BudgetSpentError as spent:
        return Found(trials=search.trials(), stopped=str(spent), choice=search.choice())
