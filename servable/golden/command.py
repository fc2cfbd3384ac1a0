"""`servable golden ENV --from-captured PLACE`: golden requests from real ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from servable.console.terminal import escaped_name
from servable.golden.frozen import GoldenSelection, frozen, why_not, with_tables
from servable.load.options import AS_JSON, LOCAL
from servable.project.account import account_of
from servable.project.completion import ENVIRONMENT
from servable.project.environment_edit import diff
from servable.project.environment_edit import write as write_file
from servable.project.environments import ENVIRONMENTS, SET, environment_with_endpoint
from servable.replay.index import CaptureIndex
from servable.replay.places import PlaceError, place_of
from servable.verdict import Verdict

MOST = 12
# Above what float32 differs by between instance types: Golden.tolerance.
_LEAST_TOLERANCE = 1e-4


@click.command(context_settings={"show_default": True})
@ENVIRONMENT
@ENVIRONMENTS
@SET
@click.option(
    "--from-captured",
    "place",
    required=True,
    metavar="PLACE",
    help="Captured requests: s3://BUCKET/PREFIX, a folder or a file of data capture.",
)
@click.option(
    "--variant",
    "--component",
    "variant",
    help="Variant, or component, whose model they are for (default: the first).",
)
@click.option("--most", type=click.IntRange(1, 100), default=MOST, help="Maximum requests.")
@click.option("--write", is_flag=True, help="Write the files, and name them in ENV's file.")
@LOCAL
@AS_JSON
def golden(
    environment: str,
    folder: str,
    sets: tuple[str, ...],
    place: str,
    variant: str | None,
    most: int,
    write: bool,
    local: bool,
    as_json: bool,
) -> int:
    """Choose a few captured requests that cover content types, signatures, shapes and extremes of the inputs.

    Each becomes a golden request with its captured answer, which `servable verify` compares. Their bodies are
    then files of the project: look for personal data in them before they are committed.
    """
    loaded, files = environment_with_endpoint(environment, folder, sets)
    account = account_of(loaded.environment, local=local)
    selection, left_out = GoldenSelection(), Counter[str]()
    try:
        index = CaptureIndex(place_of(place, lambda: account.client("s3")))
        for request in index:
            if (reason := why_not(request)) is None:
                selection.add(request)
            else:
                left_out[reason] += 1
    except PlaceError as error:
        click.echo(f"servable golden: {error}", err=True)
        return 2
    for skipped in index.skipped:
        click.echo(str(skipped), err=True)
    chosen = selection.chosen(most)
    for reason, count in left_out.most_common():
        click.echo(f"left out: {count:,} {reason}", err=True)
    if not chosen:
        click.echo(f"servable golden: {place}: no request can be a golden one", err=True)
        _show([], [], as_json)
        return 1
    variants = loaded.environment.served
    if variant is not None and variant not in variants:
        allowed = ", ".join(variants)
        raise click.UsageError(f"--variant {variant}: no such variant; allowed: {allowed}")
    model = variants[variant or next(iter(variants))].model
    limits = loaded.environment.replay
    relative = [output.relative or 0.0 for output in limits.outputs.values()]
    tolerance = max(_LEAST_TOLERANCE, limits.by_type.float32, *relative)
    several = frozen([request for request, _ in chosen], model, tolerance)
    file = files / f"{loaded.name}.toml"
    before = file.read_text(encoding="utf-8")
    after = with_tables(before, model, [golden_file.table for golden_file in several])
    if write:
        for golden_file in several:
            golden_file.write(loaded.root)
        write_file(file, after)
    _show(chosen, [golden_file.table.request for golden_file in several], as_json)
    if not as_json:
        click.echo(diff(loaded.file, before, after), nl=False)
        done = "written" if write else "not written; --write writes them"
        click.echo(f"{len(several)} golden request{'s' * (len(several) != 1)}: {done}")
    return 0


def _show(chosen: list[Any], names: list[str], as_json: bool) -> None:
    rows = [
        {"file": name, "captured": request.where, "covers": [" ".join(facet) for facet in facets]}
        for name, (request, facets) in zip(names, chosen, strict=True)
    ]
    if as_json:
        verdict: Verdict = "holds" if rows else "does not hold"
        click.echo(json.dumps({"verdict": verdict, "golden": rows}, indent=2))
        return
    for row in rows:
        covers = row["covers"]
        more = f" and {len(covers) - 6} more" if len(covers) > 6 else ""
        shown = escaped_name(", ".join(covers[:6]))
        click.echo(f"{Path(row['file']).name}: {row['captured']}: {shown}{more}")
