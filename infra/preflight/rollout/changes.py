"""Rules about an update from the file at another revision, which `--against REF` gives."""

import shlex
from abc import abstractmethod

from infra.parameters.finding import Severity
from infra.parameters.loading import deployed_by, held, state_of
from infra.parameters.variant import Variant
from infra.policy.update import DeployedVariant, refused_update
from infra.preflight.rule import Findings, Rule

AGAINST = "--against REF, the revision that is deployed"
ALLOWED = "what one update can do"


class ChangeRule(Rule):
    """A rule about changes from the file at another revision; not checked if none is given.

    `key` is also that of the finding that says not checked.
    """

    @abstractmethod
    def compared(self) -> Findings:
        """Yields findings; `self.loaded.before` and `self.loaded.deployed` are set."""

    def look(self) -> Findings:
        if self.loaded.against is None:
            question = "whether SageMaker accepts the change to the deployed endpoint"
            yield self.not_checked(self.key, AGAINST, question)
        else:
            yield from self.compared()


class RefusedChange(ChangeRule):
    """A change of infra/policy/update.py that no sequence of deploys can make."""

    def compared(self) -> Findings:
        before = self.loaded.before
        if before is None or before.endpoint.name != self.environment.endpoint.name:
            return  # another endpoint is created
        row = refused_update(self.id)
        for problem in row.problems(state_of(before), state_of(self.environment)).values():
            yield self.finding(
                self.key,
                f"against {self.loaded.against}: {problem}",
                allowed=ALLOWED,
                remedy=row.remedy(self.loaded.name),
            )


class ChangeAsyncRemoved(RefusedChange):
    """SageMaker refuses to remove asynchronous inference from an endpoint.

    Source: https://github.com/aws/sagemaker-python-sdk/pull/3124 (read 2026-11-22: SageMaker's own
    message; no page of the guide states it)
    """

    key = "asynchronous"
    example = "# --against a revision with [asynchronous]"


class ChangeInstancesToServerless(RefusedChange):
    """SageMaker refuses to turn an endpoint on instances into a serverless one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-update.html
    (read 2026-11-22)
    """

    key = "variants"
    example = "# --against a revision with instance_type instead of serverless"


class ChangeVariantsUnderRollout(RefusedChange):
    """With deployment guardrails the new configuration must have the variant names of the old one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html
    (read 2026-11-22)
    """

    key = "variants"
    example = "# [rollout], and --against a revision whose variants have other names"


class ChangeServerlessToInstances(ChangeRule):
    """SageMaker moves a serverless endpoint to instances, and never back.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (Feature
    exclusions, read 2026-11-22)
    """

    severity = Severity.WARNING
    key = "variants"
    example = "# --against a revision with serverless instead of instance_type"
    allowed = "serverless, as before"
    remedy = "keep serverless, or first try instances in another environment"

    def compared(self) -> Findings:
        for name, variant in self.environment.variants.items():
            old = self.loaded.deployed.get(name)
            if old and old.instance_type is None and variant.instance_types:
                yield self.finding(
                    f"variants.{name}.{_machine_key(variant)}",
                    f"it is serverless in {self.loaded.against}: SageMaker makes the change to instances, "
                    "but refuses the change back, even to restore the old file",
                )


def _machine_key(variant: Variant) -> str:
    return "instance_type" if variant.instance_pools is None else "instance_pools"


class ChangeTypeWhileScaled(ChangeRule):
    """SageMaker refuses another instance type while the variant is a scalable target.

    CloudFormation changes the endpoint before it removes the target, so one update cannot do it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    example = "# --against a revision with another instance_type and [variants.primary.scaling]"

    def compared(self) -> Findings:
        for name, variant in self.environment.variants.items():
            old = self.loaded.deployed.get(name)
            if not variant.instance_types:
                continue  # serverless: change-instances-to-serverless
            new = deployed_by(self.environment)[name]
            if old and old.scales and old.runs_on != new.runs_on:
                yield self.finding(
                    f"variants.{name}.{_machine_key(variant)}",
                    f"the variant is scaled in {self.loaded.against}: its instance type cannot change from "
                    f"{old.runs_on} to {new.runs_on} in one update",
                    allowed=old.runs_on if old.instance_type else "serverless, as before",
                    remedy=self._first(name, old, new),
                )

    def _first(self, name: str, old: DeployedVariant, new: DeployedVariant) -> str:
        if bool(old.pools) != bool(new.pools):  # no option takes a key out of a file
            return (
                f"first deploy the old file with variants.{name}.scaling.hold = true, then this one"
            )
        options = [
            f"-c {shlex.quote(f'{self.loaded.name}.{key}={value}')}"
            for key, value in held({name: old}).items()
        ]
        return f"first deploy with {' '.join(options)}, then without"


class ChangeVariantRemovedWhileScaled(ChangeRule):
    """SageMaker refuses to remove a variant while it is a scalable target.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    example = "# --against a revision with another, scaled variant"
    allowed = "every variant that is scaled now"
    remedy = "first deploy it with hold = true in [variants.{name}.scaling], then take it out"

    def compared(self) -> Findings:
        for name, old in self.loaded.deployed.items():
            if old.scales and name not in self.environment.variants:
                yield self.finding(
                    "variants",
                    f"variant {name} of {self.loaded.against} is scaled: it cannot be removed in one update",
                    given=name,
                    name=name,
                )
