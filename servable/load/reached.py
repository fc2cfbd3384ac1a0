"""Prepare the target of a load test or replay.

It is a local container, a deployed endpoint, a copy of the endpoint, or an address.
"""

import dataclasses
import datetime
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.environment import Environment
from infra.parameters.finding import suggest_name
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from model_packaging.tree import compute_sha256
from servable.invoke.invoke import find_component
from servable.load.load_target import LoadTarget, build_container_target, build_endpoint_target
from servable.load.load_test import lower_priority
from servable.load.measurement import MeasuredTarget
from servable.load.options import LoadOptions, TargetOptions
from servable.load.temporary.endpoints import TemporaryEndpoints, translate_aws_errors
from servable.project.account import Account, open_account
from servable.project.environments import list_errors
from servable.serve.serve import prepare_variant, serve_locally

RUNS = Path(".servable") / "load"


@dataclass(frozen=True, kw_only=True)
class ReadyTarget:
    """A target that is ready for requests."""

    target: LoadTarget
    asked: MeasuredTarget
    pid: int | None = None
    """Process id of its first process, if it runs on this computer."""
    variables: dict[str, str] | None = None
    """Environment of the generator's processes; None: that of this process."""


def prepare_target(
    what: str, loaded: ValidFile | None, names: list[str], output: Path, options: TargetOptions
) -> AbstractContextManager[ReadyTarget]:
    """Return a context manager that keeps the target ready while the block lasts.

    `loaded` None: `what` is an address. For a replay, and with --gate, all variants of a deployed
    endpoint share the requests if there is no --variant.

    Raises the target's errors, and click.UsageError.
    """
    if loaded is None:
        try:
            target = build_container_target(what)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return nullcontext(
            ReadyTarget(target=target, asked=describe_measurement("url", what, names))
        )
    variant = options.variant
    if options.target == "local":
        if problems := list_errors(loaded):
            raise click.ClickException("\n".join(problems))
        return _run_local_container(loaded, names, variant=variant, log=output / "endpoint.log")
    environment, name = loaded.environment, loaded.name
    account = open_account(environment, local=options.local, endpoint_url=options.endpoint_url)
    account.check_credentials()
    if options.target == "deployed":
        whole = not isinstance(options, LoadOptions) or options.gate
        return nullcontext(
            prepare_deployed_target(
                environment, names, name=name, variant=variant, account=account, whole=whole
            )
        )
    assert isinstance(options, LoadOptions)  # only `load` has this target
    return _run_copy(environment, names, name=name, account=account, options=options)


@contextmanager
def _run_local_container(
    loaded: ValidFile, bodies: Sequence[str], *, variant: str | None, log: Path
) -> Iterator[ReadyTarget]:
    """Run the local container while the block lasts. Raises PackagingError, LaunchError."""
    served = prepare_variant(loaded, variant=variant)
    with serve_locally(served, port=0, log=log) as process:
        lower_priority(process.pid)
        archive = served.archive
        yield ReadyTarget(
            target=build_container_target(process.url),
            asked=describe_measurement(
                "local",
                process.url,
                bodies,
                environment=loaded.name,
                variant=served.variant,
                model_sha256=compute_sha256(archive) if archive else None,
            ),
            pid=process.pid,
        )


def prepare_deployed_target(
    environment: Environment,
    bodies: Sequence[str],
    *,
    name: str,
    variant: str | None,
    account: Account,
    whole: bool = False,
) -> ReadyTarget:
    """Return the deployed endpoint as a target. Raises PackagingError.

    `whole`: if no variant is given, all variants share the load, provided that they have models.
    """
    live = environment.endpoint.name
    component = find_component(environment, variant) if environment.components else None
    sagemaker = account.client("sagemaker")
    instance_type, chosen = _read_serving_variant(sagemaker, live, None if component else variant)
    reached = prepare_endpoint(
        account, live, bodies, name=name, variant=chosen, instance_type=instance_type
    )
    if component is None and not (whole and variant is None):
        return reached
    # Every request names the component and no variant, or neither.
    headers = {"X-Amzn-SageMaker-Inference-Component": component} if component else {}
    asked = dataclasses.replace(reached.asked, variant=component or chosen)
    target = dataclasses.replace(reached.target, headers=headers)
    return dataclasses.replace(reached, target=target, asked=asked)


