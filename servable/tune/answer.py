"""What a search's trials say: the recommendation, the diff, the page."""

from dataclasses import dataclass
from pathlib import Path

from servable.load.knee import knee
from servable.load.measurement import LoadCurve
from servable.report.page import page
from servable.report.page.content import RUN, Content
from servable.report.page.curve_pictures import at_knee
from servable.tune import environment_edit
from servable.tune.machine_space import Machines
from servable.tune.objective import Objective
from servable.tune.objective_value import Goal
from servable.tune.recommendation import recommend
from servable.tune.search.recommended import effects
from servable.tune.search.search import Found


@dataclass(frozen=True, kw_only=True)
class Tuned:
    folder: Path
    report: Path
    content: Content
    before: str
    after: str
    file: Path
    diff: str
    """Of the file by its path from the project, as `patch` and `git apply` take it there."""


def answer(
    kinds: Machines,
    variant: str,
    folder: Path,
    *,
    found: Found,
    curve: LoadCurve,
    objective: Objective,
    goal: Goal,
    usd_per_hour: float | None,
    force_local_numbers: bool,
) -> Tuned | None:
    """`curve`: of the choice. None: it did not meet the objective."""
    loaded = kinds.kinds[kinds.today].loaded
    assert loaded.environment is not None  # it was placed
    assert found.choice is not None  # the caller has looked
    at = knee(curve, objective)
    label = f"{loaded.name}, {variant}"
    step = at_knee(Content(label=label, curve=curve, knee=at))
    if at is None or step is None:
        return None
    asked = curve.asked
    advice = recommend(
        loaded.environment,
        variant,
        asked=asked,
        choice=found.choice,
        knee=at,
        latencies=step.latencies,
        force_local_numbers=force_local_numbers,
    )
    content = Content(
        label=label,
        curve=curve,
        knee=at,
        trials=found.trials,
        effects=effects(kinds.space, found.trials, found.choice),
        recommendation=advice,
        stopped=found.stopped,
        goal=goal,
        usd_per_hour=None if asked.relative else usd_per_hour,
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
        diff=diff,
    )
