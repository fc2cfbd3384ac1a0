"""The hosted resources of one account and Region, and of all of them."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import AwsError, SageMakerError
from servable_local.aws.loopback import Loopback, Regions
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.container import ContainerLogs, Launch, Write
from servable_local.aws.sagemaker.described import build_event_detail, convert_times
from servable_local.aws.sagemaker.endpoint import EndpointDependencies, HostedEndpoint
from servable_local.aws.sagemaker.fleet import FleetLauncher, Host
from servable_local.aws.sagemaker.instances import Shortage
from servable_local.aws.sagemaker.published_metrics import publish_backlog, publish_utilization
from servable_local.aws.sagemaker.transform_job import TransformJob

_Resource = TypeVar("_Resource")


@dataclass(frozen=True)
class StoredDefinition:
    """A model or a configuration: its unchanged request, its ARN, and its creation time."""

    kind: str
    arn: str
    request: dict[str, Any]
    created: datetime

    def describe(self) -> dict[str, Any]:
        return {**self.request, f"{self.kind}Arn": self.arn, "CreationTime": self.created}


class Register(dict[str, _Resource]):
    """All resources of a kind, by name in lower case. `words` is the kind in errors."""

    def __init__(self, words: str, arn: Callable[[str], str]) -> None:
        super().__init__()
        self._words, self._arn = words, arn

    def name_new(self, name: str) -> str:
        """Return a new resource's ARN. Raises `SageMakerError` for an existing name."""
        arn = self._arn(name)
        if name.lower() in self:
            raise SageMakerError(f'Cannot create already existing {self._words} "{arn}".')
        return arn

    def find(self, name: str) -> _Resource:
        if name.lower() not in self:
            raise SageMakerError(f'Could not find {self._words} "{self._arn(name)}".')
        return self[name.lower()]


class _Jobs(Register[TransformJob]):
    """Transform jobs, for which SageMaker has its own errors."""

    def name_new(self, name: str) -> str:
        if name.lower() in self:
            raise AwsError(
                "ResourceInUse",
                "Job name must be unique within an AWS account and region, and a job with this name "
                f"already exists ({self._arn(name)})",
            )
        return self._arn(name)

    def find(self, name: str) -> TransformJob:
        if name.lower() not in self:
            raise SageMakerError("Requested resource not found.")
        return self[name.lower()]


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
        build_arn = self.build_arn
        self.models = Register[StoredDefinition]("model", partial(build_arn, "model"))
        self.configs = Register[StoredDefinition](
            "endpoint configuration", partial(build_arn, "endpoint-config")
        )
        self.endpoints = Register[HostedEndpoint]("endpoint", partial(build_arn, "endpoint"))
        self.components = Register[HostedComponent](
            "inference component", partial(build_arn, "inference-component")
        )
        self.jobs = _Jobs("transform job", partial(build_arn, "transform-job"))
        self.shortage = Shortage()
        self.logs = ContainerLogs(folder, write_log)
        self.tags: dict[str, dict[str, str]] = {}
        self.launch, self.folder = launch, folder
        self.most_containers = most_containers

    def build_arn(self, kind: str, name: str) -> str:
        return f"arn:aws:sagemaker:{self.aws.region}:{self.aws.account}:{kind}/{name.lower()}"

    def list_components(self, endpoint: HostedEndpoint) -> list[HostedComponent]:
        return [each for each in list(self.components.values()) if each.endpoint is endpoint]

    def find_model(self, name: str) -> Mapping[str, Any] | None:
        return self.models[name.lower()].request if name.lower() in self.models else None

    def build_endpoint_dependencies(self, endpoint_name: str) -> EndpointDependencies:
        launcher = FleetLauncher(self, f"/aws/sagemaker/Endpoints/{endpoint_name}")
        return EndpointDependencies(
            clock=self.clock,
            start=lambda config_name: launcher.start(self.configs.find(config_name).request),
            in_alarm=self.cloudwatch.alarms.list_names_in_alarm,
            send_event=partial(self._send_endpoint_event, endpoint_name),
        )

    def _send_endpoint_event(self, name: str, kind: str) -> None:
        """Send an event with an endpoint's new state to EventBridge."""
        endpoint = self.endpoints[name.lower()]
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
        self.aws.send_event("aws.sagemaker", kind, detail, arn, self.clock.now())

    def send_job_event(self, job: TransformJob) -> None:
        tags = {"Tags": dict(self.tags.get(job.arn, {}))}
        detail = convert_times(job.describe()) | tags
        self._send_event("SageMaker Transform Job State Change", job.arn, detail)

    def measure(self, at: datetime) -> None:
        """Measure the containers' use of this computer, as often as each endpoint publishes.

        Also forward their output since the last tick to CloudWatch Logs.
        """
        self.logs.forward()
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
            publish = partial(publish_utilization, self.cloudwatch.metrics, at, kind=endpoint.kind)
            for variant in endpoint.fleet.list_variants() if endpoint.fleet else ():
                of = {"EndpointName": endpoint.name, "VariantName": variant.name}
                for percents, pools in variant.measure_utilization():
                    publish(percents, dimensions=of, pools=pools)

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
