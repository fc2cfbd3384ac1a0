"""`servable verify ENV`: compare what is live with what was deployed."""

import json

import click

from model_packaging.refusal import PackagingError
from servable.console.findings import styled_echo
from servable.project.account import account_of
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, one_environment
from servable.verdict import EXIT_CODES
from servable.verify.run import Report
from servable.verify.run import verify as verify_environment


@click.command()
@ENVIRONMENT
@ENVIRONMENTS
@SET
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option("--no-invoke", is_flag=True, help="Do not send the golden request.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(
    environment: str,
    folder: str,
    sets: tuple[str, ...],
    local: bool,
    no_invoke: bool,
    as_json: bool,
) -> int:
    """List every difference between ENV's file, CloudFormation and what runs.

    Exit 0: as deployed, and every variant gave a known answer to a golden request; 1: a difference; 3: as
    deployed, answers not asked. With --no-invoke, 0 without asking.
    """
    loaded, files = one_environment(environment, folder, sets)
    try:
        account = account_of(loaded.environment, local=local)
        report = verify_environment(loaded, files, account, invoke=not no_invoke)
    except PackagingError as wrong:
        click.echo(f"servable verify: {wrong}", err=True)
        return 2
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2, default=str))
    else:
        _show(report)
    return EXIT_CODES[report.verdict]


def _show(report: Report) -> None:
    click.echo(f"{report.environment}  {report.words}")
    for variant, measured in report.measured.items():
        limit = (
            "no alarm" if measured["alarm_ms"] is None else f"alarm at {measured['alarm_ms']:g} ms"
        )
        minutes = measured["minutes"]
        span = "the first minute" if minutes == 1 else f"the worst of the first {minutes} minutes"
        click.echo(f"  {variant}: p99 {measured['p99_latency_ms']:g} ms in {span}; {limit}")
    if report.patchable is not None:
        click.echo(f"  AWS can patch this endpoint: {report.patchable}")
    for note in report.notes:
        styled_echo(f"  note: {note}", dim=True)
    for difference in report.differences:
        styled_echo(str(difference), fg="red", err=True)
