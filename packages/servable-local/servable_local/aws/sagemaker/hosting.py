"""The hosted resources of one account and Region, and of all of them."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import Loopback, Regions
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.container import ContainerLogs, Launch, VariantStartError, Write
from servable_local.aws.sagemaker.described import build_event_detail, convert_times
from servable_local.aws.sagemaker.endpoint import EndpointDependencies, HostedEndpoint
from servable_local.aws.sagemaker.fleet import FleetLauncher, Host, StartableModel
from servable_local.aws.sagemaker.instances import Shortage
from servable_local.aws.sagemaker.published_metrics import publish_backlog, publish_utilization
from servable_local.aws.sagemaker.transform_job import TransformJob


@dataclass(frozen=True)
class StoredDefinition:
    """A model or a configuration: its unchanged request, its ARN, and its creation time."""

    kind: str
    arn: str
    request: dict[str, Any]
    created: datetime

    def summarize(self) -> dict[str, Any]:
        name = f"{self.kind}Name"
        return {name: self.request[name], f"{self.kind}Arn": self.arn, "CreationTime": self.created}

    def describe(self) -> dict[str, Any]:
        return self.request | self.summarize()


class Definitions:
    """All models, or all endpoint configurations. Names are case-insensitive."""

    def __init__(
        self,
        kind: str,
        words: str,
        arn: Callable[[str], str],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Initialize. `kind` is the API's name, `words` that of errors; `arn` is of a name."""
        self.arn, self._now, self._kind, self._words = arn, now, kind, words
        self._all: dict[str, StoredDefinition] = {}

    def check_new(self, name: str) -> None:
        if name.lower() in self._all:
            raise SageMakerError(
                f'Cannot create already existing {self._words} "{self.arn(name)}".'
            )

    def add(self, name: str, request: dict[str, Any]) -> None:
        self._all[name.lower()] = StoredDefinition(self._kind, self.arn(name), request, self._now())

    def find_request(self, name: str) -> dict[str, Any] | None:
        """Return the request that created the resource with this name, or None."""
        definition = self._all.get(name.lower())
        return None if definition is None else definition.request

    def find_definition(self, name: str) -> StoredDefinition:
        definition = self._all.get(name.lower())
        if definition is None:
            raise SageMakerError(f'Could not find {self._words} "{self.arn(name)}".')
        return definition

    def remove(self, name: str) -> StoredDefinition:
        self.find_definition(name)
        return self._all.pop(name.lower())

    def list_summaries(self) -> list[dict[str, Any]]:
        return [definition.summarize() for definition in self._all.values()]


