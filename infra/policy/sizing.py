"""Compute memory and disk, GPU memory, time to start and timeouts, number of instances, and cost.

This is pure arithmetic over the catalog and a model's sizes. Every constant without a source is
marked as an assumption; docs/decisions/0011 lists them.

GPU memory: process i is pinned to GPU i mod n, but the share of each is (1 - margin) / processes, as if
they all had one GPU: four processes on four GPUs get a fifth of their own GPU each. The margin
is not validated, so a negative one gives every process the share that it should have.
Source: serve.py of the image, _calculate_per_process_gpu_memory_fraction

Timeouts: while the model server's port is closed, the container waits in pauses that double from 0.2 s up to
120 s (urllib3's Retry, backoff_factor 0.1). The configured time only determines the number of pauses,
so that the container waits less than configured, and differently in each image. With the code of
2.20 it waited 3.0 s of 6 s.
Source: wait_for_model and retry_from_timeout in tfs_utils.py of the image,
https://github.com/aws/deep-learning-containers, since 2.20 in scripts/docker/tensorflow/inference,
before in tensorflow/inference/docker/build_artifacts, read 2026-11-22;
https://urllib3.readthedocs.io/en/stable/reference/urllib3.util.html#urllib3.util.Retry
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infra.catalog import images
from infra.catalog.instances import Instance, find_gpu_fact, load_instances
from infra.catalog.limits import find_documented_limit, find_maximum, find_minimum

MIB_PER_GIB = 1024
# Serverless Inference runs on AWS Lambda, which has one vCPU for each 1,769 MB.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html (2026-11-22); that SageMaker's memory
# buys the same is an assumption: its guide says "proportional" and no number.
MIB_PER_VCPU = 1769
# https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (ephemeral disk, 2026-11-22)
SERVERLESS_DISK_GB = 5
# Time within which a serverless container must answer its first ping (the same page, "cold starts").
SERVERLESS_START_SECONDS = 180


def find_machine(instance_type: str | None, serverless_memory_mib: int | None) -> Instance:
    """Return a variant's instance type, or a serverless container, which has no GPU and a fixed disk.

    Raises KeyError for an unknown type.
    """
    if serverless_memory_mib is None:
        return load_instances()[instance_type or ""]
    return Instance(
        name=f"serverless with {serverless_memory_mib} MiB",
        vcpus=max(1, serverless_memory_mib // MIB_PER_VCPU),
        memory_gib=serverless_memory_mib / MIB_PER_GIB,
        architecture="x86_64",
        burstable=False,
        local_nvme_gb=0,
    )


# Measured: 4 workers with numpy and protobuf take 110 MB more than the master alone; with
# TensorFlow imported 448 MB. A worker of 128 MiB covers both.
ASSUMED_WORKER_GIB = 0.125
# Assumption: the model server without a model. Replaced by measuring memory_gib.
ASSUMED_SERVER_GIB = 0.3


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    """The sizes of a model on its instance, in GiB; None is unknown."""

    model_gib: float | None
    """Unpacked size of all versions, because every version is loaded."""
    packed_gib: float | None = None
    """Size of the archive."""
    has_code: bool | None = False
    """Whether Gunicorn runs; None for an archive in S3, which is not read."""
    compressed: bool = True
    """Whether the archive is compressed; if False, it is stored as files and nothing is unpacked."""
    multi_model: bool = False
    """Whether it is multi-model: each model is loaded by its own server at its first request."""
    measured_server_gib: float | None = None
    """Resident memory of one model server with everything loaded."""
    measured_worker_gib: float | None = None
    """Memory of one worker."""

    @property
    def server_gib(self) -> float | None:
        """Return the memory of one model server in GiB, measured or assumed."""
        if self.measured_server_gib is not None:
            return self.measured_server_gib
        return None if self.model_gib is None else self.model_gib + ASSUMED_SERVER_GIB

    @property
    def worker_gib(self) -> float:
        """Return the memory of one worker in GiB, measured or assumed."""
        return ASSUMED_WORKER_GIB if self.measured_worker_gib is None else self.measured_worker_gib


# Assumption: the operating system, NGINX and SageMaker's own agents, of the instance's memory.
SYSTEM_SHARE = 0.1
# Cautious assumptions: GiB per second from S3, out of gzip, and from disk into a model server.
DOWNLOAD_GIB_PER_SECOND = 0.1
UNPACK_GIB_PER_SECOND = 0.1
LOAD_GIB_PER_SECOND = 0.2
# Assumption: seconds until a new instance runs its container. AWS says "minutes".
BOOT_SECONDS = 180
# A year of 8,760 hours by 12, as AWS's pricing calculator counts.
# https://aws.amazon.com/calculator/calculator-assumptions/ (2026-11-22)
HOURS_PER_MONTH = 730
BYTES_PER_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class MemoryNeed:
    """Memory that an instance needs, in GiB."""

    servers_gib: float
    workers_gib: float
    system_gib: float

    @property
    def total_gib(self) -> float:
        return self.servers_gib + self.workers_gib + self.system_gib


def compute_memory(
    instance: Instance, served: ModelSizes, *, processes: int, workers: int
) -> MemoryNeed | None:
    """Compute the memory that a model's processes need, or None if its size is unknown."""
    if served.server_gib is None:
        return None
    return MemoryNeed(
        servers_gib=processes * served.server_gib,
        workers_gib=workers * served.worker_gib,
        system_gib=SYSTEM_SHARE * instance.memory_gib,
    )


