"""`servable init SAVED_MODEL`: write an environment file, a golden request, and project files.

`servable init --from ENV --name NEW`: write a preview of an existing environment.
`servable init --from-endpoint NAME`: write the file of a deployed endpoint, no matter what created it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import tomlkit

from infra.catalog.limits import find_maximum
from infra.parameters.loading import ValidFile
from infra.preflight.check import select_errors
from model_packaging.refusal import PackagingError
from servable.console.extras import MissingExtraError
from servable.console.findings import print_lines
from servable.console.signals import enable_ctrl_c
from servable.init.first_environment import (
    InitOptions,
    Start,
    choose_environment_file,
    find_relative_path,
    format_size,
    predict_findings,
)
from servable.init.first_request import add_first_response
from servable.init.model_folder import copy_model
from servable.new.project_files import (
    PINS,
    find_conflicts,
    find_missing_files,
    list_notes,
    write_all,
)
from servable.project.completion import complete_environments
from servable.project.environments import (
    ENVIRONMENTS,
    Project,
    find_cdk_command,
    select_lasting_errors,
)
from servable.project.folder import find_project_folder

MODEL = click.Path(exists=True, path_type=Path)
# A pull request is usually open for a week; each further day costs a day of instances.
PREVIEW_DAYS = 7
LONGEST_SHAPE = 200  # characters
# Used if the shell has none: those of AWS's examples, which the local AWS uses, too.
ACCOUNT, REGION = "123456789012", "us-east-1"


@click.command()
@click.argument("saved_model", metavar="[SAVED_MODEL]", type=MODEL, required=False)
@click.option("--name", help="Name of the environment (default: the model's name).")
@click.option(
    "--from",
    "source",
    metavar="ENV",
    shell_complete=complete_environments,
    help="Write a preview of that environment.",
)
@click.option(
    "--expires-in-days",
    type=click.IntRange(1, 366),
    help=f"Lifetime of a preview in days (default: {PREVIEW_DAYS}).",
)
@click.option("--from-endpoint", metavar="NAME", help="Write a file from this live endpoint.")
@click.option("--from-config", metavar="NAME", help="Write a file from an endpoint configuration.")
@click.option("--from-model", metavar="NAME", help="Write a file from a SageMaker model.")
@click.option("--endpoint-name", help="Name of the new endpoint (default: the live one's).")
@click.option(
    "--request",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send this body to the model or live endpoint; with its response it becomes a golden request.",
)
@click.option("--copy", is_flag=True, help="Copy SAVED_MODEL into models/ of the project first.")
@click.option("--local", is_flag=True, help="Read from the local AWS (`servable local up`).")
@click.option("--account", help="AWS account (default: the shell's, otherwise the local AWS's).")
@click.option("--region", help="AWS region (default: the shell's, otherwise the local AWS's).")
@ENVIRONMENTS
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def init(**options: Any) -> int:
    """Read SAVED_MODEL, choose an instance type, and write an environment file.

    A golden request is written with its answer, if the model answers it in the local container: that of
    --request, or else an invented one. Missing files that a project needs, such as environments/ and
    cdk.json, are written as well; without SAVED_MODEL, only those are written. With --from and --name,
    write a preview of an environment, which has its own stack and endpoint. With --from-endpoint,
    --from-config or --from-model, read the live resources, whatever created them, write an equivalent file,
    and list what it does not cover. Exit 1: `servable check` rejects the file, or nothing was written.
    """
    given = InitOptions(**options)
    try:
        return _choose_writer(given)(given)
    except PackagingError as wrong:
        click.echo(f"servable init: {wrong}", err=True)
        return 1


def _choose_writer(given: InitOptions) -> Callable[[InitOptions], int]:
    """Return the function that writes what the options require. Raises click.UsageError."""
    is_preview = given.source is not None or given.expires_in_days is not None
    if given.live_sources or given.endpoint_name or given.local:
        if given.saved_model or given.copy or is_preview:
            raise click.UsageError(
                "omit SAVED_MODEL, --from, and --copy with --from-endpoint, --from-config, and --from-model"
            )
        return _write_from_live
    of_model = given.account or given.region or given.copy or given.request
    if given.source is not None:
        if given.saved_model or of_model:
            raise click.UsageError(
                "--from can't be combined with SAVED_MODEL, --account, --region, --copy, or --request"
            )
        return _write_preview
    if is_preview:
        raise click.UsageError("--expires-in-days applies only to a preview; pass --from ENV")
    if given.saved_model is None and (given.name or of_model):
        raise click.UsageError("pass the folder of a SavedModel, or --from ENV --name NEW")
    return _write_missing_files if given.saved_model is None else _write_first_environment


def _write_from_live(given: InitOptions) -> int:
    """Write the environment of a deployed endpoint, configuration, or model."""
    if len(given.live_sources) != 1:
        problem = "pass exactly one of --from-endpoint, --from-config, and --from-model"
        raise click.UsageError(problem)
    if given.request and not given.from_endpoint:
        raise click.UsageError("--request needs a live endpoint; pass --from-endpoint")
    if find_spec("boto3") is None:
        raise MissingExtraError("servable init --from-endpoint", "boto3", "aws")
    from servable.init.from_live import write_live_environment  # it needs boto3

    region = given.region or _find_region() or (REGION if given.local else None)
    if region is None:
        raise click.UsageError("no region is configured; pass --region, or set AWS_REGION")
    account = given.account or (ACCOUNT if given.local else _find_account(region))
    if account is None:
        problem = "servable init: AWS rejected this shell's credentials; run `servable doctor`"
        raise click.ClickException(problem)
    return write_live_environment(given, account, region)


def _write_first_environment(given: InitOptions) -> int:
    """Write the first environment of a SavedModel."""
    root, files = given.find_folders()
    region = given.region or _find_region() or REGION
    account = given.account or _find_account(region)
    saved_model = given.saved_model
    assert saved_model is not None  # `_choose_writer` has checked it
    with ExitStack() as removed_on_failure:
        if given.copy:
            saved_model = copy_model(saved_model, root, removed_on_failure)
        first = Start(root, files, saved_model, given, account or ACCOUNT, region)
        findings = predict_findings(root, files, first.name, first.files)
        faults = select_lasting_errors(findings)
        if refused := [*find_conflicts(root, first.files), *map(str, faults)]:
            return _print_rejection(refused)
        enable_ctrl_c()
        add_first_response(first, root, files, lambda text: click.echo(text, err=True))
        findings = predict_findings(root, files, first.name, first.files)
        write_all(root, first.files)
        removed_on_failure.pop_all()
    first.notes.extend(list_notes(root))
    output = {
        "environment": first.name,
        "files": list(first.files),
        "signature": first.signature,
        "size_gib": first.size_gib,
        "instance_type": first.instance.name,
        "reasons": first.reasons,
        "notes": first.notes,
        "findings": [finding.as_json() for finding in findings],
    }
    _print_output(output, _list_lines(first, account), given)
    if not given.as_json:
        for finding in findings:
            click.echo(str(finding), err=True)
    return 0


def _write_missing_files(given: InitOptions) -> int:
    """Write the missing files of the project, without an environment."""
    root = find_project_folder()
    files = find_missing_files(root)
    if problems := find_conflicts(root, files):
        return _print_rejection(problems)
    write_all(root, files)
    notes = list_notes(root)
    lines = [f"{file}: written" for file in files] or [f"{root}: no files are missing"]
    lines += [f"note: {note}" for note in notes]
    _print_output({"files": list(files), "notes": notes}, lines, given)
    return 0


def _write_preview(given: InitOptions) -> int:
    """Write a temporary copy of an environment: own stack, endpoint, tags, and last day."""
    name, project = given.name, Project(given.folder)
    if name is None:
        raise click.UsageError("--from requires a name for the preview, for example --name pr42")
    loaded, files = project.load_valid(str(given.source)), project.files
    # ranker-dev of environment dev becomes ranker-pr42.
    stem = loaded.environment.endpoint.name.removesuffix(f"-{loaded.name}")
    endpoint = f"{stem[: find_maximum('EndpointName') - len(name) - 1].rstrip('-')}-{name}"
    expires = date.today() + timedelta(days=given.expires_in_days or PREVIEW_DAYS)
    root = loaded.root
    file = find_relative_path(root, choose_environment_file(files, name))
    text = _render_preview(loaded, name, endpoint, expires)
    findings = predict_findings(root, files, name, {file: text})
    if faults := select_errors(findings):
        print_lines(faults)
        return _print_rejection([])
    write_all(root, {file: text})
    output = {
        "environment": name,
        "files": [file],
        "endpoint": endpoint,
        "expires": str(expires),
        "findings": [finding.as_json() for finding in findings],
    }
    cdk = find_cdk_command()
    lines = [
        f"{file}: written; endpoint {endpoint}, until {expires}",
        f"next: `{cdk} deploy '{name}/*'`; in the end `{cdk} destroy '{name}/*'`",
    ]
    _print_output(output, lines, given)
    return 0


def _print_rejection(problems: Iterable[str]) -> int:
    click.echo("\n".join([*problems, "nothing was written"]), err=True)
    return 1


def _print_output(output: dict[str, Any], lines: Iterable[str], given: InitOptions) -> None:
    text = json.dumps(output, indent=2, default=str) if given.as_json else "\n".join(lines)
    click.echo(text)


def _render_preview(loaded: ValidFile, name: str, endpoint_name: str, expires: date) -> str:
    environment = loaded.environment
    production = environment.production or loaded.name.startswith("prod")
    quiet = [key for key in ("notify", "page") if getattr(environment.alarms, key)]
    first = (loaded.root / loaded.file).read_text(encoding="utf-8-sig").partition("\n")[0]
    protect = {"protect": False} if environment.endpoint.protect else {}
    tables = {
        "extends": loaded.name,
        **({"production": False} if production else {}),
        "endpoint": {"name": endpoint_name, **protect},
        **({"alarms": {key: [] for key in quiet}} if quiet else {}),
        "tags": {"preview-of": loaded.name, "expires": str(expires)},
    }
    lines = [
        *([first] if first.startswith("#:schema") else []),
        f"# A preview of {loaded.name}, until {expires}. When done, run `cdk destroy '{name}/*'`",
        "# and delete this file. The tag is for people and cleanup jobs; nothing expires automatically.",
        tomlkit.dumps(tables),
    ]
    return "\n".join(lines)


def _find_region() -> str | None:
    """Return the shell's Region, or None without the extra `aws`. Raises click.ClickException."""
    if find_spec("boto3") is None:
        return None
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        region: str | None = boto3.session.Session().region_name
    except BotoCoreError as wrong:
        problem = f"servable init: AWS configuration: {wrong}; check AWS_PROFILE"
        raise click.ClickException(problem) from None
    return region


