"""`servable tune ENV`: search a variant's settings, and show what the file should say."""

from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, placements
from model_packaging.refusal import PackagingError
from servable.console.signals import as_ctrl_c
from servable.load.bodies import BodyError, bodies_of
from servable.load.load_generator import LoadError
from servable.load.options import (
    ABOVE_0,
    AS_JSON,
    BODY,
    CONTENT_TYPE,
    LOCAL,
    with_options,
)
from servable.load.temporary.endpoints import TemporaryError
from servable.project.account import Account, account_of
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, environment_with_endpoint, refused
from servable.project.provided import LaunchError
from servable.tune import environment_edit
from servable.tune.output import say, speaker
from servable.tune.run import TuneError, TuneOptions
from servable.tune.search.confirmation import Verdict
from servable.tune.tune import tune as search

# What the whole search may take where it costs nothing but time.
LOCAL_MINUTES = 9.5
EXIT_CODES: dict[Verdict, int] = {"better": 0, "not better": 1, "cannot be told": 3}


def _names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r}: write names with commas between")
    return names


OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option("--variant", help="One of the environment's variants; left out, the first."),
    # --- where
    click.option(
        "--target",
        type=click.Choice(("local", "sagemaker")),
        default="local",
        show_default=True,
        help="ENV's local container, or copies of its live endpoint, one for each trial.",
    ),
    LOCAL,
    # --- what
    click.option(
        "--for",
        "goal",
        type=click.Choice(("throughput", "cost")),
        default="throughput",
        show_default=True,
        help="Most requests per second, or least dollars per million, within the limit.",
    ),
    click.option(
        "--p99-ms", "most_ms", type=ABOVE_0, help="The latency limit; left out, ENV's alarm's."
    ),
    click.option("--setting", "only", multiple=True, help="May change; none named, all may."),
    click.option(
        "--instance-types",
        type=_names,
        default=(),
        metavar="A,B",
        help="May be taken too, with --target sagemaker.",
    ),
    BODY,
    CONTENT_TYPE,
    # --- how much
    click.option(
        "--trials",
        default=40,
        show_default=True,
        type=click.IntRange(1),
        help="Most trials; up to half of them compare the choice with today's settings.",
    ),
    click.option(
        "--minutes",
        type=ABOVE_0,
        help=f"Most minutes for everything, about (default: {LOCAL_MINUTES:g} for the local container).",
    ),
    click.option(
        "--dollars",
        type=ABOVE_0,
        help="Most dollars for the temporary endpoints, all runs together.",
    ),
    # --- what becomes of it
    click.option(
        "--new", "anew", is_flag=True, help="Begin anew, the dollars too; left out, a run goes on."
    ),
    click.option("--write", is_flag=True, help="Apply the diff to the environment's file."),
    click.option(
        "--force-local-numbers",
        is_flag=True,
        help="Set scaling and alarms from numbers of this computer.",
    ),
    AS_JSON,
)


@click.command()
@ENVIRONMENT
@with_options(OPTIONS)
def tune(
    environment: str,
    folder: str,
    sets: tuple[str, ...],
    variant: str | None,
    minutes: float | None,
    dollars: float | None,
    anew: bool,
    write: bool,
    as_json: bool,
    **values: Any,
) -> int:
    """Measure settings of ENV's container; the best ones, as a diff to its file.

    Exit 0: better ones were shown; 1: none are; 3: it cannot be told; 2: it could not be measured.
    Ctrl-C, or worse, loses the trial under way; the same command goes on with the others.
    """
    aws = {name: values.pop(name) for name in ("target", "local")}
    _refuse_combinations(**aws, dollars=dollars, instance_types=values["instance_types"])
    loaded, _ = environment_with_endpoint(environment, folder, sets)
    if problems := refused(loaded):
        click.echo("\n".join(problems), err=True)
        return 2
    placement = _placement(loaded, variant)
    as_ctrl_c()
    try:
        bodies, names = bodies_of(
            values.pop("files"), content_type=values.pop("content_type"), loaded=loaded
        )
        account = _account(loaded, **aws)
        if minutes is None and account is None:
            minutes = LOCAL_MINUTES
        options = TuneOptions(
            bodies=bodies,
            body_names=tuple(names),
            account=account,
            minutes=minutes,
            dollars=dollars or 0.0,
            **values,
        )
        tuned = search(loaded, placement, options, speaker(options.trials), anew=anew)
    except (TuneError, LaunchError, LoadError, PackagingError, BodyError, TemporaryError) as error:
        click.echo(f"servable tune: {error}", err=True)
        return 2
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on with the trials that are done", err=True)
        return 130
    if write and tuned.diff:
        environment_edit.write(tuned.file, tuned.after)
    say(tuned, write=write, as_json=as_json)
    assert tuned.content.recommendation is not None  # tune() has made it
    return EXIT_CODES[tuned.content.recommendation.choice.confirmation.verdict]


def _refuse_combinations(
    *,
    target: str,
    local: bool,
    dollars: float | None,
    instance_types: tuple[str, ...],
) -> None:
    here = target == "local"
    if here and local:
        raise click.UsageError("--local applies to --target sagemaker")
    if here != (dollars is None):
        raise click.UsageError("--target sagemaker and --dollars come together: it costs money")
    if here and instance_types:
        raise click.UsageError(
            "--instance-types needs --target sagemaker: this computer cannot become another instance type"
        )


def _placement(loaded: ValidFile, variant: str | None) -> Placement:
    placed = {one.name: one for one in placements(loaded.environment) if not one.pool}
    name = variant or next(iter(placed), "")
    if name not in placed:
        raise click.UsageError(f"there is no variant {name!r}; allowed: {', '.join(placed)}")
    if placed[name].variant.component:
        raise click.ClickException(
            f"{name} shares instances with other components, and what it gets of them is not measured alone: "
            "tune its model in an environment of its own, and write the settings into its table"
        )
    return placed[name]


def _account(loaded: ValidFile, *, target: str, local: bool) -> Account | None:
    """Return the AWS account to measure in; None: the local container on this computer."""
    if target == "local":
        return None
    account = account_of(loaded.environment, local=local)
    account.meant()
    return account
