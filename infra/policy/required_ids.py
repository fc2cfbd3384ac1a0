"""Which ids an environment needs that must be in a VPC, or use keys of its owner."""

from collections.abc import Collection, Mapping, Sequence

from infra.catalog.instances import instances

NETWORK = ("network.subnets", "network.security_groups")
KEYS = ("endpoint.volume_kms_key", "endpoint.log_kms_key", "alarms.topic_kms_key")


def takes_volume_key(instance_types: Collection[str]) -> bool:
    """False where any type has local NVMe: a hardware module encrypts that, and the key does not.
    An unknown type counts as without.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    known = [instances()[one] for one in instance_types if one in instances()]
    return not any(one.local_nvme_gb for one in known)


def missing_ids(
    require: Sequence[str],
    given: Mapping[str, object],
    *,
    instance_types: Collection[str],
    captures: bool,
) -> list[str]:
    """Dotted keys of the environment file that are required and not given, in its order."""
    wanted: list[str] = []
    if "network" in require:
        wanted += NETWORK
    if "keys" in require:
        wanted += KEYS
        if captures:
            wanted.append("capture.kms_key")
        if not takes_volume_key(instance_types):
            wanted.remove("endpoint.volume_kms_key")
    return [key for key in wanted if not given.get(key)]
