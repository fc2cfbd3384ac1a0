"""The stack pipeline-ENV with the roles of a repository's workflows (-c pipeline=OWNER@ID/NAME@ID)."""

from functools import partial

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.access.approval_trigger import BRANCH, ApprovalTrigger
from infra.constructs.access.pipeline_role import (
    AUDIENCE,
    DEPLOYS,
    ISSUER,
    LOOKS,
    PIN_LOOKS,
    PLAN_LOOKS,
    PipelineRole,
)
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.endpoint.endpoint_base import build_endpoint_arns
from infra.constructs.model.archive import build_model_package_arn, build_s3_arn
from infra.parameters.environment import Environment, build_stack_name
from infra.parameters.loading import Loaded, ValidFile
from infra.policy.execution_policy import BOOTSTRAP_BUCKET, BOOTSTRAP_VERSION, LINKED_ROLE

Reads = dict[str, list[str]]
"""Actions to the ARNs that they are allowed on."""


class PipelineStack(cdk.Stack):
    """A role for deployments of one environment, and a read-only role for pull requests."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        environment: Environment,
        repository: str,
        provider_arn: str | None,
        token_secret: str | None = None,
    ) -> None:
        """Create the roles of the repository's workflows for one environment.

        `repository` is OWNER@ID/NAME@ID. `provider_arn` is that of an existing GitHub provider in
        the account; None creates one. `token_secret` names the secret with GitHub's token for
        approvals in the model registry; None creates no rule for them.
        """
        super().__init__(
            scope,
            construct_id,
            # It has the service's prefix, because another service may have a pipeline-ENV too.
            stack_name=f"{environment.service}-{construct_id}" if environment.service else None,
            env=cdk.Environment(account=environment.account, region=environment.region),
            description=f"Permissions of the pipelines of {repository} for {name}",
        )
        if provider_arn is None:
            provider_arn = iam.CfnOIDCProvider(
                self, "GitHub", url=f"https://{ISSUER}", client_id_list=[AUDIENCE]
            ).attr_arn
        role_for = partial(
            PipelineRole,
            self,
            provider_arn=provider_arn,
            repository=repository,
            roles=RoleRules.from_security(environment.security),
            region=environment.region,
        )
        deploys = role_for(
            "Deploys",
            claim=f"environment:{name}",
            bootstrap_roles=DEPLOYS,
            looks=LOOKS,
            reads=_list_reads(self, name, environment),
        )
        compares = role_for(
            "Compares",
            claim="pull_request",
            looks=PLAN_LOOKS,
            reads=_list_plan_reads(self, name, environment),
        )
        for output, role in (("DeployRoleArn", deploys.role), ("CompareRoleArn", compares.role)):
            cdk.CfnOutput(self, output, value=role.role_arn)
        if _list_model_packages(environment):
            reads, claim = _list_pin_reads(self, environment), f"ref:refs/heads/{BRANCH}"
            pins = role_for("Pins", claim=claim, looks=PIN_LOOKS, reads=reads)
            cdk.CfnOutput(self, "PinRoleArn", value=pins.role.role_arn)
            if token_secret is not None:
                self._add_approvals(name, environment, repository, token_secret)

    def _add_approvals(
        self, name: str, environment: Environment, repository: str, token_secret: str
    ) -> None:
        """Add the rule for approved versions of the environment's model package groups."""
        # EventBridge reports only groups of this account and Region.
        own = f":{environment.region}:{environment.account}:model-package/"
        names = [name.rpartition(own)[2] for name in _list_model_packages(environment)]
        groups = sorted({name.partition("/")[0] for name in names if ":" not in name})
        if groups:
            ApprovalTrigger(
                self,
                "Approvals",
                repository=repository,
                environment=name,
                groups=groups,
                token_secret=token_secret,
                roles=RoleRules.from_security(environment.security),
            )


def add_pipelines(
    app: Construct,
    environments: list[Loaded],
    repository: str,
    provider_arn: str | None,
    token_secret: str | None = None,
) -> None:
    """Add a pipeline stack for each environment that loads.

    Deploy them with `cdk deploy 'pipeline-*' -c pipeline=OWNER@ID/NAME@ID`. `token_secret` is
    that of `PipelineStack`. An account has one provider per issuer: if several environments share
    the account, the first stack creates it.
    """
    first_stacks: dict[str, PipelineStack] = {}
    for loaded in environments:
        if not isinstance(loaded, ValidFile):
            continue
        environment = loaded.environment
        first = first_stacks.get(environment.account)
        provider = f"arn:{cdk.Aws.PARTITION}:iam::{environment.account}:oidc-provider/{ISSUER}"
        stack = PipelineStack(
            app,
            f"pipeline-{loaded.name}",
            name=loaded.name,
            environment=environment,
            repository=repository,
            provider_arn=provider_arn or (provider if first else None),
            token_secret=token_secret,
        )
        if first is not None:
            stack.add_stack_dependency(first)
        first_stacks.setdefault(environment.account, stack)


