"""`servable local up | status | down`: the local AWS, for cdk, boto3, and the AWS CLI."""

from typing import Any

import click
from click.core import ParameterSource

from servable.project.completion import complete_environments
from servable.project.environments import ENVIRONMENTS, Project, build_unknown_error
from servable.project.folder import find_state_folder
from servable.project.provided import commands

local = commands("servable local", lambda: find_state_folder())
_start = local.commands["up"]


@local.command("up", help=f"{_start.help} ENV: use the account and Region of its file.")
@click.argument("env", metavar="[ENV]", required=False, shell_complete=complete_environments)
@ENVIRONMENTS
@click.pass_context
def up(context: click.Context, /, env: str | None, folder: str, **options: Any) -> None:
    if env is not None:
        for name in ("account", "region"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{env} and --{name} both give the {name}; remove one")
        options |= read_account_and_region(env, Project(folder))
    context.invoke(_start, **options)


up.params += _start.params


def read_account_and_region(name: str, project: Project) -> dict[str, str]:
    """Return `account` and `region` of an environment's file, which may be invalid otherwise.

    Raises click.ClickException if the file doesn't contain both.
    """
    from infra.parameters.sources import format_path, list_environment_names, read_source

    root, files = project.root, project.files
    if name not in (known := list_environment_names(files)):
        raise build_unknown_error(name, known)
    source, found = read_source(root, files, name), {}
    for key, example in (("account", "123456789012"), ("region", "us-east-1")):
        if not isinstance(value := source.values.get(key), str):
            problems = [str(finding) for finding in source.findings]
            file = format_path(files / f"{name}.toml", root)
            problems.append(f'{file}: {key} isn\'t a string; write {key} = "{example}"')
            raise click.ClickException("\n".join(problems))
        found[key] = value
    return found
