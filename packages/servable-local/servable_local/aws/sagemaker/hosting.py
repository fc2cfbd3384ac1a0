"""Everything hosted in one account and region, and in all of them."""

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
from servable_local.aws.sagemaker.component import ComponentDependencies, HostedComponent
from servable_local.aws.sagemaker.container import ContainerLogs, Launch, VariantStartError, Write
from servable_local.aws.sagemaker.described import event_detail, in_milliseconds
from servable_local.aws.sagemaker.endpoint import EndpointDependencies, HostedEndpoint
from servable_local.aws.sagemaker.fleet import Fleet, FleetLauncher, StartableModel
from servable_local.aws.sagemaker.instances import Shortage
from servable_local.aws.sagemaker.published_metrics import publish_backlog, publish_utilisation
from servable_local.aws.sagemaker.transform_job import JobDependencies, TransformJob


@dataclass(frozen=True)
class StoredDefinition:
    """A model or a configuration: exactly what was asked for, its ARN and its time."""

    kind: str
    arn: str
    request: dict[str, Any]
    created: datetime

    def summary(self) -> dict[str, Any]:
        name = f"{self.kind}Name"
        return {name: self.request[name], f"{self.kind}Arn": self.arn, "CreationTime": self.created}

    def describe(self) -> dict[str, Any]:
        return self.request | self.summary()


