"""Inference AMIs: the host images that have the NVIDIA driver for GPU containers."""

from typing import Any

from infra.catalog.images import number
from infra.catalog.table import table


def ami_for(*, cuda: str, family: str) -> str | None:
    """The oldest inference AMI for the family (such as g5) whose driver supports this CUDA version.

    It is None for CUDA 11, which the default driver of every GPU family supports, and if AWS lists no
    AMI for the family (p2, p3). Without an AMI, ml.g4dn and ml.g5 start with driver 470 (CUDA 11.4),
    on which a CUDA 12 image fails at start.
    """
    least = number(cuda)
    if least < (12,):
        return None
    fitting = [row for row in _rows(family) if number(row["cuda"]) >= least]
    return min(fitting, key=lambda row: number(row["cuda"]))["name"] if fitting else None


def newest_ami(family: str) -> str | None:
    """The AMI with the newest driver for the family; None if AWS lists none."""
    rows = _rows(family)
    return max(rows, key=lambda row: number(row["cuda"]))["name"] if rows else None


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
    driver, needed = number(cuda_of(name)), number(cuda)
    if _row(name)["mounts_cuda_compat"]:
        return driver[0] >= needed[0]
    return driver >= needed


def _row(name: str) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in table("inference_amis")["amis"]}
    return rows[name]
