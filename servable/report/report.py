"""The page of a run, or of two beside each other: a load test's folder, or a search's."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from servable.load.knee import knee
from servable.load.measurement import CURVE, LoadCurve
from servable.report.page import page
from servable.report.page.content import RUN, Content
from servable.tune.objective import Objective


class ReportError(Exception):
    """Why there is no page. `str()` is a whole sentence: what failed, what to do."""


def load_content(curve: LoadCurve, objective: Objective | None, label: str) -> Content:
    """Of a load test: one curve, and no search."""
    return Content(label=label, curve=curve, knee=knee(curve, objective) if objective else None)


def content_of(folder: Path, objective: Objective | None = None) -> Content:
    """What lies in the folder of a run. Raises ReportError."""
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


def told_apart(contents: Sequence[Content]) -> list[Content]:
    """Two runs of the same variant say in every legend which is which: when each began."""
    labels = [one.label for one in contents]
    began = [one.curve.asked.started_at for one in contents]
    if len(set(labels)) == len(labels) or len(set(began)) < len(began):
        return list(contents)
    # As "2026-11-21 12:00"; of one day "12:00": a legend is short of room.
    first = 11 if len({when[:10] for when in began}) == 1 else 0
    return [
        dataclasses.replace(one, label=f"{one.label}, {when[first:16].replace('T', ' ')}")
        for one, when in zip(contents, began, strict=True)
    ]


def write_load_report(folder: Path, curve: LoadCurve, objective: Objective | None) -> Path | None:
    """None: no step was measured."""
    if not curve.valid:
        return None
    label = curve.asked.environment or curve.asked.address
    return page.write(folder, [load_content(curve, objective, label)])
