"""pipeline-ENV: the roles that a repository's workflows take on. Only with -c pipeline=OWNER@ID/NAME@ID."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.access.pipeline_role import (
    AUDIENCE,
    DEPLOYS,
    ISSUER,
    LOOKS,
    PLAN_LOOKS,
    PipelineRole,
)
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.scaling.endpoint_scaling import SERVICE, SERVICE_ROLE
from infra.parameters.environment import Environment, stack_name
from infra.parameters.loading import Loaded


class PipelineStack(cdk.Stack):
    """A role for deployments of one environment, and one that only compares, for pull requests."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        environment: Environment,
        repository: str,
        provider_arn: str | None,
    ) -> None:
        """`repository`: OWNER@ID/NAME@ID. `provider_arn`: of an account that has GitHub's already; None
        makes it."""
        super().__init__(
            scope,
            construct_id,
            # With the prefix of every stack of the service: another service has a pipeline-ENV too.
            stack_name=f"{environment.service}-{construct_id}" if environment.service else None,
            env=cdk.Environment(account=environment.account, region=environment.region),
            description=f"What the pipelines of {repository} may do for {name}",
        )
        provider = provider_arn or _provider(self)
        deploys = PipelineRole(
            self,
            "Deploys",
            provider_arn=provider,
            repository=repository,
            roles=RoleRules.of(environment.security),
            claim=f"environment:{name}",
            region=environment.region,
            bootstrap_roles=DEPLOYS,
            looks=LOOKS,
            reads=_reads(self, name, environment),
        )
        compares = PipelineRole(
            self,
            "Compares",
            provider_arn=provider,
            repository=repository,
            roles=RoleRules.of(environment.security),
            claim="pull_request",
            region=environment.region,
            looks=PLAN_LOOKS,
            reads=_reads_of_plan(self, name, environment),
        )
        for output, made in (("DeployRoleArn", deploys), ("CompareRoleArn", compares)):
            cdk.CfnOutput(self, output, value=made.role.role_arn)


def add_pipelines(
    app: Construct, environments: list[Loaded], repository: str, provider_arn: str | None
) -> None:
    """One stack for each environment that loads: `cdk deploy 'pipeline-*' -c pipeline=OWNER@ID/NAME@ID`.

    An account has one provider of an issuer: where several environments share it, the first makes it.
    """
    made: dict[str, PipelineStack] = {}
    for loaded in environments:
        environment = loaded.environment
        if environment is None:
            continue
        first = made.get(environment.account)
        stack = PipelineStack(
            app,
            f"pipeline-{loaded.name}",
            name=loaded.name,
            environment=environment,
            repository=repository,
            provider_arn=provider_arn or (_shared(environment) if first else None),
        )
        if first is not None:
            stack.add_stack_dependency(first)
        made.setdefault(environment.account, stack)


def _provider(stack: cdk.Stack) -> str:
    made = iam.CfnOIDCProvider(stack, "GitHub", url=f"https://{ISSUER}", client_id_list=[AUDIENCE])
    return made.attr_arn


def _shared(environment: Environment) -> str:
    return f"arn:{cdk.Aws.PARTITION}:iam::{environment.account}:oidc-provider/{ISSUER}"


def _reads_of_plan(stack: cdk.Stack, name: str, environment: Environment) -> dict[str, list[str]]:
    """What `servable plan` and `cdk diff` ask of this environment.

    A pull request is anybody's code until it is reviewed, so that its role takes on none of the
    bootstrap's: the lookup role has AWS's ReadOnlyAccess and reads nearly all of the account.
    Source: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (2026-11-22)
    """
    stacks = [
        stack.format_arn(
            service="cloudformation",
            resource="stack",
            resource_name=f"{stack_name(name, environment, kind)}/*",
        )
        for kind in ("data", "endpoint")
    ]
    endpoint, config = (
        stack.format_arn(service="sagemaker", resource=kind, resource_name=which)
        for kind, which in (
            ("endpoint", environment.endpoint.name.lower()),
            # Named by CloudFormation, not after the endpoint.
            ("endpoint-config", "*"),
        )
    )
    return {
        "cloudformation:DescribeStacks": stacks,
        "cloudformation:GetTemplate": stacks,
        "sagemaker:DescribeEndpoint": [endpoint],
        "sagemaker:DescribeEndpointConfig": [config],
    }


