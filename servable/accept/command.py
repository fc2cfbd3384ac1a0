"""`servable accept`: prove the product in an account, step by step, and leave nothing there."""

import datetime
import functools
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from infra.policy.acceptance_policy import PREFIX
from model_packaging.private_folder import private_folder
from model_packaging.refusal import PackagingError
from servable import __version__
from servable.accept.announcement import announce
from servable.accept.execution import Execution
from servable.accept.project import InstanceChoice, choose, environment_name, write_project
from servable.accept.record import AcceptReport
from servable.accept.removal import leftovers, remove, taken
from servable.accept.run import (
    DELETING_MINUTES,
    AcceptAccount,
    AcceptRun,
    CannotTellError,
    Meter,
    cdk_command,
)
from servable.accept.steps import NAMES, STEPS, AcceptStep, is_bootstrapped
from servable.aws_account import AwsError
from servable.doctor.account import quotas_of
from servable.load.options import ENDPOINT_URL, LOCAL
from servable.project_folder import state_folder
from servable.signals import as_ctrl_c
from servable_local.aws import ACCOUNT, REGION, status

# All steps on ml.c5.large cost at most so much in that time, by the catalog's prices. They take 103 minutes
# of the local AWS's clock (2026-11-28), mostly waits that AWS's rules set: 90 ends it before `components`.
DEFAULT_DOLLARS, DEFAULT_MINUTES = 2.0, 120.0


@dataclass(frozen=True, kw_only=True)
class AcceptOptions:
    """Values of the options, each under its parameter's name."""

    dollars: float
    minutes: float
    only: tuple[str, ...]
    region: str | None
    yes: bool
    clean: bool
    compared: tuple[Path, ...]
    local: bool
    endpoint_url: str | None
    output: Path | None
    as_json: bool


@click.command()
@click.option(
    "--dollars",
    type=click.FloatRange(0, min_open=True),
    default=DEFAULT_DOLLARS,
    show_default=True,
    help="Budget in US dollars; what cannot hold it is not begun, and a run that reaches it ends.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(DELETING_MINUTES, min_open=True),
    default=DEFAULT_MINUTES,
    show_default=True,
    help="Deadline in minutes, deletion included.",
)
@click.option(
    "--only", multiple=True, metavar="STEP[,…]", help="Run these steps alone; may be repeated."
)
@click.option("--region", help="Region of the run (default: the shell's).")
@click.option("--yes", is_flag=True, help="Do not ask before it begins, as in a workflow.")
@click.option(
    "--clean", is_flag=True, help="Delete what earlier runs left, from any computer, by its tag."
)
@click.option(
    "--compare",
    "compared",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare this report with what the local AWS answered; given twice, one with the other.",
)
@LOCAL
@ENDPOINT_URL
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the report (default: the working folder).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def accept(**values: Any) -> int:
    """Prove the product in an AWS account: deploy small endpoints of every kind, ask them, break them, and
    delete everything.

    It says first what it will do and cost, and asks. Exits with 0 if every step holds, 1 if one does not
    or something is left, 2 if nothing was begun, and with 3 if a step cannot be told or was left out.
    """
    options = AcceptOptions(**values)
    if options.compared:
        from servable.accept.comparison import compare_files

        return compare_files(options.compared, as_json=options.as_json)
    as_ctrl_c()
    try:
        account = _account(options)
        if options.clean:
            return _cleaned(account, options)
        folder = private_folder(state_folder() / "accept")
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            project = Path(temporary) / "project"
            return _accepted(account, options, project)
    except (PackagingError, CannotTellError) as error:
        click.echo(f"servable accept: {error}", err=True)
    except AwsError as error:
        click.echo(
            f"servable accept: AWS refuses: {error}; check credentials and network", err=True
        )
    return 2


