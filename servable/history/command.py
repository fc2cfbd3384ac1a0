"""`servable history ENV`: list what was deployed when, and restore an earlier deployment."""

import json
from collections.abc import Iterator

import click

from infra.parameters.environment import build_stack_name
from infra.parameters.loading import ValidFile
from infra.preflight.check import select_errors
from model_packaging.refusal import PackagingError
from servable.console.findings import print_lines
from servable.history.deployments import Deployment, list_deployments
from servable.history.restoring import RestoredFile, build_restored_file, replace_file
from servable.project.account import open_account
from servable.project.completion import ENVIRONMENT
from servable.project.environments import Project, format_stage_command, pass_project


@click.command()
@ENVIRONMENT
@pass_project
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option(
    "--restore",
    metavar="N",
    help="Restore a deployment: its number, its fingerprint, live, or previous.",
)
@click.option(
    "--write", "writes", is_flag=True, help="With --restore: write the result into ENV's file."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(
    project: Project,
    environment: str,
    local: bool,
    restore: str | None,
    writes: bool,
    as_json: bool,
) -> int:
    """List every deployment of ENV, newest first; with --restore, print the file that restores one."""
    if writes and restore is None:
        raise click.UsageError("--write requires --restore N")
    loaded = project.load_valid(environment)
    try:
        account = open_account(loaded.environment, local=local)
        stack = build_stack_name(loaded.name, loaded.environment, "endpoint")
        listed = list_deployments(account, stack)
        if restore is None:
            _print_deployments(listed, as_json)
            return 0
        back = build_restored_file(loaded, _find_deployment(listed, restore), account)
    except PackagingError as wrong:
        click.echo(f"servable history: {wrong}", err=True)
        return 2
    refused = bool(select_errors(back.findings))
    if writes and not refused:
        file, kept = replace_file(loaded, project.files, back)
        click.echo(f"{file}: written; the previous version is kept in {kept}", err=True)
    _print_restored(loaded, back, as_json, shown=not writes or refused)
    return int(refused)


def _find_deployment(listed: list[Deployment], wanted: str) -> Deployment:
    live = next((deployment for deployment in listed if deployment.live), None)
    others = [each for each in listed if live and each.fingerprint != live.fingerprint]
    earlier = next((each for each in others if each.number is not None), None)
    if chosen := {"live": live, "previous": earlier}.get(wanted):
        return chosen
    for deployment in listed:
        beginning = len(wanted) >= 6 and deployment.fingerprint.startswith(wanted)
        if beginning or str(deployment.number) == wanted:
            return deployment
    names = [str(deployment.number or deployment.fingerprint[:12]) for deployment in listed]
    allowed = ", ".join(names) or "none"
    raise click.UsageError(f"--restore {wanted}: no such deployment; allowed: {allowed}")


def _print_deployments(listed: list[Deployment], as_json: bool) -> None:
    if as_json:
        rows = [deployment.as_json() for deployment in listed]
        click.echo(json.dumps(rows, indent=2, default=str))
        return
    if not listed:
        click.echo("no deployment is recorded")
        return
    table = [_HEADS, *map(_format_cells, listed)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    details = [(), *map(_list_details, listed)]
    for row, below in zip(table, details, strict=True):
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())
        for detail in below:
            click.echo(f"    {detail}")


_HEADS = ("N", "TIME (UTC)", "STATE", "FINGERPRINT", "REVISION", "CALLER")


def _format_cells(deployment: Deployment) -> tuple[str, ...]:
    """Return the columns of a deployment, in the order of `_HEADS`."""
    number = "-" if deployment.number is None else str(deployment.number)
    time, fingerprint = deployment.time[:19], deployment.fingerprint[:12]
    revision = (deployment.record or {}).get("revision") or "not in git"
    return number, time, deployment.state, fingerprint, revision, deployment.caller


def _list_details(deployment: Deployment) -> Iterator[str]:
    """Yield the overrides in force and the changes from the previous deployment."""
    if deployment.record is None:
        yield "its record no longer exists"
        return
    for key, value in deployment.record["overrides"].items():
        yield f"override: {key}={value}"
    yield from deployment.changes


def _print_restored(loaded: ValidFile, back: RestoredFile, as_json: bool, *, shown: bool) -> None:
    if as_json:
        findings = [finding.as_json() for finding in back.findings]
        output = {"text": back.text, "notes": back.notes, "findings": findings}
        click.echo(json.dumps(output, indent=2, default=str))
        return
    if shown:
        click.echo(back.text)
    for note in back.notes:
        click.echo(f"note: {note}", err=True)
    print_lines(back.findings)
    if not shown:
        name = loaded.name
        diff, deploy = (format_stage_command(verb, name) for verb in ("diff", "deploy"))
        click.echo(f"next: `servable check {name}`, `{diff}`, `{deploy}`", err=True)
