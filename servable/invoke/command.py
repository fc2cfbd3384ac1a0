"""`servable invoke ENV [--body FILE]`: send one request to ENV's endpoint."""

import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress as Bar

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from infra.parameters.rollout import CONTENT_TYPES
from model_packaging.refusal import PackagingError
from servable.console.lines import EscapingConsole
from servable.invoke.invoke import (
    ARRAY_FILES,
    InvokeOptions,
    build_body,
    connect_endpoint,
    format_outputs,
    read_arrays,
    read_signature,
    write_response,
)
from servable.project.completion import ENVIRONMENT
from servable.project.environments import (
    Project,
    find_environment,
    format_stage_command,
    pass_project,
    require_endpoint,
)
from servable_client import (
    Answer,
    Endpoint,
    EndpointNotFoundError,
    Outputs,
    PredictionError,
    Progress,
)
from servable_client.formats import load_codecs

FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
STDIN = Path("-")


@click.command()
@ENVIRONMENT
@click.option(
    "--body",
    type=FILE,
    help="File to send: arrays (.npy, .npz), or a body that is sent unchanged; - for standard input "
    "(default: the model's golden request).",
)
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Input by name, as JSON, or as text for strings; NAME=@FILE reads .npy, .json, or bytes.",
)
@pass_project
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option("--url", help="Address of a container, as `servable serve` prints it.")
@click.option(
    "--content-type", help="Content type of the body (default: by the file's name; JSON for -)."
)
@click.option(
    "--accept",
    default="application/json",
    show_default=True,
    help="Content type of the response to a body.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*load_codecs()]),
    help="Format for sending arrays (default: chosen by size and types).",
)
@click.option(
    "--split", type=click.IntRange(1), metavar="ROWS", help="Send arrays in parts of ROWS rows."
)
@click.option(
    "--variant",
    "--component",
    "variant",
    help="Variant, or component, of the endpoint (default: one by weight; the first component).",
)
@click.option("--model", help="Model name, for an archive with several models.")
@click.option("--version", type=click.IntRange(0), help="Model version (default: latest).")
@click.option("--signature", help="Signature of the model (default: the model's default).")
@click.option("--timeout-seconds", type=float, help="Total timeout of the call, in seconds.")
@click.option(
    "--retry-unsafe", is_flag=True, help="Also retry a request that may have been executed."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the response to this file.",
)
@click.option(
    "--json",
    "as_object",
    is_flag=True,
    help="Print JSON: the response, its variant, and its duration.",
)
def invoke(project: Project, environment: str, **values: Any) -> int:
    """Send one request to ENV's endpoint in AWS; with --local or --url, on this computer."""
    options = InvokeOptions(**values)
    if options.local and options.url:
        raise click.UsageError("use either --local or --url, not both")
    if options.inputs and (options.body or options.content_type):
        raise click.UsageError("use either -i or --body, not both; -i sends JSON")
    loaded = _load_environment(project, environment)
    if options.body is None and not options.inputs:
        options = _apply_golden_request(loaded, options)
    body = options.body
    arrays = body is not None and body.suffix in ARRAY_FILES and options.content_type is None
    if not arrays and (options.split or options.form):
        raise click.UsageError(
            "--split and --format apply only to arrays; pass a .npy or .npz file"
        )
    plain = _find_model_without_handler(loaded, options.variant)
    if options.signature and body is not None and not arrays and plain:
        raise click.UsageError(
            f"--signature {options.signature}: models.{plain} has no handler, and the container ignores "
            'the signature name and uses the default; write it into a JSON body as "signature_name", or '
            f'set models.{plain}.handler = "servable"'
        )
    try:
        named = b""
        if options.inputs:
            signature = read_signature(loaded, _select_model(loaded, options), options.signature)
            named = build_body(options.inputs, signature, options.signature)
        with connect_endpoint(loaded, options) as endpoint:
            began = time.monotonic()
            answer: Answer | Outputs
            if body is not None:
                answer = (_predict_arrays if arrays else _send_body)(endpoint, body, options)
            else:  # without a body there are inputs
                kind = "application/json"
                answer = endpoint.invoke(named, content_type=kind, accept=options.accept)
            seconds = time.monotonic() - began
        _print_response(answer, options, seconds)
    except (PredictionError, PackagingError) as error:
        click.echo(f"servable invoke: {error}", err=True)
        if isinstance(error, EndpointNotFoundError) and not options.url:
            click.echo(f"`{format_stage_command('deploy', environment)}` deploys it", err=True)
        return 1
    return 0


