"""`servable replay ENV --captured PLACE`: captured requests played again."""

import dataclasses
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click

from infra.parameters.loading import ValidFile
from infra.parameters.replay import Replay
from model_packaging.private_folder import private_folder
from model_packaging.refusal import PackagingError
from servable.aws_account import account_of
from servable.capture_lines import CaptureLineError, seconds_of
from servable.console import progress_line
from servable.load.load_generator import LoadError
from servable.load.options import (
    ABOVE_0,
    AS_JSON,
    ENDPOINT_URL,
    LOCAL,
    TargetOptions,
    is_url,
    with_options,
)
from servable.load.reached import ReadyTarget, reached_by
from servable.project import ENVIRONMENTS, SET, environment_with_endpoint
from servable.project_folder import standing_in
from servable.replay.capture_notes import capture_notes
from servable.replay.compare.against import other_target
from servable.replay.compare.judged import ReplayComparison, output_names
from servable.replay.index import CaptureIndex, CaptureSelection
from servable.replay.output import announced, progress_of
from servable.replay.places import PlaceError, place_of
from servable.replay.redaction import Redaction, RedactionError
from servable.replay.run import RUNS, ReplayError, run_folder
from servable.replay.run import replay as replayed
from servable.replay.sending import ReplayPace
from servable.replay.skipped import skipped_lines
from servable.replay.summary import ReplayResult
from servable.signals import as_ctrl_c
from servable.verdict import VERDICTS
from servable_local.container.launch import LaunchError


class Moment(click.ParamType[Any]):
    """A time, as 2026-11-21T09:00; UTC unless it names another zone."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        try:
            return seconds_of(str(value))
        except CaptureLineError:
            self.fail(f"{value!r}: write a time, as 2026-11-21T09:00 (UTC)", param, ctx)


class Attribute(click.ParamType[Any]):
    """NAME=VALUE."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, wanted = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r}: write NAME=VALUE, as variant=primary", param, ctx)
        return name, wanted


OPTIONS = (
    ENVIRONMENTS,
    SET,
    # --- what is sent
    click.option(
        "--captured",
        "place",
        metavar="PLACE",
        help="Captured requests: s3://BUCKET/PREFIX, a folder or a file of data capture (default: ENV's "
        "[replay] captured).",
    ),
    click.option("--from", "begin", type=Moment(), help="First moment, UTC, as 2026-11-21T09:00."),
    click.option("--to", "end", type=Moment(), help="Moment before which the replay ends."),
    click.option(
        "--sample",
        type=click.FloatRange(0, 1, min_open=True),
        default=1.0,
        help="Share of the requests, chosen by their event id.",
    ),
    click.option(
        "--content-type",
        "content_types",
        multiple=True,
        help="Only bodies of this type; repeatable.",
    ),
    click.option(
        "--where",
        type=Attribute(),
        multiple=True,
        help="Only requests with this attribute, as variant=primary; repeatable.",
    ),
    # --- where to
    click.option(
        "--target",
        type=click.Choice(("local", "deployed")),
        default="local",
        help="Local container on this computer, or ENV's endpoint.",
    ),
    LOCAL,
    ENDPOINT_URL,
    click.option(
        "--variant",
        "--component",
        "variant",
        help="Variant, or component, of the environment (default: the first; deployed variants: by weight).",
    ),
    click.option(
        "--timeout-seconds", type=ABOVE_0, default=60.0, help="Timeout of one request, in seconds."
    ),
    click.option(
        "--against",
        multiple=True,
        metavar="ENV|REF|URL",
        help="Ask this target in turns and compare with its answers, instead of the captured ones: another "
        "environment, ENV at a git revision, or an address. Given twice: two known-good targets, and what "
        "they disagree in is noise.",
    ),
    # --- how fast
    click.option(
        "--speed", type=ABOVE_0, default=1.0, help="Times the captured pace; gaps are kept."
    ),
    click.option("--as-fast", is_flag=True, help="Send as fast as p99 stays within the objective."),
    click.option(
        "--p99-ms", type=ABOVE_0, help="p99 objective of --as-fast (default: ENV's alarm)."
    ),
    # --- what becomes of it
    click.option(
        "--gate",
        is_flag=True,
        help="Hold the answers to the limits of ENV's [replay]: exit 0 met, 1 not met, 3 cannot be told.",
    ),
    click.option(
        "--redact",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE.py",
        help="Python file whose redact(body, content_type) changes each body before it is kept.",
    ),
    click.option(
        "--new", "anew", is_flag=True, help="Begin anew; left out, an unfinished run goes on."
    ),
    AS_JSON,
)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TargetOptions):
    """Values of OPTIONS, each under its parameter's name."""

    sets: tuple[str, ...]
    place: str | None
    begin: float | None
    end: float | None
    sample: float
    content_types: tuple[str, ...]
    where: tuple[tuple[str, str], ...]
    timeout_seconds: float
    against: tuple[str, ...]
    speed: float
    as_fast: bool
    p99_ms: float | None
    gate: bool
    redact: Path | None
    anew: bool
    as_json: bool


