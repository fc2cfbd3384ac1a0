"""Searches a variant's settings on this machine, and says what its file should say.

A run lies in .servable/tuning/ENV-VARIANT-KEY; the same question goes on where it stopped.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from model_packaging.beside import beside
from operations.local_trials import LocalTrials
from operations.serve import prepared
from tuning import environment_edit
from tuning.bodies import Body
from tuning.container_space import current, space
from tuning.knee import knee
from tuning.measurement import Asked
from tuning.objective import Objective
from tuning.recommendation import recommend
from tuning.report import page
from tuning.report.content import RUN, Content
from tuning.report.curve_pictures import at_knee
from tuning.report.effects import effects
from tuning.search.budget import Budget
from tuning.search.search import Search
from tuning.search.space import Point, Space
from tuning.search.start import rules_of_thumb
from tuning.search.trial import Trial

RUNS = Path(".servable") / "tuning"
STUDY = "study.sqlite"
_OBJECTIVE = "objective.json"
# Each of the choice and of today's settings, in turn, at the end.
CONFIRM = 2


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
    only: tuple[str, ...] = ()
    trials: int = 40
    minutes: float = 9.0
    """Of everything, with the two load curves around the trials."""
    force_local_numbers: bool = False


@dataclass(frozen=True, kw_only=True)
class Told:
    """Whom to tell. The first of each is what is said when nothing else is."""

    began: Callable[[Path, Space, int, Objective], None]
    """The run's folder, what may be tried, trials that are done already, the objective."""
    trial: Callable[[Trial, float | None], None]
    """And an estimate of the seconds left."""
    stage: Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Tuned:
    folder: Path
    report: Path
    content: Content
    before: str
    after: str
    file: Path

    @property
    def diff(self) -> str:
        return environment_edit.diff(self.file.name, self.before, self.after)


def tune(loaded: Loaded, placement: Placement, asking: Asking, told: Told, *, anew: bool) -> Tuned:
    """Raises TuneError, LaunchError, LoadError, Refusal, KeyboardInterrupt (resumable)."""
    assert loaded.environment is not None  # it was placed
    archive = prepared(loaded, variant=placement.name).archive
    if archive is None:
        raise TuneError("several models behind one endpoint: which are loaded decides, not tune")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    tried = space(loaded, placement, asking.only)
    if not len(tried):
        raise TuneError("no setting may be tried: all are refused; see `servable check`")
    folder = loaded.root / RUNS / _name(loaded, placement, asking, tried, digest)
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    asked = _asked(loaded, placement, asking, digest)
    today = current(placement)
    with LocalTrials(loaded, placement, asking.bodies, asked, folder) as machine:
        objective = _objective(machine, folder, loaded, placement, asking, told)
        wanted = [today, *rules_of_thumb(tried, vcpus=placement.instance.vcpus)]
        search = Search(tried, wanted, confirm=CONFIRM, file=folder / STUDY)
        told.began(folder, tried, len(search.trials()), objective)
        users, curve_seconds = _users(machine, folder, tried, objective, told, today)
        # The choice's curve takes about as long as the one of today's settings did.
        minutes = max(0.0, asking.minutes - 2 * curve_seconds / 60)
        budget = Budget(trials=asking.trials, minutes=minutes)
        found = search.run(
            lambda point: machine.trial(point, objective, users),
            budget,
            lambda trial: told.trial(trial, budget.seconds_left(search.trials())),
        )
        if found.choice is None:
            raise TuneError(
                f"no setting met p{objective.percent:g} at most {objective.most_ms:g} ms; "
                "give a higher --p99-ms, or a smaller body"
            )
        told.stage("the load curve of the choice")
        curve = machine.full_curve(found.choice.point, objective, "choice")
    at = knee(curve, objective)
    label = f"{loaded.name}, {placement.name}"
    usual = Content(label=label, curve=curve, knee=at)
    step = at_knee(usual)
    if at is None or step is None:
        raise TuneError("the choice did not meet the objective again; run it on a quiet machine")
    advice = recommend(
        loaded.environment,
        placement.name,
        asked=asked,
        choice=found.choice,
        knee=at,
        latencies=step.latencies,
        force_local_numbers=asking.force_local_numbers,
    )
    content = Content(
        label=label,
        curve=curve,
        knee=at,
        trials=found.trials,
        effects=effects(tried, found.trials, found.choice),
        recommendation=advice,
        stopped=found.stopped,
    )
    content.write(folder / RUN)
    before = (loaded.root / loaded.file).read_text(encoding="utf-8")
    note = f"measured {asked.started_at[:10]}, servable tune"
    after = environment_edit.edited(before, advice.changes, note=note) if advice.changes else before
    diff = environment_edit.diff(loaded.file, before, after)
    return Tuned(
        folder=folder,
        report=page.write(folder, [content], diff=diff),
        content=content,
        before=before,
        after=after,
        file=loaded.root / loaded.file,
    )


def _objective(
    machine: LocalTrials,
    folder: Path,
    loaded: Loaded,
    placement: Placement,
    asking: Asking,
    told: Told,
) -> Objective:
    """Decided once: a resumed run is held to the same."""
    kept = folder / _OBJECTIVE
    form = TypeAdapter(Objective)
    if kept.exists():
        return form.validate_json(kept.read_bytes())
    if asking.most_ms is not None:
        found = Objective(percent=asking.percent, most_ms=asking.most_ms)
    else:
        told.stage("one caller alone, at today's settings")
        assert loaded.environment is not None
        stated = loaded.environment.alarms.p99_latency_ms if asking.percent == 99.0 else None
        found = machine.objective(current(placement), stated, asking.percent)
    folder.mkdir(parents=True, exist_ok=True)
    with beside(kept) as file:
        file.write(form.dump_json(found))
    return found


def _users(
    machine: LocalTrials,
    folder: Path,
    tried: Space,
    objective: Objective,
    told: Told,
    today: Point,
) -> tuple[float, float]:
    """The load around which every trial is measured, the knee of today's settings; and the seconds
    that finding it took."""
    kept = folder / "users.json"
    if kept.exists():
        users, seconds = json.loads(kept.read_text(encoding="utf-8"))
        return float(users), float(seconds)
    told.stage("the load curve of today's settings")
    began = time.monotonic()
    point = tried.point(tried.nearest(today))
    found = knee(machine.full_curve(point, objective, "today"), objective)
    users, seconds = max(2.0, round(found.load.value)) if found else 2.0, time.monotonic() - began
    with beside(kept) as file:
        file.write(json.dumps([users, seconds]).encode())
    return users, seconds


def _name(loaded: Loaded, placement: Placement, asking: Asking, tried: Space, digest: str) -> str:
    """Of the folder: another question is another run."""
    sent = [hashlib.sha256(one.content).hexdigest() for one in asking.bodies]
    asked = [digest, repr(tried.keys), repr(tried.names), repr(current(placement)), *sent]
    asked += [repr(asking.percent), repr(asking.most_ms)]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:10]
    return f"{loaded.name}-{placement.name}-{key}"


def _asked(loaded: Loaded, placement: Placement, asking: Asking, digest: str) -> Asked:
    return Asked(
        target="local",
        address="this machine",
        environment=loaded.name,
        variant=placement.name,
        model_sha256=digest,
        bodies=asking.body_names,
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        machine=f"{platform.machine()}, {_cores()} cores",
    )


def _cores() -> int:
    return os.cpu_count() or 1
