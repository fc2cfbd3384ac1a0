"""An environment file as one frozen value: everything that may differ between deployments."""

from typing import Annotated

from pydantic import Field

from infra.parameters.alarms import Alarms
from infra.parameters.endpoint import Endpoint, Network, Security, Traffic
from infra.parameters.metrics import Metrics
from infra.parameters.model import Model
from infra.parameters.retained import Asynchronous, Capture
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.parameters.table import Table
from infra.parameters.variant import Variant
from infra.policy.kinds import EndpointKind, kind_of

# Names that become construct ids, variant names and folder names in the archive:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?$", max_length=63)]

# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
TagKey = Annotated[str, Field(min_length=1, max_length=128)]


class Environment(Table):
    account: str = Field(pattern=r"^[0-9]{12}$")
    """AWS account: a string of 12 digits."""
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")
    """AWS region, as eu-west-1."""
    service: str | None = Field(default=None, pattern=r"^[a-zA-Z][\-a-zA-Z0-9]{0,62}$")
    """Put before the stacks' names, so that two services share an account. Left out, stacks are
    named after the environment alone."""
    production: bool | None = None
    """Whether callers depend on it, so that rules about redundancy apply. Left out, they do where
    the file's name begins with prod."""
    endpoint: Endpoint
    """The name callers use, and its logs."""
    models: dict[Name, Model]
    """What is served, by name."""
    variants: dict[Name, Variant]
    """Machines that answer, by name; each with one model."""
    traffic: Traffic = Traffic()
    """What callers send, as far as it is known."""
    alarms: Alarms = Alarms()
    """What somebody is woken for."""
    metrics: Metrics = Metrics()
    """Which metrics SageMaker publishes, and how often."""
    rollout: Rollout | None = None
    """How an update replaces what is live. Left out, SageMaker's own: all at once, no bake, no
    rollback."""
    network: Network = Network()
    """The instances' place in a VPC. Left out, SageMaker's own."""
    capture: Capture | None = None
    """Samples of requests and answers, kept. Left out, none are."""
    asynchronous: Asynchronous | None = None
    """Requests wait in a queue and answers go to S3. Left out, callers wait for them."""
    security: Security = Security()
    """What this environment may not be deployed without."""
    acknowledge: dict[str, Annotated[str, Field(min_length=10)]] = Field(default={})
    """Findings accepted on purpose: rule = reason, in at least ten characters; "rule:file" = reason
    where the finding says so."""
    tags: dict[TagKey, Annotated[str, Field(max_length=256)]] = Field(default={})
    """AWS tags on everything that takes them."""

    @property
    def kind(self) -> EndpointKind:
        return kind_of(
            queued=self.asynchronous is not None,
            has_instances=all(one.serverless is None for one in self.variants.values()),
        )

    @property
    def scaled(self) -> dict[str, Scaling]:
        """By variant, where a scalable target is registered for it."""
        scaling = {name: one.scaling for name, one in self.variants.items() if one.scales}
        return {name: one for name, one in scaling.items() if one is not None}

    @property
    def acknowledged_request_bytes(self) -> int | None:
        """The largest request, where it is acknowledged to be more than AWS's API states."""
        given = self.traffic.request_bytes or 0
        more = self.kind.request_bytes < given and "request-too-large" in self.acknowledge
        return given if more else None

    @property
    def kms_keys(self) -> dict[str, list[str]]:
        """What is encrypted here, by the dotted key that may name KMS keys for it; [] where none is."""
        given: dict[str, str | None] = {
            "endpoint.volume_kms_key": self.endpoint.volume_kms_key,
            "endpoint.log_kms_key": self.endpoint.log_kms_key,
            "alarms.topic_kms_key": self.alarms.topic_kms_key,
        }
        for name, model in self.models.items():
            if model.artifact is not None:
                given[f"models.{name}.artifact.kms_key"] = model.artifact.kms_key
        if self.capture is not None:
            given["capture.kms_key"] = self.capture.kms_key
        if self.asynchronous is not None:
            given["asynchronous.kms_key"] = self.asynchronous.kms_key
        found = {key: [] if arn is None else [arn] for key, arn in given.items()}
        if any(model.artifact is None for model in self.models.values()):
            found["endpoint.archive_kms_keys"] = self.endpoint.archive_kms_keys
        return found

    @property
    def production_variants(self) -> dict[str, Variant]:
        """Those whose answers somebody gets."""
        return {name: one for name, one in self.variants.items() if not one.shadow}


def stack_name(name: str, environment: Environment, kind: str) -> str:
    """`name`: of the environment. As CDK itself would say it, after the service where there is one."""
    own = f"{name}-{kind}"
    return own if environment.service is None else f"{environment.service}-{own}"
