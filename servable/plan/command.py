"""`servable plan ENV`: what the next deploy does to what is live, in how many deploys."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import Loaded
from infra.parameters.placement import placements
from infra.preflight.check import check, errors
from model_packaging.refusal import PackagingError
from servable.aws_account import account_of
from servable.check.explain import Said, update_lines
from servable.findings import print_findings
from servable.plan.live import Live, live
from servable.plan.plan import DeployPlan, planned
from servable.plan.revision import checked_out
from servable.plan.synthesis import endpoint_template
from servable.project import ENVIRONMENTS, SET, loaded_with, named, project

LIVE = "what is live"
WORDS = {
    "nothing": "nothing changes",
    "create": "creates it: one deploy",
    "update": "one deploy",
    "two deploys": "two deploys: one alone would be refused",
    "replace": "replaces the endpoint",
    "refused": "refused",
}


@click.command()
@click.argument("environment", metavar="ENV")
@click.option("--against", metavar="REF", help="A git revision, in the place of what is live.")
@click.option("--local", is_flag=True, help="What is live in the embedded AWS.")
@ENVIRONMENTS
@SET
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def plan(
    environment: str,
    against: str | None,
    local: bool,
    folder: str,
    sets: tuple[str, ...],
    as_json: bool,
) -> int:
    """What the next deploy of ENV does, and the commands. Deploys nothing.

    Exit 0: nothing, or one deploy does it; 1: it takes two, deletes the endpoint, or is refused.
    """
    if against and local:
        raise click.UsageError("give --against or --local, not both")
    loaded = named(loaded_with(sets, *project(folder)), environment)
    found = check(loaded)
    if errors(found):
        print_findings({loaded.name: found})
        return 1
    try:
        made = _against(loaded, folder, against) if against else _live(loaded, folder, local)
    except PackagingError as wrong:
        raise click.ClickException(str(wrong)) from None
    lines = _lines(loaded, made)
    if as_json:
        click.echo(json.dumps(_as_object(made, lines), indent=2))
    else:
        _show(made, lines)
    return int(made.needs_attention)


def _live(loaded: Loaded, folder: str, local: bool) -> DeployPlan:
    assert loaded.environment is not None  # the caller has looked at its findings
    now = live(loaded, account_of(loaded.environment, local=local).client)
    return planned(loaded, now, endpoint_template(loaded), against=LIVE, folder=folder)


def _against(loaded: Loaded, folder: str, revision: str) -> DeployPlan:
    """As if that revision were live, nothing changed by hand since."""
    root, files = project(folder)
    with checked_out(root, files, revision) as then:
        before = then.get(loaded.name)
        if before is not None and errors(check(before)):
            (first, *_) = errors(check(before))
            raise PackagingError(
                Path(revision), f"could not be deployed: {first}", "give another revision"
            )
        now = Live.of_file(before, endpoint_template(before)) if before is not None else Live()
    against = replace(loaded, against=revision)
    return planned(against, now, endpoint_template(loaded), against=revision, folder=folder)


def _lines(loaded: Loaded, made: DeployPlan) -> dict[str, list[Said]]:
    """By variant; empty where no fleet is replaced."""
    if not made.new_fleet or loaded.environment is None:
        return {}
    return {
        one.name: list(update_lines(loaded.environment, one, running=made.instances.get(one.name)))
        for one in placements(loaded, loaded.environment)
        if not one.pool  # an update is the same on every instance type
    }


def _as_object(made: DeployPlan, lines: dict[str, list[Said]]) -> dict[str, Any]:
    updates = {
        variant: {name: {"value": value, "reason": reason} for name, value, _, reason in said}
        for variant, said in lines.items()
    }
    return {**asdict(made), "needs_attention": made.needs_attention, "update": updates}


def _show(made: DeployPlan, lines: dict[str, list[Said]]) -> None:
    click.echo(f"{made.environment}, against {made.against}: {WORDS[made.verdict]}")
    for one in made.changes:
        click.echo(f"  {_change(one.resource, one.what, one.before, one.after)}")
    for variant, said in lines.items():
        click.echo(f"\nthe new fleet of {variant}")
        widths = [max(len(line[at]) for line in said) for at in (0, 1)]
        for name, value, _, reason in said:
            click.echo(f"  {name:{widths[0]}}  {value:{widths[1]}}  {reason}")
    if made.changes and not lines and made.verdict == "update":
        click.echo("\nthe fleet stays: no instance is replaced")
    for at, deploy in enumerate(made.deploys, start=1):
        number = f"{at}. " if len(made.deploys) > 1 else ""
        click.echo(f"\n{number}{deploy.why}:\n    {deploy.command}")
    for reason in made.reasons:
        click.secho(f"{made.environment}: {reason}", fg="red", err=True)


def _change(resource: str, what: str, before: str | None, after: str | None) -> str:
    kind = resource.removeprefix("AWS::")
    if before is None and after is None:
        return f"{kind}: {what}"
    if before is None:
        return f"{kind}: {what}: {after} (new)"
    return (
        f"{kind}: {what}: {before} (gone)"
        if after is None
        else f"{kind}: {what}: {before} -> {after}"
    )