def _select_model(environment: Environment, options: InvokeOptions) -> str:
    """Return the name of the model that responds.

    It is --model if the file has such a model, and otherwise the model of the variant.
    """
    if options.model in environment.models:
        return str(options.model)
    variants = environment.serving_variants
    chosen = options.variant if options.variant in variants else next(iter(variants))
    return variants[str(chosen)].model


def _apply_golden_request(environment: Environment, options: InvokeOptions) -> InvokeOptions:
    """Return the options with the model's golden request as the body.

    Raises click.UsageError if the model has none.
    """
    name = _select_model(environment, replace(options, model=None))
    for golden in environment.models[name].golden_requests.values():
        file = golden.request.path
        if not file.is_file():
            problem = f"{golden.request}: this golden request file doesn't exist"
            raise click.UsageError(f"{problem}; pass --body FILE")
        kind = None if file.suffix in ARRAY_FILES else golden.request_content_type
        return replace(options, body=file, content_type=options.content_type or kind)
    raise click.UsageError(
        f"models.{name} has no golden request; pass --body FILE or -i NAME=VALUE, or set "
        f"models.{name}.golden.request"
    )


def _load_environment(project: Project, name: str) -> Environment:
    every = project.load_all(name)
    if "://" in name:
        own = every[0].name if every else "ENV"  # its file says what the model takes
        raise click.UsageError(
            f"{name} is a URL; run `servable invoke {own} --url {name} --body …`"
        )
    loaded = find_environment(every, name)
    if not isinstance(loaded, ValidFile):
        sets = (f"--set={pair}" for pair in project.sets)
        command = shlex.join(["servable", "check", name, *sets])
        raise click.ClickException(
            f"{loaded.file}: the environment is rejected; `{command}` shows why"
        )
    require_endpoint(loaded)
    return loaded.environment


def _find_model_without_handler(environment: Environment, variant: str | None) -> str | None:
    """Return a model that may respond and has neither code nor handler, or None."""
    variants = environment.serving_variants
    candidates = [variants[variant]] if variant in variants else variants.values()
    for candidate in candidates:
        model = environment.models.get(candidate.model)
        # The content of an archive or a custom image isn't known.
        if model and model.saved_model and not (model.code or model.handler or model.image):
            return candidate.model
    return None


def _send_body(endpoint: Endpoint, file: Path, options: InvokeOptions) -> Answer:
    content_type = options.content_type or CONTENT_TYPES.get(
        ".json" if file == STDIN else file.suffix
    )
    if content_type is None:
        bodies = [extension for extension in CONTENT_TYPES if extension not in ARRAY_FILES]
        endings = ", ".join((*bodies, *ARRAY_FILES))
        raise click.UsageError(f"{file}: pass --content-type, or a file that ends in {endings}")
    body = file.read_bytes() if file != STDIN else sys.stdin.buffer.read()
    return endpoint.invoke(body, content_type=content_type, accept=options.accept)


def _predict_arrays(endpoint: Endpoint, file: Path, options: InvokeOptions) -> Outputs:
    inputs = read_arrays(file)
    console = EscapingConsole(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("rows", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.rows_done, total=progress.rows)

        return endpoint.predict(inputs, format=options.form, split=options.split, progress=show)


def _print_response(answer: Answer | Outputs, options: InvokeOptions, seconds: float) -> None:
    about: dict[str, Any] = {"variant": answer.variant, "seconds": round(seconds, 4)}
    if isinstance(answer, Answer):
        about["content_type"] = answer.content_type
        text = answer.content_type.startswith("text/") or "json" in answer.content_type
        shown = answer.body.decode(errors="replace") if text else None
    else:
        shown = format_outputs(answer)
    if file := options.output:
        about |= {"file": str(file), "bytes": write_response(answer, file)}
        shown = f"{file}: {about['bytes']} bytes"
    elif options.as_object and shown is not None:
        about["answer"] = shown
    if options.as_object:
        click.echo(json.dumps(about))
    elif shown is None:
        kind = about["content_type"]
        raise click.UsageError(
            f"the response is {kind}, not text; pass --output FILE or another --accept"
        )
    else:
        click.echo(shown.rstrip("\n"))
