"""Sizing: memory and disk, time to start, number of instances, and cost.

This is pure arithmetic over the catalog and a model's sizes. Every constant without a source is
marked as an assumption; docs/decisions/0011 lists them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infra.catalog.instances import Instance, instances
from infra.catalog.limits import documented

MIB_PER_GIB = 1024
# Serverless Inference runs on AWS Lambda, which has one vCPU for each 1,769 MB.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html (2026-11-22); that SageMaker's memory
# buys the same is an assumption: its guide says "proportional" and no number.
MIB_PER_VCPU = 1769
# https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (ephemeral disk, 2026-11-22)
SERVERLESS_DISK_GB = 5
# Time within which a serverless container must answer its first ping (the same page, "cold starts").
SERVERLESS_START_SECONDS = 180


def serverless_machine(memory_mib: int) -> Instance:
    """CPUs and memory of a serverless container; it has no GPU, and a disk of fixed size."""
    return Instance(
        name=f"serverless with {memory_mib} MiB",
        vcpus=max(1, memory_mib // MIB_PER_VCPU),
        memory_gib=memory_mib / MIB_PER_GIB,
        architecture="x86_64",
        burstable=False,
        local_nvme_gb=0,
    )


def machine(instance_type: str | None, serverless_memory_mib: int | None) -> Instance:
    """The instance type, or serverless container, of a variant. Raises KeyError if unknown or neither."""
    if serverless_memory_mib is not None:
        return serverless_machine(serverless_memory_mib)
    return instances()[instance_type or ""]


# Measured: 4 workers with numpy and protobuf take 110 MB more than the master alone; with
# TensorFlow imported 448 MB. A worker of 128 MiB covers both.
ASSUMED_WORKER_GIB = 0.125
# Assumption: the model server without a model. Replaced by measuring memory_gib.
ASSUMED_SERVER_GIB = 0.3


@dataclass(frozen=True, kw_only=True)
class Served:
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
        """Memory of one model server, measured or assumed."""
        if self.measured_server_gib is not None:
            return self.measured_server_gib
        return None if self.model_gib is None else self.model_gib + ASSUMED_SERVER_GIB

    @property
    def worker_gib(self) -> float:
        """Memory of one worker, measured or assumed."""
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
    def needed_gib(self) -> float:
        return self.servers_gib + self.workers_gib + self.system_gib


def memory(
    instance: Instance, served: Served, *, processes: int, workers: int
) -> MemoryNeed | None:
    """Memory that a model's processes need; None if the size of the model is unknown."""
    if served.server_gib is None:
        return None
    return MemoryNeed(
        servers_gib=processes * served.server_gib,
        workers_gib=workers * served.worker_gib,
        system_gib=SYSTEM_SHARE * instance.memory_gib,
    )


def download_seconds(served: Served) -> float | None:
    """Seconds from S3 to files on the instance. An unknown packed size counts as the unpacked one."""
    if served.model_gib is None:
        return None
    if not served.compressed:
        return served.model_gib / DOWNLOAD_GIB_PER_SECOND
    packed = served.model_gib if served.packed_gib is None else served.packed_gib
    return packed / DOWNLOAD_GIB_PER_SECOND + served.model_gib / UNPACK_GIB_PER_SECOND


def load_seconds(served: Served, *, processes: int) -> float | None:
    """Seconds from files to loaded models: every process reads all files from the same disk."""
    if served.model_gib is None:
        return None
    return processes * served.model_gib / LOAD_GIB_PER_SECOND


def start_seconds(served: Served, *, processes: int) -> float | None:
    """Seconds from the decision to add an instance to its first answer."""
    download, load = download_seconds(served), load_seconds(served, processes=processes)
    return None if download is None or load is None else BOOT_SECONDS + download + load


def disk_gib(served: Served) -> float | None:
    """Disk space in GiB: the archive and its files are on the volume together while it is unpacked."""
    if served.model_gib is None or not served.compressed:
        return served.model_gib
    return served.model_gib + (served.model_gib if served.packed_gib is None else served.packed_gib)


def volume_gib(instance: Instance, volume_gb: int | None) -> float:
    """Disk space for a model in GiB: local NVMe if there is any, else the volume's size or the default."""
    gigabytes = instance.local_nvme_gb or volume_gb or int(documented("default_volume_gb"))
    return gigabytes * 1e9 / BYTES_PER_GIB


def instances_for(rps: float, *, max_rps_per_instance: float, safety_factor: float) -> int:
    """Number of instances that serve this traffic with each at its safe share."""
    return max(1, math.ceil(round(rps / (max_rps_per_instance * safety_factor), 9)))


def copy_room(instance: Instance) -> tuple[float, float, float]:
    """vCPUs, GPUs and MiB that copies can reserve; of the memory a tenth is the system's."""
    mib = (1 - SYSTEM_SHARE) * instance.memory_gib * MIB_PER_GIB
    return instance.vcpus, instance.gpus, mib


def instances_that_hold(copies: Sequence[tuple[float, ...]], room: tuple[float, ...]) -> int | None:
    """Number of instances with this room that hold these copies, largest first, each on the first that can.

    Each number of a copy is what it reserves of a resource of which `room` has the amount. None: a copy is
    larger than an instance.
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


def usd_per_month(instances: int, usd_per_hour: float) -> float:
    """Cost of a month at a price per hour, in USD."""
    return instances * usd_per_hour * HOURS_PER_MONTH


def instances_during_update(instances: int, *, batches: tuple[int, int] | None) -> int:
    """Maximum number of instances that run at the same time during an update or its rollback.

    `batches` are the percentages of a rolling update's batch and of its rollback's batch; None means
    blue/green with both fleets. In a rolling update a batch's old instances are removed after its bake;
    a rollback then starts its own batch, and neither fleet is ever larger than `instances`. Whether
    SageMaker first removes the failed batch is not documented; this assumes that it does not.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html
    (RollbackMaximumBatchSize, read 2026-11-22)
    """
    if batches is None:
        return 2 * instances
    return instances + min(instances, sum(math.ceil(instances * batch / 100) for batch in batches))
