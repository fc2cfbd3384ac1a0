"""The disk that the model is unpacked to."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.policy.sizing import disk_gib, volume_gib
from infra.preflight.example import artifact
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule


class StorageVolumeOnNvme(VariantRule):
    """A type with local NVMe has that and no other disk: SageMaker refuses a size for it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (VolumeSizeInGB)
    """

    id = "storage-volume-on-nvme"
    example = """\
variants.primary.instance_type = "ml.g4dn.xlarge"
variants.primary.volume_gb = 100"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        given, instance = placement.variant.volume_gb, placement.instance
        if given is not None and instance.local_nvme_gb:
            yield self.finding(
                loaded,
                placement.key("volume_gb"),
                given,
                f"volume_gb {given}: {instance.name} has {instance.local_nvme_gb} GB of local NVMe and "
                "takes no volume",
                allowed="no volume_gb",
                remedy="take it out, or choose a type without local NVMe",
                reads=(placement.key("instance_type"),),
            )


class StorageKeyOnNvme(VariantRule):
    """Local NVMe is encrypted by its hardware; with a key of ours the configuration is refused.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
    """

    id = "storage-key-on-nvme"
    example = """\
variants.primary.instance_type = "ml.g4dn.xlarge"
endpoint.volume_kms_key = "alias/serving\""""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        key = environment.endpoint.volume_kms_key
        if key is not None and placement.instance.local_nvme_gb:
            yield self.finding(
                loaded,
                "endpoint.volume_kms_key",
                key,
                f"{key}: {placement.instance.name} of variant {placement.name} has local NVMe, which "
                "takes no key",
                allowed="no volume_kms_key with such a type",
                remedy="take it out: the hardware encrypts it",
                reads=(placement.key("instance_type"),),
            )


class StorageTooSmall(VariantRule):
    """Archive and files lie on the disk together; full, the instance never starts.

    Source: docs/decisions/0011; infra/catalog/documented_limits.json (default volume)
    """

    id = "storage-too-small"
    acknowledgeable = True
    example = artifact(size_gib=20) + '\nvariants.primary.instance_type = "ml.m5.4xlarge"'

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        needed = disk_gib(placement.served)
        if needed is None:
            yield from self.size_unknown(loaded, placement)
            return
        room = volume_gib(placement.instance, placement.volume_gb)
        given = placement.variant.volume_gb
        if needed > room:
            said = "" if given is None else f"volume_gb {given}: "
            wanted = int(needed * 2**30 / 1e9) + 1
            yield self.finding(
                loaded,
                placement.key("volume_gb")
                if placement.variant.serverless is None
                else placement.machine_key,
                given,
                f"{said}archive and files need {needed:.1f} GiB, the disk of {placement.instance.name} has "
                f"{room:.1f}",
                allowed=f"{wanted} GB or more",
                remedy=_larger(placement, wanted),
                reads=(placement.key("instance_type"), f"models.{placement.variant.model}"),
            )


def _larger(placement: Placement, wanted_gb: int) -> str:
    if placement.variant.serverless is not None:
        return "choose an instance_type: a serverless container's disk does not grow"
    if placement.instance.local_nvme_gb:
        return "choose a type with more local NVMe"
    return f"set volume_gb = {wanted_gb}"
