"""`servable report RUN [OTHER]`: the page of a run, or of two beside each other."""

from pathlib import Path

import click

from servable.load.objective import Objective
from servable.report import page
from servable.report.content import ReportError, content_of, distinguished

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("runs", metavar="RUN [OTHER]", nargs=-1, required=True, type=FOLDER)
@click.option(
    "--p99-ms",
    type=click.FloatRange(0, min_open=True),
    help="p99 objective of a load test's knee, in milliseconds.",
)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of it.")
def report(runs: tuple[Path, ...], p99_ms: float | None, output: Path | None) -> int:
    """Write the page of RUN, a folder that `servable load` or `servable tune` printed.

    With OTHER both are in every picture.
    """
    if len(runs) > 2:
        raise click.UsageError(f"{len(runs)} runs: a report shows one, or compares two")
    objective = Objective(most_ms=p99_ms) if p99_ms else None
    try:
        contents = distinguished([content_of(folder, objective) for folder in runs])
    except ReportError as error:
        click.echo(f"servable report: {error}", err=True)
        return 1
    click.echo(page.write(output or runs[0], contents))
    return 0
