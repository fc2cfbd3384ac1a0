"""`servable pin ENV`: hold the artifacts of an environment to what lies in S3 now."""

import json
import sys

import boto3
import click
from botocore.exceptions import BotoCoreError

from servable.package.pin_archive import PinError, read, write
from servable.project import project, unknown


@click.command()
@click.argument("environment", metavar="ENV")
@click.option("--environments", "folder", default="environments", help="Folder of the files.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def pin(environment: str, folder: str, as_json: bool) -> int:
    """Read every artifact that ENV names, and write its hash and size into the file."""
    from infra.parameters.sources import names, read as read_source  # noqa: I001

    root, files = project(folder)
    known = names(files)
    if environment not in known:
        raise unknown(environment, known)
    source = read_source(root, files, environment)
    said = []
    for model, table in source.values.get("models", {}).items():
        if "artifact" not in table:
            continue
        file = root / source.origin(("models", model, "artifact", "uri"), "")
        try:
            region = source.values.get("region")
            pinned = read(boto3.client("s3", region_name=region), table["artifact"]["uri"])
            changed = write(file, model, pinned)
        except PinError as wrong:
            click.echo(str(wrong), err=True)
            sys.exit(1)
        except BotoCoreError as wrong:  # a client that cannot be made: a profile that is not there
            click.echo(f"{environment}: {wrong}; check your AWS configuration", err=True)
            sys.exit(1)
        shown = file.relative_to(root).as_posix()
        said.append({"file": shown, "model": model, "changed": changed, **pinned.__dict__})
    if as_json:
        click.echo(json.dumps(said, indent=2))
        return 0
    for one in said:
        word = "written" if one["changed"] else "as it was"
        click.echo(
            f"{one['file']}: models.{one['model']}.artifact: {one['sha256']}, "
            f"{one['size_bytes']} bytes; {word}"
        )
    if not said:
        click.echo(f"{environment}: no model with an artifact; nothing to pin")
    return 0
