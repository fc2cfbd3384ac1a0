"""`servable invoke ENV --body FILE`: one prediction from wherever ENV runs."""

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress as Bar

from infra.parameters.environment import Environment
from model_packaging.refusal import PackagingError
from servable.invoke.invoke import (
    ARRAY_FILES,
    CONTENT_TYPES,
    InvokeTarget,
    arrays_in,
    as_json,
    connected,
    embedded,
    written,
)
from servable.project import ENVIRONMENTS, SET, loaded_with, project, unknown
from servable_client import Answer, Endpoint, Outputs, PredictionError, Progress
from servable_client.formats import codecs

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
TEXTS = ("application/json", "application/jsonlines", "text/")


@click.command()
@click.argument("environment", metavar="ENV")
@click.option("--body", type=FILE, required=True, help="Arrays (.npy, .npz), or a body as it is.")
@ENVIRONMENTS
@SET
@click.option("--local", is_flag=True, help="Ask the embedded AWS (`servable local up`).")
@click.option("--url", help="Ask a container, as `servable serve` prints its address.")
@click.option("--content-type", help="Of the body; left out, by the file's name.")
@click.option("--accept", default="application/json", show_default=True, help="For a body.")
@click.option(
    "--format", "form", type=click.Choice([*codecs()]), help="For arrays; left out, chosen."
)
@click.option("--split", type=click.IntRange(1), metavar="ROWS", help="Arrays, in parts.")
@click.option("--variant", help="Of the endpoint; left out, one by weight.")
@click.option("--model", help="Of an archive with several.")
@click.option("--version", type=click.IntRange(0), help="Of the model.")
@click.option("--signature", help="Of the model.")
@click.option("--timeout-seconds", type=float, help="For the whole call.")
@click.option("--retry-unsafe", is_flag=True, help="Repeat also what may have been executed.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it there.")
@click.option("--json", "as_object", is_flag=True, help="For programs: the answer and about it.")
def invoke(environment: str, folder: str, sets: tuple[str, ...], body: Path, **told: Any) -> int:
    """One prediction of ENV's endpoint in AWS, or with --local or --url on this machine."""
    if told["local"] and told["url"]:
        raise click.UsageError("give --local or --url, not both")
    arrays = body.suffix in ARRAY_FILES and told["content_type"] is None
    if not arrays and (told["split"] or told["form"]):
        raise click.UsageError("--split and --format are for arrays: give a .npy or a .npz")
    loaded = _environment(environment, folder, sets)
    plain = _without_handler(loaded, told["variant"])
    if told["signature"] and not arrays and plain:
        raise click.UsageError(
            f"--signature {told['signature']}: models.{plain} has no handler, and the container ignores "
            'the name and answers with its default; write it into a JSON body as "signature_name", or '
            f'set models.{plain}.handler = "servable"'
        )
    names = ("variant", "model", "version", "signature", "timeout_seconds", "retry_unsafe")
    options = {name: told[name] for name in names}
    try:
        target = embedded() if told["local"] else InvokeTarget(url=told["url"])
        with connected(loaded, target, **options) as endpoint:
            began = time.monotonic()
            answer = _predicted(endpoint, body, told) if arrays else _sent(endpoint, body, told)
            seconds = time.monotonic() - began
        _show(answer, told, seconds)
    except (PredictionError, PackagingError) as error:
        click.echo(f"servable invoke: {error}", err=True)
        return 1
    return 0


def _environment(name: str, folder: str, sets: tuple[str, ...]) -> Environment:
    known = {one.name: one for one in loaded_with(sets, *project(folder))}
    if name not in known:
        raise unknown(name, known)
    loaded = known[name]
    if loaded.environment is None:
        raise click.ClickException(f"{loaded.file}: does not load; see `servable check {name}`")
    return loaded.environment


def _without_handler(environment: Environment, variant: str | None) -> str | None:
    """A model that may be asked and has nothing but the container in front of it."""
    variants = environment.variants
    asked = [variants[variant]] if variant in variants else variants.values()
    for one in asked:
        model = environment.models.get(one.model)
        # Of an archive, or an image of one's own, nobody knows what is in it.
        if model and model.saved_model and not (model.code or model.handler or model.image):
            return one.model
    return None


def _sent(endpoint: Endpoint, file: Path, told: dict[str, Any]) -> Answer:
    content_type = told["content_type"] or CONTENT_TYPES.get(file.suffix)
    if content_type is None:
        known = ", ".join((*CONTENT_TYPES, *ARRAY_FILES))
        raise click.UsageError(f"{file}: give --content-type, or a file that ends in {known}")
    return endpoint.invoke(file.read_bytes(), content_type=content_type, accept=told["accept"])


def _predicted(endpoint: Endpoint, file: Path, told: dict[str, Any]) -> Outputs:
    inputs = arrays_in(file)
    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("rows", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.rows_done, total=progress.rows)

        return endpoint.predict(inputs, format=told["form"], split=told["split"], progress=show)


def _show(answer: Answer | Outputs, told: dict[str, Any], seconds: float) -> None:
    about: dict[str, Any] = {"variant": answer.variant, "seconds": round(seconds, 4)}
    if isinstance(answer, Answer):
        about["content_type"] = answer.content_type
        text = answer.content_type.startswith(TEXTS)
        shown = answer.body.decode(errors="replace") if text else None
    else:
        shown = as_json(answer)
    if file := told["output"]:
        about |= {"file": str(file), "bytes": written(answer, file)}
        shown = f"{file}: {about['bytes']} bytes"
    elif told["as_object"] and shown is not None:
        about["answer"] = shown
    if told["as_object"]:
        click.echo(json.dumps(about))
    elif shown is None:
        kind = about["content_type"]
        raise click.UsageError(f"the answer is {kind}; give --output FILE, or another --accept")
    else:
        click.echo(shown.rstrip("\n"))
