"""Is this machine ready, and the account? Each look says what it saw and how to mend it."""

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import ClientError, NoCredentialsError

from infra.catalog.availability import regions
from infra.parameters.environment import Environment
from infra.policy.sizing import instances_during_update
from operations.deployed_account import Account, AwsError, absent

State = Literal["ok", "problem", "open"]
# requires-python of pyproject.toml.
LEAST_PYTHON = (3, 11)
# Of the CDK CLI that package.json pins; Node 20 is past its end of life.
# https://docs.aws.amazon.com/cdk/v2/guide/node-versions.html
LEAST_NODE = 20
# What the synthesised stacks ask for: requiresBootstrapStackVersion.
LEAST_BOOTSTRAP = 6
BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
SERVICE_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class Look:
    """One thing that was looked at. `open`: it could not be asked."""

    name: str
    state: State
    said: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def machine(root: Path) -> Iterator[Look]:
    """Python, Node and the CDK CLI; asks nobody."""
    said = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info[:2] >= LEAST_PYTHON
    yield _look("Python", fine, said, "install Python 3.11 or newer, then `make install`")
    node = _version(root, "node", "--version")
    number = int(node.split(".")[0]) if node else 0
    yield _look("Node", number >= LEAST_NODE, node or "not found", "`make install` brings its own")
    cdk, wanted = _version(root, "cdk", "--version"), _pinned(root)
    mend = f"`make install`, or `npm ci`; package.json pins {wanted}"
    fine = cdk is not None and wanted in (None, cdk)
    yield _look("CDK CLI", fine, cdk or "not found", mend)


def _look(name: str, fine: bool, said: str, mend: str) -> Look:
    return Look(name=name, state="ok" if fine else "problem", said=said, mend="" if fine else mend)


def _version(root: Path, *command: str) -> str | None:
    """Ours before any other on the machine."""
    places = [root / ".venv" / "bin", root / "node_modules" / ".bin"]
    own = [str(one / command[0]) for one in places if (one / command[0]).exists()]
    program = own[0] if own else shutil.which(command[0])
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"[0-9]+\.[0-9]+\.[0-9]+", ran.stdout)
    return found[0] if found else None


