"""[variants.NAME]: a production variant, which serves a model, or components, on instances or serverless."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from infra.catalog.instances import Instance
from infra.catalog.limits import find_maximum
from infra.parameters.scaling import Scaling
from infra.parameters.sources import convert_table_variables
from infra.parameters.table import KmsKeyArn, Name, Table, build_range
from infra.policy.container import ContainerSettings
from infra.policy.sizing import DOWNLOAD, STARTUP, find_machine

CONCURRENCY = "ServerlessMaxConcurrency"
PROVISIONED = "ServerlessProvisionedConcurrency"
Provisioned = Annotated[int, build_range(PROVISIONED)]


class Serverless(Table):
    """Serverless inference: no cost without requests, and a cold start for the first one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    """

    memory_mib: Literal[1024, 2048, 3072, 4096, 5120, 6144]
    """Memory of one container, in MiB; its share of CPUs grows with it."""
    max_concurrency: Annotated[int, build_range(CONCURRENCY)]
    """Maximum number of concurrent requests; more are throttled."""
    provisioned_concurrency: Provisioned | None = None
    """Containers that are kept warm and paid for. Default: none."""
    max_provisioned_concurrency: Provisioned | None = None
    """Maximum provisioned concurrency that scaling may set. Default: provisioned_concurrency."""

    @property
    def provisioned_limit(self) -> int:
        return self.max_provisioned_concurrency or self.provisioned_concurrency or 0


class CoreDumps(Table):
    """The memory of a process that crashed, for debugging. It contains the requests of callers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantCoreDumpConfig.html
    (botocore 1.44.5, read 2026-11-22)
    """

    uri: str = Field(
        pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]/([^*?$]+/)?$", max_length=512
    )
    """Prefix in one of your buckets, for example s3://bucket/dumps/, which the model's role may then write
    to."""
    kms_key: KmsKeyArn | None = None
    """KMS key of the dumps. Default: S3's own key. The key's policy must allow what
    docs/reference/permissions.md lists."""


VOLUME = "ProductionVariantVolumeSizeInGB"
POOLS = "InstancePoolList"
PROVISION = "VariantInstanceProvisionTimeoutInSeconds"
VariableName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=1024)]

# SageMaker's own quotas are far lower; a larger number is a typing mistake.
Instances = Annotated[int, Field(ge=0, le=10_000)]
Routing = Literal["least_outstanding_requests", "random"]


class InstancePool(Table):
    """One of several instance types of a variant.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html (2026-11-22)
    """

    instance_type: str
    """SageMaker instance type, for example ml.g5.xlarge."""
    container: ContainerSettings = ContainerSettings()
    """Keys of [variants.NAME.container] that differ on this type."""


class Component(Table):
    """Copies of one model, which share the variant's instances with those of other models.

    Each is an inference component, named ENDPOINT-NAME, and every request names one. Instances come and go
    as copies need them, between the variant's min_instances and max_instances.
    """

    model: str
    """Name of the [models.NAME] table of which these are copies."""
    min_copies: Annotated[int, Field(ge=0, le=1000)] = 1
    """Minimum number of copies. 0 needs sleep_after_minutes, and is then the only minimum."""
    max_copies: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of copies that scaling may run. Default: min_copies, at least 1."""
    sleep_after_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Minutes without a request to this component after which none of its copies runs. Default: never."""
    memory_mib: Annotated[int, Field(ge=128, le=10_000_000)] | None = None
    """Memory that one copy reserves on its instance, in MiB. Default: what the model server and its workers
    need, at least 1024. A reservation, not a limit; less is easier to place."""
    cpus: Annotated[float, Field(ge=0.25, le=1000)] | None = None
    """vCPUs that one copy reserves; its settings are chosen for as many. Default: an equal part for each
    component; for a single one, enough to keep a second copy off the instance."""
    gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs that one copy reserves for itself; with 0 it runs the image for CPUs. Default: an equal part."""
    environment: dict[VariableName, Annotated[str, Field(max_length=100_000)]] = Field(default={})
    """Container environment variables, as for a variant."""
    container: ContainerSettings = ContainerSettings()
    """Settings of the container of one copy. Omitted keys are chosen for the copy's part of the instance."""
    scaling: Scaling | None = None
    """When copies are added and removed: its keys apply to copies instead of instances. Default: never,
    except for sleep_after_minutes."""

    _read_pasted = model_validator(mode="before")(convert_table_variables)

    @property
    def capacity(self) -> tuple[int, int]:
        """Return the minimum and maximum number of copies."""
        least = 0 if self.sleep_after_minutes else self.min_copies
        return least, max(1, self.min_copies if self.max_copies is None else self.max_copies)