def _list_plan_reads(stack: cdk.Stack, name: str, environment: Environment) -> Reads:
    """Return the actions and resources of `servable plan` and `cdk diff` for this environment.

    A pull request may run anybody's code until somebody reviews it, so its role may not assume the
    bootstrap's roles: the lookup role has AWS's ReadOnlyAccess and can read most of the account.
    Source: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (2026-11-22)
    """
    every = stack.format_arn(service="cloudformation", resource="stack")
    names = (build_stack_name(name, environment, kind) for kind in ("data", "endpoint"))
    stacks = [f"{every}/{each}/*" for each in names]
    return {
        "cloudformation:DescribeStacks": stacks,
        "cloudformation:GetTemplate": stacks,
        "sagemaker:DescribeEndpoint": build_endpoint_arns(stack, environment.endpoint.name),
        "sagemaker:DescribeEndpointConfig": [_build_wildcard_arn(stack, "endpoint-config")],
    }


def _build_wildcard_arn(stack: cdk.Stack, resource: str) -> str:
    """Return the ARN of all resources of a type, which CloudFormation names after the stack."""
    return stack.format_arn(service="sagemaker", resource=resource, resource_name="*")


def _list_pinned_uris(environment: Environment) -> list[str]:
    return sorted({model.artifact.uri for model in environment.models.values() if model.artifact})


def _list_reads(stack: cdk.Stack, name: str, environment: Environment) -> Reads:
    """Return the read actions for this environment that can be restricted to resources."""
    account = environment.account
    stem = f"{environment.service}-{name}" if environment.service else name
    stacks = [f"{stack.format_arn(service='cloudformation', resource='stack')}/{stem}-*/*"]
    endpoint = build_endpoint_arns(stack, environment.endpoint.name)
    components = [
        arn
        for component in environment.components.values()
        for arn in build_endpoint_arns(stack, component, resource="inference-component")
    ]
    # The buckets of [capture] and [asynchronous], which CloudFormation names.
    samples = build_s3_arn(stack, f"{stem.lower()}-data-*")
    role = f"arn:{stack.partition}:iam::{account}:role"
    path = environment.security.iam_path or "/"
    roles = [f"{role}{path}{stem}-*"]
    # `servable doctor` checks whether it exists.
    scaling = f"{role}/aws-service-role/{LINKED_ROLE}"
    policies = [f"arn:{stack.partition}:iam::{account}:policy{path}{stem}-*"]
    parameters = [
        stack.format_arn(service="ssm", resource="parameter", resource_name=which)
        for which in ("CFN-DeploymentLive*", BOOTSTRAP_VERSION.removeprefix("/"))
    ]
    queue = {}
    if environment.asynchronous is not None:  # the golden request goes through it
        queue["s3:PutObject"] = [f"{samples}/requests/*"]
        queue[environment.kind.invoke_action] = endpoint
    packages = [build_model_package_arn(stack, each) for each in _list_model_packages(environment)]
    reads = {
        "cloudformation:DescribeStacks": stacks,
        "cloudformation:DescribeStackEvents": stacks,
        "cloudformation:GetTemplate": stacks,
        "cloudformation:ListStackResources": stacks,
        "iam:GetRole": [*roles, scaling],
        "iam:GetRolePolicy": roles,
        "iam:ListAttachedRolePolicies": roles,
        "iam:ListRolePolicies": roles,
        "iam:GetPolicy": policies,
        "iam:GetPolicyVersion": policies,
        "iam:ListEntitiesForPolicy": policies,
        "s3:GetBucketPolicy": [samples],
        "s3:GetBucketPublicAccessBlock": [samples],
        "s3:GetBucketVersioning": [samples],
        "s3:GetEncryptionConfiguration": [samples, _build_assets_arn(stack, environment)],
        **_list_archive_reads(stack, environment, samples),
        "sagemaker:DescribeEndpoint": endpoint,
        "sagemaker:DescribeEndpointConfig": [_build_wildcard_arn(stack, "endpoint-config")],
        "sagemaker:DescribeModel": [_build_wildcard_arn(stack, "model")],
        # `servable verify` compares the approval.
        "sagemaker:DescribeModelPackage": packages,
        "sagemaker:InvokeEndpoint": [*endpoint, *components],
        "sagemaker:DescribeInferenceComponent": components,
        "ssm:GetParameter": parameters,
        "ssm:GetParameterHistory": parameters,
        **queue,
        **_list_batch_reads(stack, environment),
        **_list_key_uses(stack, environment),
    }
    return {action: arns for action, arns in reads.items() if arns}


