"""The model of a batch of an environment file, with the container's settings and permissions for a job."""

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.access.role_rules import RoleRules
from infra.constructs.endpoint.served_variant import model_archive
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.model.served_model import ServedModel
from infra.parameters.batch.job import BatchJob
from infra.parameters.environment import Environment

# SageMaker's one log group for all jobs of an account and region, which it makes if it is missing.
# https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html (2026-11-28)
LOG_GROUP = "/aws/sagemaker/TransformJobs"


def log_group_arn(stack: cdk.Stack) -> str:
    """The ARN of the log group that all transform jobs of an account and region share."""
    return stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=LOG_GROUP,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def batch_model(
    scope: Construct, construct_id: str, *, job: BatchJob, environment: Environment, root: Path
) -> ServedModel:
    """The model of a batch of an environment file. `root` is the project. Raises `PackagingError`."""
    stack, hosting, model = (
        cdk.Stack.of(scope),
        job.hosting(environment.region),
        job.placement.model,
    )
    made = ServedModel(
        scope,
        construct_id,
        archive=model_archive(stack, environment, job.batch.model, root),
        image=hosting.image,
        variables=hosting.variables,
        dependencies=ModelDependencies(
            log_group_arn=log_group_arn(stack),
            batch=job.batch,
            volume_kms_key=job.volume_kms_key,
            network=environment.network,
            roles=RoleRules.of(environment.security),
            execution_role_arn=model.execution_role or environment.endpoint.execution_role,
        ),
        network_isolation=model.network_isolation or environment.security.network_isolation,
    )
    made.job = job
    return made
