"""`servable doctor [ENV]`: check whether this computer and the AWS account are ready."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict

import click

from infra.parameters.sources import list_environment_names
from model_packaging.refusal import PackagingError
from servable.console.findings import echo_styled, wrap_text
from servable.doctor.machine import CheckResult, State, check_machine
from servable.project.completion import complete_environments
from servable.project.environments import (
    ENVIRONMENTS,
    FIRST,
    SET,
    find_cdk_command,
    find_project,
    load_environment,
)
from servable.verdict import VERDICTS

STATES: Mapping[int, State] = {0: "ok", 1: "problem", 3: "unknown"}
COLOURS = {"ok": "green", "problem": "red", "open": "yellow", "unknown": "red"}


@click.command()
@click.argument(
    "environment", metavar="[ENV]", required=False, shell_complete=complete_environments
)
@ENVIRONMENTS
@SET
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(
    environment: str | None, folder: str, sets: tuple[str, ...], local: bool, as_json: bool
) -> int:
    """Check this computer and, with ENV, the account it is deployed to.

    Exit 0: ready; 1: a problem; 3: a check of the account could not be done.
    """
    root, files = find_project(folder)
    looks = list(check_machine(root))
    if environment is not None:
        loaded, _ = load_environment(environment, folder, sets)
        name = loaded.name  # of a wrong pattern the CDK CLI only says "no stacks match"
        said = (
            f"`{find_cdk_command()} deploy '{name}/*'` deploys {name}; `{find_cdk_command()} "
            f"deploy {name}` matches no stack"
        )
        looks.append(CheckResult("stacks", "ok", said))
        # Imported here: checking this computer alone does not need boto3.
        from servable.doctor.account import check_account
        from servable.project.account import open_account

        try:
            deployed_to = open_account(loaded.environment, local=local)
        except PackagingError as wrong:
            looks.append(CheckResult("account", "problem", wrong.problem, wrong.remedy))
        else:
            looks += check_account(name, loaded.environment, deployed_to)
    states = {look.state for look in looks}
    code = 1 if "problem" in states else 3 if "unknown" in states else 0
    if as_json:
        # A list, as it was before it had a verdict.
        verdict = CheckResult("verdict", STATES[code], VERDICTS[code])
        click.echo(json.dumps([asdict(look) for look in [*looks, verdict]], indent=2))
    else:
        width = max(len(look.name) for look in looks)
        for look in looks:
            echo_styled(
                f"{look.state:7}",
                then=f"  {look.name:{width}}  {look.said}",
                fg=COLOURS[look.state],
            )
            if look.mend:
                before = f"{'':7}  {'':{width}}  -> "
                lines = [before + look.mend]
                if sys.stdout.isatty():
                    lines = wrap_text(look.mend, shutil.get_terminal_size().columns, before)
                click.echo("\n".join(lines))
        if environment is None:
            checks = [f"`servable doctor {name}`" for name in list_environment_names(files)]
            note = f"the account was not checked; to check it: {' or '.join(checks) or FIRST}"
            width = shutil.get_terminal_size().columns
            click.echo("\n".join(wrap_text(note, width, "") if sys.stdout.isatty() else [note]))
    return code
