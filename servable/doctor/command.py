"""`servable doctor [ENV]`: is this machine ready, and the account?"""

import json

import click

from model_packaging.refusal import PackagingError
from servable.doctor.look import Look
from servable.doctor.machine import machine
from servable.project import ENVIRONMENTS, one_environment, project

COLOURS = {"ok": "green", "problem": "red", "open": "yellow"}


@click.command()
@click.argument("environment", metavar="[ENV]", required=False)
@ENVIRONMENTS
@click.option("--local", is_flag=True, help="Ask the embedded AWS (`servable local up`).")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(environment: str | None, folder: str, local: bool, as_json: bool) -> int:
    """Look at this machine and, with ENV, at the account it is deployed to; exit 1 on a problem."""
    root, _ = project(folder)
    looks = list(machine(root))
    if environment is not None:
        loaded, _ = one_environment(environment, folder)
        assert loaded.environment is not None  # one_environment has looked
        # Only where the account is asked: this computer is looked at without boto3.
        from servable.aws_account import account_of
        from servable.doctor.account import account

        try:
            asked = account_of(loaded.environment, local=local)
        except PackagingError as wrong:
            looks.append(
                Look(name="account", state="problem", said=wrong.problem, mend=wrong.remedy)
            )
        else:
            looks += account(loaded.environment, asked)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in looks], indent=2))
    else:
        width = max(len(one.name) for one in looks)
        for one in looks:
            word = click.style(f"{one.state:7}", fg=COLOURS[one.state])
            click.echo(f"{word}  {one.name:{width}}  {one.said}")
            if one.mend:
                click.echo(f"{'':7}  {'':{width}}  -> {one.mend}")
        if environment is None:
            click.echo("the account was not asked: `servable doctor ENV`")
    return int(any(one.state == "problem" for one in looks))
