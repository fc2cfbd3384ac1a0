"""`servable tune ENV`: search a variant's settings, and show what the file should say."""

from typing import Any

import click

from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, placements
from model_packaging.refusal import PackagingError
from servable.aws_account import Account, account_of
from servable.load.bodies import BodyError
from servable.load.load_generator import LoadError
from servable.load.recorded_bodies import bodies_of
from servable.project import one_environment, refused
from servable.signals import as_ctrl_c
from servable.tune import environment_edit
from servable.tune.asking import Asking
from servable.tune.options import LOCAL_MINUTES, checked, with_options
from servable.tune.output import say, speaker
from servable.tune.run import TuneError
from servable.tune.temporary import TemporaryError
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
        asking = _asking(loaded, told)
        tuned = search(loaded, placement, asking, speaker(told["trials"]), anew=told["anew"])
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


def _asking(loaded: Loaded, told: dict[str, Any]) -> Asking:
    bodies, names = bodies_of(told["files"], content_type=told["content_type"], loaded=loaded)
    account = _account(loaded, told)
    minutes = told["minutes"]
    if minutes is None and account is None:
        minutes = LOCAL_MINUTES
    return Asking(
        bodies=bodies,
        body_names=tuple(names),
        most_ms=told["p99_ms"],
        goal=told["goal"],
        only=told["only"],
        instance_types=told["instance_types"],
        account=account,
        trials=told["trials"],
        minutes=minutes,
        dollars=told["dollars"] or 0.0,
        usd_per_hour=told["usd_per_hour"],
        force_local_numbers=told["force_local_numbers"],
    )


def _account(loaded: Loaded, told: dict[str, Any]) -> Account | None:
    """None: this machine."""
    if told["target"] == "local":
        return None
    assert loaded.environment is not None  # the caller has looked at its findings
    found = account_of(loaded.environment, local=told["local"], endpoint_url=told["endpoint_url"])
    found.meant()
    return found