@click.command(context_settings={"show_default": True})
@click.argument("what", metavar="ENV|URL")
@with_options(OPTIONS)
def replay(what: str, folder: str, **values: Any) -> int:
    """Send captured requests again, at the captured pace, and compare the answers.

    A run that Ctrl-C or a kill ended goes on with the same command. Exits with 1 if a request failed; with
    --gate, with 1 if a limit is exceeded, and with 3 if too little was compared to tell.
    """
    options = _checked(what, ReplayOptions(**values))
    loaded = None if is_url(what) else environment_with_endpoint(what, folder, options.sets)[0]
    if (place := _place(what, loaded, options)) is None:
        click.echo(f"gate: {what} has no [replay] captured in its file, so nothing is replayed")
        return 0
    as_ctrl_c()
    try:
        return _judged(what, loaded, folder, dataclasses.replace(options, place=place))
    except (
        LaunchError, LoadError, PackagingError, PlaceError, RedactionError, ReplayError,
    ) as error:  # fmt: skip
        click.echo(f"servable replay: {error}", err=True)
        return 2


def _checked(what: str, options: ReplayOptions) -> ReplayOptions:
    """Raise click.UsageError for options that cannot be combined; fill in the target."""
    if options.as_fast and options.speed != 1:
        raise click.UsageError("--speed and --as-fast are two paces: give one of them")
    if options.p99_ms and not options.as_fast:
        raise click.UsageError("--p99-ms is the objective of --as-fast: give both")
    if len(options.against) > 2:
        raise click.UsageError("--against: give it once, or twice for two known-good targets")
    if options.local and options.endpoint_url:
        raise click.UsageError("--local and --endpoint-url are two places: give one of them")
    if options.local or options.endpoint_url:
        options = dataclasses.replace(options, target="deployed")
    if is_url(what) and (options.variant or options.sets or options.target != "local"):
        raise click.UsageError(
            "--variant, --set, --target and --local apply to an environment, not to a URL"
        )
    return options


def _place(what: str, loaded: ValidFile | None, options: ReplayOptions) -> str | None:
    """Return the place of the requests, None for a gate without one. Raises click.UsageError."""
    if options.place:
        return options.place
    stated = _limits(loaded).captured
    if stated is not None and loaded is not None:
        return stated if "://" in stated else str(loaded.root / stated)
    if options.gate and loaded is not None:
        return None
    raise click.UsageError(
        "no captured requests: give --captured PLACE, or write captured in [replay] of ENV's file"
    )


def _limits(loaded: ValidFile | None) -> Replay:
    return Replay() if loaded is None else loaded.environment.replay


def _judged(what: str, loaded: ValidFile | None, folder: str, options: ReplayOptions) -> int:
    redaction = Redaction(options.redact) if options.redact else None
    judged = ReplayComparison(
        _limits(loaded),
        gate=options.gate,
        side_by_side=bool(options.against),
        outputs=output_names(loaded, options.variant),
        redaction=redaction,
    )
    result = _played(what, loaded, folder, options, redaction, judged)
    code = _ended(result, judged, as_json=options.as_json)
    if not result.interrupted:
        title = f"{what} against {' and '.join(options.against) or 'captured answers'}"
        judged.write(result.folder, title, f"captured: {options.place}")
    return code


