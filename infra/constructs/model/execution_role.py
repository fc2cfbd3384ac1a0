"""The role of a model: its container may read the archive and image, and write logs and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import AUDITORS, accept_for, accept_wildcards
from infra.constructs.async_inference.async_inference import AsyncInference
from infra.constructs.model.archive import Archive
from infra.constructs.storage.locations import Destination
from infra.parameters.batch.job import TRIALS
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import Network
from infra.parameters.variant import CoreDumps
from infra.policy.permissions import Permission, granted

ALIAS = "alias/"
# SageMaker's one log group for all jobs of an account and region, which it makes if it is missing.
# https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html (2026-11-28)
TRANSFORM_LOG_GROUP = "/aws/sagemaker/TransformJobs"
INLINE = {
    "IAMNoInlinePolicy": "it belongs to this role and this archive alone, and must go with them: a "
    "managed policy could be put on another role"
}


def rollback_prefix(endpoint_name: str) -> str:
    """Prefix of the names of an endpoint's rollback alarms, which its roles may describe."""
    return f"{endpoint_name}-rollback-"


@dataclass(frozen=True, kw_only=True)
class ModelDependencies:
    """Resources that a model's container needs in addition to its archive and image.

    None or empty means that the deployment has no such resource, and the role no permission for it.
    """

    log_group_arn: str
    rolls_back: str | None = None
    """Name of an endpoint whose updates are watched by alarms, which the role must then read."""
    captured: Destination | None = None
    """Destination of captured samples."""
    async_inference: AsyncInference | None = None
    """Locations of asynchronous requests and answers, and their topics."""
    core_dumps: CoreDumps | None = None
    batch: BatchSettings | None = None
    """The batch that the model is for, instead of an endpoint."""
    volume_kms_key: str | None = None
    network: Network = field(default_factory=Network)
    roles: RoleRules = field(default_factory=RoleRules)
    """Path and boundary of every role that is created."""
    execution_role_arn: str | None = None
    """ARN of an existing role; no role is created then, and no permission is added to it."""
    role: iam.IRole | None = None
    """An existing role, which gets the permissions unless it is immutable; None creates a role."""

    def arns(self, stack: cdk.Stack, image: Image, archive: Archive) -> dict[str, list[str]]:
        """ARNs of the existing resources, by the names of the permission table."""

        def named(service: str, resource: str, name: str, separator: str = "/") -> list[str]:
            return [f"{stack.format_arn(service=service, resource=resource)}{separator}{name}"]

        network = self.network
        arns = {
            "archive": [archive.objects],
            "archive_keys": list(archive.key_arns),
            "repository": [
                stack.format_arn(
                    service="ecr",
                    region=image.region,
                    account=image.account,
                    resource="repository",
                    resource_name=image.repository,
                )
            ],
            "log_group": [self.log_group_arn],
            "log_streams": [f"{self.log_group_arn}:log-stream:*"],
            "subnets": _in_any_account(stack, "subnet", network.subnets),
            "security_groups": _in_any_account(stack, "security-group", network.security_groups),
        }
        if archive.listed is not None:
            arns["bucket"] = [archive.listed.bucket_arn]
        if network.subnets:
            arns["interfaces"] = named("ec2", "network-interface", "*")
        if self.rolls_back is not None:
            # By prefix, because role -> alarm -> configuration -> model -> role would be a cycle.
            prefix = f"{rollback_prefix(self.rolls_back)}*"
            arns["rollback_alarms"] = named("cloudwatch", "alarm", prefix, separator=":")
        if self.captured is not None:
            arns["captured"] = [self.captured.objects_arn]
            arns["capture_key"] = [self.captured.key_arn]
        if (dumps := self.core_dumps) is not None:
            where = dumps.uri.removeprefix("s3://")
            arns["core_dumps"] = [f"arn:{stack.partition}:s3:::{where}*"]
            arns["core_dump_key"] = [dumps.kms_key] if dumps.kms_key else []
        queue = self.async_inference
        if queue is not None:
            at = queue.locations
            arns["requests"] = [at.requests.objects_arn]
            arns["answers"] = [at.answers.objects_arn, at.failures.objects_arn]
            arns["queue_key"] = [at.answers.key_arn]
            arns["topics"] = [queue.success_arn, queue.error_arn]
            arns["topic_key"] = [queue.key_arn]
        if self.batch is not None:
            arns |= self._batch_arns(stack, self.batch)
        if self.volume_kms_key is not None:
            arns["volume_key"] = volume_key_arns(stack, self.volume_kms_key)
        return arns

    def _batch_arns(self, stack: cdk.Stack, batch: BatchSettings) -> dict[str, list[str]]:
        table, results = (
            f"arn:{stack.partition}:s3:::{uri.removeprefix('s3://')}"
            for uri in (batch.input, batch.output.rstrip("/"))
        )
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

    def conditions(
        self, permission: Permission, *, prefix: str, region: str
    ) -> dict[str, dict[str, list[str]]]:
        """The permission's conditions. `prefix` is that of an archive of several objects."""
        conditions: dict[str, dict[str, list[str]]] = {}
        rows = trial = ""
        if self.batch is not None:
            rows = self.batch.input.removeprefix("s3://").partition("/")[2]
            results = self.batch.output.removeprefix("s3://").partition("/")[2]
            trial = f"{results.rstrip('/')}/{TRIALS}/".lstrip("/")
        for operator, values in permission.condition.items():
            for key, value in values.items():
                formatted = value.format(
                    prefix=prefix, region=region, input=rows, trial=trial
                ).split(",")
                conditions.setdefault(operator, {})[key] = formatted
        alias = self.volume_kms_key
        if "volume_key" in permission.on and alias is not None and alias.startswith(ALIAS):
            by_alias = conditions.setdefault("ForAnyValue:StringEquals", {})
            by_alias["kms:ResourceAliases"] = [alias]
        return conditions