def prepare_endpoint(
    account: Account,
    live: str,
    bodies: Sequence[str],
    *,
    name: str,
    variant: str,
    instance_type: str | None,
    model_at: str | None = None,
) -> ReadyTarget:
    """Return an endpoint that is in service as a target."""
    runtime_url = str(account.client("sagemaker-runtime").meta.endpoint_url)
    return ReadyTarget(
        target=build_endpoint_target(
            live, region=account.region, runtime_url=runtime_url, variant=variant
        ),
        asked=describe_measurement(
            "sagemaker",
            live,
            bodies,
            environment=name,
            variant=variant,
            model_at=model_at,
            # The local AWS answers on this computer, whatever the instance type.
            instance_type=None if account.has_custom_endpoint else instance_type,
        ),
        variables=account.build_process_variables(),
    )


def choose_run_folder(root: Path, name: str) -> Path:
    """Return the path of a new run's folder, which isn't created yet."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return root / RUNS / f"{safe.strip('-')[:60]}-{now}"


def _read_serving_variant(client: Any, name: str, variant: str | None) -> tuple[str | None, str]:
    """Return (instance type, variant) of a deployed endpoint. Raises PackagingError.

    The instance type is None for instance pools.
    """
    try:
        described = client.describe_endpoint(EndpointName=name)
        config = client.describe_endpoint_config(EndpointConfigName=described["EndpointConfigName"])
    except (ClientError, BotoCoreError) as error:
        fix = "deploy it first, or look at the credentials: `aws sts get-caller-identity`"
        raise PackagingError(
            Path(name), f"the endpoint cannot be described: {error}", fix
        ) from None
    if described["EndpointStatus"] not in ("InService", "Updating"):
        problem = f"the endpoint is {described['EndpointStatus']}"
        raise PackagingError(Path(name), problem, "wait until it is InService")
    variants = {
        production["VariantName"]: production for production in config["ProductionVariants"]
    }
    chosen = variant or next(iter(variants))
    if chosen not in variants:
        problem = f"there is no variant {chosen!r}; allowed: {', '.join(variants)}"
        raise PackagingError(Path(name), problem, suggest_name(chosen, variants))
    # None for instance pools: which type answers a request is not known.
    return variants[chosen].get("InstanceType"), chosen


def describe_measurement(
    target: str, address: str, bodies: Sequence[str], **more: str | None
) -> MeasuredTarget:
    """Describe a measurement that starts now on this computer."""
    cores = os.cpu_count()
    now = datetime.datetime.now(datetime.UTC)
    return MeasuredTarget(
        target=target,
        address=address,
        bodies=tuple(bodies),
        started_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=f"{platform.node()}, {cores} cores, {platform.machine()}",
        **more,
    )


@contextmanager
def _run_copy(
    environment: Environment,
    bodies: Sequence[str],
    *,
    name: str,
    account: Account,
    options: LoadOptions,
) -> Iterator[ReadyTarget]:
    """Run a copy of the deployed endpoint on its own instance while the block lasts.

    Raises PackagingError, TemporaryError.
    """

    def find_usd_per_hour(instance_type: str) -> float | None:
        known = environment.prices.find_instance_price(instance_type, environment.region)
        return known.usd_per_hour if known else None

    assert options.dollars is not None  # checked with --target
    endpoints = TemporaryEndpoints(
        account.client("sagemaker"),
        budget_usd=options.dollars,
        usd_per_hour=find_usd_per_hour,
        poll_seconds=0.2 if account.has_custom_endpoint else 5.0,
        told=_print_progress,
    )
    live = environment.endpoint.name
    instance_type, variant = _read_serving_variant(
        account.client("sagemaker"), live, options.variant
    )
    kind = options.instance_type or instance_type
    with translate_aws_errors(live):
        endpoints.sweep()
        with endpoints.run_copy(live, variant=variant, instance_type=kind) as copy:
            _print_progress(f"{copy} is in service on {kind}")
            yield prepare_endpoint(
                account, copy, bodies, name=name, variant=variant, instance_type=kind
            )
    over = "; the budget ended it" if endpoints.ended_by_budget else ""
    _print_progress(f"{copy} is deleted; {endpoints.spent_usd:.2f} $ at most{over}")


def _print_progress(line: str) -> None:
    click.echo(line, err=True)
