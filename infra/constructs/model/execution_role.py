"""The role of a model's containers: reads the archive and image, and writes logs and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import AUDITORS, accept_for, accept_wildcards
from infra.constructs.model.archive import Archive, build_s3_arn
from infra.constructs.storage.locations import AsyncInference, Destination
from infra.parameters.batch.job import TRIALS
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import Network
from infra.parameters.variant import CoreDumps
from infra.policy.permissions import Permission, select_permissions

ALIAS = "alias/"
INLINE = {
    "IAMNoInlinePolicy": "it belongs to this role and this archive alone, and must go with them: a "
    "managed policy could be put on another role"
}


def build_rollback_prefix(endpoint_name: str) -> str:
    """Return the name prefix of an endpoint's rollback alarms, which its roles may describe."""
    return f"{endpoint_name}-rollback-"


@dataclass(frozen=True, kw_only=True)
class ModelDependencies:
    """Resources that a model's container needs in addition to its archive and image.

    Without a resource, the role has no permission for it.
    """

    log_group_arn: str = ""
    rolls_back: str | None = None
    """Name of an endpoint with rollback alarms, which the role must then read."""
    captured: Destination | None = None
    async_inference: AsyncInference | None = None
    core_dumps: CoreDumps | None = None
    batch: BatchSettings | None = None
    """The batch that the model is for, instead of an endpoint."""
    volume_kms_key: str | None = None
    network: Network = field(default_factory=Network)

    def build_arns(self, stack: cdk.Stack, image: Image, archive: Archive) -> dict[str, list[str]]:
        """Return the ARNs of the existing resources, by their names in the permission table."""
        network = self.network
        registry = f"arn:{stack.partition}:ecr:{image.region}:{image.account}"
        arns = {
            "archive": [archive.objects] if archive.objects else [],
            "archive_keys": list(archive.key_arns),
            "repository": [f"{registry}:repository/{image.repository}"],
            "log_group": [self.log_group_arn],
            "log_streams": [f"{self.log_group_arn}:log-stream:*"],
            "subnets": _build_shared_arns(stack, "subnet", network.subnets),
            "security_groups": _build_shared_arns(stack, "security-group", network.security_groups),
        }
        if archive.listed is not None:
            arns["bucket"] = [archive.listed[0]]
        if network.subnets:
            arns["interfaces"] = [stack.format_arn(service="ec2", resource="network-interface/*")]
        if self.rolls_back is not None:
            # By prefix, because role -> alarm -> configuration -> model -> role would be a cycle.
            prefix = f"alarm:{build_rollback_prefix(self.rolls_back)}*"
            arns["rollback_alarms"] = [stack.format_arn(service="cloudwatch", resource=prefix)]
        if self.captured is not None:
            arns["captured"] = [self.captured.objects_arn]
            arns["capture_key"] = [self.captured.key_arn]
        if (dumps := self.core_dumps) is not None:
            arns["core_dumps"] = [build_s3_arn(stack, f"{dumps.uri}*")]
            arns["core_dump_key"] = [dumps.kms_key] if dumps.kms_key else []
        if (queue := self.async_inference) is not None:
            at = queue.locations
            arns["requests"] = [at.requests.objects_arn]
            arns["answers"] = [at.answers.objects_arn, at.failures.objects_arn]
            arns["queue_key"] = [at.answers.key_arn]
            arns["topics"] = [queue.success_arn, queue.error_arn]
            arns["topic_key"] = [queue.key_arn]
        if self.batch is not None:
            arns |= self._build_batch_arns(stack, self.batch)
        if self.volume_kms_key is not None:
            arns["volume_key"] = build_volume_key_arns(stack, self.volume_kms_key)
        return arns

    def _build_batch_arns(self, stack: cdk.Stack, batch: BatchSettings) -> dict[str, list[str]]:
        table = build_s3_arn(stack, batch.input)
        results = build_s3_arn(stack, batch.output.rstrip("/"))
        return {
            "batch_log_group": [self.log_group_arn],
            "batch_bucket": [table.partition("/")[0]],
            "batch_input": [f"{table}*"],
            "batch_output": [f"{results}/*"],
            "batch_output_bucket": [results.partition("/")[0]],
            "batch_trial": [f"{results}/{TRIALS}/*"],
            "batch_input_key": [batch.input_kms_key] if batch.input_kms_key else [],
            "batch_output_key": [batch.output_kms_key] if batch.output_kms_key else [],
        }

    def build_conditions(
        self, permission: Permission, names: dict[str, str]
    ) -> dict[str, dict[str, list[str]]]:
        """Return the permission's conditions with `names`: the Region, and the prefix of an archive."""
        if self.batch is not None:
            table, scores = (
                uri.removeprefix("s3://").partition("/")[2]
                for uri in (self.batch.input, self.batch.output)
            )
            names = names | {
                "input": table,
                "trial": f"{scores.rstrip('/')}/{TRIALS}/".lstrip("/"),
            }
        conditions = {
            operator: {key: value.format(**names).split(",") for key, value in values.items()}
            for operator, values in permission.condition.items()
        }
        alias = self.volume_kms_key
        if "volume_key" in permission.on and alias is not None and alias.startswith(ALIAS):
            by_alias = conditions.setdefault("ForAnyValue:StringEquals", {})
            by_alias["kms:ResourceAliases"] = [alias]
        return conditions


