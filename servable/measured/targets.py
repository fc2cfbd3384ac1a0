"""Prepare the target of a load test or replay, and watch its processes if it runs on this computer.

A target is a local container, a deployed endpoint, a copy of the endpoint, or an address.
"""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import psutil

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from model_packaging.tree import compute_sha256
from servable.invoke.invoke import find_component
from servable.measured.measurement import (
    LoadError,
    LoadTarget,
    MeasuredTarget,
    Usage,
    build_container_target,
)
from servable.measured.options import TargetOptions
from servable.measured.temporary import (
    TemporaryEndpoints,
    describe_variant,
    read_live_variant,
    translate_aws_errors,
)
from servable.project.account import Account, open_account
from servable.project.environments import list_errors
from servable.serve.serve import prepare_variant, serve_locally


@dataclass(frozen=True, kw_only=True)
class ReadyTarget:
    """A target that is ready for requests."""

    target: LoadTarget
    asked: MeasuredTarget
    pid: int | None = None
    """Process ID of its first process, if it runs on this computer."""
    variables: dict[str, str] | None = None
    """Environment of the generator's processes; None: that of this process."""


def prepare_target(
    what: str,
    loaded: ValidFile | None,
    output: Path,
    options: TargetOptions,
    *,
    whole: bool = True,
) -> AbstractContextManager[ReadyTarget]:
    """Return a context manager that keeps the target ready while its block lasts.

    `loaded` None: `what` is an address. `whole`: if no variant is given, all variants of a deployed
    endpoint share the requests.

    Raises the target's errors, and click.UsageError.
    """
    if loaded is None:
        try:
            target = build_container_target(what)
        except LoadError as error:
            raise click.UsageError(str(error)) from None
        asked = MeasuredTarget(target="url", address=what)
        return nullcontext(ReadyTarget(target=target, asked=asked))
    if options.target == "local":
        return _run_local_container(loaded, options.variant, output)
    account = open_account(loaded.environment, local=options.local)
    account.check_credentials()
    if options.target == "deployed":
        return nullcontext(
            prepare_deployed_target(loaded, account, variant=options.variant, whole=whole)
        )
    return _run_copy(loaded, account, options)


@contextmanager
def _run_local_container(
    loaded: ValidFile, variant: str | None, output: Path
) -> Iterator[ReadyTarget]:
    if problems := list_errors(loaded):
        raise click.ClickException("\n".join(problems))
    served = prepare_variant(loaded, variant=variant)
    with serve_locally(served, port=0, log=output / "endpoint.log") as process:
        lower_priority(process.pid)
        asked = MeasuredTarget(
            target="local",
            address=process.url,
            environment=loaded.name,
            variant=served.variant,
            model_sha256=compute_sha256(served.archive) if served.archive else None,
        )
        target = build_container_target(process.url)
        yield ReadyTarget(target=target, asked=asked, pid=process.pid)


def prepare_deployed_target(
    loaded: ValidFile, account: Account, *, variant: str | None, whole: bool = False
) -> ReadyTarget:
    """Return the deployed endpoint as a target. Raises LoadError.

    `whole`: if no variant is given, all variants share the load, provided that they have models.
    """
    environment, client = loaded.environment, account.client("sagemaker")
    live, headers, component = environment.endpoint.name, None, None
    if environment.components:
        component = find_component(environment, variant)
        headers = {"X-Amzn-SageMaker-Inference-Component": component}
    elif whole and variant is None:
        headers = {}
    described, _ = describe_variant(client, live, None if component else variant)
    return prepare_endpoint(
        account,
        live,
        name=loaded.name,
        variant=component or described["VariantName"],
        # With instance pools, which type responds is unknown.
        instance_type=described.get("InstanceType"),
        headers=headers,
    )


