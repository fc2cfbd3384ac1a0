"""[variants.NAME]: machines that answer with one model."""

from typing import Annotated

from pydantic import Field

from infra.catalog.limits import least, most
from infra.parameters.table import Table
from infra.policy.container_settings import ContainerSettings
from infra.policy.start_timeouts import DOWNLOAD, STARTUP

VOLUME = "ProductionVariantVolumeSizeInGB"
VariableName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=1024)]

# SageMaker's own quotas are far lower; more is a slip of the hand.
Instances = Annotated[int, Field(ge=1, le=10_000)]
# A week, in seconds.
Cooldown = Annotated[int, Field(ge=0, le=604_800)]


class Scaling(Table):
    """Target tracking on invocations per instance. Left out, the number of instances is fixed."""

    max_rps_per_instance: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="Requests per second that one instance answers within its latency objective, "
        "measured."
    )
    safety_factor: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5,
        description="Share of the measured maximum at which instances are added. 0.5 is AWS's "
        "starting point: new instances need minutes, traffic does not.",
    )
    scale_out_cooldown_seconds: Cooldown = Field(
        default=300,
        description="Seconds after adding instances before adding more: about the time a new "
        "instance needs until it answers. 300 is Application Auto Scaling's own default.",
    )
    scale_in_cooldown_seconds: Cooldown = Field(
        default=600,
        description="Seconds after removing instances before removing more. Twice the way out: an "
        "instance too many costs cents, one too few costs requests.",
    )
    hold: bool = Field(
        default=False,
        description="true: scaling is switched off and the live number of instances stays as it is, also "
        "through updates. The first of the two deploys that change a scaled variant's instance type.",
    )


class Variant(Table):
    model: str = Field(description="Name of the [models.NAME] table it serves.")
    instance_type: str = Field(description="SageMaker instance type, as ml.c5.xlarge.")
    min_instances: Instances = Field(
        default=1,
        description="Instances that always run; also the number it starts with. 1 is the cheapest "
        "that answers; production wants 2, in two availability zones.",
    )
    max_instances: Instances | None = Field(
        default=None,
        description="Most instances scaling may run. Left out, min_instances: nothing scales that "
        "was not asked to.",
    )
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        default=1.0,
        description="Share of the traffic, relative to the other variants. 1 each is an even split.",
    )
    volume_gb: Annotated[int, Field(ge=least(VOLUME), le=most(VOLUME))] | None = Field(
        default=None,
        description="Size of each instance's EBS volume. Left out, SageMaker's own (30). A type with "
        "local NVMe takes none.",
    )
    inference_ami: str | None = Field(
        default=None,
        description="Host image with the NVIDIA driver. Left out, the oldest whose driver carries the "
        "image's CUDA.",
    )
    download_timeout_seconds: (
        Annotated[int, Field(ge=least(DOWNLOAD), le=most(DOWNLOAD))] | None
    ) = Field(
        default=None,
        description="Seconds an instance may take to fetch and unpack its model. Left out, twice the "
        "estimate, or SageMaker's own where that is enough.",
    )
    startup_timeout_seconds: Annotated[int, Field(ge=least(STARTUP), le=most(STARTUP))] | None = (
        Field(
            default=None,
            description="Seconds until the container must answer /ping. Left out, twice the estimate, "
            "or SageMaker's own where that is enough.",
        )
    )
    variables: dict[VariableName, Annotated[str, Field(max_length=100_000)]] = Field(
        default={},
        description="Environment variables for inference.py. The container's own have keys of their "
        "own in [container].",
    )
    container: ContainerSettings = Field(
        default=ContainerSettings(),
        description="How the container divides its machine. What is left out is chosen for the "
        "instance, the model and the code: `servable check --explain` shows it.",
    )
    scaling: Scaling | None = Field(
        default=None, description="When to add and remove instances. Left out, never."
    )

    @property
    def scales(self) -> bool:
        """Whether a scalable target is registered for it."""
        return self.scaling is not None and not self.scaling.hold

    @property
    def most_instances(self) -> int:
        return self.min_instances if self.max_instances is None else self.max_instances
