"""Rules about an update from the file at another revision, which `--against REF` gives."""

import shlex
from abc import abstractmethod

from infra.parameters import loading
from infra.parameters.finding import Severity
from infra.parameters.variant import Variant
from infra.policy.update import find_refused_update
from infra.preflight.rule import Findings, Rule


class ChangeRule(Rule):
    """A rule about changes from the file at a different revision. Without one, it isn't checked.

    `key` is also the key of the "not checked" finding.
    """

    @abstractmethod
    def compare(self) -> Findings:
        """Yield a finding for each change that violates the rule.

        `self.loaded.before` and `self.loaded.deployed` are set.
        """

    def find_problems(self) -> Findings:
        if self.loaded.against is None:
            needs = "--against REF with the deployed revision"
            question = "whether SageMaker accepts the change to the deployed endpoint"
            yield self.build_unchecked(self.key, needs, question)
        else:
            yield from self.compare()


class RefusedChange(ChangeRule):
    """A change of infra/policy/update.py that no sequence of deploys can make."""

    def compare(self) -> Findings:
        before = self.loaded.before
        if before is None or before.endpoint.name != self.environment.endpoint.name:
            return  # another endpoint is created
        row = find_refused_update(self.id)
        states = [loading.build_endpoint_state(one) for one in (before, self.environment)]
        for problem in row.problems(*states).values():
            problem = f"against {self.loaded.against}: {problem}"
            yield self.build_finding(problem=problem, remedy=row.format_remedy(self.loaded.name))


class ChangeAsyncRemoved(RefusedChange):
    """SageMaker doesn't remove asynchronous inference from an endpoint.

    Source: https://github.com/aws/sagemaker-python-sdk/pull/3124 (read 2026-11-22: SageMaker's own
    message; no page of the guide states it)
    """

    key = "asynchronous"


class ChangeInstancesToServerless(RefusedChange):
    """SageMaker doesn't turn an endpoint on instances into a serverless one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-update.html
    (read 2026-11-22)
    """

    key = "variants"


class ChangeVariantsUnderRollout(RefusedChange):
    """With deployment guardrails the new configuration must have the variant names of the old one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html
    (read 2026-11-22)
    """

    key = "variants"


class ChangeServerlessToInstances(ChangeRule, severity=Severity.WARNING):
    """SageMaker moves a serverless endpoint to instances, and never back.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (Feature
    exclusions, read 2026-11-22)
    """

    key = "variants"
    problem = (
        "it is serverless in {self.loaded.against}: SageMaker accepts a change to instances, but rejects "
        "the change back, even to restore the old file"
    )
    remedy = "keep serverless, or try instances in a different environment first"

    def compare(self) -> Findings:
        for name, variant in self.environment.variants.items():
            old = self.loaded.deployed.get(name)
            if old and old.instance_type is None and variant.instance_types:
                yield self.build_finding(f"variants.{name}.{_select_machine_key(variant)}")


def _select_machine_key(variant: Variant) -> str:
    return "instance_type" if variant.instance_pools is None else "instance_pools"


class ChangeTypeWhileScaled(ChangeRule):
    """SageMaker rejects another instance type while the variant is a scalable target.

    CloudFormation changes the endpoint before it removes the target, so one update cannot do it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    problem = (
        "the variant is scaled in {self.loaded.against}: its instance type cannot change from "
        "{old.type_summary} to {new.type_summary} in one update"
    )

    def compare(self) -> Findings:
        for name, variant in self.environment.variants.items():
            old = self.loaded.deployed.get(name)
            if not variant.instance_types:
                continue  # serverless: change-instances-to-serverless
            new = loading.build_deployed_variants(self.environment)[name]
            if old and old.scales and old.type_summary != new.type_summary:
                hold = f"variants.{name}.scaling.hold = true"
                remedy = f"first deploy the old file with {hold}, then this one"
                # Otherwise no option takes the key out of the file.
                if bool(old.pools) == bool(new.pools):
                    options = " ".join(
                        f"-c {shlex.quote(f'{self.loaded.name}.{key}={value}')}"
                        for key, value in loading.build_hold_overrides({name: old}).items()
                    )
                    remedy = f"first deploy with {options}, then without"
                key = f"variants.{name}.{_select_machine_key(variant)}"
                yield self.build_finding(key, remedy=remedy, old=old, new=new)


class ChangeVariantRemovedWhileScaled(ChangeRule):
    """SageMaker rejects the removal of a variant while it is a scalable target.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """

    key = "variants"
    problem = "variant {name} of {self.loaded.against} has autoscaling: it cannot be removed in one update"
    remedy = "first deploy it with hold = true in [variants.{name}.scaling], then remove it"

    def compare(self) -> Findings:
        for name, old in self.loaded.deployed.items():
            if old.scales and name not in self.environment.variants:
                yield self.build_finding(given=name, name=name)
