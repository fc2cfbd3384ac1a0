"""The options of `servable tune`, and which go together."""

from collections.abc import Callable
from typing import Any

import click

from servable.load.options import (
    ABOVE_0,
    AS_JSON,
    BODY,
    CONTENT_TYPE,
    ENDPOINT_URL,
    ENVIRONMENTS,
    LOCAL,
)

TARGETS = ("local", "sagemaker")
# What the whole search may take where it costs nothing but time.
LOCAL_MINUTES = 9.5


class Names(click.ParamType[Any]):
    """a,b"""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = tuple(one.strip() for one in str(value).split(","))
        if not all(found):
            self.fail(f"{value!r}: write names with commas between", param, ctx)
        return found


OPTIONS = (
    ENVIRONMENTS,
    click.option("--variant", help="One of the environment's variants; left out, the first."),
    # --- where
    click.option(
        "--target",
        type=click.Choice(TARGETS),
        default="local",
        show_default=True,
        help="ENV's double on this machine, or copies of its live endpoint, one for each trial.",
    ),
    LOCAL,
    ENDPOINT_URL,
    # --- what
    click.option(
        "--for",
        "goal",
        type=click.Choice(("throughput", "cost")),
        default="throughput",
        show_default=True,
        help="Most requests per second, or least dollars per million, within the limit.",
    ),
    click.option("--p99-ms", type=ABOVE_0, help="The latency limit; left out, ENV's alarm's."),
    click.option("--setting", "only", multiple=True, help="May change; none named, all may."),
    click.option(
        "--instance-types",
        type=Names(),
        default=(),
        metavar="A,B",
        help="May be taken too, with --target sagemaker.",
    ),
    BODY,
    CONTENT_TYPE,
    # --- how much
    click.option(
        "--trials", default=40, show_default=True, type=click.IntRange(1), help="At most."
    ),
    click.option(
        "--minutes",
        type=ABOVE_0,
        help=f"At most, about, of everything; left out, {LOCAL_MINUTES:g} on this machine.",
    ),
    click.option("--dollars", type=ABOVE_0, help="For the copies, at most, all runs together."),
    click.option(
        "--usd-per-hour", type=ABOVE_0, help="Of ENV's instance, where the catalog has no price."
    ),
    # --- what becomes of it
    click.option(
        "--new", "anew", is_flag=True, help="Begin anew, the dollars too; left out, a run goes on."
    ),
    click.option("--write", is_flag=True, help="Apply the diff to the environment's file."),
    click.option(
        "--force-local-numbers", is_flag=True, help="Scaling and alarms from this machine."
    ),
    AS_JSON,
)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def checked(told: dict[str, Any]) -> None:
    """Raises click.UsageError for what does not go together."""
    here = told["target"] == "local"
    if here and (told["endpoint_url"] or told["local"]):
        raise click.UsageError("--endpoint-url and --local are for --target sagemaker")
    if here != (told["dollars"] is None):
        raise click.UsageError("--target sagemaker and --dollars come together: it costs money")
    if here and told["instance_types"]:
        raise click.UsageError(
            "--instance-types needs --target sagemaker: this machine is one type and stays it"
        )
    if told["local"] and told["endpoint_url"]:
        raise click.UsageError("--local and --endpoint-url are two places: give one")
