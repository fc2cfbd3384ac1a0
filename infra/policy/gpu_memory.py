"""Division of the GPUs' memory by the container.

Process i is pinned to GPU i mod n, but the share of each is (1 - margin) / processes, as if
they all had one GPU: four processes on four GPUs get a fifth of their own GPU each. The margin
is not validated, so a negative one gives every process the share that it should have.
Source: serve.py of the image, _calculate_per_process_gpu_memory_fraction
"""

import math

from infra.catalog import gpus
from infra.catalog.instances import Instance

# Without the image's default margin ("memory that is needed to initialize CUDA/cuDNN and other GPU
# libraries"), this share is left to the processes of one GPU together.
USED_SHARE = 0.8
DEFAULT_MARGIN = 0.2
# Assumption: this part of a process's memory holds weights; the rest is for activations.
WEIGHTS_SHARE = 0.9


def processes_per_gpu(instance: Instance, processes: int) -> int:
    """Processes on the GPU that has most of them."""
    return math.ceil(processes / instance.gpus)


def margin_for(instance: Instance, processes: int) -> float | None:
    """The margin with which the processes of each GPU share 80 % of it.

    None with one process: the container then passes no share at all.
    """
    if processes < 2:
        return None
    share = USED_SHARE / processes_per_gpu(instance, processes)
    return round(1 - processes * share, 4)


def share_of_gpu(processes: int, margin: float | None) -> float | None:
    """--per_process_gpu_memory_fraction as the container renders it; None if it passes none."""
    if processes < 2:
        return None
    kept = DEFAULT_MARGIN if margin is None else margin
    return round((1 - kept) / processes, 4)


def process_gib(instance: Instance, processes: int, margin: float | None) -> float:
    """GPU memory that one process may use, in GiB.

    If it may take a whole GPU, TensorFlow leaves a part to the system.
    Source: tensorflow/core/common_runtime/gpu/gpu_device.cc, MinSystemMemory: 500 MiB up to
    compute capability 6, 1050 MiB for 7, 1536 MiB for 8, 1800 MiB above.
    """
    share = share_of_gpu(processes, margin)
    if share is not None:
        return share * instance.gpu_memory_gib
    capability = int(gpus.compute_capability(instance.gpu or "") or 9)
    by_capability = {6: 500, 7: 1050, 8: 1536}
    system_mib = next((mib for most, mib in by_capability.items() if capability <= most), 1800)
    return instance.gpu_memory_gib - system_mib / 1024
