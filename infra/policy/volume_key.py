"""Whether your own KMS key encrypts the instances' disks."""

from collections.abc import Collection

from infra.catalog.instances import instances


def takes_volume_key(instance_types: Collection[str]) -> bool:
    """Whether the key applies. False if any type has local NVMe, which hardware encrypts without the key.
    An unknown type counts as one without local NVMe.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    known = [
        instances()[instance_type]
        for instance_type in instance_types
        if instance_type in instances()
    ]
    return not any(one.local_nvme_gb for one in known)
