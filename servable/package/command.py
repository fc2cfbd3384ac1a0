"""`servable package ENV`: pack its models and list the archive; or inspect an existing archive."""

import json
import math
from pathlib import Path

import click
from rich.progress import Progress

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded, ValidFile
from infra.preflight.check import check, errors
from infra.preflight.model.code import answer_seconds
from model_packaging.existing_archive import listing
from model_packaging.refusal import PackagingError
from model_packaging.source_file import Progress as Callback
from servable.console.findings import print_lines
from servable.console.lines import bytes_progress
from servable.package import output
from servable.package.package import Package, image_for, tensorflow_for, with_graph_faults
from servable.package.package import package as packages_of
from servable.project.completion import complete_environments
from servable.project.environments import (
    ENVIRONMENTS,
    MENDED_BY_PACKING,
    SET,
    loaded_with,
    named,
    project,
)

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument(
    "environment", metavar="[ENV]", required=False, shell_complete=complete_environments
)
@ENVIRONMENTS
@SET
@click.option(
    "--find-links",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of wheels to use instead of a package index.",
)
@click.option("--list", "listed", type=FILE, help="List the content of an archive; pack nothing.")
@click.option(
    "--verify",
    "verified",
    type=FILE,
    help="Check whether the image of ENV (default: the newest) can serve this archive; pack nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def package(
    environment: str | None,
    folder: str,
    sets: tuple[str, ...],
    find_links: str | None,
    listed: Path | None,
    verified: Path | None,
    as_json: bool,
) -> int:
    """Lock and fetch the code's dependencies, pack every model of ENV, and list what the archive holds.

    With --list or --verify, inspect an existing archive.
    """
    if listed and verified:
        raise click.UsageError("give --list or --verify, not both: --verify also lists the content")
    try:
        if listed:
            return _list(listed, as_json)
        loaded = None
        if environment:
            loaded = named(loaded_with(sets, *project(folder), name=environment), environment)
        if verified:
            return _verify(verified, loaded if isinstance(loaded, ValidFile) else None, as_json)
        if loaded is None:
            raise click.UsageError("give an environment, or an archive with --list or --verify")
        return _package(loaded, Path(find_links) if find_links else None, as_json)
    except PackagingError as refusal:
        return _refused([str(refusal)], as_json)


def _package(loaded: Loaded, find_links: Path | None, as_json: bool) -> int:
    findings = check(loaded)
    wrong = [finding for finding in errors(findings) if finding.rule != MENDED_BY_PACKING]
    if wrong or not isinstance(loaded, ValidFile):
        return _refused([str(finding) for finding in wrong], as_json)
    print_lines(finding for finding in findings if finding.severity is Severity.WARNING)
    packages = _with_progress(loaded, find_links)
    # What the packages bring is known now.
    if wrong := errors(check(loaded)):
        return _refused([str(finding) for finding in wrong], as_json)
    if as_json:
        click.echo(json.dumps([output.package_json(packed) for packed in packages], indent=2))
    else:
        for packed in packages:
            output.show(packed, loaded.root)
        if not packages:
            click.echo(f"{loaded.name}: every model is in S3 already; nothing to pack")
    return 0


def _refused(problems: list[str], as_json: bool) -> int:
    for problem in problems:
        click.echo(problem, err=True)
    if as_json:
        click.echo(json.dumps({"problems": problems}, indent=2))
    return 1


def _with_progress(loaded: ValidFile, find_links: Path | None) -> list[Package]:
    bar = bytes_progress(transient=True)
    bar.disable = not bar.console.is_terminal
    with bar:
        return list(
            packages_of(
                loaded,
                find_links=find_links,
                hashing=_line(bar, "reading"),
                packing=_line(bar, "packing"),
            )
        )


def _line(bar: Progress, what: str) -> Callback:
    """Return a callback that shows one line of the progress bar from the first byte on."""
    task = bar.add_task(what, total=None, visible=False)
    return lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _list(archive: Path, as_json: bool) -> int:
    members = listing(archive)
    if as_json:
        click.echo(json.dumps([vars(member) for member in members], indent=2))
        return 0
    for member in sorted(members, key=lambda member: output.is_of_packages(member.shown)):
        kind = "" if member.kind in ("file", "folder") else f"  ({member.kind})"
        name = f"{member.shown}/" if member.kind == "folder" else member.shown
        click.echo(f"{member.bytes:>15,}  {name}{kind}")
    return 0


def _verify(archive: Path, loaded: ValidFile | None, as_json: bool) -> int:
    # Imported here: it reads code with libraries that packing does not wait for.
    from model_packaging.verification import LOOKED_AT, verify

    image = image_for(loaded)
    seconds = answer_seconds(loaded.environment) if loaded else math.inf
    verified = verify(archive, python=image.python, provided=image.modules, seconds=seconds)
    verified = with_graph_faults(verified, loaded)
    if as_json:
        click.echo(json.dumps(output.verified_json(archive, verified), indent=2))
    else:
        output.show_verified(archive, verified)
        for warning in verified.warnings:
            click.echo(f"warning: {warning}", err=True)
        for problem in verified.problems:
            click.echo(problem, err=True)
        if not verified.problems:
            version = tensorflow_for(loaded)
            click.echo(
                f"  no problem found for the image of TensorFlow {version} in what was looked at"
            )
        click.echo(
            f"  looked at: {LOOKED_AT}\n  not looked at: {'; '.join(verified.not_looked_at)}"
        )
    return 1 if verified.problems else 0
