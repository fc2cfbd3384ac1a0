"""The options of `servable load`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from servable.measured.options import (
    ABOVE_0,
    AS_JSON,
    BODY,
    CONTENT_TYPE,
    LOCAL,
    TargetOptions,
    is_url,
    numbers,
)
from servable.project.environments import ENVIRONMENTS, SET


def split_address(text: str) -> tuple[str, int]:
    """Return (host, port) of an address HOST:PORT. Raises click.BadParameter."""
    match = re.fullmatch(r"(.+):(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise click.BadParameter(f"{text!r}: write HOST:PORT, such as 10.0.0.5:5557")
    return match[1], int(match[2])


FOLDER = click.Path(file_okay=False, path_type=Path)
SECONDS = click.FloatRange(0.5)
OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option(
        "--target",
        type=click.Choice(("local", "deployed", "sagemaker")),
        default="local",
        show_default=True,
        help="Local container on this computer, ENV's endpoint, or a temporary copy of the endpoint.",
    ),
    LOCAL,
    click.option(
        "--variant", "--component", "variant", help="Variant or component (default: the first)."
    ),
    click.option("--dollars", type=ABOVE_0, help="Budget for the copy, in US dollars."),
    click.option("--instance-type", help="Instance type of the copy (default: the endpoint's)."),
    BODY,
    CONTENT_TYPE,
    click.option(
        "--locustfile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with Locust user classes that send the requests, instead of --body.",
    ),
    click.option("--timeout-seconds", type=ABOVE_0, default=60.0, help="Timeout of one request."),
    click.option(
        "--users",
        type=numbers,
        help="Closed-loop test with these user counts (default: add users until throughput stops growing).",
    ),
    click.option("--rates", type=numbers, help="Open-loop test with these rates, in requests/s."),
    click.option(
        "--open",
        "opened",
        is_flag=True,
        help="Open-loop test with rising rates until responses can't keep up.",
    ),
    click.option("--most", type=click.FloatRange(1), default=4096.0, help="Maximum users or rate."),
    click.option(
        "--gate",
        is_flag=True,
        help="Check ENV against its [traffic] peak_rps (or --rates) and its p99 alarm: exit 0 met, 1 not "
        "met, 3 inconclusive.",
    ),
    click.option(
        "--p99-ms",
        type=ABOVE_0,
        help="p99 objective; the knee is the highest load that meets it (default: ENV's alarm).",
    ),
    click.option(
        "--warm-up-seconds", type=click.FloatRange(0), default=2.0, help="Warm-up of each step."
    ),
    click.option("--least-seconds", type=SECONDS, default=4.0, help="Minimum duration of a step."),
    click.option(
        "--step-seconds",
        type=SECONDS,
        default=30.0,
        help="Maximum duration of a step; a step ends earlier once throughput is known within 5 %.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(("poisson", "constant")),
        default="poisson",
        help="Arrivals in an open loop: at random, or evenly spaced.",
    ),
    click.option("--processes", type=click.IntRange(1), default=1, help="Sending processes."),
    click.option(
        "--listen",
        type=split_address,
        metavar="HOST:PORT",
        help="Wait here for processes that --join from other computers; unencrypted, for private networks.",
    ),
    click.option(
        "--join",
        "joined",
        type=split_address,
        metavar="HOST:PORT",
        help="Send requests for a load test that runs on another computer.",
    ),
    click.option("--output", type=FOLDER, help="Folder of the run (default: .servable/load/…)."),
    AS_JSON,
)


@dataclass(frozen=True, kw_only=True)
class LoadOptions(TargetOptions):
    """The values of OPTIONS, each under its parameter's name."""

    sets: tuple[str, ...]
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


def check_combinations(what: str, options: LoadOptions) -> None:
    """Raise click.UsageError for options that can't be combined."""
    users, gate, of_url = options.users, options.gate, is_url(what)
    opened, target = options.opened or options.rates, options.target
    costs, has_budget = target == "sagemaker", options.dollars is not None
    of_file = options.variant or options.sets or target != "local"
    file, bodies = options.locustfile, options.files or options.content_type
    local = options.local and target == "local"
    problems: dict[str, object] = {
        "use either --users (closed loop), or --rates or --open (open loop)": users and opened,
        "use --rates with --gate, not --users or --open": gate and (users or options.opened),
        "--gate applies to an environment, not to a URL": gate and of_url,
        "--users must be whole numbers": users and any(count % 1 for count in users),
        "--local applies only to --target deployed or sagemaker": local,
        "--target sagemaker costs money; pass it together with --dollars": costs != has_budget,
        "--locustfile sends its own requests; omit --body and --content-type": file and bodies,
        "--variant, --set, and --target apply to an environment, not to a URL": of_url and of_file,
    }
    for problem, applies in problems.items():
        if applies:
            raise click.UsageError(problem)