# Keys of a variant that each of its components has for itself.
OF_COMPONENTS = ("model", "sleep_after_minutes", "environment", "container", "scaling")


class Variant(Table):
    model: str = ""
    """Name of the [models.NAME] table that the variant serves. Required without components."""
    components: dict[Name, Component] = Field(default={})
    """Models that share the variant's instances, each with copies of its own, instead of `model`: by
    names that no other component of the endpoint has."""
    instance_type: str | None = None
    """SageMaker instance type, for example ml.c5.xlarge. Give this, instance_pools or serverless."""
    # One alone was rejected (https://github.com/aws/deep-learning-containers/pull/6711, 2026-11-22), although
    # the API's minimum is 1; with one, instance_type says the same.
    instance_pools: (
        Annotated[list[InstancePool], Field(min_length=2, max_length=find_maximum(POOLS))] | None
    ) = None
    """2 to 5 instance types in order of preference, instead of instance_type: an instance for whose type
    AWS has no capacity is of the next type. Example: [{ instance_type = "ml.g6.xlarge" }, { instance_type
    = "ml.g5.xlarge", container = { tfs_processes = 1 } }]. `container` has what differs on that type from
    [variants.NAME.container]; all other settings are chosen for each type."""
    provision_timeout_seconds: Annotated[int, build_range(PROVISION)] | None = None
    """Seconds for which SageMaker tries to get instances, over all of instance_pools together, before
    the update fails; without download and start. Default: SageMaker's own, which is not documented."""
    serverless: Serverless | None = None
    """Memory and concurrency of a serverless variant. Give this or instance_type."""
    shadow: bool = False
    """true: the variant is a shadow, which gets copies of the other variant's requests and whose answers
    are discarded. The ratio of the weights is the share that is copied: equal weights copy all."""
    min_instances: Instances = 1
    """Minimum number of instances. 1 is the cheapest; production needs 2, in two availability zones. 0 is
    possible only with a queue ([asynchronous]), or where all components sleep. With [scaling] a change
    replaces no instance."""
    max_instances: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Maximum number of instances that scaling may run. Default: min_instances, so that nothing scales; with
    components at least 1."""
    sleep_after_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Minutes without a request after which no copy of the model runs; ten minutes later no instance does,
    and nothing is paid for. The next request fails and starts the first instance, which takes minutes:
    callers wait for `endpoint.wake_seconds`. It is shorthand for one of [variants.NAME.components], with 0 to
    max_instances copies. AWS's own way takes 15 minutes. At most a day, an alarm's maximum. Default:
    it never sleeps."""
    copy_memory_mib: Annotated[int, Field(ge=128, le=10_000_000)] | None = None
    """Memory that one copy of a variant that sleeps reserves on its instance, in MiB. Default: what the
    model server and its workers need, at least 1024. A reservation, not a limit; less is easier to place."""
    initial_instances: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Instances that a scaled variant is created with; scaling then raises them to min_instances.
    Default: 1. A change replaces the fleet, with as many instances as ran before. It is separate from
    min_instances because it is part of the endpoint configuration, which can only be replaced."""
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = 1.0
    """Share of the traffic relative to the other variants. 1 each is an even split."""
    volume_gb: Annotated[int, build_range(VOLUME)] | None = None
    """Size of each instance's EBS volume, in GB. Default: SageMaker's own (30). Instance types with local
    NVMe take no volume."""
    inference_ami: str | None = None
    """AMI of the host, which has the NVIDIA driver. Default: the oldest whose driver supports the image's
    CUDA version."""
    download_timeout_seconds: Annotated[int, build_range(DOWNLOAD)] | None = None
    """Seconds that an instance may take to download and unpack its model. Default: twice the estimate, or
    SageMaker's own timeout if that is enough."""
    startup_timeout_seconds: Annotated[int, build_range(STARTUP)] | None = None
    """Seconds until the container must answer /ping. Default: twice the estimate, or SageMaker's own
    timeout if that is enough."""
    start_seconds: Annotated[int, Field(ge=30, le=7200)] | None = None
    """Seconds from the decision to add an instance to its first answer, measured: the StartTime and EndTime
    of `aws application-autoscaling describe-scaling-activities`. Default: estimated from the model's size;
    `servable rehearse` then computes a range."""
    routing: Routing | None = None
    """Routing of a request to an instance. Default: least_outstanding_requests, the instance
    with the fewest requests under way, so that no request waits behind a slow one while another
    instance is free; with multi_model and [asynchronous], SageMaker's own routing."""
    ssm_access: bool = False
    """Whether AWS Systems Manager may open a shell in the containers, for debugging."""
    core_dumps: CoreDumps | None = None
    """Where SageMaker puts the memory of a process that crashed. Default: nowhere."""
    environment: dict[VariableName, Annotated[str, Field(max_length=100_000)]] = Field(default={})
    """Container environment variables, one NAME = "value" a line: your own for inference.py, and those of
    the image, as an article, an SDK script, or the console has them. A variable of the image is read into
    its key of [container]; set each in one of the two."""
    container: ContainerSettings = ContainerSettings()
    """Settings of the container on its instance. Omitted keys are chosen for the instance type, the model and
    the code; `servable check --explain` shows them."""
    scaling: Scaling | None = None
    """When instances are added and removed. Default: never."""

    _read_pasted = model_validator(mode="before")(convert_table_variables)

    @property
    def configured_instances(self) -> int:
        """Return the instances in the endpoint configuration; without scaling, all that run."""
        if self.scaling is None and not self.has_copies:
            return max(1, self.min_instances)
        return self.initial_instances or (max(1, self.min_instances) if self.components else 1)

    def for_component(self, component: str) -> "Variant":
        """Return the variant as one of its components sees it, with the component's keys."""
        own = self.components[component]
        update = {key: getattr(own, key) for key in OF_COMPONENTS}
        return self.model_copy(update=update | {"components": {component: own}})

    @property
    def component(self) -> Component | None:
        """Return the component that this variant was narrowed to, or None for a whole variant."""
        return next(iter(self.components.values()), None) if self.model else None

    @property
    def has_copies(self) -> bool:
        """Return whether the variant runs copies of inference components."""
        return self.sleep_after_minutes is not None or bool(self.components)

    @property
    def can_sleep(self) -> bool:
        """Return whether the component, or every component of the variant, may scale to zero."""
        each = [component.sleep_after_minutes for component in self.components.values()]
        return None not in (each or [self.sleep_after_minutes])

    @property
    def is_scaled(self) -> bool:
        """Return whether a scalable target is registered for the variant or the component."""
        if self.components and self.component is None:
            return False
        return self.can_sleep if self.scaling is None else not self.scaling.hold

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Return the instance types in order of preference; none if serverless."""
        return tuple(each.instance_type for each in self.variants_per_type if each.instance_type)

    @property
    def variants_per_type(self) -> tuple["Variant", ...]:
        """Return the variant on each of its instance types, with that type's settings."""
        if self.instance_pools is None:
            return (self,)
        return tuple(
            self.model_copy(
                update={
                    "instance_type": pool.instance_type,
                    "instance_pools": None,
                    "container": self.container.model_copy(
                        update={
                            name: getattr(pool.container, name)
                            for name in pool.container.model_fields_set
                        }
                    ),
                }
            )
            for pool in self.instance_pools
        )

    @property
    def serverless_memory_mib(self) -> int | None:
        return None if self.serverless is None else self.serverless.memory_mib

    @property
    def capacity(self) -> tuple[int, int]:
        """Return the minimum and maximum of instances, copies, or provisioned concurrency."""
        if self.serverless is not None:
            return self.serverless.provisioned_concurrency or 0, self.serverless.provisioned_limit
        if self.component is not None:
            return self.component.capacity
        least = self.min_instances if self.sleep_after_minutes is None else 0
        return least, self.instance_limit

    @property
    def planned_capacity(self) -> tuple[int, int]:
        """Return `capacity`, extended by the ranges that scheduled actions set."""
        least, most = self.capacity
        planned = self.scaling.schedule if self.scaling is not None and self.is_scaled else []
        for action in planned:
            least = min(least, least if action.at_least is None else action.at_least)
            most = max(most, action.at_least or 0, action.at_most or 0)
        return least, most

    @property
    def instance_limit(self) -> int:
        least = max(1, self.min_instances) if self.components else self.min_instances
        return least if self.max_instances is None else self.max_instances


def find_variant_machine(variant: Variant) -> Instance | None:
    """Return the (preferred) instance type of a variant, or its serverless container.

    Returns None if the type is unknown, or if the variant has neither a type nor a memory size.
    """
    try:
        instance_type = variant.variants_per_type[0].instance_type
        return find_machine(instance_type, variant.serverless_memory_mib)
    except KeyError:
        return None
