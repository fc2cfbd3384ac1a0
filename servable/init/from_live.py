"""Read a deployed endpoint, write and check its environment file, and list what it lacks."""

import json
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any

import click
import tomlkit

from infra.parameters.rollout import CONTENT_TYPES
from model_packaging.beside import MADE
from model_packaging.refusal import PackagingError
from servable.console.findings import print_lines
from servable.console.lines import build_byte_progress
from servable.console.terminal import escape_name
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.live_fields import NotCarried
from servable.init.adoption.live_snapshot import (
    LiveSnapshot,
    find_container,
    is_capturing,
    read_live_snapshot,
)
from servable.init.first_environment import (
    InitOptions,
    choose_environment_file,
    find_relative_path,
    predict_findings,
)
from servable.init.model_folder import derive_model_name
from servable.new.project_files import PINS, find_conflicts, find_missing_files, write_all
from servable.project.account import Account, AwsError, split_uri
from servable.project.environments import select_lasting_errors
from servable.project.folder import find_state_folder
from servable.project.provided import find_local_aws
from servable_tensors.archive import ArchiveError, LayoutError, find_code, find_models, unpack


def write_live_environment(given: InitOptions, number: str, region: str) -> int:
    """Write the environment of what is deployed in that account, and print what the file lacks.

    Returns the exit code. Raises `PackagingError`.
    """
    root, folder = given.find_folders()
    ((kind, live_name),) = given.live_sources.items()
    aws = find_local_aws(find_state_folder()) if given.local else None
    if given.local and aws is None:
        raise PackagingError(Path("--local"), "the local AWS is not running", "`servable local up`")
    account = Account(region=region, number=number, aws=aws)
    account.check_credentials()
    name = given.name or derive_model_name(Path(live_name))
    file = find_relative_path(root, choose_environment_file(folder, name))
    snapshot = read_live_snapshot(account, kind, live_name)
    result = convert_live_endpoint(snapshot, endpoint_name=given.endpoint_name)
    golden = _record_golden_request(given, account, name, result) if given.request else {}
    written = {**find_missing_files(root), file: ""}
    if refused := find_conflicts(root, [*written, *golden, *result.sources]):
        click.echo("\n".join([*refused, "nothing was written"]), err=True)
        return 1
    result = fetch_models(result, account, root)
    written[file] = render_environment(result, source=f"{kind} {live_name}")
    for path, body in golden.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(body)
    findings = predict_findings(root, folder, name, written)
    write_all(root, written)
    files = [*written, *golden]
    following = list_next_steps(given, snapshot, name, cli=PINS in written)
    if given.as_json:
        output = {
            "environment": name,
            "files": files,
            "fetched": dict(result.sources),
            "not_carried": [asdict(row) for row in result.not_carried],
            "next": following,
            "findings": [finding.as_json() for finding in findings],
        }
        click.echo(json.dumps(output, indent=2, default=str))
    else:
        lines = [f"{file}: written" for file in files]
        lines += [f"{folder}: fetched from {uri}" for folder, uri in result.sources.items()]
        for heading, rows in _group_by_effect(result.not_carried):
            lines += ["", f"{heading}:", *(f"  {row}" for row in rows)]
        click.echo("\n".join(lines))
        print_lines(findings)
        click.echo("\n  ".join(["\nnext:", *following]))
    return int(bool(select_lasting_errors(findings)))


def fetch_models(result: Expressed, account: Account, root: Path) -> Expressed:
    """Fetch the folders that the tables name into the project; return the updated tables.

    The updated tables name the models found in the folders. Raises `PackagingError` if a folder
    can't be fetched; the project is unchanged then.
    """
    (root / MADE).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=root / MADE) as temporary:
        fetch(result.sources, account, Path(temporary))
        listed = tuple(set_model_paths(result.tables["models"], Path(temporary)))
        for folder in result.sources:
            (root / folder).parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, folder).rename(root / folder)
    return replace(result, not_carried=(*result.not_carried, *listed))


def _record_golden_request(
    given: InitOptions, account: Account, name: str, result: Expressed
) -> dict[str, bytes]:
    """Send the request to the deployed endpoint, and return the bodies of request and response.

    Both files are named in the tables.
    """
    request, endpoint = given.request, given.from_endpoint
    assert request is not None
    body, ending = request.read_bytes(), request.suffix
    if ending not in CONTENT_TYPES:
        allowed = ", ".join(CONTENT_TYPES)
        problem = f"the content type of the extension {ending!r} is unknown"
        raise PackagingError(request, problem, f"rename the file to end in one of {allowed}")
    served = next(iter(result.tables["variants"].values()))["model"]
    table, target = result.tables["models"][served], {}
    if members := table.get("multi_model"):  # each request names its model
        table, target = result.tables["models"][members[0]], {"TargetModel": f"{members[0]}.tar.gz"}
    try:
        answer = account.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=endpoint, Body=body, ContentType=CONTENT_TYPES[ending], **target
        )
    except AwsError as wrong:
        problem = f"{endpoint} does not answer it: {wrong}"
        remedy = "pass a request that the endpoint accepts"
        raise PackagingError(request, problem, remedy) from None
    files = {f"golden/{name}/request{ending}": body}
    files[f"golden/{name}/answer.json"] = answer["Body"].read()
    table["golden"] = dict(zip(("request", "answer"), files, strict=True))
    return files


