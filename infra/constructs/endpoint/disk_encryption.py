"""Tells auditors' rules why an endpoint configuration has no key for its disks."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from infra.policy.required_ids import takes_volume_key

RULES = (
    "NIST.800.53.R5-SageMakerEndpointConfigurationKMSKeyConfigured",
    "HIPAA.Security-SageMakerEndpointConfigurationKMSKeyConfigured",
    "PCI.DSS.321-SageMakerEndpointConfigurationKMSKeyConfigured",
)


def accept_disks(config: Construct, *, instance_types: Sequence[str]) -> None:
    """Only where a type has local NVMe; without a key and without NVMe it stays a finding."""
    if takes_volume_key(instance_types):
        return
    cdk.Validations.of(config).acknowledge(
        *(
            cdk.Acknowledgment(
                id=rule,
                reason="local NVMe is encrypted by the instance's hardware, with a key that dies "
                "with it; SageMaker refuses a configuration with a key of ours for such a type",
            )
            for rule in RULES
        )
    )