def _played(
    what: str,
    loaded: ValidFile | None,
    folder: str,
    options: ReplayOptions,
    redaction: Redaction | None,
    judged: ReplayComparison,
) -> ReplayResult:
    index = _indexed(loaded, options)
    judged.lines = index.lines
    root = loaded.root if loaded else standing_in()
    with ExitStack() as held:
        # Without --variant all variants share the requests, whoever answered them.
        reached = held.enter_context(
            reached_by(what, loaded, [], private_folder(root / RUNS), options)
        )
        several = [reached]
        for number, against in enumerate(options.against, start=1):
            output = root / RUNS / f"against-{number}"
            other = other_target(against, loaded, folder, output, options)
            several.append(held.enter_context(other))
        pace = _pace(loaded, options)
        run = run_folder(root, what, _question(what, loaded, several, options), anew=options.anew)
        click.echo(announced(index, pace), err=True)
        progress = held.enter_context(progress_of(index, pace))
        return replayed(
            index,
            [ready.target_within(options.timeout_seconds) for ready in several],
            pace,
            run,
            variables=next((ready.variables for ready in several if ready.variables), None),
            redaction=redaction,
            progress=progress,
            seen=judged.comparison.add,
        )


def _indexed(loaded: ValidFile | None, options: ReplayOptions) -> CaptureIndex:
    """Read the place once, and name what was skipped. Raises PlaceError, ReplayError."""
    place = options.place
    assert place is not None  # filled in from the file
    selection = CaptureSelection(
        begin=float("-inf") if options.begin is None else options.begin,
        end=float("inf") if options.end is None else options.end,
        share=options.sample,
        content_types=options.content_types,
        attributes=dict(options.where),
    )

    def s3() -> Any:
        if loaded is None:
            return boto3.client("s3")
        account = account_of(
            loaded.environment, local=options.local, endpoint_url=options.endpoint_url
        )
        return account.client("s3")

    with progress_line() as show:
        index = CaptureIndex(
            place_of(place, s3),
            selection,
            lambda done, total: show(
                lambda: f"reading {options.place}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            ),
        )
    variants = loaded.environment.variants if loaded else {}
    shadows = {name for name, variant in variants.items() if variant.shadow}
    for sentence in [*skipped_lines(index.skipped), *capture_notes(index, shadows)]:
        click.echo(sentence, err=True)
    if not len(index):
        raise ReplayError(
            f"{options.place}: no request to send: {index.lines_read:,} lines were read; give another "
            "PLACE, or less of --from, --to, --sample, --content-type and --where"
        )
    return index


def _pace(loaded: ValidFile | None, options: ReplayOptions) -> ReplayPace:
    objective_ms = options.p99_ms
    if objective_ms is None and loaded is not None:
        objective_ms = loaded.environment.alarms.p99_latency_ms
    return ReplayPace(speed=options.speed, as_fast=options.as_fast, objective_ms=objective_ms)


def _question(
    what: str, loaded: ValidFile | None, several: list[ReadyTarget], options: ReplayOptions
) -> dict[str, Any]:
    """Return everything by which answers differ: what is sent, where to, how fast."""
    names = (
        "place", "begin", "end", "sample", "content_types", "where", "target", "local", "endpoint_url",
        "variant", "speed", "as_fast", "p99_ms", "sets",
    )  # fmt: skip
    deployed = None
    if options.target == "deployed" and loaded is not None:
        environment = loaded.environment
        account = account_of(environment, local=options.local, endpoint_url=options.endpoint_url)
        client = account.client("sagemaker")
        # Another deployment has another configuration.
        described = client.describe_endpoint(EndpointName=environment.endpoint.name)
        deployed = described["EndpointConfigName"]
    redact = options.redact
    return {
        "what": what,
        "models": [one.asked.model_sha256 or deployed for one in several],
        "redact": str(redact) if redact else None,
        # The form from before two could be given, so that a run of then goes on.
        "against": list(options.against)
        if len(options.against) > 1
        else next(iter(options.against), None),
        **{name: getattr(options, name) for name in names},
    }


def _ended(result: ReplayResult, judged: ReplayComparison, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    gate = judged.verdict()
    code = int(bool(result.summary.failures)) if gate is None else gate.exit_code
    if as_json:
        verdict = "cannot be told" if result.interrupted else VERDICTS[code]
        found = {**result.as_object(), "comparison": judged.as_object()}
        click.echo(json.dumps({"verdict": verdict, **found}))
    else:
        for sentence in result.lines():
            click.echo(sentence)
        judged.show(whole=not result.interrupted)
    if result.interrupted:
        click.echo("interrupted; the same command goes on with the others", err=True)
        return 130
    return code