def list_next_steps(
    given: InitOptions, snapshot: LiveSnapshot, name: str, *, cli: bool
) -> list[str]:
    """Return the commands that compare the file with the deployed endpoint, and deploy it.

    `cli`: the file that pins the CDK CLI was just written, and the CLI isn't installed.
    """
    local = " --local" if given.local else ""
    steps = [f"servable check {name}"]
    if endpoint := given.from_endpoint:
        steps.append(f"servable plan {name} --adopt {endpoint}{local}")
        # Captured requests of a multi-model endpoint don't name their model.
        modes = [find_container(model).get("Mode") for model in snapshot.models.values()]
        if is_capturing(snapshot.config) and "MultiModel" not in modes:
            captured = snapshot.config["DataCaptureConfig"]["DestinationS3Uri"].rstrip("/")
            place = f"{captured}/{endpoint}"
            steps.append(f"servable replay {name} --captured {place} --gate{local}")
            steps.append(f"servable golden {name} --from-captured {place} --write{local}")
    if cli:
        steps.append("npm ci && export PATH=$PWD/node_modules/.bin:$PATH    # the CDK CLI")
    return [
        *steps,
        f"cdk bootstrap aws://{snapshot.account}/{snapshot.region}    # once per account and region",
        f"cdk deploy '{name}/*'",
        f"servable verify {name}{local}",
    ]


EFFECTS = {
    "lost": "Not carried over",
    "changed": "Different from the deployed endpoint",
    "none": "Equivalent, or configured outside the file",
}


def _group_by_effect(rows: Sequence[NotCarried]) -> Iterator[tuple[str, list[NotCarried]]]:
    """Yield (heading, rows) for each effect that occurs."""
    for effect, heading in EFFECTS.items():
        if found := [row for row in rows if row.effect == effect]:
            yield heading, found


def render_environment(expressed: Expressed, *, source: str) -> str:
    """Return the text of the environment file.

    `source`: what it was written from, for example "endpoint ranker".
    """
    lines = [
        "#:schema ./schema.json",
        f"# Written by `servable init` from {escape_name(source)}. Settings not covered are listed last.",
        "# schema.json has every key; `servable check --explain` shows the defaults of the rest.",
        tomlkit.dumps(expressed.tables).rstrip(),  # plain values of a table first
        "",
    ]
    for heading, rows in _group_by_effect(expressed.not_carried):
        lines.append(f"# {heading}:")
        for row in rows:
            text = escape_name(str(row).replace("\n", " "))  # the name may contain any character
            lines += textwrap.wrap(text, 100, initial_indent="# - ", subsequent_indent="#   ",
                                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines) + "\n"


def fetch(sources: Mapping[str, str], account: Account, target: Path) -> None:
    """Write each source below `target`.

    `sources`: folder -> S3 URI of a prefix or a .tar.gz. Raises `PackagingError` if a source
    can't be read or unpacked; sources written before that stay.
    """
    for folder, uri in sources.items():
        (target / folder).mkdir(parents=True)
        try:
            if uri.endswith(".tar.gz"):
                with tempfile.TemporaryDirectory(prefix="servable-archive-") as temporary:
                    archive = Path(temporary, "model.tar.gz")
                    _download(account, uri, archive)
                    unpack(archive, target / folder)
            else:
                _download(account, uri, target / folder)
        except AwsError as wrong:
            remedy = "check your credentials (s3:ListBucket, s3:GetObject, kms:Decrypt of its key)"
            raise PackagingError(Path(uri), f"cannot be read: {wrong}", remedy) from None
        except (ArchiveError, OSError) as wrong:
            remedy = "free disk space, or pack the archive again"
            raise PackagingError(Path(uri), f"cannot be fetched: {wrong}", remedy) from None


def _download(account: Account, uri: str, target: Path) -> None:
    """Download an archive to the file `target`, or the objects below a prefix into that folder."""
    bucket, prefix = split_uri(uri)
    files, total = {}, 0
    for each in account.iterate_items(
        "s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix
    ):
        name = each["Key"].removeprefix(prefix)
        path = PurePosixPath(name)
        inside = not (name.endswith("/") or path.is_absolute() or ".." in path.parts)
        if bool(name) != uri.endswith(".tar.gz") and inside:
            files[each["Key"]] = target / name
            total += each["Size"]
    s3 = account.client("s3")
    with build_byte_progress() as bar:
        task = bar.add_task(f"download {uri}", total=total)
        for key, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(
                bucket, key, str(file), Callback=lambda count: bar.advance(task, count)
            )


def set_model_paths(tables: dict[str, dict[str, Any]], root: Path) -> Iterator[NotCarried]:
    """Set the paths of model and code in each table, and yield what the tables can't express.

    The paths are those in the fetched folders. `tables`: [models.NAME], changed in place. `root`:
    the folder that contains the fetched folders.
    """
    for name, table in tables.items():
        folder = table.get("saved_model")
        if folder is None:
            continue
        try:
            found = find_models(root / folder)
        except LayoutError as wrong:
            yield NotCarried(where=folder, value=None, reason=str(wrong), effect="lost")
            continue
        served = name if name in found else min(found)
        place = next(iter(found[served].values())).parent
        table["saved_model"] = place.relative_to(root).as_posix()
        if others := [each for each in found if each != served]:
            reason = (
                "the container also loads these; add a table for each and list it in also_serves"
            )
            yield NotCarried(where=folder, value=", ".join(others), reason=reason, effect="lost")
        if (code := find_code(root / folder)) is not None:
            table["code"] = f"{folder}/code"
            if (code.folder / "requirements.txt").is_file():
                table["install"] = "at start"  # as live
