"""Look up the instance types that SageMaker hosts models on: their regions, GPUs, and inference AMIs.

Inference AMIs are the host images that have the NVIDIA driver for GPU containers. A GPU runs some versions of
CUDA and TensorFlow only.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog.images import parse_version
from infra.catalog.limits import load_table


@dataclass(frozen=True)
class Instance:
    """One instance type. Source and date: the JSON table that the row comes from."""

    name: str
    vcpus: int
    memory_gib: float
    architecture: str
    """x86_64 or arm64."""
    burstable: bool
    """Whether it runs on CPU credits (t2); Application Auto Scaling rejects such types."""
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
        """Return the instance family: g5 for ml.g5.xlarge."""
        return self.name.split(".")[1]

    @property
    def device(self) -> str:
        """Return the device of the matching image: cpu or gpu."""
        return "gpu" if self.gpus else "cpu"


@functools.cache
def load_instances() -> Mapping[str, Instance]:
    """Return every known instance type, by name."""
    rows = load_table("instances")["instances"] | load_table("retired_instances")["instances"]
    return {name: Instance(name=name, **row) for name, row in rows.items()}


def list_regions() -> tuple[str, ...]:
    """Return the Regions in the table. Nothing is known about other Regions."""
    return tuple(load_table("availability")["regions"])


def list_regions_without_endpoints() -> tuple[str, ...]:
    """Return Regions where CloudFormation has no resource type AWS::SageMaker::Endpoint."""
    return tuple(load_table("availability")["without_endpoints"])


def find_regions(instance: str) -> tuple[str, ...]:
    """Return the Regions that have a hosting price for an instance type."""
    return tuple(load_table("availability")["types"].get(instance, ()))


def list_instance_types(region: str) -> tuple[str, ...]:
    """Return the instance types that have a hosting price in a Region, sorted."""
    types = load_table("availability")["types"]
    return tuple(name for name, hosted_in in types.items() if region in hosted_in)


def find_gpu_fact(gpu: str | None, name: str) -> Any:
    """Return a fact of gpus.json about a GPU, or None without a GPU and if no source states it.

    Facts: `newest_cuda`, the last CUDA major version with kernels for the GPU; `oldest_cuda`, the
    first CUDA version with kernels; `newest_tensorflow`, the last version that SageMaker runs on
    it; `compute_capability`, for example 7.5.
    """
    return load_table("gpus")["gpus"].get(gpu, {}).get(name)


def find_ami(*, cuda: str, family: str) -> str | None:
    """Return the oldest inference AMI for a family (such as g5) that runs this CUDA version.

    An AMI on which AWS's own tests of such images failed is returned only if AWS lists no other.
    The result is None for CUDA 11, which the default driver of every GPU family supports, and if
    AWS lists no AMI for the family (p2, p3). Without an AMI, ml.g4dn and ml.g5 start with driver
    470 (CUDA 11.4), on which a CUDA 12 image fails at start.
    """
    least = parse_version(cuda)
    fitting = [
        row
        for name, row in _load_amis().items()
        if least >= (12,) and is_ami_listed_for(name, family) and _find_newest_cuda(row) >= least
    ]
    fitting.sort(key=lambda row: (row.get("not_cuda") == least[0], parse_version(row["cuda"])))
    return str(fitting[0]["name"]) if fitting else None


def has_ami_failed_tests(name: str, cuda: str) -> bool:
    """Return whether AWS's tests of this CUDA generation failed on the AMI, or raise KeyError."""
    return bool(_load_amis()[name].get("not_cuda") == parse_version(cuda)[0])


def _find_newest_cuda(row: dict[str, Any]) -> tuple[int, ...]:
    """Return the newest CUDA version of the AMI: the driver's, or a newer one AWS tests on it."""
    return parse_version(row.get("tested_cuda", row["cuda"]))


def list_amis() -> tuple[str, ...]:
    """Return the names of the inference AMIs for GPUs."""
    return tuple(_load_amis())


def find_driver_cuda(name: str) -> str:
    """Return the newest CUDA of the AMI's driver, such as 12.2. Raise KeyError if unknown."""
    return str(_load_amis()[name]["cuda"])


def list_ami_families(name: str) -> tuple[str, ...]:
    """Return the families that AWS lists for the AMI, sorted. Raise KeyError if unknown."""
    row = _load_amis()[name]
    return tuple(sorted((*row["default"], *row["override"])))


def is_ami_listed_for(name: str, family: str) -> bool:
    """Return whether AWS lists the AMI for a family (p6-b200: p6). Raise KeyError if unknown."""
    return family.split("-")[0] in list_ami_families(name)


def can_ami_run_cuda(name: str, cuda: str) -> bool:
    """Return whether the AMI's driver runs a container of this CUDA version.

    An AMI that mounts the image's CUDA compatibility libraries also runs newer minor versions of
    the driver's own CUDA generation. Raises KeyError for an unknown AMI.
    """
    row, needed = _load_amis()[name], parse_version(cuda)
    return _find_newest_cuda(row) >= (needed[:1] if row["mounts_cuda_compat"] else needed)


@functools.cache
def _load_amis() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in load_table("inference_amis")["amis"]}
