"""`servable init SAVED_MODEL`: a first environment file for it, a golden request, what a project lacks.

`servable init --from ENV --name NEW`: a preview of one that is there.
"""

import json
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import click

from infra.preflight.check import errors
from model_packaging.refusal import PackagingError
from servable.findings import print_lines
from servable.init.first_environment import Start, foreseen, shown_size, start
from servable.init.preview import last_day, preview
from servable.new.project_files import (
    PINS,
    conflicts,
    missing_files,
    notes_on,
    service_name,
    write_all,
)
from servable.project import ENVIRONMENTS, one_environment, project
from servable.project_folder import FOLDER, standing_in
from servable_local.aws.embedded_aws import ACCOUNT, REGION

MODEL = click.Path(exists=True, path_type=Path)
TIMEOUT_SECONDS = 3
# A pull request is open for a week; a day more costs a day of its instances.
PREVIEW_DAYS = 7


@click.command()
@click.argument("saved_model", metavar="[SAVED_MODEL]", type=MODEL, required=False)
@click.option("--name", help="Of the environment; left out, the model's.")
@click.option("--from", "source", metavar="ENV", help="A preview of that environment.")
@click.option(
    "--expires-in-days",
    type=click.IntRange(1, 366),
    help=f"Of a preview; left out, {PREVIEW_DAYS}.",
)
@click.option("--account", help="AWS account; left out, the shell's, else the embedded AWS's.")
@click.option("--region", help="Left out, the shell's, else the embedded AWS's.")
@ENVIRONMENTS
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def init(
    saved_model: Path | None,
    name: str | None,
    source: str | None,
    expires_in_days: int | None,
    account: str | None,
    region: str | None,
    folder: str,
    as_json: bool,
) -> int:
    """Read SAVED_MODEL, choose a machine for it, write an environment file and a golden request.

    Files that a project needs and that are missing are written as well: environments/, cdk.json and
    so on; those alone without SAVED_MODEL. With --from and --name: a preview of an
    environment, with its own stack and endpoint.
    """
    if source is not None:
        if saved_model or account or region:
            raise click.UsageError("--from takes model, account and region from its environment")
        return _preview(source, name, expires_in_days or PREVIEW_DAYS, folder, as_json)
    if expires_in_days is not None:
        raise click.UsageError("--expires-in-days is for a preview: give --from ENV")
    if saved_model is None:
        if name or account or region:
            raise click.UsageError("give the folder of a SavedModel, or --from ENV --name NEW")
        return _completed(as_json)
    return _first(saved_model, name, account, region, folder, as_json)


def _first(
    saved_model: Path,
    name: str | None,
    account: str | None,
    region: str | None,
    folder: str,
    as_json: bool,
) -> int:
    # The folder need not be a project yet.
    root = standing_in()
    root, files = (root, root / FOLDER) if folder == FOLDER else project(folder)
    where = region or _region() or REGION
    answered = account or _account(where)
    try:
        found = start(
            root,
            files,
            saved_model,
            name=name,
            account=answered or ACCOUNT,
            region=where,
        )
        findings = foreseen(root, files, found.name, found.files)
    except PackagingError as wrong:
        click.echo(f"servable init: {wrong}", err=True)
        return 1
    refused = [*conflicts(root, found.files), *map(str, errors(findings))]
    if refused:
        click.echo("\n".join([*refused, "nothing was written"]), err=True)
        return 1
    write_all(root, found.files)
    found.notes.extend(notes_on(root))
    if as_json:
        said = {
            "environment": found.name,
            "files": list(found.files),
            "signature": found.signature,
            "size_gib": found.size_gib,
            "instance_type": found.instance.name,
            "reasons": found.reasons,
            "notes": found.notes,
            "findings": [one.as_json() for one in findings],
        }
        click.echo(json.dumps(said, indent=2, default=str))
    else:
        _show(found, answered, where)
        for one in findings:
            click.echo(str(one), err=True)
    return 0


