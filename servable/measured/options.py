"""The options that several commands which send requests have."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click


def numbers(text: str) -> tuple[float, ...]:
    """Return the positive numbers of a comma-separated list, such as 1,2,4 or 50.5.

    Raises click.BadParameter.
    """
    try:
        loads = tuple(float(number) for number in text.split(","))
    except ValueError:
        loads = ()
    if not loads or not all(0 < load < float("inf") for load in loads):
        problem = f"{text!r}: write numbers above 0, separated by commas, such as 1,2,4"
        raise click.BadParameter(problem)
    return loads


ABOVE_0 = click.FloatRange(0, min_open=True)
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


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The target of a load test or replay, and the account that has it."""

    target: str
    local: bool
    variant: str | None
    dollars: float | None = None
    """The budget of a temporary copy of the endpoint."""
    instance_type: str | None = None
    """The copy's instance type; None: the endpoint's."""


def add_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a decorator that adds these options in this order."""

    return lambda command: functools.reduce(lambda to, option: option(to), options[::-1], command)


def is_url(what: str) -> bool:
    return "://" in what
