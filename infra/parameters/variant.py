"""[variants.NAME]: instances, or serverless, that answer with one model."""

from typing import Annotated, Literal

from pydantic import Field

from infra.catalog.instances import Instance
from infra.catalog.limits import least, most
from infra.parameters.scaling import Scaling
from infra.parameters.table import Table
from infra.policy.container import ContainerSettings
from infra.policy.sizing import machine
from infra.policy.wait_time import DOWNLOAD, STARTUP

CONCURRENCY = "ServerlessMaxConcurrency"
PROVISIONED = "ServerlessProvisionedConcurrency"
Provisioned = Annotated[int, Field(ge=least(PROVISIONED), le=most(PROVISIONED))]


class Serverless(Table):
    """Nothing runs and nothing is paid without a request; the first one waits for a cold start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    """

    memory_mib: Literal[1024, 2048, 3072, 4096, 5120, 6144]
    """Memory of one container; its share of CPUs grows with it."""
    max_concurrency: Annotated[int, Field(ge=least(CONCURRENCY), le=most(CONCURRENCY))]
    """Requests that are answered at the same time; one more is throttled."""
    provisioned_concurrency: Provisioned | None = None
    """Containers that are kept warm and paid for. Left out, none."""
    max_provisioned_concurrency: Provisioned | None = None
    """Most that scaling may keep warm. Left out, provisioned_concurrency."""

    @property
    def most_provisioned(self) -> int:
        return self.max_provisioned_concurrency or self.provisioned_concurrency or 0


VOLUME = "ProductionVariantVolumeSizeInGB"
VariableName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=1024)]

# SageMaker's own quotas are far lower; more is a slip of the hand.
Instances = Annotated[int, Field(ge=0, le=10_000)]
Routing = Literal["least_outstanding_requests", "random"]


class Variant(Table):
    model: str
    """Name of the [models.NAME] table it serves."""
    instance_type: str | None = None
    """SageMaker instance type, as ml.c5.xlarge. This, or serverless."""
    serverless: Serverless | None = None
    """Memory and concurrency in the place of instances."""
    shadow: bool = False
    """true: it gets copies of the requests of the other variant, and nobody gets its answers.
    `weight` against the other's says how many: equal, each one."""
    min_instances: Instances = 1
    """Instances that always run. 1 is the cheapest that answers; production wants 2, in two
    availability zones. 0 only where requests wait in a queue ([asynchronous]). With [scaling] a
    change replaces no instance."""
    max_instances: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Most instances scaling may run. Left out, min_instances: nothing scales that was not asked
    to."""
    initial_instances: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Instances that a scaled variant starts with when it is made; scaling then brings it to
    min_instances. Left out, 1. A change replaces the fleet, with as many instances as ran before. It
    stands apart from min_instances because it is part of the endpoint configuration, which can only
    be replaced."""
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = 1.0
    """Share of the traffic, relative to the other variants. 1 each is an even split."""
    volume_gb: Annotated[int, Field(ge=least(VOLUME), le=most(VOLUME))] | None = None
    """Size of each instance's EBS volume. Left out, SageMaker's own (30). A type with local NVMe
    takes none."""
    inference_ami: str | None = None
    """Host image with the NVIDIA driver. Left out, the oldest whose driver carries the image's
    CUDA."""
    download_timeout_seconds: (
        Annotated[int, Field(ge=least(DOWNLOAD), le=most(DOWNLOAD))] | None
    ) = None
    """Seconds an instance may take to fetch and unpack its model. Left out, twice the estimate, or
    SageMaker's own where that is enough."""
    startup_timeout_seconds: Annotated[int, Field(ge=least(STARTUP), le=most(STARTUP))] | None = (
        None
    )
    """Seconds until the container must answer /ping. Left out, twice the estimate, or SageMaker's
    own where that is enough."""
    routing: Routing | None = None
    """How a request finds its instance. Left out, least_outstanding_requests: the one with the
    fewest requests under way, so that none waits behind a slow one while another is free; with
    multi_model and [asynchronous], SageMaker's own."""
    ssm_access: bool = False
    """Whether AWS Systems Manager may open a shell in the containers, to look for a fault."""
    variables: dict[VariableName, Annotated[str, Field(max_length=100_000)]] = Field(default={})
    """Environment variables for inference.py. The container's own have keys of their own in
    [container]."""
    container: ContainerSettings = ContainerSettings()
    """How the container divides its machine. What is left out is chosen for the instance, the model
    and the code: `servable check --explain` shows it."""
    scaling: Scaling | None = None
    """When to add and remove instances. Left out, never."""

    @property
    def starts_with(self) -> int:
        """Instances in the endpoint configuration. Without scaling they are what runs."""
        if self.scaling is None:
            return max(1, self.min_instances)
        return self.initial_instances or 1

    @property
    def scales(self) -> bool:
        """Whether a scalable target is registered for it."""
        return self.scaling is not None and not self.scaling.hold

    @property
    def serverless_memory_mib(self) -> int | None:
        return None if self.serverless is None else self.serverless.memory_mib

    @property
    def capacity(self) -> tuple[int, int]:
        """Fewest and most that scaling may run: instances, or provisioned concurrency."""
        if self.serverless is not None:
            return self.serverless.provisioned_concurrency or 0, self.serverless.most_provisioned
        return self.min_instances, self.most_instances

    @property
    def planned_capacity(self) -> tuple[int, int]:
        """`capacity`, and whatever scheduled actions move it to."""
        least, most = self.capacity
        planned = self.scaling.schedule if self.scaling is not None and self.scales else []
        bounds = [one for action in planned for one in (action.at_least, action.at_most) if one]
        lower = [action.at_least for action in planned if action.at_least is not None]
        return min([least, *lower]), max([most, *bounds])

    @property
    def most_instances(self) -> int:
        return self.min_instances if self.max_instances is None else self.max_instances


def machine_of(variant: Variant) -> Instance | None:
    """None for an unknown type, or where the file says neither type nor memory."""
    try:
        return machine(variant.instance_type, variant.serverless_memory_mib)
    except KeyError:
        return None
