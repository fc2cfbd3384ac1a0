"""`servable new DIRECTORY`: create a project for a service."""

import json
import re
import shlex
from pathlib import Path

import click

from servable.new import project_files


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--name",
    help="Name of the service, the prefix of its stacks' names (default: the folder's name).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def new(directory: Path, name: str | None, as_json: bool) -> int:
    """Write a project into DIRECTORY, which is created if needed: environments/ with a shared base,
    cdk.json, requirements.txt, the CDK CLI's version, GitHub workflows, a README. No existing file
    is changed: if one of them exists, nothing is written.
    """
    if name is not None and not re.fullmatch(project_files.SERVICE, name):
        raise click.UsageError(
            f"--name {name}: invalid service name; allowed: a lower-case letter, then lower-case "
            "letters, digits, and hyphens, at most 63 characters"
        )
    if ".." in directory.parts:  # of a folder that may not exist yet
        directory = directory.resolve()
    service = name or project_files.derive_service_name(directory)
    files = project_files.build_project_files(service)
    if problems := project_files.find_conflicts(directory, files):
        remedy = "run `servable init` there to add the missing files and keep these"
        click.echo("\n".join([*problems, f"no file was written; {remedy}"]), err=True)
        return 1
    project_files.write_all(directory, files)
    if as_json:
        click.echo(json.dumps({"service": service, "files": list(files)}, indent=2))
        return 0
    for file in files:
        click.echo(f"{directory / file}: written")
    click.echo(
        f"next: cd {shlex.quote(str(directory))}, then `servable init SAVED_MODEL`; its README.md explains "
        "how to install it"
    )
    return 0
