"""`servable tune ENV`: search a variant's settings, and show what the file should say."""

from typing import Any

import click

from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement, placements
from model_packaging.refusal import PackagingError
from servable.aws_account.deployed import Account, account_of
from servable.environment import one_environment, refused
from servable.load.bodies import BodyError, bodies_of
from servable.load.load_generator import LoadError
from servable.load.temporary.live import TemporaryError
from servable.signals import as_ctrl_c
from servable.tune import environment_edit
from servable.tune.options import LOCAL_MINUTES, checked, with_options
from servable.tune.output import say, speaker
from servable.tune.run import TuneError, TuneOptions
from servable.tune.tune import tune as search
from servable_local.container.launch import LaunchError


@click.command()
@click.argument("environment", metavar="ENV")
@with_options
def tune(environment: str, folder: str, **told: Any) -> int:
    """Measure settings of ENV's container; the best ones, as a diff to its file.

    Ctrl-C, or worse, loses the trial under way; the same command goes on with the others.
    """
    checked(told)
    loaded, _ = one_environment(environment, folder)
    if problems := refused(loaded):
        click.echo("\n".join(problems), err=True)
        return 1
    placement = _placement(loaded, told["variant"])
    as_ctrl_c()
    try:
        options = _options(loaded, told)
        tuned = search(loaded, placement, options, speaker(told["trials"]), anew=told["anew"])
    except (TuneError, LaunchError, LoadError, PackagingError, BodyError, TemporaryError) as error:
        click.echo(f"servable tune: {error}", err=True)
        return 1
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on with the trials that are done", err=True)
        return 130
    if told["write"] and tuned.diff:
        environment_edit.write(tuned.file, tuned.after)
    say(tuned, write=told["write"], as_json=told["as_json"])
    return 0


def _placement(loaded: Loaded, variant: str | None) -> Placement:
    assert loaded.environment is not None  # the caller has looked at its findings
    placed = {one.name: one for one in placements(loaded, loaded.environment)}
    name = variant or next(iter(placed), "")
    if name not in placed:
        raise click.UsageError(f"there is no variant {name!r}; allowed: {', '.join(placed)}")
    return placed[name]


def _options(loaded: Loaded, told: dict[str, Any]) -> TuneOptions:
    bodies, names = bodies_of(told["files"], content_type=told["content_type"], loaded=loaded)
    account = _account(loaded, told)
    minutes = told["minutes"]
    if minutes is None and account is None:
        minutes = LOCAL_MINUTES
    same = ("goal", "only", "instance_types", "trials", "usd_per_hour", "force_local_numbers")
    return TuneOptions(
        bodies=bodies,
        body_names=tuple(names),
        most_ms=told["p99_ms"],
        account=account,
        minutes=minutes,
        dollars=told["dollars"] or 0.0,
        **{name: told[name] for name in same},
    )


def _account(loaded: Loaded, told: dict[str, Any]) -> Account | None:
    """None: this machine."""
    if told["target"] == "local":
        return None
    assert loaded.environment is not None  # the caller has looked at its findings
    found = account_of(loaded.environment, local=told["local"], endpoint_url=told["endpoint_url"])
    found.meant()
    return found
