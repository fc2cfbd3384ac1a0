"""Rules about required ids, KMS keys, callers, roles and the VPC."""

from infra.parameters.finding import Severity
from infra.policy.execution_policy import find_partition
from infra.policy.hosting import can_use_volume_key
from infra.preflight.rule import Findings, Parts, Rule


class SecurityIdsMissing(Rule):
    """An environment that requires a VPC or your own keys must name them; one finding lists all missing ones.

    Source: docs/security.md
    """

    def find_problems(self) -> Findings:
        require, network = self.environment.security.require, self.environment.network
        given: dict[str, list[str]] = {}
        if "network" in require:
            given["network.subnets"] = network.subnets
            given["network.security_groups"] = network.security_groups
        if "keys" in require:
            given |= self.environment.kms_keys
            variants = self.environment.variants.values()
            if not can_use_volume_key([one for each in variants for one in each.instance_types]):
                del given["endpoint.volume_kms_key"]
        missing = [key for key, ids in given.items() if not ids]
        if missing:
            # Keys in the plural take lists.
            lines = [f'{key} = ["…"]' if key.endswith("s") else f'{key} = "…"' for key in missing]
            problem = f"security.require needs ids that are missing: {', '.join(missing)}"
            key, remedy = "security.require", f"add {', '.join(lines)}"
            yield self.build_finding(key, problem, remedy=remedy, reads=tuple(missing))


class KeyArnRule(Rule):
    """A rule about KMS keys that are given by ARN."""

    def list_parts(self) -> Parts:
        for key, arns in self.environment.kms_keys.items():
            yield from ((key, arn) for arn in arns if arn.startswith("arn:"))


class KeyOfAnotherRegion(KeyArnRule):
    """A KMS key encrypts only in its own region; a multi-Region key has another ARN in each region.

    Source: https://docs.aws.amazon.com/kms/latest/developerguide/multi-region-keys-overview.html (2026-11-22)
    """

    problem = "{arn} is not in region {self.environment.region}"
    remedy = "use a key of that region, or the multi-Region key's replica there"
    reads = ("region",)

    def find_problems(self, key: str, arn: str) -> Findings:
        if arn.split(":")[3] != self.environment.region:
            yield self.build_finding(key, given=arn)


class KeyOfAnotherAccount(KeyArnRule, severity=Severity.WARNING):
    """A KMS key of another account works only if its policy allows the roles of this account.

    Source: https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-modifying-external-accounts.html
    (two policies are needed, 2026-11-22)
    """

    problem = (
        "{arn} is a key of account {account}: its policy there must allow what docs/reference/permissions.md "
        "lists"
    )
    remedy = "use a key of {self.environment.account}, or accept this if the policy allows it"
    reads = ("account",)

    def find_problems(self, key: str, arn: str) -> Findings:
        account = arn.split(":")[4]
        if account != self.environment.account:
            yield self.build_finding(key, account=account)


class CallersOfAnotherAccount(Rule):
    """An endpoint has no resource-based policy, which alone could allow a role of another account.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_service-with-iam.html
    (resource-based policies: not supported for endpoints)
    """

    key = "endpoint.callers"
    problem = "{caller} is not in account {self.environment.account}"
    remedy = (
        "create a role in this account that the other account's role may assume, and use its ARN"
    )
    reads = ("account",)

    def find_problems(self) -> Findings:
        for caller in self.environment.endpoint.callers:
            if caller.split(":")[4] != self.environment.account:
                yield self.build_finding(given=caller, caller=caller)


class RoleOfAnotherAccount(Rule):
    """SageMaker accepts only roles of its own account; a permissions boundary is of that account or AWS's.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html (2026-11-22),
    https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html (2026-11-22)
    """

    remedy = "use one of that account, or remove the key"
    reads = ("account",)

    def find_problems(self) -> Findings:
        region, account = self.environment.region, self.environment.account
        partition = find_partition(region)
        given = {
            "endpoint.execution_role": self.environment.endpoint.execution_role,
            "security.permissions_boundary": self.environment.security.permissions_boundary,
        }
        for name, model in self.environment.models.items():
            given[f"models.{name}.execution_role"] = model.execution_role
        for key, arn in given.items():
            if arn is not None and arn.split(":")[1] != partition:
                problem = f"{arn} is in a different partition than {region}"
                allowed = f"arn:{partition}:…"
                yield self.build_finding(key, problem, allowed=allowed, reads=("region",))
            elif arn is not None and arn.split(":")[4] not in (account, "aws"):
                yield self.build_finding(key, f"{arn} is not in account {account}")


class NetworkHalf(Rule):
    """A model in a VPC needs both subnets and security groups; SageMaker rejects one without the other.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html
    """

    key = "network.{missing}"
    problem = "{other} are given and {missing} are not"
    remedy = "add {missing}, or remove {other}"
    reads = ("network.{other}",)

    def find_problems(self) -> Findings:
        network = self.environment.network
        for missing, other in (("subnets", "security_groups"), ("security_groups", "subnets")):
            if getattr(network, other) and not getattr(network, missing):
                yield self.build_finding(missing=missing, other=other)


class NetworkOneSubnet(Rule, severity=Severity.WARNING):
    """A subnet is in one availability zone: if the zone fails, no instance answers.

    Source: https://docs.aws.amazon.com/vpc/latest/userguide/configure-subnets.html (2026-11-22)
    """

    key = "network.subnets"
    problem = "{subnet} is the only subnet in production: one subnet is in one availability zone"
    remedy = "add a subnet in another zone, or set production = false if nobody depends on it"
    reads = ("production",)

    def find_problems(self) -> Findings:
        subnets = set(self.environment.network.subnets)
        if len(subnets) == 1 and self.candidate.needs_redundancy:
            yield self.build_finding(given=min(subnets), subnet=min(subnets))
