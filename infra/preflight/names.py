"""Names that only one environment can have."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class EndpointNameShared(Rule):
    """Two stacks cannot make one endpoint: the second fails, or one that is renamed deletes it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
    (EndpointName: unique within an AWS Region in your AWS account)
    """

    id = "endpoint-name-shared"
    example = "# two files with the same endpoint.name, account and region"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        if loaded.sharing:
            name = environment.endpoint.name
            yield self.finding(
                loaded,
                "endpoint.name",
                name,
                f"{name} is also the endpoint of {', '.join(loaded.sharing)}, in the same account and "
                "region",
                allowed="a name that no other environment there has",
                remedy="rename one of them",
                reads=("account", "region"),
            )
