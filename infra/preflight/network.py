"""The instances' place in a VPC."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class NetworkHalf(Rule):
    """A model in a VPC has subnets and security groups; SageMaker refuses one without the other.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html
    """

    id = "network-half"
    example = 'network.subnets = ["subnet-0a1b2c3d"]'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        given = {
            "subnets": environment.network.subnets,
            "security_groups": environment.network.security_groups,
        }
        for missing, other in (("subnets", "security_groups"), ("security_groups", "subnets")):
            if given[other] and not given[missing]:
                yield self.finding(
                    loaded,
                    f"network.{missing}",
                    given[missing],
                    f"{other} are given and {missing} are not",
                    allowed="both, or neither",
                    remedy=f"add {missing}, or take {other} out",
                    reads=(f"network.{other}",),
                )
