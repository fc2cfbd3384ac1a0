"""What an update from the file at another revision would run into. Needs `--against REF`."""

from abc import abstractmethod

from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.loading import held, state_of
from infra.policy.refused_updates import refused_update
from infra.preflight.rule import Findings, Rule

AGAINST = "--against REF, the revision that is deployed"
ALLOWED = "what one update can do"


class ChangeRule(Rule):
    """About what differs from the file at another revision; not checked where none is given."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What a finding is about, and what was not checked."""

    @abstractmethod
    def compared(self, environment: Environment) -> Findings:
        """With `self.loaded.before` and `self.loaded.deployed`."""

    def check(self, environment: Environment) -> Findings:
        if self.loaded.against is None:
            yield self.not_checked(self.key, AGAINST)
        else:
            yield from self.compared(environment)


class RefusedChange(ChangeRule):
    """A row of infra/policy/refused_updates.py that no number of deploys does by itself."""

    def compared(self, environment: Environment) -> Findings:
        before = self.loaded.before
        if before is None or before.endpoint.name != environment.endpoint.name:
            return  # another endpoint is made
        row = refused_update(self.id)
        for problem in row.problems(state_of(before), state_of(environment)).values():
            yield self.finding(
                self.key,
                f"against {self.loaded.against}: {problem}",
                allowed=ALLOWED,
                remedy=row.way,
            )


class ChangeAsyncRemoved(RefusedChange):
    """SageMaker refuses to take asynchronous inference away from an endpoint.

    Source: https://github.com/aws/sagemaker-python-sdk/pull/3124 (read 2026-11-22: SageMaker's own
    message; no page of the guide states it)
    """

    key = "asynchronous"
    example = "# --against a revision with [asynchronous]"


class ChangeInstancesToServerless(RefusedChange):
    """SageMaker refuses to make an endpoint on instances serverless.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-update.html
    (read 2026-11-22)
    """

    key = "variants"
    example = "# --against a revision with instance_type in the place of serverless"


class ChangeVariantsUnderRollout(RefusedChange):
    """With deployment guardrails the new configuration has the variant names of the old one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html
    (read 2026-11-22)
    """

    key = "variants"
    example = "# [rollout], and --against a revision whose variants have other names"


class ChangeServerlessToInstances(ChangeRule):
    """A serverless endpoint may be given instances, and SageMaker never takes them back.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (Feature
    exclusions, read 2026-11-22)
    """

    severity = Severity.WARNING
    key = "variants"
    example = "# --against a revision with serverless in the place of instance_type"

    def compared(self, environment: Environment) -> Findings:
        for name, variant in environment.variants.items():
            old = self.loaded.deployed.get(name)
            if old and old.instance_type is None and variant.instance_type is not None:
                yield self.finding(
                    f"variants.{name}.instance_type",
                    f"serverless in {self.loaded.against}: SageMaker takes the change to instances, "
                    "and refuses the change back, a restore of the old file included",
                    allowed="serverless, as it is",
                    remedy="keep it, or try the instances in another environment first",
                )


class ChangeTypeWhileScaled(ChangeRule):
    """SageMaker refuses another instance type while the variant is a scalable target.

    CloudFormation changes the endpoint before it removes the target, so one update cannot do it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    example = "# --against a revision with another instance_type and [variants.primary.scaling]"

    def compared(self, environment: Environment) -> Findings:
        for name, variant in environment.variants.items():
            old = self.loaded.deployed.get(name)
            if variant.instance_type is None:
                continue  # serverless: change-instances-to-serverless
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


class ChangeVariantRemovedWhileScaled(ChangeRule):
    """SageMaker refuses to remove a variant while it is a scalable target.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    example = "# --against a revision with another, scaled variant"

    def compared(self, environment: Environment) -> Findings:
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