def build_volume_key_arns(stack: cdk.Stack, key: str) -> list[str]:
    """Return the ARNs of the volume key for a policy, which takes an alias only in its condition."""
    # The ARN of a key that is a construct is known only to CloudFormation.
    if key.startswith(("arn:", "${Token[")):
        return [key]
    name = "*" if key.startswith(ALIAS) else key
    return [stack.format_arn(service="kms", resource="key", resource_name=name)]


def _build_shared_arns(stack: cdk.Stack, resource: str, names: Sequence[str]) -> list[str]:
    """Return ARNs of resources that may be shared (AWS RAM), so that their account is unknown.

    Source: https://github.com/runs-on/runs-on/issues/463 (2026-03-16)
    """
    arn = stack.format_arn(service="ec2", account="*", resource=resource)
    if any(name.startswith("#{Token[") for name in names):
        return [f"{arn}/*"]  # a list that only CloudFormation knows cannot become a list of ARNs
    return [f"{arn}/{name}" for name in names]


class ExecutionRole(Construct):
    """The role that SageMaker assumes for one model, with an inline policy that the model depends on.

    SageMaker reads the archive when it creates the model.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, role: iam.IRole | None, rules: RoleRules
    ) -> None:
        """Use `role`, which gets the permissions unless it is immutable, or create one."""
        super().__init__(scope, construct_id)
        # SageMaker assumes the role only for this account and Region. AWS's guide advises against the full
        # ARN of a model or endpoint, and against aws:SourceAccount, since the ARN has the account:
        # https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html
        # (SageMaker Inference, 2026-11-22)
        source = cdk.Stack.of(self).format_arn(service="sagemaker", resource="*")
        self.role = role or iam.Role(
            self,
            f"Resource{rules.suffix}",
            **rules.properties(self),
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"ArnLike": {"aws:SourceArn": source}}
            ),
        )
        self._policies: dict[str, iam.Policy] = {}
        self._granted: set[tuple[str, ...]] = set()
        self._reasons: dict[str, list[str]] = {}
        """Every resource with a wildcard, with all reasons for it."""

    def add_policy(self, scope: Construct, archive: Archive) -> iam.Policy:
        """Return the policy for an archive, creating it once in the stack of `scope`.

        A different archive gets a different policy, because the old fleet still reads its own archive.
        """
        stack = cdk.Stack.of(scope)
        if stack.node.path not in self._policies:
            place = self if stack is cdk.Stack.of(self) else scope
            policy = iam.Policy(place, f"Policy{archive.fingerprint[:8]}")
            self.role.attach_inline_policy(policy)  # an immutable role takes none
            accept_for(AUDITORS, policy, INLINE)
            self._policies[stack.node.path] = policy
        return self._policies[stack.node.path]

    def allow(
        self, scope: Construct, archive: Archive, image: Image, dependencies: ModelDependencies
    ) -> iam.Policy:
        """Allow what a container needs and isn't allowed yet, and return the policy."""
        policy, stack = self.add_policy(scope, archive), cdk.Stack.of(scope)
        arns = dependencies.build_arns(stack, image, archive)
        _, prefix = archive.listed or ("", "")
        statements = []
        for permission in select_permissions(arns):
            resources = [arn for place in permission.on for arn in arns[place]] or ["*"]
            grant = (stack.node.path, permission.capability, *resources)
            if grant in self._granted:
                continue
            self._granted.add(grant)
            for resource in resources:
                if "*" in resource:
                    assert permission.wildcard is not None, f"{permission.capability}: no reason"
                    self._reasons.setdefault(resource, []).append(permission.wildcard)
            actions, names = list(permission.actions), {"prefix": prefix, "region": stack.region}
            conditions = dependencies.build_conditions(permission, names) or None
            statements.append(
                iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
            )
        policy.add_statements(*statements)
        why = {resource: "; ".join(several) for resource, several in self._reasons.items()}
        accept_wildcards(policy, why)
        return policy
