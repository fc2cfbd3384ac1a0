"""Does it fit, how long does it take to start, how many instances, what do they cost?

Pure arithmetic over the catalog and what is known of a model. Every constant that no source
states is called an assumption; docs/decisions/0011 has them together.
"""

import math
from dataclasses import dataclass

from infra.catalog.instances import Instance
from infra.catalog.limits import documented
from infra.policy.served import Served

# Assumption: the operating system, NGINX and SageMaker's own agents, of the instance's memory.
SYSTEM_SHARE = 0.1
# Assumptions, cautious: from S3, out of gzip, and from disk into a model server.
DOWNLOAD_GIB_PER_SECOND = 0.1
UNPACK_GIB_PER_SECOND = 0.1
LOAD_GIB_PER_SECOND = 0.2
# Assumption: until a new instance runs its container. AWS says "minutes".
BOOT_SECONDS = 180
# 30 days, as in the article whose arithmetic this is: 50 x 3.06 $ x 720 = 110,160 $ a month.
HOURS_PER_MONTH = 720
BYTES_PER_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What an instance must hold, in GiB."""

    servers_gib: float
    workers_gib: float
    system_gib: float

    @property
    def needed_gib(self) -> float:
        return self.servers_gib + self.workers_gib + self.system_gib


def memory(instance: Instance, served: Served, *, processes: int, workers: int) -> Memory | None:
    """None while the size of the model is unknown."""
    if served.server_gib is None:
        return None
    return Memory(
        servers_gib=processes * served.server_gib,
        workers_gib=workers * served.worker_gib,
        system_gib=SYSTEM_SHARE * instance.memory_gib,
    )


def download_seconds(served: Served) -> float | None:
    """From S3 to files on the instance. A packed size that is unknown counts as the model's own."""
    if served.model_gib is None:
        return None
    if not served.compressed:
        return served.model_gib / DOWNLOAD_GIB_PER_SECOND
    packed = served.model_gib if served.packed_gib is None else served.packed_gib
    return packed / DOWNLOAD_GIB_PER_SECOND + served.model_gib / UNPACK_GIB_PER_SECOND


def load_seconds(served: Served, *, processes: int) -> float | None:
    """From files to models that answer: every process reads all of it from the same disk."""
    if served.model_gib is None:
        return None
    return processes * served.model_gib / LOAD_GIB_PER_SECOND


def start_seconds(served: Served, *, processes: int) -> float | None:
    """From the decision to add an instance to its first answer."""
    download, load = download_seconds(served), load_seconds(served, processes=processes)
    return None if download is None or load is None else BOOT_SECONDS + download + load


def disk_gib(served: Served) -> float | None:
    """Archive and files lie on the volume together while it is unpacked."""
    if served.model_gib is None or not served.compressed:
        return served.model_gib
    return served.model_gib + (served.model_gib if served.packed_gib is None else served.packed_gib)


def volume_gib(instance: Instance, volume_gb: int | None) -> float:
    """Room for a model: local NVMe where there is some, else the volume asked for, or the default."""
    gigabytes = instance.local_nvme_gb or volume_gb or int(documented("default_volume_gb"))
    return gigabytes * 1e9 / BYTES_PER_GIB


def instances_for(rps: float, *, max_rps_per_instance: float, safety_factor: float) -> int:
    """Instances that carry this traffic while each stays below its safe share."""
    return max(1, math.ceil(round(rps / (max_rps_per_instance * safety_factor), 9)))


def usd_per_month(instances: int, usd_per_hour: float) -> float:
    """At a price by the hour, all month."""
    return instances * usd_per_hour * HOURS_PER_MONTH


def instances_during_update(instances: int, *, rolling_percent: int | None) -> int:
    """Both fleets of a blue/green update; one batch more than the fleet when it rolls.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html
    """
    if rolling_percent is None:
        return 2 * instances
    return instances + math.ceil(instances * rolling_percent / 100)
