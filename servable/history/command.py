"""`servable history ENV`: what was deployed when, and the way back."""

import json

import click

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded
from model_packaging.refusal import PackagingError
from servable.aws_account import account_of
from servable.findings import print_lines
from servable.history.deployments import Deployment, deployments
from servable.history.restoring import Restored, restored, write
from servable.plan.synthesis import stack_name
from servable.project import ENVIRONMENTS, one_environment


@click.command()
@click.argument("environment", metavar="ENV")
@ENVIRONMENTS
@click.option("--local", is_flag=True, help="Ask the embedded AWS (`servable local up`).")
@click.option("--restore", metavar="N", help="Go back to it: its number, or its fingerprint.")
@click.option("--write", "writes", is_flag=True, help="With --restore: into ENV's file.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def history(
    environment: str, folder: str, local: bool, restore: str | None, writes: bool, as_json: bool
) -> int:
    """Every deployment of ENV, newest first; with --restore, the file that brings one back."""
    if writes and restore is None:
        raise click.UsageError("--write goes with --restore N")
    loaded, files = one_environment(environment, folder)
    assert loaded.environment is not None  # one_environment has looked
    try:
        account = account_of(loaded.environment, local=local)
        found = deployments(account, stack_name(loaded))
        if restore is None:
            _show(found, as_json)
            return 0
        back = restored(loaded, _chosen(found, restore), account)
    except PackagingError as wrong:
        click.echo(f"servable history: {wrong}", err=True)
        return 1
    errors = [one for one in back.findings if one.severity is Severity.ERROR]
    if writes and not errors:
        click.echo(f"{write(loaded, files, back)}: written", err=True)
    _show_restored(loaded, back, as_json, shown=not writes or bool(errors))
    return int(bool(errors))


def _chosen(found: list[Deployment], wanted: str) -> Deployment:
    for one in found:
        if str(one.number) == wanted or (len(wanted) >= 6 and one.fingerprint.startswith(wanted)):
            return one
    allowed = ", ".join(str(one.number or one.fingerprint[:12]) for one in found) or "none"
    raise click.UsageError(f"--restore {wanted}: there is no such deployment; allowed: {allowed}")


def _show(found: list[Deployment], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([one.as_json() for one in found], indent=2, default=str))
        return
    for one in found:
        number = "-" if one.number is None else str(one.number)
        state = "live" if one.live else "never live" if one.number is None else ""
        revision = (one.record or {}).get("revision") or "no revision"
        click.echo(
            f"{number:>4}  {one.time[:19]}  {state:10}  {one.fingerprint[:12]}  {revision}  {one.caller}"
        )
        if one.record is None:
            click.echo("      its record is not there any more")
            continue
        for key, value in one.record["overrides"].items():
            click.echo(f"      override: {key}={value}")
        for change in one.changes:
            click.echo(f"      {change}")
    if not found:
        click.echo("nothing was deployed, or before there were records")


def _show_restored(loaded: Loaded, back: Restored, as_json: bool, *, shown: bool) -> None:
    if as_json:
        said = {
            "text": back.text,
            "notes": back.notes,
            "findings": [one.as_json() for one in back.findings],
        }
        click.echo(json.dumps(said, indent=2, default=str))
        return
    if shown:
        click.echo(back.text)
    for note in back.notes:
        click.echo(f"note: {note}", err=True)
    print_lines(back.findings)
    name = loaded.name
    if not shown:
        click.echo(
            f"next: `servable check {name}`, `cdk diff '{name}/*'`, `cdk deploy '{name}/*'`",
            err=True,
        )