def _reads(stack: cdk.Stack, name: str, environment: Environment) -> dict[str, list[str]]:
    """Of this environment, what a resource can be named for."""
    account = environment.account
    stem = f"{environment.service}-{name}" if environment.service else name
    stacks = [f"{stack.format_arn(service='cloudformation', resource='stack')}/{stem}-*/*"]
    sagemaker = [
        stack.format_arn(service="sagemaker", resource=kind, resource_name=which)
        for kind, which in (
            ("endpoint", environment.endpoint.name.lower()),
            # Named by CloudFormation, after the stack.
            ("endpoint-config", "*"),
            ("model", "*"),
        )
    ]
    # The capture's and the queue's, named by CloudFormation.
    samples = f"arn:{stack.partition}:s3:::{stem.lower()}-data-*"
    role = f"arn:{stack.partition}:iam::{account}:role"
    path = environment.security.iam_path or "/"
    roles = [f"{role}{path}{stem}-*"]
    # `servable doctor` asks whether it is there.
    scaling = f"{role}/aws-service-role/{SERVICE}/{SERVICE_ROLE}"
    policies = [f"arn:{stack.partition}:iam::{account}:policy{path}{stem}-*"]
    parameters = [
        stack.format_arn(service="ssm", resource="parameter", resource_name=which)
        for which in ("CFN-DeploymentLive*", "cdk-bootstrap/hnb659fds/version")
    ]
    return {
        "cloudformation:DescribeStacks": stacks,
        "cloudformation:DescribeStackEvents": stacks,
        "cloudformation:GetTemplate": stacks,
        "cloudformation:ListStackResources": stacks,
        "iam:GetRole": [*roles, scaling],
        "iam:GetRolePolicy": roles,
        "iam:GetPolicy": policies,
        "iam:ListEntitiesForPolicy": policies,
        "s3:GetBucketPolicy": [samples],
        "s3:GetBucketPublicAccessBlock": [samples],
        "s3:GetBucketVersioning": [samples],
        "s3:GetEncryptionConfiguration": [samples, _assets(stack, environment)],
        **_reads_archives(stack, environment, samples),
        "sagemaker:DescribeEndpoint": [sagemaker[0]],
        "sagemaker:DescribeEndpointConfig": [sagemaker[1]],
        "sagemaker:DescribeModel": [sagemaker[2]],
        "sagemaker:InvokeEndpoint": [sagemaker[0]],
        "ssm:GetParameter": parameters,
        "ssm:GetParameterHistory": parameters,
        **_asks_the_queue(environment, sagemaker[0], samples),
        **_uses_keys(stack, environment),
    }


def _reads_archives(
    stack: cdk.Stack, environment: Environment, samples: str
) -> dict[str, list[str]]:
    """What was published or is pinned, and answers of the queue: `servable verify` reads them whole."""
    bucket = _assets(stack, environment)
    pinned = [
        f"arn:{stack.partition}:s3:::{uri.removeprefix('s3://')}"
        for uri in sorted({one.artifact.uri for one in environment.models.values() if one.artifact})
    ]
    # Who may not list is told of what is gone that it is forbidden.
    pinned_buckets = sorted({one.partition("/")[0] for one in pinned})
    written = [f"{samples}/answers/*", f"{samples}/failures/*"] if environment.kind.queued else []
    return {
        "s3:GetObject": [f"{bucket}/*", *pinned, *written],
        "s3:ListBucket": [bucket, samples, *pinned_buckets],
        "s3:ListBucketVersions": [bucket],
    }


def _assets(stack: cdk.Stack, environment: Environment) -> str:
    """The bucket of `cdk bootstrap`."""
    name = f"cdk-hnb659fds-assets-{environment.account}-{environment.region}"
    return f"arn:{stack.partition}:s3:::{name}"


def _uses_keys(stack: cdk.Stack, environment: Environment) -> dict[str, list[str]]:
    """Of the archives, to read them whole, and of the queue."""
    given = environment.kms_keys
    archives = [
        arn
        for key, arns in given.items()
        if key.startswith(("models.", "endpoint.archive_"))
        for arn in arns
    ]
    queue: list[str] = []
    if environment.asynchronous is not None:
        any_key = stack.format_arn(service="kms", resource="key", resource_name="*")
        queue = given["asynchronous.kms_key"] or [any_key]
    found = {"kms:Decrypt": sorted({*archives, *queue}), "kms:GenerateDataKey": queue}
    return {action: keys for action, keys in found.items() if keys}


def _asks_the_queue(environment: Environment, endpoint: str, bucket: str) -> dict[str, list[str]]:
    """To send the golden request through the queue, if there is one, encrypted as every other."""
    if environment.asynchronous is None:
        return {}
    return {
        "s3:PutObject": [f"{bucket}/requests/*"],
        environment.kind.invoke_action: [endpoint],
    }