def estimate_download_seconds(served: ModelSizes) -> float | None:
    """Estimate the seconds from S3 to files. An unknown packed size counts as unpacked."""
    if served.model_gib is None:
        return None
    if not served.compressed:
        return served.model_gib / DOWNLOAD_GIB_PER_SECOND
    packed = served.model_gib if served.packed_gib is None else served.packed_gib
    return packed / DOWNLOAD_GIB_PER_SECOND + served.model_gib / UNPACK_GIB_PER_SECOND


def estimate_load_seconds(served: ModelSizes, *, processes: int) -> float | None:
    """Estimate the seconds to load the models: every process reads all files from one disk."""
    gib = served.model_gib
    return None if gib is None else processes * gib / LOAD_GIB_PER_SECOND


def estimate_start_seconds(served: ModelSizes, *, processes: int) -> float | None:
    """Estimate the seconds from the decision to add an instance to its first response."""
    download = estimate_download_seconds(served)
    load = estimate_load_seconds(served, processes=processes)
    return None if download is None or load is None else BOOT_SECONDS + download + load


def compute_disk_gib(served: ModelSizes) -> float | None:
    """Compute the disk space in GiB: the archive and its files together, while unpacking."""
    if served.model_gib is None or not served.compressed:
        return served.model_gib
    return served.model_gib + (served.model_gib if served.packed_gib is None else served.packed_gib)


def compute_volume_gib(instance: Instance, volume_gb: int | None) -> float:
    """Compute a model's disk space in GiB: local NVMe, else the volume's size or default."""
    default_gb = int(find_documented_limit("default_volume_gb"))
    return (instance.local_nvme_gb or volume_gb or default_gb) * 1e9 / BYTES_PER_GIB


def count_instances(rps: float, *, max_rps_per_instance: float, safety_factor: float) -> int:
    """Return the number of instances that serve this traffic, each within its safe share."""
    return max(1, math.ceil(round(rps / (max_rps_per_instance * safety_factor), 9)))


def compute_copy_room(instance: Instance) -> tuple[float, float, float]:
    """Return the vCPUs, GPUs, and MiB that copies can reserve, without the system's tenth."""
    return instance.vcpus, instance.gpus, (1 - SYSTEM_SHARE) * instance.memory_gib * MIB_PER_GIB


def count_instances_for_copies(
    copies: Sequence[tuple[float, ...]], room: tuple[float, ...]
) -> int | None:
    """Return the number of instances with this room that fit these copies.

    Copies are placed largest first, each on the first instance that fits it. Each number of a
    copy is the amount that it reserves of the resource at the same position in `room`. Returns
    None if a copy is larger than an instance.
    """
    left: list[list[float]] = []
    for copy in sorted(copies, reverse=True):
        if any(needs > has for needs, has in zip(copy, room, strict=True)):
            return None
        for instance in left:
            if all(needs <= has for needs, has in zip(copy, instance, strict=True)):
                break
        else:
            left.append(instance := list(room))
        instance[:] = [has - needs for needs, has in zip(copy, instance, strict=True)]
    return len(left)


def compute_usd_per_month(instances: int, usd_per_hour: float) -> float:
    """Compute the cost of a month in USD at a price per hour."""
    return instances * usd_per_hour * HOURS_PER_MONTH


def count_update_instances(instances: int, *, batches: tuple[int, int] | None) -> int:
    """Return the maximum number of instances that run at once during an update or its rollback.

    `batches` are the percentages of a rolling update's batch and of its rollback's batch. None
    means blue/green with both fleets. In a rolling update, a batch's old instances are removed
    after its bake; a rollback then starts its own batch, and neither fleet is ever larger than
    `instances`. Whether SageMaker first removes the failed batch isn't documented; this function
    assumes that it doesn't.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html
    and https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html
    (RollbackMaximumBatchSize, read 2026-11-22)
    """
    if batches is None:
        return 2 * instances
    return instances + min(instances, sum(math.ceil(instances * batch / 100) for batch in batches))


# Without the image's default margin ("memory that is needed to initialize CUDA/cuDNN and other GPU
# libraries"), this share is left to the processes of one GPU together.
USED_SHARE = 0.8
DEFAULT_MARGIN = 0.2
# Assumption: this part of a process's memory holds weights; the rest is for activations.
WEIGHTS_SHARE = 0.9


