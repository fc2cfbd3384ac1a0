"""The machines that SageMaker hosts models on."""

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
    """Runs on CPU credits (t2); Application Auto Scaling refuses it."""
    local_nvme_gb: int
    """0: the volume is EBS, with a size and a key of our choice. Else: local and fixed."""
    gpu: str | None = None
    gpus: int = 0
    gpu_memory_gib: float = 0.0
    """Of one GPU."""
    successor: str | None = None
    """Set on a retired type: what to use instead."""

    @property
    def family(self) -> str:
        """As AWS names it: g5 of ml.g5.xlarge."""
        return self.name.split(".")[1]

    @property
    def device(self) -> str:
        """Which image fits: cpu or gpu."""
        return "gpu" if self.gpus else "cpu"


@functools.cache
def instances() -> Mapping[str, Instance]:
    """Every instance type we know, by name."""
    rows = table("instances")["instances"] | table("retired_instances")["instances"]
    return {name: Instance(name=name, **row) for name, row in rows.items()}
