"""Your own KMS key encrypts the disks of types without local NVMe alone."""

import pytest

from infra.policy.hosting import can_use_volume_key


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
@pytest.mark.parametrize(
    ("types", "taken"),
    [
        (["ml.c5.xlarge"], True),
        (["ml.g5.xlarge"], False),
        (["ml.c5.xlarge", "ml.g5.xlarge"], False),
        (["ml.unheard-of.xlarge"], True),
        ([], True),
    ],
)
def test_the_key_applies_where_no_type_has_local_nvme(types: list[str], taken: bool) -> None:
    assert can_use_volume_key(types) is taken
