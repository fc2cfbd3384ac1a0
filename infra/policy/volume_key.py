"""Whether a key of one's own encrypts what lies on the instances' disks."""

from collections.abc import Collection

from infra.catalog.instances import instances


def takes_volume_key(instance_types: Collection[str]) -> bool:
    """False where any type has local NVMe: a hardware module encrypts that, and the key does not.
    An unknown type counts as without.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    known = [instances()[one] for one in instance_types if one in instances()]
    return not any(one.local_nvme_gb for one in known)
