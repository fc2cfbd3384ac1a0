"""Inference AMIs: the host images that have the NVIDIA driver for GPU containers."""

from typing import Any

from infra.catalog.images import number
from infra.catalog.table import table


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
