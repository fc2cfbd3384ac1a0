"""Searches a variant's settings, here or on temporary endpoints, and says what its file should say.

A run lies in .servable/tuning/ENV-VARIANT-KEY; the same question goes on where it stopped.
"""

import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from operations.deployed_account import Account
from operations.local_trials import LocalTrials
from operations.serve import prepared
from operations.temporary_trials import TemporaryTrials
from operations.trials import NotServed, Trials
from operations.tune_answer import Tuned, answer
from operations.tune_run import RUNS, STUDY, Run, run_key
from tuning.bodies import Body
from tuning.container_space import current
from tuning.machine_space import Machines, machines
from tuning.measurement import Asked
from tuning.objective import Objective
from tuning.search.budget import Budget
from tuning.search.search import Found, Search
from tuning.search.space import Space
from tuning.search.trial import Trial
from tuning.temporary import BudgetSpent
from tuning.temporary.live import live_variant
from tuning.worth import Goal

# Each of the choice and of today's settings, in turn, at the end.
CONFIRM = 2
# The two load curves around the trials take as long as so many of today's settings: a step of the
# second may have to be measured again.
CURVES = 2.5


class TuneError(Exception):
    """Why nothing was found. `str()` is a whole sentence: what failed, what to do."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What is to be found, and with what."""

    bodies: Sequence[Body]
    body_names: tuple[str, ...]
    percent: float = 99.0
    most_ms: float | None = None
    """None: the file's alarm, where this machine can meet it."""
    goal: Goal = "throughput"
    only: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    """Beside today's; none: it stays."""
    account: Account | None = None
    """Whose live endpoint is copied for each trial; None: the double on this machine."""
    trials: int = 40
    minutes: float | None = 9.0
    """Of everything, with the two load curves around the trials."""
    dollars: float = 0.0
    """Of temporary endpoints, earlier runs of the same question included."""
    usd_per_hour: float | None = None
    """Of today's instance type; None: the catalog's."""
    force_local_numbers: bool = False


@dataclass(frozen=True, kw_only=True)
class Told:
    """Whom to tell. The first of each is what is said when nothing else is."""

    began: Callable[[Path, Space, int, Objective], None]
    """The run's folder, what may be tried, trials that are done already, the objective."""
    trial: Callable[[Trial, float | None], None]
    """And an estimate of the seconds left."""
    stage: Callable[[str], None]


def tune(loaded: Loaded, placement: Placement, asking: Asking, told: Told, *, anew: bool) -> Tuned:
    """Raises TuneError, LaunchError, LoadError, Refusal, TemporaryError, ValueError for what
    cannot be asked, KeyboardInterrupt (resumable)."""
    assert loaded.environment is not None  # it was placed
    archive = prepared(loaded, variant=placement.name).archive
    if archive is None:
        raise TuneError("several models behind one endpoint: which are loaded decides, not tune")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    kinds = machines(loaded, placement, only=asking.only, instance_types=asking.instance_types)
    if not len(kinds.space):
        raise TuneError("no setting may be tried: all are refused; see `servable check`")
    folder = loaded.root / RUNS / _name(loaded, placement, asking, kinds, digest)
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    run = Run(folder=folder, stage=told.stage)
    today = kinds.wanted[0]
    with _trials(kinds, placement, asking, folder, digest, told) as trials:
        objective = run.objective(
            trials,
            today,
            most_ms=asking.most_ms,
            stated_ms=loaded.environment.alarms.p99_latency_ms,
            percent=asking.percent,
        )
        search = Search(kinds.space, kinds.wanted, confirm=CONFIRM, file=folder / STUDY)
        told.began(folder, kinds.space, len(search.trials()), objective)
        try:
            found = _searched(search, run, trials, objective, asking, told)
        except NotServed as error:
            raise TuneError(f"today's settings do not start: {error}") from None
        if found.choice is None:
            raise TuneError(
                f"no setting met p{objective.percent:g} at most {objective.most_ms:g} ms; "
                "give a higher --p99-ms, or a smaller body"
            )
        told.stage("the load curve of the choice")
        curve = trials.full_curve(found.choice.point, objective, "choice")
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
    except BudgetSpent as spent:
        return Found(trials=search.trials(), stopped=str(spent), choice=search.choice())


def _trials(
    kinds: Machines,
    placement: Placement,
    asking: Asking,
    folder: Path,
    digest: str,
    told: Told,
) -> Trials:
    loaded = kinds.kinds[kinds.today].loaded
    assert loaded.environment is not None  # it was placed
    if asking.account is None:
        asked = Asked(
            target="local",
            address="this machine",
            environment=loaded.name,
            variant=placement.name,
            model_sha256=digest,
            bodies=asking.body_names,
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            machine=f"{platform.machine()}, {os.cpu_count() or 1} cores",
        )
        here = LocalTrials(kinds, asking.bodies, asked, folder, goal=asking.goal)
        return here.priced(asking.usd_per_hour)
    live = live_variant(
        asking.account.client("sagemaker"), loaded.environment.endpoint.name, placement.name
    )
    there = TemporaryTrials(
        kinds,
        asking.bodies,
        asking.account,
        folder,
        body_names=asking.body_names,
        live=live,
        budget_usd=asking.dollars,
        goal=asking.goal,
        told=told.stage,
    )
    return there.priced(asking.usd_per_hour)


def _name(
    loaded: Loaded, placement: Placement, asking: Asking, kinds: Machines, digest: str
) -> str:
    """Of the folder: another question is another run."""
    sent = [hashlib.sha256(one.content).hexdigest() for one in asking.bodies]
    where = asking.account and (asking.account.region, asking.account.endpoint_url)
    tried = kinds.space
    key = run_key(
        [digest, tried.keys, tried.names, current(placement), *sent]
        + [asking.percent, asking.most_ms, asking.goal, asking.usd_per_hour, where]
    )
    return f"{loaded.name}-{placement.name}-{key}"
