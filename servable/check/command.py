"""`servable check [ENV…]`: every finding, before anything is deployed."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import click

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.check import check_all, errors
from servable.findings import print_findings
from servable.project import (
    ENVIRONMENTS,
    FIRST,
    MENDED_BY_PACKING,
    SET,
    loaded_with,
    named,
    project,
)
from servable.signals import as_ctrl_c


@click.command()
@click.argument("names", metavar="[ENV]...", nargs=-1)
@ENVIRONMENTS
@SET
@click.option("--against", metavar="REF", help="The git revision that is deployed now.")
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Load the models in the local container too, and send them the golden requests.",
)
@click.option("--explain", is_flag=True, help="Every setting that was chosen, with its reason.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def check(
    names: tuple[str, ...],
    folder: str,
    sets: tuple[str, ...],
    against: str | None,
    runs: bool,
    explain: bool,
    as_json: bool,
) -> int:
    """Every finding of the environments named, or of all; exit 1 on an error."""
    now = datetime.now(UTC)
    loaded = [replace(one, asked_at=now) for one in _load(folder, sets, against)]
    chosen = [named(loaded, name) for name in names] or loaded
    if not chosen:
        click.echo(f"there is no environment to check; {FIRST}", err=True)
    found = {one.name: check_all(one) for one in chosen}
    if runs:
        _run(chosen, found)
    if as_json:
        said: dict[str, object] = {
            name: [one.as_json() for one in findings] for name, findings in found.items()
        }
        if explain:
            said = {
                one.name: {"findings": said[one.name], "settings": _settings(one)} for one in chosen
            }
        click.echo(json.dumps(said, indent=2, default=str))
    else:
        if explain:
            _explain(chosen)
        print_findings(found)
    return int(
        any(one.severity is Severity.ERROR for findings in found.values() for one in findings)
    )


def _load(folder: str, sets: tuple[str, ...], revision: str | None) -> list[Loaded]:
    root, files = project(folder)
    loaded = loaded_with(sets, root, files)
    if revision is None:
        return loaded
    from servable.plan.revision import against  # only where it is asked for

    return against(loaded, root, files, revision)


def _run(chosen: list[Loaded], found: dict[str, list[Finding]]) -> None:
    """Adds what a run finds; an environment that is refused is not run."""
    from rich.console import Console

    from servable.check.run import SHOWN_BY_RUN, missing, run  # only where it is asked for

    if (wanted := missing()) is not None:
        raise click.UsageError(wanted)
    as_ctrl_c()
    with Console(stderr=True).status("") as status:
        for one in chosen:
            findings = found[one.name]
            wrong = [each for each in errors(findings) if each.rule != MENDED_BY_PACKING]
            if wrong or one.environment is None:
                click.echo(f"{one.name}: not run: mend its errors first", err=True)
                continue
            left = [
                each
                for each in findings
                if each.severity is not Severity.NOT_CHECKED or each.rule not in SHOWN_BY_RUN
            ]
            found[one.name] = [*left, *run(one, status.update)]


def _settings(loaded: Loaded) -> list[dict[str, object]]:
    from servable.check.explain import explained  # only where it is asked for

    return [asdict(line) for line in explained(loaded)]


def _explain(chosen: list[Loaded]) -> None:
    from servable.check.explain import explained  # only where it is asked for

    for one in chosen:
        lines = explained(one)
        widths = [max((len(getattr(line, part)) for line in lines), default=0) for part in _PARTS]
        variant = None
        for line in lines:
            if line.variant != variant:
                variant = line.variant
                click.echo(f"{one.name}, variant {variant}")
            cells = [
                f"{getattr(line, part):{width}}" for part, width in zip(_PARTS, widths, strict=True)
            ]
            click.echo(f"  {'  '.join(cells)}  {line.reason}")
        click.echo()


_PARTS = ("name", "value", "origin")
