"""`servable package ENV`: pack its models, and say what went in; or look into an archive."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded, load
from infra.preflight.check import check, errors
from model_packaging.existing_archive import listing
from model_packaging.refusal import PackagingError
from model_packaging.source_file import Progress as Told
from servable.findings import print_lines
from servable.package import output
from servable.package.package import Package, image_for, tensorflow_for, with_graph_faults
from servable.package.package import package as packages_of
from servable.project import ENVIRONMENTS, MENDED_BY_PACKING, project, unknown

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("environment", metavar="[ENV]", required=False)
@ENVIRONMENTS
@click.option(
    "--find-links", type=click.Path(exists=True, file_okay=False), help="Wheels, and no index."
)
@click.option("--list", "listed", type=FILE, help="Show what is in an archive; pack nothing.")
@click.option(
    "--verify",
    "verified",
    type=FILE,
    help="Would the image of ENV, or the newest, serve this archive? Pack nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def package(
    environment: str | None,
    folder: str,
    find_links: str | None,
    listed: Path | None,
    verified: Path | None,
    as_json: bool,
) -> int:
    """Lock and fetch what the code needs, pack every model that ENV serves, and say what went in.

    With --list or --verify, look into an archive that is there already.
    """
    if listed and verified:
        raise click.UsageError("give --list or --verify, not both: --verify says what is in it too")
    try:
        if listed:
            return _list(listed, as_json)
        loaded = _environment(environment, folder) if environment else None
        if verified:
            return _verify(verified, loaded, as_json)
        if loaded is None:
            raise click.UsageError("give an environment, or an archive with --list or --verify")
        return _package(loaded, Path(find_links) if find_links else None, as_json)
    except PackagingError as refusal:
        return _refused([str(refusal)], as_json)


def _environment(name: str, folder: str) -> Loaded:
    root, files = project(folder)
    known = {one.name: one for one in load(root, files)}
    if name not in known:
        raise unknown(name, known)
    return known[name]


def _package(loaded: Loaded, find_links: Path | None, as_json: bool) -> int:
    findings = check(loaded)
    wrong = [one for one in errors(findings) if one.rule != MENDED_BY_PACKING]
    if wrong or loaded.environment is None:
        return _refused([str(one) for one in wrong], as_json)
    print_lines(one for one in findings if one.severity is Severity.WARNING)
    made = _with_progress(loaded, find_links)
    if as_json:
        click.echo(json.dumps([output.package_json(one) for one in made], indent=2))
    else:
        for each in made:
            output.show(each, loaded.root)
        if not made:
            click.echo(f"{loaded.name}: every model lies in S3 already; nothing to pack")
    return 0


def _refused(problems: list[str], as_json: bool) -> int:
    for problem in problems:
        click.echo(problem, err=True)
    if as_json:
        click.echo(json.dumps({"problems": problems}, indent=2))
    return 1


def _with_progress(loaded: Loaded, find_links: Path | None) -> list[Package]:
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        return list(
            packages_of(
                loaded,
                find_links=find_links,
                hashing=_told(bar, "reading"),
                packing=_told(bar, "packing"),
            )
        )


def _told(bar: Progress, what: str) -> Told:
    """One line of the bar, there from the first byte on."""
    task = bar.add_task(what, total=None, visible=False)
    return lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _list(archive: Path, as_json: bool) -> int:
    members = listing(archive)
    if as_json:
        click.echo(json.dumps([vars(one) for one in members], indent=2))
        return 0
    for one in members:
        kind = "" if one.kind in ("file", "folder") else f"  ({one.kind})"
        name = f"{one.shown}/" if one.kind == "folder" else one.shown
        click.echo(f"{one.bytes:>15,}  {name}{kind}")
    return 0


def _verify(archive: Path, loaded: Loaded | None, as_json: bool) -> int:
    # Imported here: it reads code with libraries that packing does not wait for.
    from model_packaging.verification import LOOKED_AT, NOT_LOOKED_AT, verify

    image = image_for(loaded)
    found = verify(archive, python=image.python, provided=image.modules)
    found = with_graph_faults(found, loaded)
    if as_json:
        click.echo(json.dumps(output.verified_json(archive, found), indent=2))
    else:
        output.show_verified(archive, found)
        for warning in found.warnings:
            click.echo(f"warning: {warning}", err=True)
        for problem in found.problems:
            click.echo(problem, err=True)
        if not found.problems:
            version = tensorflow_for(loaded)
            click.echo(
                f"  nothing found that keeps the image of TensorFlow {version} from serving it"
            )
        click.echo(f"  looked at: {LOOKED_AT}\n  not looked at: {NOT_LOOKED_AT}")
    return 1 if found.problems else 0
