"""What an update from the file at another revision would run into. Needs `--against REF`."""

from infra.parameters.environment import Environment
from infra.parameters.loading import held
from infra.preflight.rule import Findings, Rule

AGAINST = "--against REF, the revision that is deployed"


class ChangeTypeWhileScaled(Rule):
    """SageMaker refuses another instance type while the variant is a scalable target.

    CloudFormation changes the endpoint before it removes the target, so one update cannot do it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    example = "# --against a revision with another instance_type and [variants.primary.scaling]"

    def check(self, environment: Environment) -> Findings:
        if self.loaded.against is None:
            yield self.not_checked("variants", AGAINST)
            return
        for name, variant in environment.variants.items():
            old = self.loaded.deployed.get(name)
            if old and old.scales and old.instance_type != variant.instance_type:
                holding = held({name: old})
                first = [f"-c {self.loaded.name}.{key}={value}" for key, value in holding.items()]
                yield self.finding(
                    f"variants.{name}.instance_type",
                    f"{old.instance_type} of {self.loaded.against} is scaled: its type cannot change to "
                    f"{variant.instance_type} in one update",
                    allowed=old.instance_type or "serverless, as it is",
                    remedy=f"first deploy with {' '.join(first)}, then without",
                )


class ChangeVariantRemovedWhileScaled(Rule):
    """SageMaker refuses to remove a variant while it is a scalable target.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    example = "# --against a revision with another, scaled variant"

    def check(self, environment: Environment) -> Findings:
        if self.loaded.against is None:
            yield self.not_checked("variants", AGAINST)
            return
        for name, old in self.loaded.deployed.items():
            if old.scales and name not in environment.variants:
                yield self.finding(
                    "variants",
                    f"variant {name} of {self.loaded.against} is scaled: it cannot be removed in one update",
                    given=name,
                    allowed="every variant that is scaled now",
                    remedy=f"first deploy it with hold = true in [variants.{name}.scaling], "
                    "then take it out",
                )
