"""`servable report RUN [OTHER]`: write the page of a run, or of two runs side by side."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click

from servable.load.objective import Objective, find_knee
from servable.measured.measurement import CURVE, LoadCurve
from servable.tune import page
from servable.tune.page import RUN, Content

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("runs", metavar="RUN [OTHER]", nargs=-1, required=True, type=FOLDER)
@click.option(
    "--p99-ms",
    type=click.FloatRange(0, min_open=True),
    help="p99 objective of a load test's knee, in milliseconds.",
)
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the page."
)
def report(runs: tuple[Path, ...], p99_ms: float | None, output: Path | None) -> int:
    """Write the page of RUN, a folder that `servable load` or `servable tune` printed.

    With OTHER, every chart shows both runs.
    """
    if len(runs) > 2:
        raise click.UsageError(
            f"{len(runs)} runs are too many: pass one run to report, or two to compare"
        )
    objective = Objective(most_ms=p99_ms) if p99_ms else None
    try:
        contents = add_start_labels([read_content(folder, objective) for folder in runs])
    except ReportError as error:
        click.echo(f"servable report: {error}", err=True)
        return 2
    click.echo(page.write(output or runs[0], contents))
    return 0


class ReportError(Exception):
    """The error if there is no page. `str()` is a whole sentence: what failed and what to do."""


def read_content(folder: Path, objective: Objective | None = None) -> Content:
    """Read the folder of a run. Raises ReportError."""
    try:
        if (folder / RUN).exists():
            return Content.read(folder / RUN)
        curve = LoadCurve.read(folder / CURVE)
    except FileNotFoundError:
        raise ReportError(
            f"{folder}: has neither {RUN} nor {CURVE}; pass the folder of a run, as "
            "`servable load` and `servable tune` print it"
        ) from None
    except ValueError:
        raise ReportError(
            f"{folder}: contains no readable run; run the measurement again"
        ) from None
    at = find_knee(curve, objective) if objective else None
    return Content(label=folder.name, curve=curve, knee=at)


def add_start_labels(contents: Sequence[Content]) -> list[Content]:
    """Return the runs, with start times in their labels if the labels are equal.

    The labels stay as they are if the start times don't distinguish the runs either.
    """
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