def _completed(as_json: bool) -> int:
    """What the project lacks, without an environment."""
    root = standing_in()
    files = missing_files(root, service_name(root))
    if found := conflicts(root, files):
        click.echo("\n".join([*found, "nothing was written"]), err=True)
        return 1
    write_all(root, files)
    if as_json:
        click.echo(json.dumps({"files": list(files), "notes": notes_on(root)}, indent=2))
        return 0
    click.echo("\n".join(f"{one}: written" for one in files) or f"{root}: nothing is missing")
    for note in notes_on(root):
        click.echo(f"note: {note}")
    return 0


def _preview(source: str, name: str | None, days: int, folder: str, as_json: bool) -> int:
    if name is None:
        raise click.UsageError("--from: give --name, as --name pr42")
    loaded, files = one_environment(source, folder)
    try:
        made = preview(loaded, files, name=name, expires=last_day(days, date.today()))
    except PackagingError as wrong:
        click.echo(f"servable init: {wrong}", err=True)
        return 1
    if wrong_ones := errors(made.findings):
        print_lines(wrong_ones)
        click.echo("nothing was written", err=True)
        return 1
    write_all(loaded.root, {made.file: made.text})
    if as_json:
        said = {
            "environment": made.name,
            "files": [made.file],
            "endpoint": made.endpoint_name,
            "expires": str(made.expires),
            "findings": [one.as_json() for one in made.findings],
        }
        click.echo(json.dumps(said, indent=2, default=str))
    else:
        click.echo(f"{made.file}: written; endpoint {made.endpoint_name}, until {made.expires}")
        click.echo(f"next: `cdk deploy '{name}/*'`; in the end `cdk destroy '{name}/*'`")
    return 0


def _region() -> str | None:
    """The shell's; None without the extra `aws`. Raises click.ClickException."""
    if find_spec("boto3") is None:
        return None
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        found: str | None = boto3.session.Session().region_name
    except BotoCoreError as wrong:
        problem = f"servable init: AWS configuration: {wrong}; check AWS_PROFILE"
        raise click.ClickException(problem) from None
    return found


def _account(region: str) -> str | None:
    """Of the shell's credentials, where it has any that answer soon; None without the extra `aws`."""
    if find_spec("boto3") is None:
        return None
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(
        connect_timeout=TIMEOUT_SECONDS,
        read_timeout=TIMEOUT_SECONDS,
        retries={"total_max_attempts": 1},
    )
    try:
        sts = boto3.client("sts", region_name=region, config=config)
        return str(sts.get_caller_identity()["Account"])
    except (BotoCoreError, ClientError):
        return None


def _show(found: Start, account: str | None, where: str) -> None:
    signature = found.info.signatures[found.signature]
    for kind, tensors in (("in ", signature.inputs), ("out", signature.outputs)):
        for key, spec in tensors.items():
            shape = "unknown" if spec.shape is None else list(spec.shape)
            click.echo(f"{found.signature}  {kind}  {key}: {spec.dtype} {shape}")
    click.echo(
        f"{shown_size(found.size_gib)}, on {found.instance.name}: {found.reasons['instance_type']}"
    )
    for file in found.files:
        click.echo(f"{file}: written")
    for note in found.notes:
        click.echo(f"note: {note}")
    name = found.name
    click.echo(f"next: `servable check {name}`, `servable serve {name}`, then")
    if PINS in found.project:
        click.echo("  npm ci && export PATH=$PWD/node_modules/.bin:$PATH    # the CDK CLI")
    if account is None:
        click.echo(
            '  eval "$(servable local up)"    # no credentials answered: its account is in the file'
        )
    click.echo(f"  cdk bootstrap aws://{account or ACCOUNT}/{where}    # once")
    click.echo(f"  cdk deploy '{name}/*'")
    click.echo(f"  servable verify {name}")
