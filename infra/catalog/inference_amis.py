"""The host images whose NVIDIA driver a GPU container runs on."""

from typing import Any

from infra.catalog.table import table


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def ami_for(*, cuda: str) -> str | None:
    """The oldest inference AMI whose driver carries this CUDA version.

    None for CUDA 11: the driver that every GPU family starts with carries it, and
    ml.p2 has no inference AMI at all. Without one, ml.g4dn and ml.g5 start with
    driver 470 (CUDA 11.4), on which a CUDA 12 image fails at start.
    """
    wanted = _number(cuda)
    if wanted < (12,):
        return None
    fitting = [row for row in table("inference_amis")["amis"] if _number(row["cuda"]) >= wanted]
    return min(fitting, key=lambda row: _number(row["cuda"]))["name"] if fitting else None


def newest_ami() -> str:
    """The AMI with the newest driver."""
    rows = table("inference_amis")["amis"]
    found: str = max(rows, key=lambda row: _number(row["cuda"]))["name"]
    return found


def names() -> tuple[str, ...]:
    """The inference AMIs for GPUs."""
    return tuple(row["name"] for row in table("inference_amis")["amis"])


def cuda_of(name: str) -> str:
    """The CUDA version that the AMI's driver carries, as 12.2. Raises KeyError."""
    return str(_row(name)["cuda"])


def families_of(name: str) -> tuple[str, ...] | None:
    """Instance families that AWS lists for the AMI; None where it lists none. Raises KeyError."""
    families = _row(name)["families"]
    return None if families is None else tuple(families)


def carries(name: str, cuda: str) -> bool:
    """Whether the AMI's driver runs a container of this CUDA version.

    An AMI that mounts the image's CUDA compatibility libraries also runs newer minor
    versions of the driver's own CUDA generation.
    """
    driver, wanted = _number(cuda_of(name)), _number(cuda)
    if _row(name)["mounts_cuda_compat"]:
        return driver[0] >= wanted[0]
    return driver >= wanted


def _row(name: str) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in table("inference_amis")["amis"]}
    return rows[name]
