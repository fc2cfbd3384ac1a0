"""What `servable load` asks: an environment here or deployed, or any address."""

import dataclasses
import datetime
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.environment import Environment
from infra.parameters.finding import meant
from infra.parameters.loading import Loaded
from model_packaging.digest import sha256_of
from model_packaging.refusal import PackagingError
from servable.aws_account import Account
from servable.load.load_target import Target, container, endpoint
from servable.load.measurement import Asked
from servable.serve.container import serve_double
from servable.serve.serve import prepared
from servable.tune.process_priority import yielding

RUNS = Path(".servable") / "load"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A target that is up."""

    target: Target
    asked: Asked
    pid: int | None = None
    """Of its first process, on this machine."""
    variables: dict[str, str] | None = None
    """For the generator's processes; None: those of this one."""

    def target_within(self, timeout_seconds: float) -> Target:
        return dataclasses.replace(self.target, timeout_seconds=timeout_seconds)


@contextmanager
def local(
    loaded: Loaded, bodies: Sequence[str], *, variant: str | None, log: Path
) -> Iterator[Reached]:
    """The container's double, for as long as the load runs. Raises Refusal, LaunchError."""
    served = prepared(loaded, variant=variant)
    with serve_double(served, port=0, log=log) as process:
        yielding(process.pid)
        archive = served.archive
        yield Reached(
            target=container(process.url),
            asked=_asked(
                "local",
                process.url,
                bodies,
                environment=loaded.name,
                variant=served.variant,
                model_sha256=sha256_of(archive) if archive else None,
            ),
            pid=process.pid,
        )


def at_url(url: str, bodies: Sequence[str]) -> Reached:
    """Any address. Raises ValueError for what is none."""
    return Reached(target=container(url), asked=_asked("url", url, bodies))


def deployed(
    environment: Environment,
    bodies: Sequence[str],
    *,
    name: str,
    variant: str | None,
    account: Account,
    whole: bool = False,
) -> Reached:
    """The live endpoint. `whole`: without a variant all share the load. Raises Refusal."""
    live = environment.endpoint.name
    instance_type, chosen = serving(account.client("sagemaker"), live, variant)
    found = at_endpoint(
        account, live, bodies, name=name, variant=chosen, instance_type=instance_type
    )
    if not whole or variant is not None:
        return found
    target = endpoint(live, region=account.region, runtime_url=_runtime_url(account))
    return dataclasses.replace(found, target=target)


def at_endpoint(
    account: Account,
    live: str,
    bodies: Sequence[str],
    *,
    name: str,
    variant: str,
    instance_type: str | None,
    model_at: str | None = None,
) -> Reached:
    """An endpoint that is in service."""
    return Reached(
        target=endpoint(
            live, region=account.region, runtime_url=_runtime_url(account), variant=variant
        ),
        asked=_asked(
            "sagemaker",
            live,
            bodies,
            environment=name,
            variant=variant,
            model_at=model_at,
            # The embedded AWS answers on this machine, whatever the instance is called.
            instance_type=None if account.embedded else instance_type,
        ),
        variables=account.variables(),
    )


def _runtime_url(account: Account) -> str:
    return str(account.client("sagemaker-runtime").meta.endpoint_url)


def run_folder(root: Path, name: str) -> Path:
    """A new one; nothing is made yet."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return root / RUNS / f"{safe.strip('-')[:60]}-{now}"


def serving(client: Any, name: str, variant: str | None) -> tuple[str | None, str]:
    """(instance type, variant) of a live endpoint. Raises Refusal."""
    try:
        found = client.describe_endpoint(EndpointName=name)
        config = client.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
    except (ClientError, BotoCoreError) as error:
        fix = "deploy it first, or look at the credentials: `aws sts get-caller-identity`"
        raise PackagingError(
            Path(name), f"the endpoint cannot be described: {error}", fix
        ) from None
    if found["EndpointStatus"] not in ("InService", "Updating"):
        problem = f"the endpoint is {found['EndpointStatus']}"
        raise PackagingError(Path(name), problem, "wait until it is InService")
    variants = {one["VariantName"]: one for one in config["ProductionVariants"]}
    chosen = variant or next(iter(variants))
    if chosen not in variants:
        problem = f"there is no variant {chosen!r}; allowed: {', '.join(variants)}"
        raise PackagingError(Path(name), problem, meant(chosen, variants))
    return variants[chosen].get("InstanceType"), chosen


def _asked(target: str, address: str, bodies: Sequence[str], **more: str | None) -> Asked:
    cores = os.cpu_count()
    now = datetime.datetime.now(datetime.UTC)
    return Asked(
        target=target,
        address=address,
        bodies=tuple(bodies),
        started_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=f"{platform.node()}, {cores} cores, {platform.machine()}",
        **more,
    )
