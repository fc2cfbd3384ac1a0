"""ENV/endpoint of an environment that cannot be deployed: empty, and says why."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from infra.parameters.finding import Finding
from infra.preflight.rendering import to_mend


class RefusedStack(cdk.Stack):
    """Stops `cdk deploy` of its own environment, with every error at once, and of no other."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        errors: Sequence[Finding],
        stack_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id, stack_name=stack_name)
        cdk.Annotations.of(self).add_error(to_mend(errors))