def prepare_endpoint(
    account: Account,
    live: str,
    *,
    name: str,
    variant: str,
    instance_type: str | None,
    headers: dict[str, str] | None = None,
    model_at: str | None = None,
) -> ReadyTarget:
    """Return an endpoint that is in service as a target. `headers` None: they name the variant."""
    asked = MeasuredTarget(
        target="sagemaker",
        address=live,
        environment=name,
        variant=variant,
        model_at=model_at,
        # The local AWS runs on this computer, whatever the instance type.
        instance_type=None if account.has_custom_endpoint else instance_type,
    )
    runtime_url = str(account.client("sagemaker-runtime").meta.endpoint_url).rstrip("/")
    target = LoadTarget(
        url=f"{runtime_url}/endpoints/{live}/invocations",
        headers={"X-Amzn-SageMaker-Target-Variant": variant} if headers is None else headers,
        signing_region=account.region,
    )
    return ReadyTarget(target=target, asked=asked, variables=account.build_process_variables())


def find_usd_per_hour(environment: Environment, instance_type: str) -> float | None:
    """Return an instance type's US dollars per hour; None if no source states them."""
    price = environment.prices.find_instance_price(instance_type, environment.region)
    return price.usd_per_hour if price else None


@contextmanager
def _run_copy(loaded: ValidFile, account: Account, options: TargetOptions) -> Iterator[ReadyTarget]:
    assert options.dollars is not None  # checked with --target
    client, live = account.client("sagemaker"), loaded.environment.endpoint.name
    report = partial(click.echo, err=True)
    endpoints = TemporaryEndpoints(
        client,
        budget_usd=options.dollars,
        usd_per_hour=partial(find_usd_per_hour, loaded.environment),
        poll_seconds=0.2 if account.has_custom_endpoint else 5.0,
        told=report,
    )
    source = read_live_variant(client, live, options.variant)
    kind, variant = options.instance_type or source.instance_type, source.config["VariantName"]
    with translate_aws_errors(live):
        endpoints.sweep()
        with endpoints.run_copy(source, instance_type=kind) as copy:
            report(f"{copy} is InService on {kind}")
            yield prepare_endpoint(
                account, copy, name=loaded.name, variant=variant, instance_type=kind
            )
    over = "; the budget was used up" if endpoints.ended_by_budget else ""
    report(f"{copy} is deleted; it cost at most {endpoints.spent_usd:.2f} ${over}")


# Lowers the endpoint's CPU share to a third: the generator has priority, and the endpoint still gets a
# share if other programs run.
_NICENESS = 5


def lower_priority(pid: int, *, entirely: bool = False) -> None:
    """Lower the priority of a process and its children; on Linux, of each of their threads.

    `entirely`: run only when nothing else needs a core (SCHED_IDLE). On a busy computer, such an
    endpoint stops responding, so use this only on a quiet one.
    """
    for process in _list_processes(pid):
        with suppress(psutil.Error, OSError):  # it, or one of its threads, has ended
            if not psutil.LINUX:
                process.nice(_NICENESS)
                continue
            for thread in process.threads():
                if entirely:
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread.id, _NICENESS)


def _list_processes(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; return no processes if it has ended."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.Error:
        return []


# The kernel walks all pages of a process for each sample.
_SAMPLE_SECONDS = 1.0


class UsageWatch:
    def __init__(self, pid: int) -> None:
        """Watch the CPU and memory of a process and its children from the first `sample()` on."""
        self._pid = pid
        self._samples: list[tuple[float, float, float]] = []

    def sample(self) -> None:
        now, cpu_seconds, memory_mib = time.monotonic(), 0.0, 0.0
        if self._samples and now - self._samples[-1][0] < _SAMPLE_SECONDS:
            return
        for process in _list_processes(self._pid):
            with suppress(psutil.Error):  # it has ended
                cpu_seconds += sum(process.cpu_times()[:2])
                # A shared page counts in equal parts for its processes. macOS has no such number, but
                # that of the process's own pages. Source: proc(5).
                memory = process.memory_full_info()
                memory_mib += getattr(memory, "pss", memory.uss) / 1024**2
        self._samples.append((now, cpu_seconds, memory_mib))

    def compute_usage(self) -> Usage | None:
        """Return the usage; None if there were fewer than two samples."""
        if len(self._samples) < 2:
            return None
        times, cpu_seconds, memory_mib = zip(*self._samples, strict=True)
        # The CPU time of a process that ended meanwhile is missing.
        cores = max(0.0, cpu_seconds[-1] - cpu_seconds[0]) / (times[-1] - times[0])
        return Usage(cpu_cores=cores, memory_mib=max(memory_mib))
