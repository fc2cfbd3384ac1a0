"""The environment file of something live: read, written, checked, and shown with what it does not say."""

import json
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import click
import tomlkit

from infra.parameters.finding import Finding
from infra.parameters.rollout import CONTENT_TYPES
from infra.preflight.check import errors
from model_packaging.beside import MADE
from model_packaging.refusal import PackagingError
from servable.console.findings import print_lines
from servable.console.lines import bytes_progress
from servable.console.terminal import escaped_name
from servable.init.adoption.expressed import Expressed, expressed
from servable.init.adoption.live_fields import NotCarried
from servable.init.adoption.live_picture import LivePicture, captures, container_of, live_picture
from servable.init.first_environment import foreseen, new_environment
from servable.init.model_folder import model_name
from servable.new.project_files import PINS, conflicts, missing_files, service_name, write_all
from servable.project.account import Account, AwsError
from servable.project.environments import MENDED_BY_PACKING, project
from servable.project.folder import FOLDER, standing_in, state_folder
from servable.project.provided import running_local_aws
from servable_tensors.archive import (
    ArchiveError,
    LayoutError,
    find_code,
    find_models,
    unpack,
)


@dataclass(frozen=True, kw_only=True)
class LiveSource:
    """A live endpoint, configuration or model, and how its file is to be named."""

    kind: str
    """endpoint, config or model."""
    name: str
    environment: str | None
    """Name of the environment; None: the source's."""
    endpoint_name: str | None
    request: Path | None
    """Body to send to the live endpoint; None: nothing is sent."""
    local: bool
    account: str
    region: str


def from_live(source: LiveSource, folder: str, *, as_json: bool) -> int:
    """Write the file of `source`, and show what it does not say. Returns the exit code."""
    root = standing_in()
    root, files = (root, root / FOLDER) if folder == FOLDER else project(folder)
    try:
        aws = running_local_aws(state_folder()) if source.local else None
        if source.local and aws is None:
            problem = "the local AWS is not running"
            raise PackagingError(Path("--local"), problem, "`servable local up`")
        account = Account(region=source.region, number=source.account, aws=aws)
        account.meant()
        name = source.environment or model_name(Path(source.name))
        file = new_environment(files, name)
        picture = live_picture(account, source.kind, source.name)
        result = expressed(picture, endpoint_name=source.endpoint_name)
        golden = _golden(source, account, root, name, result) if source.request else {}
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        written = {**missing_files(root, service_name(root)), shown.as_posix(): ""}
        if refused := conflicts(root, [*written, *result.sources]):
            click.echo("\n".join([*refused, "nothing was written"]), err=True)
            return 1
        result = bring(result, account, root)
        text = environment_text(result, source=f"{source.kind} {source.name}")
        written[shown.as_posix()] = text
    except PackagingError as wrong:
        click.echo(f"servable init: {wrong}", err=True)
        return 1
    for path, body in golden.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(body)
    findings = foreseen(root, files, name, written)
    write_all(root, written)
    faults = [finding for finding in errors(findings) if finding.rule != MENDED_BY_PACKING]
    following = next_steps(source, picture, name, cli=PINS in written)
    if as_json:
        output = {
            "environment": name,
            "files": [*written, *golden],
            "fetched": dict(result.sources),
            "not_carried": [asdict(row) for row in result.not_carried],
            "next": following,
            "findings": [finding.as_json() for finding in findings],
        }
        click.echo(json.dumps(output, indent=2, default=str))
    else:
        _show([*written, *golden], result, following, findings)
    return int(bool(faults))


def bring(result: Expressed, account: Account, root: Path) -> Expressed:
    """Fetch the folders that the tables name into the project, and return the tables of what lies there.

    Raises `PackagingError` if one cannot be fetched; nothing of it is in the project then.
    """
    (root / MADE).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=root / MADE) as temporary:
        fetch(result.sources, account, Path(temporary))
        listed = tuple(locate(result.tables["models"], Path(temporary)))
        for folder in result.sources:
            (root / folder).parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, folder).rename(root / folder)
    return replace(result, not_carried=(*result.not_carried, *listed))


