"""The local AWS as its users hold it: an address, and how to speak to it."""

import json
import os
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
    """One that runs. `already_up`: somebody else had started it."""

    url: str
    pid: int
    started: str
    folder: Path
    # What its callers sign with: of this run, and in no log.
    secret_access_key: str = field(repr=False)
    already_up: bool = False
    # How long a minute of its alarms and deployments lasts; None: moved by `advance`.
    seconds_per_minute: float | None = SECONDS_PER_MINUTE
    # The most that a variant has; 0: endpoints are in service without any.
    most_containers: int = 1

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def environment(self, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, str]:
        """The variables with which the CDK CLI, boto3 and the AWS CLI speak to it.

        `account` is who they are: here an access key is an account number, and all of them have
        the secret of this run.
        """
        own = self.folder / "client"
        no_proxy = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
        # Each once: the lines of `up` are evaluated again in the same shell.
        hosts = ",".join(
            dict.fromkeys(filter(None, [*no_proxy.split(","), "127.0.0.1", "localhost"]))
        )
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": account,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            # Nothing of the user's own configuration, and nothing of ours in it.
            "AWS_CONFIG_FILE": str(own / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(own / "credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            # The CLI remembers there which account an access key belongs to.
            "CDK_HOME": str(own / "cdk"),
            "CDK_DISABLE_VERSION_CHECK": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_PROXY": hosts,
            "no_proxy": hosts,
        }

    def environment_over(
        self, base: Mapping[str, str], *, account: str = ACCOUNT, region: str = REGION
    ) -> dict[str, str]:
        """A whole environment for a child: `base` without any AWS setting, then ours."""
        others = {key: value for key, value in base.items() if not key.startswith("AWS_")}
        return others | self.environment(account=account, region=region)

    def client(self, service: str, *, account: str = ACCOUNT, region: str = REGION) -> Any:
        """A boto3 client. It reads nothing of the environment or of ~/.aws."""
        access = Access(self.url, self.secret_access_key)
        return access.client(service, account=account, region=region)

    def now(self) -> datetime:
        """The time on its clock, UTC without saying so."""
        return datetime.fromisoformat(self._control(CLOCK_PATH, None)["now"])

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> datetime:
        """Moves a clock that stands still; what was due meanwhile has happened on return."""
        step = {"seconds": minutes * SECONDS_PER_MINUTE + seconds}
        return datetime.fromisoformat(self._control(CLOCK_PATH, step)["now"])

    def inject_fault(
        self, endpoint: str, *, account: str = ACCOUNT, region: str = REGION, **kinds: Any
    ) -> None:
        """Makes a deployed endpoint slow, failing, frozen or dead: servable_local/aws/controls.py says how.

        `aws.inject_fault("ranker", latency_ms=300)`, `aws.inject_fault("ranker", end=True)`
        """
        whose = {"account": account, "region": region, "endpoint": endpoint}
        self._control(FAULT_PATH, whose | kinds)

    def no_capacity(
        self, *instance_types: str, account: str = ACCOUNT, region: str = REGION
    ) -> None:
        """Makes new instances of these types, and of no others, unavailable; without any, ends it.

        `aws.no_capacity("ml.c5.xlarge")`: an endpoint on that type alone fails to start, and one with
        instance pools takes its next type.
        """
        whose = {"account": account, "region": region}
        self._control(FAULT_PATH, whose | {"no_capacity": list(instance_types)})

    def _control(self, path: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return Access(self.url, self.secret_access_key).ask(path, parameters)
        except urllib.error.HTTPError as refused:
            parsed = json.loads(refused.read())
            raise ValueError(parsed.get("error") or parsed.get("message") or str(refused)) from None
