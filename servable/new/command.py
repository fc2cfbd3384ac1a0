"""`servable new DIRECTORY`: a project for a service of yours."""

import json
import re
from pathlib import Path

import click

from servable.new.project_files import SERVICE, conflicts, project_files, service_name, write_all


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--name", help="Name of the service, put before its stacks' names (default: the folder's)."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def new(directory: Path, name: str | None, as_json: bool) -> int:
    """Write a project into DIRECTORY, made where it is not there: environments/ with a base for all,
    cdk.json, requirements.txt, the CDK CLI's version, GitHub workflows, a README. No file that is
    there is touched: where one of them is, nothing is written.
    """
    if name is not None and not re.fullmatch(SERVICE, name):
        raise click.UsageError(
            f"--name {name}: not a service's name; allowed: a lower-case letter, then lower-case "
            "letters, digits and hyphens, at most 63 in all"
        )
    service = name or service_name(directory)
    files = project_files(service)
    if found := conflicts(directory, files):
        kept = "nothing was written; `servable init` there keeps what is there and adds what is missing"
        click.echo("\n".join([*found, kept]), err=True)
        return 1
    write_all(directory, files)
    if as_json:
        click.echo(json.dumps({"service": service, "files": list(files)}, indent=2))
        return 0
    for one in files:
        click.echo(f"{directory / one}: written")
    click.echo(f"next: cd {directory}, then as README.md says; `servable init SAVED_MODEL` there")
    return 0
