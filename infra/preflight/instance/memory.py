"""Rules about size: the models must fit into memory, the archive and its files onto the disk."""

from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.policy.sizing import disk_gib, memory, volume_gib
from infra.preflight.rendering import counted
from infra.preflight.rule import ContainerRule, Findings, VariantRule, artifact_example


class Memory(ContainerRule):
    """Every model server loads all models; if memory runs out, the kernel kills one after the other.

    Source: docs/decisions/0011 (0.3 GiB per server, 128 MiB per worker, a tenth for the system),
    or the measurements in the file
    """

    acknowledgeable = True
    example = """\
models.ranker.server_memory_gib = 3
variants.primary.container.tfs_processes = 4"""

    def look(self, placement: Placement) -> Findings:
        instance, model = placement.instance, f"models.{placement.variant.model}"
        if placement.variant.component:
            return  # component-memory looks at the instance, of which this is a part
        need = memory(
            instance, placement.served, processes=placement.processes, workers=placement.workers
        )
        if need is None:
            yield from self.size_unknown(placement)
        elif need.needed_gib > instance.memory_gib:
            yield self.finding(
                placement.machine_key,
                f"{instance.name}: {counted(placement.processes, 'model server')} "
                f"({need.servers_gib:.1f} GiB), "
                f"{counted(placement.workers, 'worker')} ({need.workers_gib:.1f}) and the system "
                f"({need.system_gib:.1f}) need {need.needed_gib:.1f} of {instance.memory_gib:g} GiB",
                given=instance.name,
                allowed=f"at most {instance.memory_gib:g} GiB",
                remedy="lower tfs_processes or gunicorn_workers, choose a larger type, or measure "
                f"{model}.server_memory_gib and worker_memory_mib",
                reads=(model, placement.key("container")),
            )


class StorageVolumeOnNvme(VariantRule):
    """An instance type with local NVMe has no EBS volume: SageMaker refuses a size for it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (VolumeSizeInGB)
    """

    example = """\
variants.primary.instance_type = "ml.g4dn.xlarge"
variants.primary.volume_gb = 100"""
    allowed = "no volume_gb"
    remedy = "take it out, or choose a type without local NVMe"

    def look(self, placement: Placement) -> Findings:
        given, instance = placement.variant.volume_gb, placement.instance
        if given is not None and instance.local_nvme_gb:
            yield self.finding(
                placement.key("volume_gb"),
                f"volume_gb {given}: {instance.name} has {instance.local_nvme_gb} GB of local NVMe and "
                "takes no volume",
                reads=(placement.key("instance_type"),),
            )


class StorageKeyOnNvme(VariantRule):
    """Local NVMe is encrypted by a hardware module of the instance, and not by your KMS key.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
    (2026-11-22)
    """

    severity = Severity.WARNING
    example = """\
variants.primary.instance_type = "ml.g4dn.xlarge"
endpoint.volume_kms_key = "alias/serving\""""
    allowed = "no volume_kms_key with such a type"
    remedy = "take it out: the hardware encrypts it"

    def look(self, placement: Placement) -> Findings:
        key = self.environment.endpoint.volume_kms_key
        if key is not None and placement.instance.local_nvme_gb:
            yield self.finding(
                "endpoint.volume_kms_key",
                f"{key}: {placement.instance.name} of variant {placement.name} has local NVMe, which "
                "the key does not encrypt",
                reads=(placement.key("instance_type"),),
            )


class StorageTooSmall(VariantRule):
    """The disk must hold the archive and its unpacked files; if it is full, the instance never starts.

    Source: docs/decisions/0011; infra/catalog/documented_limits.json (default volume)
    """

    acknowledgeable = True
    example = artifact_example('variants.primary.instance_type = "ml.m5.4xlarge"', size_gib=20)

    def look(self, placement: Placement) -> Findings:
        needed = disk_gib(placement.served)
        if needed is None:
            yield from self.size_unknown(placement)
            return
        room = volume_gib(placement.instance, placement.volume_gb)
        given = placement.variant.volume_gb
        if needed > room:
            size = "" if given is None else f"volume_gb {given}: "
            enough_gb = int(needed * 2**30 / 1e9) + 1
            fixed = placement.variant.serverless is not None
            yield self.finding(
                placement.machine_key if fixed else placement.key("volume_gb"),
                f"{size}archive and files need {needed:.1f} GiB, but the disk of "
                f"{placement.instance.name} has {room:.1f}",
                given=given,
                allowed=f"{enough_gb} GB or more",
                remedy=_larger(placement, enough_gb),
                reads=(placement.key("instance_type"), f"models.{placement.variant.model}"),
            )


def _larger(placement: Placement, volume_gb: int) -> str:
    if placement.variant.serverless is not None:
        return "choose an instance_type: a serverless container's disk does not grow"
    if placement.instance.local_nvme_gb:
        return "choose a type with more local NVMe"
    return f"set volume_gb = {volume_gb}"
