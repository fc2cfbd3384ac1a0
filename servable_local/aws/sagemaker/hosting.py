"""Everything hosted in one account and region, and in all of them."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.clock import Clock, utc_now
from servable_local.aws.cloudwatch.alarms import CloudWatch, CloudWatches
from servable_local.aws.errors import SageMakerValidationError
from servable_local.aws.loopback import Access, Loopback, tell_event_bridge
from servable_local.aws.sagemaker.container import Launch
from servable_local.aws.sagemaker.described import event_detail
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, Surroundings
from servable_local.aws.sagemaker.fleet import Fleet, start_fleet
from servable_local.aws.sagemaker.published_metrics import publish_utilisation


@dataclass
class StoredDefinition:
    """A model or a configuration: exactly what was asked for, its ARN and its time."""

    arn: str
    request: dict[str, Any]
    created: datetime = field(default_factory=utc_now)


class RegionalHosting:
    """One account and region. Names are found in any case: an ARN holds them in lower case."""

    def __init__(
        self, aws: Loopback, launch: Launch, folder: Path, clock: Clock, cloudwatch: CloudWatch
    ) -> None:
        self.aws = aws
        self.clock = clock
        self.cloudwatch = cloudwatch
        self.models: dict[str, StoredDefinition] = {}
        self.configs: dict[str, StoredDefinition] = {}
        self.endpoints: dict[str, HostedEndpoint] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self._launch = launch
        self._folder = folder

    def arn(self, kind: str, name: str) -> str:
        return f"arn:aws:sagemaker:{self.aws.region}:{self.aws.account}:{kind}/{name.lower()}"

    def model(self, name: str) -> StoredDefinition:
        if name.lower() not in self.models:
            raise SageMakerValidationError(f'Could not find model "{self.arn("model", name)}".')
        return self.models[name.lower()]

    def config(self, name: str) -> StoredDefinition:
        if name.lower() not in self.configs:
            arn = self.arn("endpoint-config", name)
            raise SageMakerValidationError(f'Could not find endpoint configuration "{arn}".')
        return self.configs[name.lower()]

    def endpoint(self, name: str) -> HostedEndpoint:
        if name.lower() not in self.endpoints:
            raise SageMakerValidationError(
                f'Could not find endpoint "{self.arn("endpoint", name)}".'
            )
        return self.endpoints[name.lower()]

    def surroundings(self, endpoint_name: str) -> Surroundings:
        return Surroundings(
            clock=self.clock,
            start=lambda config_name: self._start_fleet(endpoint_name, config_name),
            in_alarm=self._in_alarm,
            tell=lambda kind: self.tell(self.endpoints[endpoint_name.lower()], kind),
        )

    def tell(self, endpoint: HostedEndpoint, kind: str) -> None:
        """EventBridge, of an endpoint's new state."""
        tell_event_bridge(
            self.aws,
            source="aws.sagemaker",
            kind=kind,
            detail=event_detail(endpoint, self.tags.get(endpoint.arn, {})),
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


class Hostings:
    """Of every account and region of the server."""

    def __init__(
        self, access: Access, launch: Launch, folder: Path, cloudwatches: CloudWatches
    ) -> None:
        self._access = access
        self._cloudwatches = cloudwatches
        self._launch = launch
        self._folder = folder
        self._all: dict[tuple[str, str], RegionalHosting] = {}
        self._lock = threading.Lock()

    def of(self, account: str, region: str) -> RegionalHosting:
        with self._lock:
            key = (account, region)
            if key not in self._all:
                aws = Loopback(self._access, account=account, region=region)
                self._all[key] = RegionalHosting(
                    aws,
                    self._launch,
                    self._folder,
                    self._cloudwatches.clock,
                    self._cloudwatches.of(account, region),
                )
            return self._all[key]

    def endpoints(self) -> Iterator[HostedEndpoint]:
        for hosting in list(self._all.values()):
            yield from list(hosting.endpoints.values())

    def measure(self, at: datetime) -> None:
        """What containers take of this machine, once a minute."""
        for hosting in list(self._all.values()):
            for endpoint in list(hosting.endpoints.values()):
                fleet = endpoint.fleet
                for variant in fleet.everybody() if fleet else ():
                    publish_utilisation(
                        hosting.cloudwatch.metrics, at, endpoint=endpoint.name, variant=variant
                    )

    def tick(self, at: datetime) -> None:
        for endpoint in self.endpoints():
            endpoint.tick(at)

    def close(self) -> None:
        """Ends every endpoint's processes, at the end of the server."""
        threads = [threading.Thread(target=one.close) for one in self.endpoints()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def clear(self) -> None:
        """Of every account. Endpoints are closed before."""
        with self._lock:
            self._all.clear()
