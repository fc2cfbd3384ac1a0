"""`servable check [ENV…]`: every finding, before anything is deployed."""

import json
from dataclasses import asdict

import click

from cli.findings import print_findings
from cli.project import project, unknown
from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import from_options, strangers
from infra.preflight.check import check_all


@click.command()
@click.argument("names", metavar="[ENV]...", nargs=-1)
@click.option("--environments", "folder", default="environments", help="Folder of the files.")
@click.option(
    "--set", "sets", multiple=True, metavar="ENV.KEY=VALUE", help="One key, for this run."
)
@click.option("--against", metavar="REF", help="The git revision that is deployed now.")
@click.option("--explain", is_flag=True, help="Every setting that was chosen, with its reason.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def check(
    names: tuple[str, ...],
    folder: str,
    sets: tuple[str, ...],
    against: str | None,
    explain: bool,
    as_json: bool,
) -> int:
    """Every finding of the environments named, or of all; exit 1 on an error."""
    chosen = _choose(_compared(loaded_with(folder, sets), folder, against), names)
    found = {one.name: check_all(one) for one in chosen}
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


def loaded_with(folder: str, sets: tuple[str, ...]) -> list[Loaded]:
    """Every environment, with what `--set` gives."""
    root, files = project(folder)
    overrides = from_options(dict(_parted(one) for one in sets))
    loaded = load(root, files, overrides, "--set")
    lost = strangers(overrides, [one.name for one in loaded], "--set")
    if lost:
        raise click.UsageError("\n".join(map(str, lost)))
    return loaded


def _compared(loaded: list[Loaded], folder: str, revision: str | None) -> list[Loaded]:
    if revision is None:
        return loaded
    from operations.revision import RevisionError, against  # only where it is asked for

    try:
        return against(loaded, *project(folder), revision)
    except RevisionError as wrong:
        raise click.UsageError(f"--against {revision}: {wrong}") from None


def _parted(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not equals or "." not in key:
        raise click.UsageError(f"--set {option}: not of the form ENV.KEY=VALUE")
    return key, value


def _choose(loaded: list[Loaded], names: tuple[str, ...]) -> list[Loaded]:
    known = {one.name: one for one in loaded}
    for name in names:
        if name not in known:
            raise unknown(name, known)
    return [known[name] for name in names] if names else loaded


def _settings(loaded: Loaded) -> list[dict[str, object]]:
    from operations.explain import explained  # only where it is asked for

    return [asdict(line) for line in explained(loaded)]


def _explain(chosen: list[Loaded]) -> None:
    from operations.explain import explained  # only where it is asked for

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
