"""Look up the instance types that SageMaker hosts models on: their regions, GPUs, and inference AMIs.

Inference AMIs are the host images that have the NVIDIA driver for GPU containers. A GPU runs some versions of
CUDA and TensorFlow only.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog.images import number
from infra.catalog.limits import table


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


def regions() -> tuple[str, ...]:
    """Regions in the table; nothing is known about others."""
    return tuple(table("availability")["regions"])


def without_endpoints() -> tuple[str, ...]:
    """Regions in which CloudFormation has no resource type AWS::SageMaker::Endpoint."""
    return tuple(table("availability")["without_endpoints"])


def regions_of(instance: str) -> tuple[str, ...]:
    """Regions with a hosting price for this type."""
    return tuple(table("availability")["types"].get(instance, ()))


def offered(region: str) -> tuple[str, ...]:
    """Types with a hosting price in this region, sorted."""
    types = table("availability")["types"]
    return tuple(name for name, hosted_in in types.items() if region in hosted_in)


def newest_cuda(gpu: str) -> int | None:
    """The last CUDA major version with kernels for this GPU; None if it is still supported."""
    fact: int | None = table("gpus")["gpus"].get(gpu, {}).get("newest_cuda")
    return fact


def newest_tensorflow(gpu: str) -> str | None:
    """The last TensorFlow version that SageMaker runs on this GPU; None if it is still supported."""
    fact: str | None = table("gpus")["gpus"].get(gpu, {}).get("newest_tensorflow")
    return fact


def oldest_cuda(gpu: str) -> str | None:
    """The first CUDA version with kernels for this GPU, for example 11.8; None if no image is older."""
    fact: str | None = table("gpus")["gpus"].get(gpu, {}).get("oldest_cuda")
    return fact


def compute_capability(gpu: str) -> float | None:
    """The compute capability, for example 7.5; None if no source states it."""
    fact: float | None = table("gpus")["gpus"].get(gpu, {}).get("compute_capability")
    return fact


def ami_for(*, cuda: str, family: str) -> str | None:
    """The oldest inference AMI for the family (such as g5) that runs images of this CUDA version.

    One on which AWS's own tests of such images failed is taken only if AWS lists no other. It is None
    for CUDA 11, which the default driver of every GPU family supports, and if AWS lists no AMI for the
    family (p2, p3). Without an AMI, ml.g4dn and ml.g5 start with driver 470 (CUDA 11.4), on which a
    CUDA 12 image fails at start.
    """
    least = number(cuda)
    if least < (12,):
        return None
    fitting = [row for row in _rows(family) if _runs(row) >= least]
    fitting.sort(key=lambda row: (row.get("not_cuda") == least[0], number(row["cuda"])))
    return str(fitting[0]["name"]) if fitting else None


def fails_with(name: str, cuda: str) -> bool:
    """Whether AWS's own tests of images of this CUDA generation failed on the AMI. Raises KeyError."""
    return bool(_row(name).get("not_cuda") == number(cuda)[0])


def _runs(row: dict[str, Any]) -> tuple[int, ...]:
    """The newest CUDA version that the AMI runs: its driver's, or a newer one that AWS tests on it."""
    return number(row.get("tested_cuda", row["cuda"]))


def _rows(family: str) -> list[dict[str, Any]]:
    return [row for row in table("inference_amis")["amis"] if runs_on(row["name"], family)]


def names() -> tuple[str, ...]:
    """Names of the inference AMIs for GPUs."""
    return tuple(row["name"] for row in table("inference_amis")["amis"])


def cuda_of(name: str) -> str:
    """The CUDA version that the AMI's driver supports, for example 12.2. Raises KeyError."""
    return str(_row(name)["cuda"])


def families_of(name: str) -> tuple[str, ...]:
    """Instance families that AWS lists for the AMI, sorted. Raises KeyError."""
    row = _row(name)
    return tuple(sorted((*row["default"], *row["override"])))


def runs_on(name: str, family: str) -> bool:
    """Whether AWS lists the AMI for this family; p6-b200 belongs to p6. Raises KeyError."""
    return family.split("-")[0] in families_of(name)


def carries(name: str, cuda: str) -> bool:
    """Whether the AMI's driver runs a container of this CUDA version.

    An AMI that mounts the image's CUDA compatibility libraries also runs newer minor
    versions of the driver's own CUDA generation.
    """
    row, needed = _row(name), number(cuda)
    return _runs(row) >= (needed[:1] if row["mounts_cuda_compat"] else needed)


def _row(name: str) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in table("inference_amis")["amis"]}
    return rows[name]