def _account(options: AcceptOptions) -> AcceptAccount:
    """Raises `PackagingError` without credentials or region, or where the local AWS is not running."""
    variables, seconds, keys = dict(os.environ), 60.0, dict[str, str]()
    now: Callable[[], datetime.datetime] = functools.partial(datetime.datetime.now, datetime.UTC)
    endpoint_url = options.endpoint_url or os.environ.get("AWS_ENDPOINT_URL")
    if options.local:
        aws = status(folder=state_folder())
        if aws is None:
            raise PackagingError(
                Path("--local"), "the local AWS is not running", "`servable local up` starts it"
            )
        region = options.region or REGION
        variables = aws.environment_over(os.environ, account=ACCOUNT, region=region)
        seconds, now, endpoint_url = aws.seconds_per_minute or seconds, aws.now, aws.url
        keys = {
            name.lower(): variables[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        }
    session = boto3.session.Session(region_name=options.region, **keys)
    region = options.region or (REGION if options.local else session.region_name)
    if not region:
        raise PackagingError(Path("AWS configuration"), "no region is set", "give --region")
    session = boto3.session.Session(region_name=region, **keys)
    if endpoint_url:
        variables["AWS_ENDPOINT_URL"] = endpoint_url
    variables |= {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    if (named := os.environ.get("AWS_EXECUTION_ENV")) is not None:  # who calls, to the SDKs
        variables["AWS_EXECUTION_ENV"] = named
    # The CDK CLI runs `servable-app`, which stands beside the Python that runs this.
    bins = [str(Path(sys.executable).parent), str(Path.cwd() / "node_modules" / ".bin")]
    variables["PATH"] = os.pathsep.join([*bins, variables.get("PATH", "")])
    sts = session.client("sts", endpoint_url=endpoint_url)
    number = str(sts.get_caller_identity()["Account"])
    return AcceptAccount(
        region=region,
        number=number,
        session=session,
        endpoint_url=endpoint_url,
        environ=variables,
        seconds_per_minute=seconds,
        now=now,
    )


def chosen_steps(only: Iterable[str], *, bootstrapped: bool) -> list[AcceptStep]:
    """Return the wanted steps in the table's order, and the bootstrap that they need.

    Raises click.UsageError.
    """
    names = [name for text in only for name in text.split(",")]
    if unknown := [name for name in names if name not in NAMES]:
        raise click.UsageError(f"--only {unknown[0]}: no such step; allowed: {', '.join(NAMES)}")
    steps = [step for step in STEPS if not names or step.name in names]
    if not bootstrapped and STEPS[0] not in steps and any(step.environment for step in steps):
        return [STEPS[0], *steps]
    return steps


def _cleaned(account: AcceptAccount, options: AcceptOptions) -> int:
    """Delete what runs left, after asking; return the exit code."""
    found = leftovers(account)
    for leftover in found:
        since = f", of the run {leftover.run}" if leftover.run else ""
        click.echo(f"{leftover}{since}", err=True)
    if not found:
        click.echo(f"nothing of a run is left in {account.number}, {account.region}", err=True)
        return 0
    _confirm(options, "delete all of this? A run that goes on elsewhere would lose it")
    left = remove(account, minutes=options.minutes)
    for line in left:
        click.echo(f"could not be deleted: {line}", err=True)
    return int(bool(left))


def _confirm(options: AcceptOptions, question: str) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: give --yes")
    click.confirm(question, abort=True, err=True)


def _accepted(account: AcceptAccount, options: AcceptOptions, folder: Path) -> int:
    """Announce, ask, run, delete and report; return the exit code."""
    bootstrapped, began = is_bootstrapped(account), datetime.datetime.now(datetime.UTC)
    steps = chosen_steps(options.only, bootstrapped=bootstrapped)
    run_id = f"{began:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    kinds = list(dict.fromkeys(step.environment for step in steps if step.environment))
    cdk_command(account.environ)
    _require_free_names(account)
    choice = choose(account.region, quotas_of(account), kinds)
    environments = _project(account, folder, run_id, choice, kinds)
    announcement = announce(
        account=account.number,
        caller=str(account.identity()["Arn"]),
        region=account.region,
        aws="local AWS" if account.embedded else "AWS",
        steps=steps,
        choice=choice,
        environments=environments,
        minutes=options.minutes,
        bootstrapped=bootstrapped,
    )
    announcement.show(options.dollars)
    if announcement.usd_at_most > options.dollars:
        raise CannotTellError(
            f"${options.dollars:g} cannot hold it; give --dollars {announcement.usd_at_most:.2f}, or fewer "
            "steps with --only"
        )
    _confirm(options, "begin?")
    report = AcceptReport(
        servable=__version__,
        aws=announcement.aws,
        region=account.region,
        began=began.isoformat(timespec="seconds"),
        instance_type=choice.instance_type,
        calls=account.calls,
    )
    run = AcceptRun(
        account=account,
        folder=folder,
        choice=choice,
        report=report,
        meter=Meter(
            dollars=options.dollars,
            minutes=options.minutes,
            clock=lambda: time.monotonic() * 60 / account.seconds_per_minute,
        ),
        run_id=run_id,
        usd_per_hour=announcement.usd_per_hour,
    )
    file = (options.output or Path.cwd()) / f"accept-{began:%Y-%m-%dT%H%M%S}.json"
    return Execution(run, steps, announcement, file).whole(as_json=options.as_json)


def _require_free_names(account: AcceptAccount) -> None:
    """Raise `CannotTellError` if something of another run, or of somebody else, has our names."""
    others = taken(account) or list(map(str, leftovers(account)))
    if others:
        raise CannotTellError(
            f"names that begin with {PREFIX}- are taken: {', '.join(others)}; `servable accept --clean` "
            "deletes what runs left, and nothing else"
        )


def _project(
    account: AcceptAccount, folder: Path, run_id: str, choice: InstanceChoice, kinds: Iterable[str]
) -> dict[str, Environment]:
    """Write the project; return its environments by kind. Raises `PackagingError` for one with errors."""
    names = [kind for kind in kinds if kind not in choice.left_out]
    if "batch" in names and "serverless" not in names:
        names.append("serverless")
    write_project(
        folder,
        account=account.number,
        region=account.region,
        run=run_id,
        choice=choice,
        names=names or ["serverless"],  # neither the CDK nor the doctor goes without one
    )
    loaded = {one.name: one for one in load(folder, folder / "environments")}
    environments = {}
    for kind in names:
        if kind == "batch":
            continue
        one = loaded[environment_name(kind)]
        if not isinstance(one, ValidFile):
            raise PackagingError(
                Path(one.file), str(one.findings[0]), "this is a fault of servable"
            )
        environments[kind] = one.environment
    return environments
