"""The instance types that SageMaker hosts models on."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from infra.catalog.table import table


@dataclass(frozen=True)
class Instance:
    """One instance type. Source and date: the JSON table that the row comes from."""

    name: str
    vcpus: int
    memory_gib: float
    architecture: str
    """x86_64 or arm64."""
    burstable: bool
    """Whether it runs on CPU credits (t2); Application Auto Scaling refuses such types."""
    local_nvme_gb: int
    """Size of the local NVMe in GB. 0 means an EBS volume, whose size and key can be chosen."""
    gpu: str | None = None
    gpus: int = 0
    gpu_memory_gib: float = 0.0
    """Memory of one GPU, in GiB."""
    successor: str | None = None
    """The type to use instead of a retired one; else empty."""

    @property
    def family(self) -> str:
        """The instance family: g5 for ml.g5.xlarge."""
        return self.name.split(".")[1]

    @property
    def device(self) -> str:
        """The device of the image that fits: cpu or gpu."""
        return "gpu" if self.gpus else "cpu"


@functools.cache
def instances() -> Mapping[str, Instance]:
    """Every known instance type, by name."""
    rows = table("instances")["instances"] | table("retired_instances")["instances"]
    return {name: Instance(name=name, **row) for name, row in rows.items()}
