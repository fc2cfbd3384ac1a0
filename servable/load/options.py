"""The options of a load test, and which of them can be combined."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from servable.project.environments import ENVIRONMENTS, SET


def numbers(text: str) -> tuple[float, ...]:
    """Return the positive numbers of a comma-separated list, such as 1,2,4 or 50.5.

    Raises click.BadParameter.
    """
    try:
        loads = tuple(float(number) for number in text.split(","))
    except ValueError:
        loads = ()
    if not loads or not all(0 < load < float("inf") for load in loads):
        problem = f"{text!r}: write numbers above 0 with commas between, as 1,2,4"
        raise click.BadParameter(problem)
    return loads


class Address(click.ParamType[Any]):
    """An address of the form HOST:PORT."""

    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(.+):(\d{1,5})", str(value))
        if not match or int(match[2]) > 65535:
            self.fail(f"{value!r}: write HOST:PORT, as 10.0.0.5:5557", param, ctx)
        return match[1], int(match[2])


FOLDER = click.Path(file_okay=False, path_type=Path)
ABOVE_0 = click.FloatRange(0, min_open=True)
SECONDS = click.FloatRange(0.5)
# `servable tune` has them too.
LOCAL = click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
BODY = click.option(
    "--body",
    "files",
    multiple=True,
    metavar="FILE[=WEIGHT]",
    help="File with a request, or captured ones, or - for standard input; repeat for a mix (default: the "
    "model's warm_up, else its golden request).",
)
CONTENT_TYPE = click.option(
    "--content-type", help="Content type of the bodies (default: by the file's name; JSON for -)."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
OPTIONS = (
    ENVIRONMENTS,
    SET,
    # --- what is asked
    click.option(
        "--target",
        type=click.Choice(("local", "deployed", "sagemaker")),
        default="local",
        show_default=True,
        help="Local container on this computer, ENV's endpoint, or a temporary copy of the endpoint.",
    ),
    LOCAL,
    click.option(
        "--variant",
        "--component",
        "variant",
        help="Variant, or component, of the environment (default: the first).",
    ),
    click.option("--dollars", type=ABOVE_0, help="Budget for the copy, in US dollars."),
    click.option("--instance-type", help="Instance type of the copy (default: the endpoint's)."),
    # --- with what
    BODY,
    CONTENT_TYPE,
    click.option(
        "--locustfile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with Locust's user classes, which send instead of --body.",
    ),
    click.option(
        "--timeout-seconds", type=ABOVE_0, default=60.0, help="Timeout of one request, in seconds."
    ),
    # --- how much
    click.option(
        "--users",
        type=numbers,
        help="Closed loop with these numbers of users (default: more users until throughput is flat).",
    ),
    click.option(
        "--rates", type=numbers, help="Open loop with these rates, in requests per second."
    ),
    click.option(
        "--open",
        "opened",
        is_flag=True,
        help="Open loop with rising rates until answers fall behind.",
    ),
    click.option("--most", type=click.FloatRange(1), default=4096.0, help="Maximum users or rate."),
    click.option(
        "--gate",
        is_flag=True,
        help="Check ENV against its [traffic] peak_rps (or --rates) and its p99 alarm: exit 0 met, 1 not "
        "met, 3 cannot be told.",
    ),
    click.option(
        "--p99-ms",
        type=ABOVE_0,
        help="p99 objective of the knee, the highest load within it (default: ENV's alarm).",
    ),
    click.option(
        "--warm-up-seconds",
        type=click.FloatRange(0),
        default=2.0,
        help="Warm-up of each load step, in seconds.",
    ),
    click.option(
        "--least-seconds",
        type=SECONDS,
        default=4.0,
        help="Minimum duration of a load step, in seconds.",
    ),
    click.option(
        "--step-seconds",
        type=SECONDS,
        default=30.0,
        help="Maximum duration of a load step, in seconds; it ends when throughput is known within 5 %.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(("poisson", "constant")),
        default="poisson",
        help="Arrivals in an open loop: at random, or evenly spaced.",
    ),
    # --- by whom
    click.option(
        "--processes", type=click.IntRange(1), default=1, help="Number of sending processes."
    ),
    click.option(
        "--listen",
        type=Address(),
        help="Wait here, at HOST:PORT, until all processes --join from other computers; unencrypted, for "
        "private networks.",
    ),
    click.option(
        "--join",
        "joined",
        type=Address(),
        help="Run a sending process for a test on another computer.",
    ),
    # --- what becomes of it
    click.option("--output", type=FOLDER, help="Folder of the run (default: .servable/load/…)."),
    AS_JSON,
)


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The target of a load test or replay, and the account that has it."""

    target: str
    local: bool
    endpoint_url: str | None = None
    variant: str | None


@dataclass(frozen=True, kw_only=True)
class LoadOptions(TargetOptions):
    """The values of OPTIONS, each under its parameter's name."""

    sets: tuple[str, ...]
    dollars: float | None
    instance_type: str | None
    files: tuple[str, ...]
    content_type: str | None
    locustfile: Path | None
    timeout_seconds: float
    users: tuple[float, ...] | None
    rates: tuple[float, ...] | None
    opened: bool
    most: float
    gate: bool
    p99_ms: float | None
    warm_up_seconds: float
    least_seconds: float
    step_seconds: float
    arrivals: Literal["poisson", "constant"]
    processes: int
    listen: tuple[str, int] | None
    joined: tuple[str, int] | None
    output: Path | None
    as_json: bool


def add_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a decorator that adds these options in this order."""

    return lambda command: functools.reduce(lambda to, option: option(to), options[::-1], command)


def is_url(what: str) -> bool:
    return "://" in what


def check_combinations(what: str | None, options: LoadOptions) -> None:
    """Raise click.UsageError for options that cannot be combined."""
    if not what:
        raise click.UsageError("give an environment or an address, as `servable load prod`")
    if options.users and (options.rates or options.opened):
        raise click.UsageError(
            "--users is a closed loop, --rates and --open are open loops: give one of them"
        )
    if options.gate and (options.users or options.opened):
        raise click.UsageError("--gate needs a rate: leave out --users and --open, or give --rates")
    if options.gate and is_url(what):
        raise click.UsageError(
            "--gate applies to an environment, whose file states the expected traffic"
        )
    if options.users and any(count != round(count) for count in options.users):
        raise click.UsageError("--users are whole numbers")
    if options.local and options.target == "local":
        raise click.UsageError("--local applies to --target deployed or sagemaker")
    if (options.target == "sagemaker") != (options.dollars is not None):
        raise click.UsageError("--target sagemaker costs money: give it together with --dollars")
    if options.locustfile and (options.files or options.content_type):
        raise click.UsageError(
            "--locustfile sends its own requests: leave out --body and --content-type"
        )
    if is_url(what) and (options.variant or options.sets or options.target != "local"):
        raise click.UsageError(
            "--variant, --set and --target apply to an environment, not to an address"
        )
