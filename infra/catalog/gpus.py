"""Facts about GPUs: compute capability, CUDA and TensorFlow versions that they run."""

from infra.catalog.table import table


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