def _golden(
    source: LiveSource, account: Account, root: Path, name: str, result: Expressed
) -> dict[str, bytes]:
    """Send the request to the live endpoint, name both files in the tables, and return their bodies."""
    assert source.request is not None
    body, ending = source.request.read_bytes(), source.request.suffix
    if ending not in CONTENT_TYPES:
        allowed = ", ".join(CONTENT_TYPES)
        problem = f"its ending {ending!r} names no content type"
        raise PackagingError(source.request, problem, f"name it with one of {allowed}")
    served = next(iter(result.tables["variants"].values()))["model"]
    table, target = result.tables["models"][served], {}
    if members := table.get("multi_model"):  # each request names its model
        table, target = result.tables["models"][members[0]], {"TargetModel": f"{members[0]}.tar.gz"}
    try:
        answer = account.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=source.name, Body=body, ContentType=CONTENT_TYPES[ending], **target
        )
    except AwsError as wrong:
        problem = f"{source.name} does not answer it: {wrong}"
        raise PackagingError(source.request, problem, "give a request that it answers") from None
    files = {f"golden/{name}/request{ending}": body}
    files[f"golden/{name}/answer.json"] = answer["Body"].read()
    request, expected = files
    table["golden"] = {"request": request, "answer": expected}
    return files


def next_steps(source: LiveSource, picture: LivePicture, name: str, *, cli: bool) -> list[str]:
    """Return the commands that lead from the file to an endpoint that answers as the live one.

    `cli`: the file that pins the CDK CLI has just been written, and nothing is installed of it.
    """
    local = " --local" if source.local else ""
    steps = [f"servable check {name}"]
    deploy = [
        *(["npm ci && export PATH=$PWD/node_modules/.bin:$PATH    # the CDK CLI"] if cli else []),
        f"cdk bootstrap aws://{picture.account}/{picture.region}    # once for an account and region",
        f"cdk deploy '{name}/*'",
        f"servable verify {name}{local}",
    ]
    if source.kind != "endpoint":
        return [*steps, *deploy]
    steps.append(f"servable plan {name} --adopt {source.name}{local}")
    captured = picture.config.get("DataCaptureConfig", {})
    # Samples of a multi-model endpoint do not say which model was asked.
    several = any(
        container_of(model).get("Mode") == "MultiModel" for model in picture.models.values()
    )
    if captures(picture.config) and not several:
        place = f"{captured['DestinationS3Uri'].rstrip('/')}/{source.name}"
        steps.append(f"servable replay {name} --captured {place} --gate{local}")
        steps.append(f"servable golden {name} --from-captured {place} --write{local}")
    return [*steps, *deploy]


def _show(
    files: list[str], result: Expressed, following: list[str], findings: list[Finding]
) -> None:
    for file in files:
        click.echo(f"{file}: written")
    for folder, uri in result.sources.items():
        click.echo(f"{folder}: fetched from {uri}")
    for effect, heading in EFFECTS.items():
        rows = [row for row in result.not_carried if row.effect == effect]
        if rows:
            click.echo(f"\n{heading}:")
        for row in rows:
            click.echo(f"  {row}")
    print_lines(findings)
    click.echo("\nnext:")
    for step in following:
        click.echo(f"  {step}")


EFFECTS = {
    "lost": "Not carried over",
    "changed": "Otherwise than live",
    "none": "Alike in effect, or kept outside the file",
}
_COLUMNS = 100


