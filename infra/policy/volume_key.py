"""Whether your own KMS key encrypts the instances' disks."""

from collections.abc import Collection

from infra.catalog.instances import instances


def takes_volume_key(instance_types: Collection[str]) -> bool:
    """Whether the key applies. False if any type has local NVMe, which hardware encrypts without the key.
    An unknown type counts as one without local NVMe.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    types = filter(None, map(instances().get, instance_types))
    return not any(instance.local_nvme_gb for instance in types)
