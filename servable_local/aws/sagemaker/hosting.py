"""Everything hosted in one account and region, and the threads' way to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws import events
from servable_local.aws.clock import Clock, utc_now
from servable_local.aws.cloudwatch.cloudwatches import CloudWatch
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.described import told
from servable_local.aws.sagemaker.endpoint import Endpoint
from servable_local.aws.sagemaker.errors import ValidationError
from servable_local.aws.sagemaker.fleet import Fleet
from servable_local.aws.sagemaker.launching import Launch
from servable_local.aws.sagemaker.starting import start_fleet
from servable_local.aws.sagemaker.surroundings import Surroundings


@dataclass
class Record:
    """A model or a configuration: exactly what was asked for, its ARN and its time."""

    arn: str
    request: dict[str, Any]
    created: datetime = field(default_factory=utc_now)


class Hosting:
    """One account and region. Names are found in any case: an ARN holds them in lower case."""

    def __init__(
        self, aws: Loopback, launch: Launch, folder: Path, clock: Clock, cloudwatch: CloudWatch
    ) -> None:
        self.aws = aws
        self.clock = clock
        self.cloudwatch = cloudwatch
        self.models: dict[str, Record] = {}
        self.configs: dict[str, Record] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self._launch = launch
        self._folder = folder

    def arn(self, kind: str, name: str) -> str:
        return f"arn:aws:sagemaker:{self.aws.region}:{self.aws.account}:{kind}/{name.lower()}"

    def model(self, name: str) -> Record:
        if name.lower() not in self.models:
            raise ValidationError(f'Could not find model "{self.arn("model", name)}".')
        return self.models[name.lower()]

    def config(self, name: str) -> Record:
        if name.lower() not in self.configs:
            arn = self.arn("endpoint-config", name)
            raise ValidationError(f'Could not find endpoint configuration "{arn}".')
        return self.configs[name.lower()]

    def endpoint(self, name: str) -> Endpoint:
        if name.lower() not in self.endpoints:
            raise ValidationError(f'Could not find endpoint "{self.arn("endpoint", name)}".')
        return self.endpoints[name.lower()]

    def surroundings(self, endpoint_name: str) -> Surroundings:
        return Surroundings(
            clock=self.clock,
            start=lambda config_name: self._start_fleet(endpoint_name, config_name),
            in_alarm=self._in_alarm,
            tell=lambda kind: self.tell(self.endpoints[endpoint_name.lower()], kind),
        )

    def tell(self, endpoint: Endpoint, kind: str) -> None:
        """EventBridge, of an endpoint's new state."""
        events.tell(
            self.aws,
            source="aws.sagemaker",
            kind=kind,
            detail=told(endpoint, self.tags.get(endpoint.arn, {})),
            resources=[endpoint.arn],
            at=self.clock.now(),
        )

    def _start_fleet(self, endpoint_name: str, config_name: str) -> Fleet:
        return start_fleet(
            self.config(config_name).request,
            {name: record.request for name, record in self.models.items()},
            aws=self.aws,
            launch=self._launch,
            folder=self._folder,
            endpoint_name=endpoint_name,
        )

    def _in_alarm(self, names: Sequence[str]) -> list[str]:
        found = [self.cloudwatch.alarms.get(name) for name in names]
        return [alarm.name for alarm in found if alarm and alarm.state == "ALARM"]