def environment_text(expressed: Expressed, *, source: str) -> str:
    """Return the file. `source`: what it was written from, for example endpoint ranker."""
    document = tomlkit.document()
    for line in (
        ":schema ./schema.json",
        f" Written by `servable init` from {escaped_name(source)}. What it does not say is listed last.",
        " schema.json has every key; `servable check --explain` shows what is chosen for the rest.",
    ):
        document.add(tomlkit.comment(line.removeprefix(" ")) if line[0] == " " else _raw(line))
    for key, value in expressed.tables.items():
        document.add(key, tomlkit.item(_ordered(value)))
    return (
        tomlkit.dumps(document).rstrip()
        + "\n\n"
        + "\n".join(_comments(expressed.not_carried))
        + "\n"
    )


def _raw(line: str) -> Any:
    comment = tomlkit.comment(line)
    comment.trivia.comment = f"#{line}"
    return comment


def _ordered(value: Any) -> Any:
    """Plain values first: in TOML they may not come after a table."""
    if not isinstance(value, dict):
        return value
    ordered = {key: _ordered(inner) for key, inner in value.items()}
    return dict(sorted(ordered.items(), key=lambda item: isinstance(item[1], dict)))


def _comments(not_carried: Sequence[NotCarried]) -> Iterator[str]:
    for effect, heading in EFFECTS.items():
        rows = [row for row in not_carried if row.effect == effect]
        if rows:
            yield f"# {heading}:"
        for row in rows:
            text = escaped_name(str(row).replace("\n", " "))  # a live name may hold any character
            yield from textwrap.wrap(
                text, _COLUMNS, initial_indent="# - ", subsequent_indent="#   ",
                break_long_words=False, break_on_hyphens=False)  # fmt: skip


def fetch(sources: Mapping[str, str], account: Account, target: Path) -> None:
    """Write each source below `target`. `sources`: folder to the address of a prefix or a .tar.gz.

    Raises `PackagingError` if one cannot be read or unpacked; what is written by then stays.
    """
    for folder, uri in sources.items():
        (target / folder).mkdir(parents=True)
        try:
            if uri.endswith(".tar.gz"):
                with tempfile.TemporaryDirectory(prefix="servable-archive-") as temporary:
                    archive = Path(temporary, "model.tar.gz")
                    _download(account, uri, {"": archive})
                    unpack(archive, target / folder)
            else:
                _download(account, uri, dict(_below(account, uri, target / folder)))
        except AwsError as wrong:
            remedy = "check your credentials (s3:ListBucket, s3:GetObject, kms:Decrypt of its key)"
            raise PackagingError(Path(uri), f"cannot be read: {wrong}", remedy) from None
        except (ArchiveError, OSError) as wrong:
            raise PackagingError(Path(uri), f"cannot be fetched: {wrong}", "make room, or pack it "
                                 "again") from None  # fmt: skip


def _below(account: Account, uri: str, folder: Path) -> Iterator[tuple[str, Path]]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    for each in account.pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix):
        name = each["Key"].removeprefix(prefix)
        path = PurePosixPath(name)
        if name and not name.endswith("/") and not path.is_absolute() and ".." not in path.parts:
            yield name, folder / path


def _download(account: Account, uri: str, files: Mapping[str, Path]) -> None:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3 = account.client("s3")
    with bytes_progress() as bar:
        sizes = {
            name: s3.head_object(Bucket=bucket, Key=key + name)["ContentLength"] for name in files
        }
        task = bar.add_task(f"download {uri}", total=sum(sizes.values()))
        for name, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(
                bucket, key + name, str(file), Callback=lambda count: bar.advance(task, count)
            )


def locate(tables: dict[str, dict[str, Any]], root: Path) -> Iterator[NotCarried]:
    """Point each table at the model and the code in its fetched folder; yield what it cannot say.

    `tables`: [models.NAME], changed in place; `root`: the folder that holds the fetched folders.
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
            reason = "the container finds them too; add a table for each and name it in also_serves"
            yield NotCarried(where=folder, value=", ".join(others), reason=reason, effect="lost")
        if (code := find_code(root / folder)) is not None:
            table["code"] = f"{folder}/code"
            if (code.folder / "requirements.txt").is_file():
                table["install"] = "at start"  # as live
