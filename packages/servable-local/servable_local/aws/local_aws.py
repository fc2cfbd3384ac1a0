"""A running local AWS: its address, its clients and controls, and its stack CDKToolkit.

CDKToolkit is created from the CDK CLI's own template, so that a later `cdk bootstrap` of that CLI
changes nothing.
"""

import contextlib
import json
import os
import shutil
import urllib.error
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, Access

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS. `already_up`: a different caller had started it."""

    url: str
    pid: int
    started: str
    folder: Path
    # Callers sign with it. It is valid for this run, and in no log.
    secret_access_key: str = field(repr=False)
    already_up: bool = False
    # How long a minute of its alarms and deployments lasts; None if `advance` moves the clock.
    seconds_per_minute: float | None = SECONDS_PER_MINUTE
    # The maximum per variant; with 0, endpoints are in service without containers.
    most_containers: int = 1

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def environment(self, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, str]:
        """Return the variables with which the CDK CLI, boto3, and the AWS CLI call it.

        `account` is the caller's: here an access key is an account number, and all of them have
        the secret of this run.
        """
        own = self.folder / "client"
        no_proxy = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
        # Without duplicates: a shell may evaluate the lines of `up` again.
        hosts = ",".join(
            dict.fromkeys(filter(None, [*no_proxy.split(","), "127.0.0.1", "localhost"]))
        )
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": account,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            # Neither reads nor changes the user's own configuration.
            "AWS_CONFIG_FILE": str(own / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(own / "credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            # The CDK CLI stores there which account an access key belongs to.
            "CDK_HOME": str(own / "cdk"),
            "CDK_DISABLE_VERSION_CHECK": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_PROXY": hosts,
            "no_proxy": hosts,
        }

    def environment_over(
        self, base: Mapping[str, str], *, account: str = ACCOUNT, region: str = REGION
    ) -> dict[str, str]:
        """Return an environment for a child: `base` without AWS settings, plus this one's."""
        others = {key: value for key, value in base.items() if not key.startswith("AWS_")}
        return others | self.environment(account=account, region=region)

    def client(self, service: str, *, account: str = ACCOUNT, region: str = REGION) -> Any:
        """Return a boto3 client, which ignores the environment and ~/.aws."""
        access = Access(self.url, self.secret_access_key)
        return access.client(service, account=account, region=region)

    def now(self) -> datetime:
        """Return the time on its clock: UTC, in a naive datetime."""
        return datetime.fromisoformat(self._call_control(CLOCK_PATH, None)["now"])

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> datetime:
        """Advance a clock that stands still; everything due has happened on return."""
        step = {"seconds": minutes * SECONDS_PER_MINUTE + seconds}
        return datetime.fromisoformat(self._call_control(CLOCK_PATH, step)["now"])

    def inject_fault(
        self, endpoint: str, *, account: str = ACCOUNT, region: str = REGION, **kinds: Any
    ) -> None:
        """Make a deployed endpoint slow, failing, frozen, or dead: see request_router.py.

        `aws.inject_fault("ranker", latency_ms=300)`, `aws.inject_fault("ranker", end=True)`
        """
        whose = {"account": account, "region": region, "endpoint": endpoint}
        self._call_control(FAULT_PATH, whose | kinds)

    def no_capacity(
        self, *instance_types: str, account: str = ACCOUNT, region: str = REGION
    ) -> None:
        """Make new instances of only these types unavailable; without types, end that.

        `aws.no_capacity("ml.c5.xlarge")`: an endpoint on that type alone fails to start, and one
        with instance pools takes its next type.
        """
        whose = {"account": account, "region": region}
        self._call_control(FAULT_PATH, whose | {"no_capacity": list(instance_types)})

    def _call_control(self, path: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return Access(self.url, self.secret_access_key).call_control(path, parameters)
        except urllib.error.HTTPError as refused:
            parsed = json.loads(refused.read())
            raise ValueError(parsed.get("error") or parsed.get("message") or str(refused)) from None


STACK = "CDKToolkit"
_TEMPLATE = Path("lib/api/bootstrap/bootstrap-template.yaml")
# The parameters that `cdk bootstrap` passes without options.
_PARAMETERS = [
    {"ParameterKey": name, "ParameterValue": value}
    for name, value in (
        ("FileAssetsBucketKmsKeyId", "AWS_MANAGED_KEY"),
        ("CloudFormationExecutionPolicies", "arn:aws:iam::aws:policy/AdministratorAccess"),
    )
]


class BootstrapError(Exception):
    """The stack could not be created. `str()` says why."""


def find_template(folder: Path) -> Path | None:
    """Return the template of the CDK CLI: the one on PATH, or the one that npm installed at or above
    `folder`. Return None without a CLI."""
    program = shutil.which("cdk")
    packages = [Path(program).resolve().parent.parent] if program else []
    packages += [above / "node_modules" / "aws-cdk" for above in (folder, *folder.parents)]
    return next((path for package in packages if (path := package / _TEMPLATE).is_file()), None)


def bootstrap(aws: LocalAws, *, account: str, region: str, folder: Path) -> bool:
    """Create CDKToolkit in an account and Region, unless it exists. Return False without a CDK CLI.

    `folder`: where to look for the CLI, after PATH. Raises `BootstrapError`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    cloudformation = aws.client("cloudformation", account=account, region=region)
    try:
        stacks = cloudformation.describe_stacks()["Stacks"]
        if not any(stack["StackName"] == STACK for stack in stacks):
            template = find_template(folder)
            if template is None:
                return False
            with contextlib.suppress(cloudformation.exceptions.AlreadyExistsException):
                cloudformation.create_stack(
                    StackName=STACK,
                    TemplateBody=template.read_text(encoding="utf-8"),
                    Parameters=_PARAMETERS,
                    Capabilities=["CAPABILITY_NAMED_IAM"],
                )
        created = cloudformation.get_waiter("stack_create_complete")
        created.wait(StackName=STACK, WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
    except (BotoCoreError, ClientError) as error:
        place = f"aws://{account}/{region}"
        remedy = f"run `cdk bootstrap {place}` to see the reason"
        raise BootstrapError(f"cannot bootstrap {place}: {error}; {remedy}") from None
    return True