def count_processes_per_gpu(instance: Instance, processes: int) -> int:
    """Return the number of processes on the GPU that has the most of them."""
    return math.ceil(processes / instance.gpus)


def compute_margin(instance: Instance, processes: int) -> float | None:
    """Compute the margin with which the processes of each GPU share 80 % of it; None with one process."""
    if processes < 2:
        return None
    share = USED_SHARE / count_processes_per_gpu(instance, processes)
    return round(1 - processes * share, 4)


def compute_gpu_share(processes: int, margin: float | None) -> float | None:
    """Compute the container's --per_process_gpu_memory_fraction; None if it passes none."""
    if processes < 2:
        return None
    return round((1 - (DEFAULT_MARGIN if margin is None else margin)) / processes, 4)


def compute_process_gib(instance: Instance, processes: int, margin: float | None) -> float:
    """Compute the GPU memory that one process may use, in GiB.

    If the process may take a whole GPU, TensorFlow leaves a part to the system.
    Source: tensorflow/core/common_runtime/gpu/gpu_device.cc, MinSystemMemory: 500 MiB up to
    compute capability 6, 1050 MiB for 7, 1536 MiB for 8, 1800 MiB above.
    """
    share = compute_gpu_share(processes, margin)
    if share is not None:
        return share * instance.gpu_memory_gib
    capability = int(find_gpu_fact(instance.gpu, "compute_capability") or 9)
    by_capability = {6: 500, 7: 1050, 8: 1536}
    system_mib = next((mib for most, mib in by_capability.items() if capability <= most), 1800)
    return instance.gpu_memory_gib - system_mib / 1024


DOWNLOAD = "ProductionVariantModelDataDownloadTimeoutInSeconds"
STARTUP = "ProductionVariantContainerStartupHealthCheckTimeoutInSeconds"
# The estimates are cautious already, so a start that takes twice as long has failed.
SAFETY = 2


def choose_download_timeout(served: ModelSizes) -> int | None:
    """Return the timeout to download and unpack the archive; None if SageMaker's is enough."""
    return _choose_timeout(estimate_download_seconds(served), DOWNLOAD)


def choose_startup_timeout(served: ModelSizes, *, processes: int) -> int | None:
    """Return the timeout until /ping succeeds, or None if SageMaker's own is enough."""
    return _choose_timeout(estimate_load_seconds(served, processes=processes), STARTUP)


def _choose_timeout(estimate_seconds: float | None, shape: str) -> int | None:
    if estimate_seconds is None or SAFETY * estimate_seconds <= find_minimum(shape):
        return None
    return min(find_maximum(shape), 60 * math.ceil(SAFETY * estimate_seconds / 60))


# The image's rule as a table: configured seconds from which on, and the seconds that it really waits.
# In 2.20 floor(log2(10 * seconds + 1)) retries fit, and the first comes at once, without a pause.
_SINCE_2_20 = (
    (1, 0.6), (2, 1.4), (4, 3.0), (7, 6.2), (13, 12.6), (26, 25.4), (52, 51.0), (103, 102.2),
    (205, 204.6), (410, 324.6), (820, 444.6), (1639, 564.6), (3277, 684.6), (6554, 804.6),
    (13_108, 924.6), (26_215, 1044.6), (52_429, 1164.6),
)  # fmt: skip
_UP_TO_2_19 = (
    (1, 0.6), (3, 1.4), (6, 3.0), (13, 6.2), (25, 12.6), (51, 25.4), (102, 51.0), (205, 102.2),
    (409, 204.6), (819, 324.6), (1638, 444.6), (3277, 564.6), (6553, 684.6), (13_107, 804.6),
    (26_214, 924.6), (52_429, 1044.6),
)  # fmt: skip
# A request may also take as long as is configured for a load, so at most a day is recommended.
LONGEST_SECONDS = 86_400


def find_default_wait(tensorflow: str, *, processes: int) -> int:
    """Return the image's default wait time in seconds, by serve.py of this version."""
    return 60 if images.has_feature("rewritten_code", tensorflow) else 55 // processes


def find_real_wait(configured_seconds: int, tensorflow: str) -> float:
    """Return the seconds that the image really waits for a model server whose port is closed."""
    rows = _select_wait_rows(tensorflow)
    return max((real for configured, real in rows if configured <= configured_seconds), default=0.0)


def find_wait_setting(load_seconds: float, tensorflow: str) -> int:
    """Return the fewest whole seconds with which the image waits for such a load, or LONGEST_SECONDS."""
    rows = _select_wait_rows(tensorflow)
    return next((seconds for seconds, real in rows if real >= load_seconds), LONGEST_SECONDS)


def _select_wait_rows(tensorflow: str) -> tuple[tuple[int, float], ...]:
    return _SINCE_2_20 if images.has_feature("rewritten_code", tensorflow) else _UP_TO_2_19
