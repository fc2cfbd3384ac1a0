"""The options of a load test, and which go together."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from servable.project import ENVIRONMENTS


class Loads(click.ParamType[Any]):
    """1,2,4 or 50.5: numbers above 0."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        try:
            found = tuple(float(one) for one in str(value).split(","))
        except ValueError:
            found = ()
        if not found or not all(0 < one < float("inf") for one in found):
            self.fail(f"{value!r}: write numbers above 0 with commas between, as 1,2,4", param, ctx)
        return found


class Address(click.ParamType[Any]):
    """HOST:PORT"""

    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(.+):(\d{1,5})", str(value))
        if not found or int(found[2]) > 65535:
            self.fail(f"{value!r}: write HOST:PORT, as 10.0.0.5:5557", param, ctx)
        return found[1], int(found[2])


FOLDER = click.Path(file_okay=False, path_type=Path)
ABOVE_0 = click.FloatRange(0, min_open=True)
SECONDS = click.FloatRange(0.5)
TARGETS = ("local", "deployed", "sagemaker")
# `servable tune` has them too.
LOCAL = click.option("--local", is_flag=True, help="Ask the embedded AWS (`servable local up`).")
ENDPOINT_URL = click.option("--endpoint-url", help="Where AWS's APIs answer, in the place of AWS.")
BODY = click.option(
    "--body",
    "files",
    multiple=True,
    metavar="FILE[=WEIGHT]",
    help="A request, or captured ones; again for a mix. Left out, the model's warm_up.",
)
CONTENT_TYPE = click.option("--content-type", help="Of the bodies; left out, by the file's name.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
OPTIONS = (
    ENVIRONMENTS,
    # --- what is asked
    click.option(
        "--target",
        type=click.Choice(TARGETS),
        default="local",
        show_default=True,
        help="ENV's double on this machine, its endpoint, or a copy of that for the test.",
    ),
    LOCAL,
    ENDPOINT_URL,
    click.option("--variant", help="Of the environment; left out, the first."),
    click.option("--dollars", type=ABOVE_0, help="For the copy: at most."),
    click.option("--instance-type", help="Of the copy; left out, the endpoint's."),
    click.option("--usd-per-hour", type=ABOVE_0, help="Of it, where the catalog has no price."),
    # --- with what
    BODY,
    CONTENT_TYPE,
    click.option("--timeout-seconds", type=ABOVE_0, default=60.0, help="For one request."),
    # --- how much
    click.option("--users", type=Loads(), help="Closed loop with these; left out, up until flat."),
    click.option("--rates", type=Loads(), help="Open loop with these requests per second."),
    click.option("--open", "opened", is_flag=True, help="Open loop, up until answers fall behind."),
    click.option(
        "--most", type=click.FloatRange(1), default=4096.0, help="Users or rate, at most."
    ),
    click.option(
        "--gate",
        is_flag=True,
        help="Hold ENV to its [traffic] peak_rps (or --rates) and its p99 alarm; exit 1 below it.",
    ),
    click.option("--p99-ms", type=ABOVE_0, help="The knee's objective; left out, ENV's alarm's."),
    click.option("--warm-up-seconds", type=click.FloatRange(0), default=2.0, help="Of each step."),
    click.option("--least-seconds", type=SECONDS, default=4.0, help="A step lasts."),
    click.option(
        "--step-seconds",
        type=SECONDS,
        default=30.0,
        help="At most; it ends when its throughput is known within 5 %.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(("poisson", "constant")),
        default="poisson",
        help="Of an open loop: at random, or evenly.",
    ),
    # --- by whom
    click.option("--processes", type=click.IntRange(0), default=1, help="That send, here."),
    click.option("--workers", type=click.IntRange(0), default=0, help="That --join, elsewhere."),
    click.option(
        "--listen",
        type=Address(),
        default=("127.0.0.1", 0),
        show_default="127.0.0.1, a free port: this computer only",
        help="Address of this computer where they join. Unencrypted: a private network.",
    ),
    click.option(
        "--join", "joined", type=Address(), help="Be one that sends, for a test elsewhere."
    ),
    # --- what becomes of it
    click.option("--output", type=FOLDER, help="Folder of the run; left out, .servable/load/…."),
    AS_JSON,
)


def with_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """A command with these options, in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def is_url(what: str) -> bool:
    return "://" in what


def checked(what: str | None, told: dict[str, Any]) -> None:
    """Raises click.UsageError for what does not go together."""
    if not what:
        raise click.UsageError("give an environment or an address, as `servable load prod`")
    if told["users"] and (told["rates"] or told["opened"]):
        raise click.UsageError("--users is a closed loop, --rates and --open are open: one of them")
    if told["gate"] and (told["users"] or told["opened"]):
        raise click.UsageError(
            "--gate sends at a rate: leave --users and --open out, or give --rates"
        )
    if told["gate"] and is_url(what):
        raise click.UsageError("--gate is for an environment, which says what is expected of it")
    if told["users"] and any(one != round(one) for one in told["users"]):
        raise click.UsageError("--users are whole numbers")
    if (told["endpoint_url"] or told["local"]) and told["target"] == "local":
        raise click.UsageError("--endpoint-url and --local are for --target deployed or sagemaker")
    if (told["target"] == "sagemaker") != (told["dollars"] is not None):
        raise click.UsageError("--target sagemaker and --dollars come together: it costs money")
    if told["processes"] + told["workers"] < 1:
        raise click.UsageError("nobody sends: give --processes or --workers")
    if is_url(what) and (told["variant"] or told["target"] != "local"):
        raise click.UsageError("--variant and --target are for an environment, not an address")