def _pinned(root: Path) -> str | None:
    try:
        told = json.loads((root / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pins = {**told.get("dependencies", {}), **told.get("devDependencies", {})}
    pin = pins.get("aws-cdk")
    return str(pin) if pin else None


def account(environment: Environment, asked: Account) -> Iterator[Look]:
    """Credentials first; without them nothing else is asked."""
    try:
        found = asked.identity()
    except NoCredentialsError:
        mend = "`aws configure`, AWS_PROFILE, or the variables of `servable local up`"
        yield Look(name="credentials", state="problem", said="none in this shell", mend=mend)
        return
    except AwsError as wrong:
        mend = "look at the network, the clock and the credentials; nothing else was asked"
        yield Look(name="credentials", state="open", said=f"could not ask: {wrong}", mend=mend)
        return
    fine = str(found["Account"]) == environment.account
    mend = f"use credentials of {environment.account}, which the file names"
    yield _look("credentials", fine, f"{found['Arn']}", mend)
    if not fine:
        return
    for name, look in _ASKED.items():
        try:
            yield from look(environment, asked)
        except AwsError as wrong:
            mend = "the credentials may not ask, or nobody answers"
            yield Look(name=name, state="open", said=f"could not ask: {wrong}", mend=mend)


def _region(environment: Environment, asked: Account) -> Iterator[Look]:
    known = regions()
    fine = environment.region in known
    yield _look("region", fine, environment.region, f"SageMaker hosts in: {', '.join(known)}")


def _bootstrap(environment: Environment, asked: Account) -> Iterator[Look]:
    mend = f"`cdk bootstrap aws://{environment.account}/{environment.region}`"
    try:
        version = asked.client("ssm").get_parameter(Name=BOOTSTRAP)["Parameter"]["Value"]
    except ClientError as error:
        if not absent(error):
            raise
        yield Look(name="bootstrap", state="problem", said="not bootstrapped", mend=mend)
        return
    fine = int(version) >= LEAST_BOOTSTRAP
    yield _look("bootstrap", fine, f"version {version}, needed {LEAST_BOOTSTRAP}", mend)


def needed(environment: Environment) -> dict[str, int]:
    """Instance type -> instances at once, while an update replaces a fleet at its maximum."""
    rollout = environment.rollout
    rolling = rollout.batch_percent if rollout and rollout.strategy == "rolling" else None
    found: dict[str, int] = {}
    for one in environment.variants.values():
        if one.instance_type is None:
            continue  # serverless has a quota of its own
        count = instances_during_update(one.most_instances, rolling_percent=rolling)
        found[one.instance_type] = found.get(one.instance_type, 0) + count
    return found


def _quotas(environment: Environment, asked: Account) -> Iterator[Look]:
    quotas = {
        one["QuotaName"]: float(one["Value"])
        for one in asked.pages(
            "service-quotas", "list_service_quotas", "Quotas", ServiceCode="sagemaker"
        )
    }
    for kind, count in needed(environment).items():
        name = f"{kind} for endpoint usage"
        value = quotas.get(name)
        wanted = f"{count} at once, both fleets of an update at max_instances"
        if value is None:
            said = f"service-quotas does not list {name!r}; needed {wanted}"
            yield Look(name=f"quota of {kind}", state="open", said=said, mend="look in the console")
            continue
        mend = f"ask for {count} of {name!r} in Service Quotas, or lower max_instances"
        yield _look(f"quota of {kind}", value >= count, f"{value:g}; needed {wanted}", mend)


def _scaling_role(environment: Environment, asked: Account) -> Iterator[Look]:
    if all(one.scaling is None for one in environment.variants.values()):
        return
    mend = (
        "`aws iam create-service-linked-role --aws-service-name "
        "sagemaker.application-autoscaling.amazonaws.com`"
    )
    try:
        asked.client("iam").get_role(RoleName=SERVICE_ROLE)
    except ClientError as error:
        if not absent(error):
            raise
        # AWS makes it the first time that something is scaled.
        yield Look(name="scaling role", state="open", said="not there yet", mend=mend)
        return
    yield Look(name="scaling role", state="ok", said=SERVICE_ROLE)


def _network(environment: Environment, asked: Account) -> Iterator[Look]:
    subnets = environment.network.subnets
    if not subnets:
        return
    ec2 = asked.client("ec2")
    try:
        found = ec2.describe_subnets(SubnetIds=list(subnets))["Subnets"]
    except ClientError as error:
        if not absent(error):
            raise
        mend = "write subnets that are in this account and region"
        yield Look(name="subnets", state="problem", said=str(error), mend=mend)
        return
    free = sum(int(one["AvailableIpAddressCount"]) for one in found)
    count = math.ceil(sum(needed(environment).values()))
    mend = f"an instance takes an address: give larger subnets, {count} at once are needed"
    yield _look("subnets", free >= count, f"{len(found)} with {free} free addresses", mend)
    networks = sorted({one["VpcId"] for one in found})
    there = {
        one["ServiceName"]
        for one in asked.pages(
            "ec2",
            "describe_vpc_endpoints",
            "VpcEndpoints",
            Filters=[{"Name": "vpc-id", "Values": networks}],
        )
    }
    for service in ("s3", "logs"):
        name = f"com.amazonaws.{environment.region}.{service}"
        # A route to the internet does as well, which is not looked at.
        state: State = "ok" if name in there else "open"
        mend = "" if name in there else f"without a NAT gateway: make a VPC endpoint for {name}"
        said = "there" if name in there else "not there"
        yield Look(name=f"VPC endpoint {service}", state=state, said=said, mend=mend)


_ASKED: dict[str, Callable[[Environment, Account], Iterator[Look]]] = {
    "region": _region,
    "bootstrap": _bootstrap,
    "quotas": _quotas,
    "scaling role": _scaling_role,
    "subnets": _network,
}