def _find_account(region: str) -> str | None:
    """Return the account of the shell's credentials, or None without them or the extra `aws`."""
    if find_spec("boto3") is None:
        return None
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(connect_timeout=3, read_timeout=3, retries={"total_max_attempts": 1})  # seconds
    try:
        sts = boto3.client("sts", region_name=region, config=config)
        return str(sts.get_caller_identity()["Account"])
    except (BotoCoreError, ClientError):
        return None


def _list_lines(first: Start, account: str | None) -> Iterator[str]:
    """Yield what was read and written, and the next commands.

    `account`: that of the shell's credentials; None: there are none.
    """
    signature, name = first.info.signatures[first.signature], first.name
    for kind, tensors in (("in ", signature.inputs), ("out", signature.outputs)):
        for key, spec in tensors.items():
            shape = "unknown" if spec.shape is None else str(list(spec.shape))
            if len(shape) > LONGEST_SHAPE:
                shape = f"of {len(spec.shape or ()):,} dimensions"
            yield f"{first.signature}  {kind}  {key}: {spec.dtype} {shape}"
    reason = first.reasons["instance_type"]
    yield f"{format_size(first.size_gib)}, on {first.instance.name}: {reason}"
    yield from (f"{file}: written" for file in first.files)
    yield from (f"note: {note}" for note in first.notes)
    yield f"next: `servable check {name}`, `servable serve {name}`, then"
    if PINS in first.project:
        yield "  npm ci && export PATH=$PWD/node_modules/.bin:$PATH    # the CDK CLI"
    program = "cdk" if PINS in first.project else find_cdk_command()
    if account is None:
        note = "no credentials found; the file contains the local AWS's account"
        yield f'  eval "$(servable local up {name})"    # {note}'
    else:
        yield f"  {program} bootstrap aws://{account}/{first.region}    # once"
    yield f"  {program} deploy '{name}/*'"
    yield f"  servable verify {name}"
