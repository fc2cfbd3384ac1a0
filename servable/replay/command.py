"""`servable replay ENV --captured PLACE`: send captured requests again and compare the responses."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click

from infra.parameters.loading import ValidFile
from infra.parameters.replay import Replay
from infra.parameters.sources import list_environment_names
from model_packaging.beside import create_private_folder
from model_packaging.refusal import PackagingError
from servable.console.lines import show_progress_line
from servable.console.signals import enable_ctrl_c
from servable.invoke.invoke import read_signature
from servable.measured.measurement import LoadError
from servable.measured.options import AS_JSON, LOCAL, TargetOptions, add_options, is_url
from servable.measured.targets import ReadyTarget, prepare_target
from servable.project.account import open_account
from servable.project.completion import complete_environments, complete_targets
from servable.project.environments import ENVIRONMENTS, SET, Project
from servable.project.folder import find_project_folder
from servable.project.provided import LaunchError
from servable.project.revision import check_out_revision
from servable.replay.answers import ANSWERS, ReplayResult
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import check_limits
from servable.replay.compare.output import build_json, format_lines, write_worst_requests
from servable.replay.index import CaptureIndex, list_capture_notes
from servable.replay.places import PlaceError, format_skipped, open_place
from servable.replay.run import RUNS, ReplayPace, describe_plan, prepare_run_folder, show_progress
from servable.replay.run import replay as send_requests
from servable.verdict import EXIT_CODES, Verdict
from servable_tensors import UNNAMED_OUTPUT


@contextmanager
def prepare_other_target(
    against: str, loaded: ValidFile | None, folder: str, output: Path, options: TargetOptions
) -> Iterator[ReadyTarget]:
    """Prepare the other target, which exists within the `with` block.

    `loaded`: the environment that is checked; None: it is an address. An environment's name takes
    precedence over a git revision with the same name. A revision is packed as it was, and runs on
    this computer. Raises click.UsageError, and the errors of preparing a target.
    """
    what, other = against, None
    with ExitStack() as held:
        if not is_url(against):
            if loaded is None:
                raise click.UsageError(
                    f"--against {against}: a URL can be compared only with another URL"
                )
            project = Project(folder)
            if against in list_environment_names(project.files):
                other = project.load_valid(against)
                options = dataclasses.replace(options, variant=None)
            else:
                what = loaded.name
                before = held.enter_context(check_out_revision(project, against)).get(what)
                if not isinstance(before, ValidFile):
                    raise click.UsageError(
                        f"--against {against}: environment {what} didn't exist or couldn't be loaded"
                    )
                other, options = before, dataclasses.replace(options, target="local")
        yield held.enter_context(
            prepare_target(what, other, create_private_folder(output), options)
        )


OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option(
        "--captured",
        "place",
        metavar="PLACE",
        help="Captured requests: s3://BUCKET/PREFIX, a folder or a file of data capture (default: ENV's "
        "[replay] captured).",
    ),
    click.option(
        "--target",
        type=click.Choice(("local", "deployed")),
        default="local",
        help="Local container on this computer, or ENV's endpoint.",
    ),
    LOCAL,
    click.option(
        "--variant",
        "--component",
        "variant",
        help="Variant, or component, of the environment (default: the first; deployed variants: by weight).",
    ),
    click.option(
        "--against",
        metavar="ENV|REF|URL",
        shell_complete=complete_targets,
        help="Also invoke this target, alternately, and compare with its responses, not the captured ones: "
        "another environment, ENV at a git revision, or an address.",
    ),
    click.option(
        "--as-fast",
        is_flag=True,
        help="Send as fast as p99 stays within ENV's alarms.p99_latency_ms, instead of at the captured rate.",
    ),
    click.option(
        "--gate",
        is_flag=True,
        help="Check the responses against the limits of ENV's [replay]: exit 0 met, 1 not met, 3 "
        "inconclusive.",
    ),
    click.option(
        "--redact",
        is_flag=True,
        help="Don't keep the callers' custom attributes and inference IDs.",
    ),
    AS_JSON,
)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TargetOptions):
    """Parsed command-line options."""

    sets: tuple[str, ...]
    place: str | None
    against: str | None
    as_fast: bool
    gate: bool
    redact: bool
    as_json: bool


@click.command(context_settings={"show_default": True})
@click.argument("what", metavar="ENV|URL", shell_complete=complete_environments)
@add_options(OPTIONS)
def replay(what: str, folder: str, **values: Any) -> int:
    """Send captured requests again, at the captured rate, and compare the responses.

    After Ctrl-C or a kill, the same command continues the run. Exits with code 1 if a request failed; with
    --gate, with code 1 if a limit is exceeded, and with code 3 if too little was compared for a verdict.
    """
    options = ReplayOptions(**values)
    if options.local:
        options = dataclasses.replace(options, target="deployed")
    if is_url(what) and (options.variant or options.sets or options.target != "local"):
        raise click.UsageError(
            "--variant, --set, --target and --local apply to an environment, not to a URL"
        )
    loaded = None if is_url(what) else Project(folder, options.sets).load_endpoint(what)
    if (place := _choose_place(what, loaded, options)) is None:
        click.echo(f"gate: {what} has no [replay] captured in its file, so nothing is replayed")
        return 0
    enable_ctrl_c()
    try:
        return _run_replay(what, loaded, folder, dataclasses.replace(options, place=place))
    except (LaunchError, LoadError, PackagingError, PlaceError) as error:
        click.echo(f"servable replay: {error}", err=True)
        return 2


def _choose_place(what: str, loaded: ValidFile | None, options: ReplayOptions) -> str | None:
    """Return the path or S3 URI of the requests, or None for a gate without one.

    Raises click.UsageError.
    """
    if options.place:
        return options.place
    if loaded is not None:
        stated = loaded.environment.replay.captured
        if stated is not None:
            return stated if "://" in stated else str(loaded.root / stated)
        if options.gate:
            return None
    raise click.UsageError(
        "no captured requests: pass --captured PLACE, or set captured in [replay] of ENV's file"
    )


def _run_replay(what: str, loaded: ValidFile | None, folder: str, options: ReplayOptions) -> int:
    """Replay, compare, print, and write the page; return the exit code."""
    limits = Replay() if loaded is None else loaded.environment.replay
    comparison = Comparison(limits, only_output=_find_only_output(loaded, options.variant))
    result = _prepare_and_send(what, loaded, folder, options, comparison)
    comparison.finish()
    index, gate = result.index, None
    verdict: Verdict = "does not hold" if result.summary.failures else "holds"
    if options.gate:
        gate = check_limits(comparison, limits, index.lines_read, index.skip_counts)
        verdict = gate.verdict
    if options.as_json:
        shown = "cannot be told" if result.interrupted else verdict
        found = {**result.as_object(), "comparison": build_json(comparison, limits, gate)}
        click.echo(json.dumps({"verdict": shown, **found}))
    else:
        click.echo("\n".join([*result.format_lines(), *format_lines(comparison)]))
    if result.interrupted:
        click.echo(
            "interrupted; run the same command again to send the remaining requests", err=True
        )
        return 130
    if gate is not None and not options.as_json:
        for line in (gate.held, *gate.lines):
            click.echo(f"gate: {line}")
    from servable.replay.compare.page import write_page  # a second of imports

    worst = write_worst_requests(comparison.worst_requests, result.folder)
    title = f"{what} against {options.against or 'captured responses'}"
    where = f"captured: {options.place}"
    page = write_page(result.folder, comparison, title=title, where=where, gate=gate)
    if worst is not None:
        click.echo(f"{worst}: the requests that differ most; pass it to --captured", err=True)
    click.echo(f"{page}: report with charts", err=True)
    return EXIT_CODES[verdict]


def _find_only_output(loaded: ValidFile | None, variant: str | None) -> str:
    """Return the name of the model's only output.

    Return `UNNAMED_OUTPUT` if the model has several, or isn't on this computer.
    """
    if loaded is None:
        return UNNAMED_OUTPUT
    variants = loaded.environment.serving_variants
    try:
        placed = variants[variant or next(iter(variants))]
        signature = read_signature(loaded.environment, placed.model, None)
    except (PackagingError, click.UsageError, OSError, LookupError):
        return UNNAMED_OUTPUT  # serving the model reports what is wrong
    outputs = [*signature.outputs] if signature else []
    return outputs[0] if len(outputs) == 1 else UNNAMED_OUTPUT


def _prepare_and_send(
    what: str, loaded: ValidFile | None, folder: str, options: ReplayOptions, comparison: Comparison
) -> ReplayResult:
    index = _read_index(loaded, options)
    root = loaded.root if loaded else find_project_folder()
    with ExitStack() as held:
        # Without --variant all variants share the requests, whichever variant was captured.
        reached = held.enter_context(
            prepare_target(what, loaded, create_private_folder(root / RUNS), options)
        )
        several = [reached]
        if options.against is not None:
            output = root / RUNS / "against"
            other = prepare_other_target(options.against, loaded, folder, output, options)
            several.append(held.enter_context(other))
        pace = ReplayPace(as_fast=options.as_fast, objective_ms=_find_objective_ms(loaded))
        run = prepare_run_folder(root, what, _describe_run(what, loaded, several, options))
        if (run / ANSWERS).exists():
            click.echo(f"continuing {run}; delete this folder to start over", err=True)
        click.echo(describe_plan(index, pace), err=True)
        progress = held.enter_context(show_progress(index, pace))
        return send_requests(
            index,
            [ready.target for ready in several],
            pace,
            run,
            variables=next((ready.variables for ready in several if ready.variables), None),
            redact=options.redact,
            progress=progress,
            seen=comparison.add,
        )


def _find_objective_ms(loaded: ValidFile | None) -> float | None:
    return loaded.environment.alarms.p99_latency_ms if loaded else None


def _read_index(loaded: ValidFile | None, options: ReplayOptions) -> CaptureIndex:
    """Read the captured requests once, and print what was skipped. Raises PlaceError, LoadError."""
    place = options.place
    assert place is not None  # filled in from the file

    def connect_s3() -> Any:
        if loaded is None:
            return boto3.client("s3")
        return open_account(loaded.environment, local=options.local).client("s3")

    with show_progress_line() as show:
        index = CaptureIndex(
            open_place(place, connect_s3),
            lambda done, total: show(
                lambda: f"reading {options.place}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            ),
        )
    variants = loaded.environment.variants if loaded else {}
    shadows = {name for name, variant in variants.items() if variant.shadow}
    for sentence in [*format_skipped(index.skip_counts), *list_capture_notes(index, shadows)]:
        click.echo(sentence, err=True)
    if not len(index):
        raise LoadError(
            f"{options.place}: no request to send: {index.lines_read:,} lines were read; pass a different "
            "PLACE to --captured"
        )
    return index


def _describe_run(
    what: str, loaded: ValidFile | None, several: list[ReadyTarget], options: ReplayOptions
) -> dict[str, Any]:
    """Return everything that responses depend on: the requests, the targets, and the rate."""
    names = ("place", "target", "local", "variant", "against", "as_fast", "redact", "sets")
    deployed = None
    if options.target == "deployed" and loaded is not None:
        environment = loaded.environment
        client = open_account(environment, local=options.local).client("sagemaker")
        # A new deployment has a new configuration.
        described = client.describe_endpoint(EndpointName=environment.endpoint.name)
        deployed = described["EndpointConfigName"]
    return {
        "what": what,
        "models": [one.asked.model_sha256 or deployed for one in several],
        "p99_latency_ms": _find_objective_ms(loaded),
        **{name: getattr(options, name) for name in names},
    }
