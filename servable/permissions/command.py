"""`servable permissions ENV...`: write the policies of CloudFormation's execution role."""

import json
from pathlib import Path

import click

from infra.parameters.environment import build_stack_name
from infra.parameters.loading import ValidFile
from infra.policy.execution_policy import (
    MOST_CHARACTERS,
    DeployedNames,
    build_policies,
    count_characters,
    find_partition,
)
from servable.project.completion import complete_environments
from servable.project.environments import Project, find_cdk_command, pass_project


@click.command()
@click.argument(
    "environments", metavar="ENV...", nargs=-1, required=True, shell_complete=complete_environments
)
@pass_project
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder of the policies (default: the working folder).",
)
def permissions(project: Project, environments: tuple[str, ...], out: Path) -> int:
    """Write the IAM policies of CloudFormation's execution role, and print the commands that use them.

    Name every environment of one account and region: `cdk bootstrap` gives the role the policies that it
    is told of and no others.
    """
    loaded = [project.load_valid(name) for name in dict.fromkeys(environments)]
    places = sorted({(one.environment.account, one.environment.region) for one in loaded})
    if len(places) > 1:
        shown = ", ".join(f"{account}/{region}" for account, region in places)
        raise click.UsageError(
            f"the environments are in {shown}; pass only those of one account and region"
        )
    (account, region) = places[0]
    try:
        documents = build_policies([collect_policy_inputs(one) for one in loaded])
    except ValueError as wrong:
        raise click.ClickException(f"{wrong}; pass fewer environments") from None
    out.mkdir(parents=True, exist_ok=True)
    names = [f"servable-execution-{region}-{number}" for number in range(1, len(documents) + 1)]
    for name, document in zip(names, documents, strict=True):
        (out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        used = f"{count_characters(document):,} of {MOST_CHARACTERS:,} characters"
        click.echo(f"{out / name}.json: {used}")
    arns = ",".join(f"arn:{find_partition(region)}:iam::{account}:policy/{name}" for name in names)
    click.echo(f"\nin account {account}, with credentials that are allowed to change IAM, run:")
    for name in names:
        file = f"file://{out / name}.json"
        click.echo(f"    aws iam create-policy --policy-name {name} --policy-document {file}")
    click.echo(
        f"    {find_cdk_command()} bootstrap aws://{account}/{region} "
        f"--cloudformation-execution-policies '{arns}'"
    )
    return 0


def collect_policy_inputs(loaded: ValidFile) -> DeployedNames:
    """Return what the policies need to know about an environment before it is deployed."""
    environment, name = loaded.environment, loaded.name
    roles = [environment.endpoint.execution_role]
    roles += [model.execution_role for model in environment.models.values()]
    volume_key = environment.endpoint.volume_kms_key
    return DeployedNames(
        account=environment.account,
        region=environment.region,
        stacks=[build_stack_name(name, environment, kind) for kind in ("endpoint", "data")],
        endpoint=environment.endpoint.name,
        iam_path=environment.security.iam_path or "/",
        boundary=environment.security.permissions_boundary,
        roles=list(dict.fromkeys(filter(None, roles))),
        callers=environment.endpoint.callers,
        keys=[volume_key] if volume_key and ":key/" in volume_key else [],
        batches=list(environment.batch),
        sleeps=bool(environment.components),
    )