class RegionalHosting(Host):
    """The resources of an account and Region. Names ignore case: an ARN has them in lower case."""

    def __init__(
        self,
        aws: Loopback,
        launch: Launch,
        folder: Path,
        cloudwatch: CloudWatch,
        write_log: Write,
        most_containers: int = 1,
    ) -> None:
        """Initialize without resources. `write_log` receives the containers' output."""
        self.aws, self.clock, self.cloudwatch = aws, cloudwatch.clock, cloudwatch
        now = self.clock.now
        self.models = Definitions("Model", "model", lambda name: self.build_arn("model", name), now)
        self.configs = Definitions(
            "EndpointConfig",
            "endpoint configuration",
            lambda name: self.build_arn("endpoint-config", name),
            now,
        )
        self.endpoints: dict[str, HostedEndpoint] = {}
        self.components: dict[str, HostedComponent] = {}
        self.jobs: dict[str, TransformJob] = {}
        self.shortage = Shortage()
        self._logs = ContainerLogs(folder, write_log)
        self.tags: dict[str, dict[str, str]] = {}
        self.launch, self.folder = launch, folder
        self.most_containers = most_containers

    def build_arn(self, kind: str, name: str) -> str:
        return f"arn:aws:sagemaker:{self.aws.region}:{self.aws.account}:{kind}/{name.lower()}"

    def find_endpoint(self, name: str) -> HostedEndpoint:
        if name.lower() not in self.endpoints:
            raise SageMakerError(f'Could not find endpoint "{self.build_arn("endpoint", name)}".')
        return self.endpoints[name.lower()]

    def find_component(self, name: str) -> HostedComponent:
        if name.lower() not in self.components:
            arn = self.build_arn("inference-component", name)
            raise SageMakerError(f'Could not find inference component "{arn}".')
        return self.components[name.lower()]

    def list_components(self, endpoint: HostedEndpoint) -> list[HostedComponent]:
        return [each for each in list(self.components.values()) if each.endpoint is endpoint]

    def prepare_component(
        self, component: HostedComponent, specification: Mapping[str, Any], folder: Path
    ) -> StartableModel:
        """Fetch a specification's data into `folder`. Raises `VariantStartError`."""
        container = specification.get("Container", {})
        containers = [{"ModelDataUrl": container.get("ArtifactUrl"), **container}]
        if model_name := specification.get("ModelName"):
            model = self.models.find_request(model_name)
            if model is None:
                raise VariantStartError(f'Could not find model "{model_name}".')
            containers = model.get("Containers") or [model["PrimaryContainer"]]
        launcher = self._create_launcher(f"/aws/sagemaker/InferenceComponents/{component.name}")
        startup = specification.get("StartupParameters", {})
        return launcher.prepare_model(containers, component.variant_name, folder, startup)

    def build_endpoint_dependencies(self, endpoint_name: str) -> EndpointDependencies:
        launcher = self._create_launcher(f"/aws/sagemaker/Endpoints/{endpoint_name}")
        return EndpointDependencies(
            clock=self.clock,
            start=lambda config_name: launcher.start(
                self.configs.find_definition(config_name).request
            ),
            in_alarm=lambda names: [
                alarm.name
                for alarm in map(self.cloudwatch.alarms.find_alarm, names)
                if alarm and alarm.state == "ALARM"
            ],
            send_event=lambda kind: self.send_endpoint_event(
                self.endpoints[endpoint_name.lower()], kind
            ),
        )

    def send_endpoint_event(self, endpoint: HostedEndpoint, kind: str) -> None:
        """Send an event with an endpoint's new state to EventBridge."""
        detail = build_event_detail(endpoint, self.tags.get(endpoint.arn, {}))
        self._send_event(kind, endpoint.arn, detail)

    def send_package_event(self, arn: str) -> None:
        """Send an event with a model package to EventBridge. Its times are text.

        https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html,
        as in github.com/awsdocs/amazon-sagemaker-developer-guide 0d5df7f.
        """
        package = self.aws.client("sagemaker").describe_model_package(ModelPackageName=arn)
        detail = {
            name: f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value
            for name, value in package.items()
            if name not in ("ResponseMetadata", "CreatedBy", "LastModifiedBy")
        }
        self._send_event("SageMaker Model Package State Change", arn, detail)

    def _send_event(self, kind: str, arn: str, detail: dict[str, Any]) -> None:
        self.aws.send_event(
            source="aws.sagemaker", kind=kind, detail=detail, resources=[arn], at=self.clock.now()
        )

    def send_job_event(self, job: TransformJob) -> None:
        tags = {"Tags": dict(self.tags.get(job.arn, {}))}
        detail = convert_times(job.describe()) | tags
        self._send_event("SageMaker Transform Job State Change", job.arn, detail)

    def _create_launcher(self, log_group: str) -> FleetLauncher:
        return FleetLauncher(
            model=self.models.find_request,
            aws=self.aws,
            launch=self.launch,
            folder=self.folder,
            log_group=log_group,
            logs=self._logs,
            most_containers=self.most_containers,
            shortage=self.shortage,
        )

    def measure(self, at: datetime) -> None:
        """Measure the containers' use of this computer, as often as each endpoint publishes.

        Also forward their output since the last tick to CloudWatch Logs.
        """
        self._logs.forward()
        for endpoint in list(self.endpoints.values()):
            published = endpoint.config.get("MetricsConfig", {})
            if (60 * at.minute + at.second) % published.get("MetricPublishFrequencyInSeconds", 60):
                continue
            if endpoint.kind == "asynchronous" and (fleet := endpoint.fleet):
                publish_backlog(
                    self.cloudwatch.metrics,
                    at,
                    endpoint.name,
                    received=list(endpoint.queue.values()),
                    instances=sum(each.instances.serving_count for each in fleet.variants.values()),
                )
            for variant in endpoint.fleet.list_variants() if endpoint.fleet else ():
                for percents, pools in variant.measure_utilization():
                    publish_utilization(
                        self.cloudwatch.metrics,
                        at,
                        percents,
                        dimensions={"EndpointName": endpoint.name, "VariantName": variant.name},
                        kind=endpoint.kind,
                        pools=pools,
                    )

    def tick(self, at: datetime) -> None:
        for endpoint in list(self.endpoints.values()):
            endpoint.tick(at)
        for component in list(self.components.values()):
            component.tick(at)
        for endpoint in list(self.endpoints.values()):
            with endpoint.lock:
                for variant in endpoint.fleet.list_variants() if endpoint.fleet else ():
                    if variant.placement is not None:
                        variant.placement.end_empty(at)


def close_endpoints(hostings: Regions[RegionalHosting]) -> None:
    """End the processes of every endpoint, component, and job, in all accounts and Regions."""
    running: list[HostedEndpoint | HostedComponent | TransformJob] = []
    for here in hostings.list_services():
        running += [*here.components.values(), *here.endpoints.values(), *here.jobs.values()]
    threads = [threading.Thread(target=each.close) for each in running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