def log_group_arn(stack: cdk.Stack) -> str:
    """The ARN of the log group that all transform jobs of an account and region share."""
    return stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=TRANSFORM_LOG_GROUP,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def volume_key_arns(stack: cdk.Stack, key: str) -> list[str]:
    """ARNs for a policy, which needs the key's own: an alias is only possible in its condition."""
    # The ARN of a key that is a construct is known only to CloudFormation.
    if key.startswith(("arn:", "${Token[")):
        return [key]
    name = key if not key.startswith(ALIAS) else "*"
    return [f"{stack.format_arn(service='kms', resource='key')}/{name}"]


def _in_any_account(stack: cdk.Stack, resource: str, names: Sequence[str]) -> list[str]:
    """ARNs of what may be shared (AWS RAM): they name the account that owns it, which no file knows.

    Source: https://github.com/runs-on/runs-on/issues/463 (2026-03-16)
    """
    arn = stack.format_arn(service="ec2", account="*", resource=resource)
    if any(name.startswith("#{Token[") for name in names):
        return [f"{arn}/*"]  # a list that only CloudFormation knows cannot become a list of ARNs
    return [f"{arn}/{name}" for name in names]


class ExecutionRole(Construct):
    """The role that SageMaker assumes for one model, with one policy and no managed one.

    The model also depends on the policy, because it reads the archive when it is created.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        archive: Archive,
        image: Image,
        dependencies: ModelDependencies,
    ) -> None:
        super().__init__(scope, construct_id)
        self._archive, self._image = archive, image
        self._granted: set[str] = set()
        self._reasons: dict[str, list[str]] = {}
        self.dependencies = dependencies
        self.role = dependencies.role or self._role(dependencies.roles)
        # Another archive gets another policy; the first one is deleted after the update, because until
        # then the old fleet still reads its own archive when it adds an instance.
        self.policy = iam.Policy(self, f"Policy{archive.fingerprint[:8]}")
        self.role.attach_inline_policy(self.policy)  # an immutable role takes none
        self._allow(dependencies)
        accept_for(AUDITORS, self.policy, INLINE)

    def _role(self, rules: RoleRules) -> iam.Role:
        stack = cdk.Stack.of(self)
        # SageMaker assumes the role only for this account and region. AWS's guide says to use neither the
        # full ARN of a model or endpoint nor aws:SourceAccount, since the account is part of the ARN:
        # https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html
        # (SageMaker Inference, 2026-11-22)
        source = {"aws:SourceArn": stack.format_arn(service="sagemaker", resource="*")}
        return iam.Role(
            self,
            f"Resource{rules.suffix}",
            **rules.properties(self),
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"ArnLike": source}
            ),
        )

    def add(
        self,
        *,
        captured: Destination | None = None,
        async_inference: AsyncInference | None = None,
        volume_kms_key: str | None = None,
    ) -> None:
        """Allows what the endpoint of the model needs besides, as far as it is not allowed yet."""
        had = self.dependencies
        self.dependencies = replace(
            had,
            captured=had.captured or captured,
            async_inference=had.async_inference or async_inference,
            volume_kms_key=had.volume_kms_key or volume_kms_key,
        )
        if self.dependencies != had:
            self._allow(self.dependencies)

    def _allow(self, dependencies: ModelDependencies) -> None:
        stack, archive = cdk.Stack.of(self), self._archive
        arns = dependencies.arns(stack, self._image, archive)
        prefix = archive.listed.name if archive.listed else ""
        # Every resource with a wildcard, with all reasons for it.
        reasons, statements = self._reasons, []
        for permission in granted(arns):
            if permission.capability in self._granted:
                continue
            self._granted.add(permission.capability)
            resources = [arn for place in permission.on for arn in arns[place]] or ["*"]
            for resource in resources:
                if "*" in resource:
                    assert permission.wildcard is not None, f"{permission.capability}: no reason"
                    reasons.setdefault(resource, []).append(permission.wildcard)
            conditions = dependencies.conditions(permission, prefix=prefix, region=stack.region)
            statements.append(
                iam.PolicyStatement(
                    actions=list(permission.actions),
                    resources=resources,
                    conditions=conditions or None,
                )
            )
        self.policy.add_statements(*statements)
        why = {resource: "; ".join(several) for resource, several in reasons.items()}
        accept_wildcards(self.policy, why)