def _list_batch_reads(stack: cdk.Stack, environment: Environment) -> Reads:
    """Return read actions for batch state machines and schedules, for `servable verify`."""
    names = [f"{environment.endpoint.name}-{name}" for name in environment.batch]
    machine, schedule = (
        stack.format_arn(service=service, resource=resource)
        for service, resource in (("states", "stateMachine"), ("scheduler", "schedule"))
    )
    machines = [f"{machine}:{name}" for name in names]
    schedules = [f"{schedule}/{name}/{name}" for name in names]
    return {"states:DescribeStateMachine": machines, "scheduler:GetSchedule": schedules}


def _list_model_packages(environment: Environment) -> list[str]:
    artifacts = [model.artifact for model in environment.models.values() if model.artifact]
    return sorted({artifact.model_package for artifact in artifacts if artifact.model_package})


def _list_pin_reads(stack: cdk.Stack, environment: Environment) -> Reads:
    """Return the actions and resources of `servable pin --newest`.

    They cover any version of the groups, and any archive in the buckets of the pinned ones,
    because a new version's address is known only once it is read.
    """
    groups = {name.rpartition("/")[0] for name in _list_model_packages(environment)}
    pinned = _list_pinned_uris(environment)
    buckets = {uri.removeprefix("s3://").partition("/")[0] for uri in pinned}
    keys = environment.kms_keys
    uses = sorted({arn for key, arns in keys.items() if key.startswith("models.") for arn in arns})
    return {
        "sagemaker:DescribeModelPackage": [
            build_model_package_arn(stack, f"{group}/*") for group in sorted(groups)
        ],
        "s3:GetObject": [build_s3_arn(stack, f"{bucket}/*") for bucket in sorted(buckets)],
        **({"kms:Decrypt": uses} if uses else {}),
    }


def _list_archive_reads(stack: cdk.Stack, environment: Environment, samples: str) -> Reads:
    """Return the read actions for the objects that `servable verify` reads.

    These are archives, published or pinned, and responses of the queue. Captured requests are
    included if they are in S3.
    """
    bucket = _build_assets_arn(stack, environment)
    pinned = [build_s3_arn(stack, uri) for uri in _list_pinned_uris(environment)]
    # Without permission to list, S3 answers 403 instead of 404 for a missing object.
    pinned_buckets = sorted({arn.partition("/")[0] for arn in pinned})
    written = [f"{samples}/answers/*", f"{samples}/failures/*"] if environment.kind.queued else []
    captured = _list_captured_prefixes(stack, environment)
    captured_buckets = [arn.partition("/")[0] for arn in captured]
    return {
        "s3:GetObject": [f"{bucket}/*", *pinned, *written, *(f"{arn}*" for arn in captured)],
        "s3:ListBucket": [bucket, samples, *pinned_buckets, *captured_buckets],
        "s3:ListBucketVersions": [bucket],
    }


def _list_captured_prefixes(stack: cdk.Stack, environment: Environment) -> list[str]:
    """Return the S3 prefix of captured requests that `servable replay --gate` replays, if any."""
    uri = environment.replay.captured or ""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return [build_s3_arn(stack, f"{bucket}/{prefix}")] if uri.startswith("s3://") else []


def _build_assets_arn(stack: cdk.Stack, environment: Environment) -> str:
    """Return the ARN of the bucket of `cdk bootstrap`."""
    name = BOOTSTRAP_BUCKET.format(account=environment.account, region=environment.region)
    return build_s3_arn(stack, name)


def _list_key_uses(stack: cdk.Stack, environment: Environment) -> Reads:
    """Return the permissions for the keys of archives, of the queue, and of captured requests."""
    given = environment.kms_keys
    prefixes = ("models.", "endpoint.archive_")
    archives = [arn for key, arns in given.items() if key.startswith(prefixes) for arn in arns]
    any_key = stack.format_arn(service="kms", resource="key", resource_name="*")
    queued = environment.asynchronous is not None
    queue = given["asynchronous.kms_key"] or [any_key] if queued else []
    captured: list[str] = []
    if _list_captured_prefixes(stack, environment):
        # A capture of this environment has a key of ENV/data, which CloudFormation names.
        captured = given.get("capture.kms_key") or [any_key]
    return {"kms:Decrypt": sorted({*archives, *queue, *captured}), "kms:GenerateDataKey": queue}
