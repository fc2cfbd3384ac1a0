"""Content of a report about one run: a load test, or a search. Two of them are a comparison."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from model_packaging.beside import beside
from servable.load.knee import Knee, knee
from servable.load.measurement import CURVE, LoadCurve, LoadStep
from servable.load.objective import Goal, Objective
from servable.tune.recommendation import Recommendation
from servable.tune.search.recommended import Effect
from servable.tune.search.trial import Trial

# The file of a search's folder that holds all of it.
RUN = "run.json"


@dataclass(frozen=True, kw_only=True)
class Content:
    """`trials` and what follows are empty for a load test alone."""

    label: str
    curve: LoadCurve
    """Curve of a load test, or of the chosen settings."""
    knee: Knee | None
    trials: tuple[Trial, ...] = ()
    effects: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    stopped: str = ""
    goal: Goal = "throughput"
    usd_per_hour: float | None = None
    """Price of the instance; None where no source states it, and on this computer."""

    @property
    def at_knee(self) -> LoadStep | None:
        """The step nearest below the knee; without one, the first that was answered."""
        steps = [step for step in self.curve.valid if step.latencies.count]
        if not steps or self.knee is None:
            return steps[0] if steps else None
        most = self.knee.load.value
        below = (step for step in steps if step.load <= most)
        return max(below, key=lambda step: step.load, default=steps[0])

    def write(self, file: Path) -> None:
        with beside(file) as to:
            to.write(TypeAdapter(Content).dump_json(self))

    @classmethod
    def read(cls, file: Path) -> "Content":
        """Raises OSError, ValueError."""
        return TypeAdapter(Content).validate_json(file.read_bytes())


class ReportError(Exception):
    """Why there is no page. `str()` is a whole sentence: what failed, what to do."""


def load_content(curve: LoadCurve, objective: Objective | None, label: str) -> Content:
    """Return the content for a load test: one curve, and no search."""
    return Content(label=label, curve=curve, knee=knee(curve, objective) if objective else None)


def content_of(folder: Path, objective: Objective | None = None) -> Content:
    """Read the folder of a run. Raises ReportError."""
    try:
        if (folder / RUN).exists():
            return Content.read(folder / RUN)
        curve = LoadCurve.read(folder / CURVE)
    except FileNotFoundError:
        raise ReportError(
            f"{folder}: has neither {RUN} nor {CURVE}; give the folder of a run, as "
            "`servable load` and `servable tune` print it"
        ) from None
    except ValueError:
        raise ReportError(f"{folder}: holds no run that can be read; measure it again") from None
    return load_content(curve, objective, folder.name)


def distinguished(contents: Sequence[Content]) -> list[Content]:
    """Runs of the same variant with labels that say when each began."""
    starts = [content.curve.asked.started_at for content in contents]
    labels = {content.label for content in contents}
    if len(labels) == len(contents) or len(set(starts)) < len(contents):
        return list(contents)
    # As "2026-11-21 12:00"; of one day "12:00": a legend is short of room.
    first = 11 if len({start[:10] for start in starts}) == 1 else 0
    return [
        dataclasses.replace(content, label=f"{content.label}, {start[first:16].replace('T', ' ')}")
        for content, start in zip(contents, starts, strict=True)
    ]