class Definitions:
    """All models, or all endpoint configurations. A name is found in any case."""

    def __init__(
        self,
        kind: str,
        words: str,
        arn: Callable[[str], str],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`kind`, as the API's names have it; `words`, as refusals; `arn` of a name."""
        self.arn, self._now, self._kind, self._words = arn, now, kind, words
        self._all: dict[str, StoredDefinition] = {}

    def check_new(self, name: str) -> None:
        if name.lower() in self._all:
            raise SageMakerError(
                f'Cannot create already existing {self._words} "{self.arn(name)}".'
            )

    def add(self, name: str, request: dict[str, Any]) -> None:
        self._all[name.lower()] = StoredDefinition(self._kind, self.arn(name), request, self._now())

    def find(self, name: str) -> dict[str, Any] | None:
        """The request that created the resource of this name; None if there is none."""
        definition = self._all.get(name.lower())
        return None if definition is None else definition.request

    def get(self, name: str) -> StoredDefinition:
        definition = self._all.get(name.lower())
        if definition is None:
            raise SageMakerError(f'Could not find {self._words} "{self.arn(name)}".')
        return definition

    def remove(self, name: str) -> StoredDefinition:
        self.get(name)
        return self._all.pop(name.lower())

    def summaries(self) -> list[dict[str, Any]]:
        return [definition.summary() for definition in self._all.values()]


class RegionalHosting:
    """One account and region. Names are found in any case: an ARN holds them in lower case."""

    def __init__(
        self,
        aws: Loopback,
        launch: Launch,
        folder: Path,
        cloudwatch: CloudWatch,
        write_log: Write,
        most_containers: int = 1,
    ) -> None:
        """`write_log` takes the containers' output."""
        self.aws, self.clock, self.cloudwatch = aws, cloudwatch.clock, cloudwatch
        now = self.clock.now
        self.models = Definitions("Model", "model", lambda name: self.arn("model", name), now)
        self.configs = Definitions(
            "EndpointConfig",
            "endpoint configuration",
            lambda name: self.arn("endpoint-config", name),
            now,
        )
        self.endpoints: dict[str, HostedEndpoint] = {}
        self.components: dict[str, HostedComponent] = {}
        self.jobs: dict[str, TransformJob] = {}
        self.shortage = Shortage()
        self._logs = ContainerLogs(folder, write_log)
        self.tags: dict[str, dict[str, str]] = {}
        self._launch, self._folder = launch, folder
        self.most_containers = most_containers

    def arn(self, kind: str, name: str) -> str:
        return f"arn:aws:sagemaker:{self.aws.region}:{self.aws.account}:{kind}/{name.lower()}"

    def endpoint(self, name: str) -> HostedEndpoint:
        if name.lower() not in self.endpoints:
            raise SageMakerError(f'Could not find endpoint "{self.arn("endpoint", name)}".')
        return self.endpoints[name.lower()]

    def component(self, name: str) -> HostedComponent:
        if name.lower() not in self.components:
            arn = self.arn("inference-component", name)
            raise SageMakerError(f'Could not find inference component "{arn}".')
        return self.components[name.lower()]

    def components_of(self, endpoint: HostedEndpoint) -> list[HostedComponent]:
        return [each for each in list(self.components.values()) if each.endpoint is endpoint]

    def component_dependencies(self, name: str, variant: str) -> ComponentDependencies:
        """Return what the component of this name needs; `variant` is the one that hosts it."""
        launcher = self._launcher(f"/aws/sagemaker/InferenceComponents/{name}")

        def fetch(specification: Mapping[str, Any], folder: Path) -> StartableModel:
            container = specification.get("Container", {})
            data = {"ModelDataUrl": container.get("ArtifactUrl"), **container}
            if (model_name := specification.get("ModelName")) is None:
                containers = [data]
            elif (model := self.models.find(model_name)) is None:
                raise VariantStartError(f'Could not find model "{model_name}".')
            else:
                containers = model.get("Containers") or [model["PrimaryContainer"]]
            startup = specification.get("StartupParameters", {})
            return launcher.served(containers, variant, folder, startup)

        return ComponentDependencies(self.clock, fetch, self._folder, self.most_containers)

    def dependencies(self, endpoint_name: str) -> EndpointDependencies:
        return EndpointDependencies(
            clock=self.clock,
            start=lambda config_name: self._start_fleet(endpoint_name, config_name),
            in_alarm=lambda names: [
                alarm.name
                for alarm in map(self.cloudwatch.alarms.get, names)
                if alarm and alarm.state == "ALARM"
            ],
            tell=lambda kind: self.tell(self.endpoints[endpoint_name.lower()], kind),
        )

    def tell(self, endpoint: HostedEndpoint, kind: str) -> None:
        """EventBridge, of an endpoint's new state."""
        self._tell(kind, endpoint.arn, event_detail(endpoint, self.tags.get(endpoint.arn, {})))

    def tell_of_package(self, arn: str) -> None:
        """EventBridge, of a model package as it is now: times as text, unlike those of endpoints.

        https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html, as it
        stands in github.com/awsdocs/amazon-sagemaker-developer-guide 0d5df7f.
        """
        package = self.aws.client("sagemaker").describe_model_package(ModelPackageName=arn)
        detail = {
            name: f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value
            for name, value in package.items()
            if name not in ("ResponseMetadata", "CreatedBy", "LastModifiedBy")
        }
        self._tell("SageMaker Model Package State Change", arn, detail)

    def _tell(self, kind: str, arn: str, detail: dict[str, Any]) -> None:
        self.aws.tell_event_bridge(
            source="aws.sagemaker", kind=kind, detail=detail, resources=[arn], at=self.clock.now()
        )

    def job_dependencies(self, model: Mapping[str, Any]) -> JobDependencies:
        """`model`: the CreateModel request."""
        return JobDependencies(
            aws=self.aws,
            clock=self.clock,
            launch=self._launch,
            folder=self._folder,
            model=model,
            most_containers=self.most_containers,
            tell=self._tell_of_job,
        )

    def _tell_of_job(self, job: TransformJob) -> None:
        tags = {"Tags": dict(self.tags.get(job.arn, {}))}
        detail = in_milliseconds(job.describe()) | tags
        self._tell("SageMaker Transform Job State Change", job.arn, detail)

    def _start_fleet(self, endpoint_name: str, config_name: str) -> Fleet:
        return self._launcher(f"/aws/sagemaker/Endpoints/{endpoint_name}").start(
            self.configs.get(config_name).request
        )

    def _launcher(self, log_group: str) -> FleetLauncher:
        return FleetLauncher(
            model=self.models.find,
            aws=self.aws,
            launch=self._launch,
            folder=self._folder,
            log_group=log_group,
            logs=self._logs,
            most_containers=self.most_containers,
            shortage=self.shortage,
        )

    def measure(self, at: datetime) -> None:
        """Measures what the containers use of this computer, as often as each endpoint publishes it.

        Their output since the last tick goes to CloudWatch Logs.
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
                    instances=sum(each.instances.serving for each in fleet.variants.values()),
                )
            for variant in endpoint.fleet.everybody() if endpoint.fleet else ():
                for percents, pools in variant.utilisation():
                    publish_utilisation(
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
                for variant in endpoint.fleet.everybody() if endpoint.fleet else ():
                    if variant.placement is not None:
                        variant.placement.end_empty(at)


def close_endpoints(hostings: Regions[RegionalHosting]) -> None:
    """Ends every endpoint's, component's and job's processes, in every account and region."""
    running: list[HostedEndpoint | HostedComponent | TransformJob] = []
    for here in hostings.all():
        running += [*here.components.values(), *here.endpoints.values(), *here.jobs.values()]
    threads = [threading.Thread(target=each.close) for each in running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
