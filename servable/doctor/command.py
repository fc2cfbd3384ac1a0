"""`servable doctor [ENV]`: check whether this computer and the AWS account are ready."""

import json
import shutil
import sys
from dataclasses import asdict

import click

from infra.parameters.sources import list_environment_names
from model_packaging.refusal import PackagingError
from servable.console.findings import echo_styled, wrap_text
from servable.doctor.machine import CheckResult, State, check_machine
from servable.project import environments
from servable.project.completion import OPTIONAL_ENVIRONMENT
from servable.project.environments import Project, pass_project
from servable.verdict import EXIT_CODES, Verdict

# The worst comes first.
STATES: dict[Verdict, State] = {"does not hold": "problem", "cannot be told": "unknown"}
COLOURS = {"ok": "green", "problem": "red", "open": "yellow", "unknown": "red"}


@click.command()
@OPTIONAL_ENVIRONMENT
@pass_project
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(project: Project, environment: str | None, local: bool, as_json: bool) -> int:
    """Check this computer and, with ENV, the account it is deployed to.

    Exit 0: ready; 1: a problem; 3: a check of the account could not be done.
    """
    looks = list(check_machine(project.root))
    if environment is not None:
        loaded = project.load_valid(environment)
        name = loaded.name  # of a wrong pattern the CDK CLI only says "no stacks match"
        right = environments.format_stage_command("deploy", name)
        wrong = f"{environments.find_cdk_command()} deploy {name}"
        said = f"`{right}` deploys {name}; `{wrong}` matches no stack"
        looks.append(CheckResult("stacks", "ok", said))
        # Imported here: checking this computer alone does not need boto3.
        from servable.doctor.account import check_account
        from servable.project.account import open_account

        try:
            deployed_to = open_account(loaded.environment, local=local)
        except PackagingError as error:
            looks.append(CheckResult("account", "problem", error.problem, error.remedy))
        else:
            looks += check_account(name, loaded.environment, deployed_to)
    states = {look.state for look in looks}
    verdict: Verdict = next((one for one, state in STATES.items() if state in states), "holds")
    if as_json:
        # A list, as it was before it had a verdict.
        looks.append(CheckResult("verdict", STATES.get(verdict, "ok"), verdict))
        click.echo(json.dumps([asdict(look) for look in looks], indent=2))
    else:
        width = max(len(look.name) for look in looks)
        for look in looks:
            rest = f"  {look.name:{width}}  {look.said}"
            echo_styled(f"{look.state:7}", then=rest, fg=COLOURS[look.state])
            if look.mend:
                before = f"{'':7}  {'':{width}}  -> "
                lines = [before + look.mend]
                if sys.stdout.isatty():
                    lines = wrap_text(look.mend, shutil.get_terminal_size().columns, before)
                click.echo("\n".join(lines))
        if environment is None:
            checks = [f"`servable doctor {name}`" for name in list_environment_names(project.files)]
            how = " or ".join(checks) or environments.FIRST
            note = f"the account wasn't checked; to check it: {how}"
            width = shutil.get_terminal_size().columns
            click.echo("\n".join(wrap_text(note, width, "") if sys.stdout.isatty() else [note]))
    return EXIT_CODES[verdict]
