"""A SageMaker model: image, archive, variables, role."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.model.archive import Archive
from infra.constructs.model.execution_role import ExecutionRole, ModelDependencies
from infra.constructs.replacement import replacement_fingerprint
from infra.parameters.batch.job import BatchJob
from infra.parameters.placement import Placement

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2

    from infra.constructs.endpoint.endpoint_logs import EndpointLogs


class ServedModel(Construct):
    """One AWS::SageMaker::Model.

    It has no name on purpose: a model cannot be updated, only replaced, and CloudFormation
    cannot replace what has a fixed name.
    """

    placement: Placement | None = None
    """The model on its instance type: settings, driver, timeouts, and their reasons; None if it is a
    variant of an environment file, which has it."""
    job: BatchJob | None = None
    """The batch that it is for; None for an endpoint's."""
    volume_key: kms.IKey | None = None
    """KMS key of the instances' volumes."""
    logs: "EndpointLogs | None" = None
    """Log group of the endpoint, the only one that the container may write into, if that is known."""
    security_groups: "Sequence[ec2.ISecurityGroup]" = ()
    """Security groups of the instances, as far as they are constructs."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        archive: Archive,
        image: Image,
        environment: Mapping[str, str],
        dependencies: ModelDependencies,
        network_isolation: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self.archive_url = archive.url
        role = self.execution = None
        if dependencies.execution_role_arn is None:
            role = self.execution = ExecutionRole(
                self, "Role", archive=archive, image=image, dependencies=dependencies
            )
        self.role_arn = role.role.role_arn if role else str(dependencies.execution_role_arn)
        """ARN of the role that SageMaker assumes."""
        self.network = network = dependencies.network
        self.isolated = network_isolation
        model = sagemaker.CfnModel(
            self,
            "Resource",
            execution_role_arn=self.role_arn,
            # None and not False: the template contains only what was configured.
            enable_network_isolation=network_isolation or None,
            vpc_config=sagemaker.CfnModel.VpcConfigProperty(
                subnets=network.subnets, security_group_ids=network.security_groups
            )
            if network.subnets
            else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                # A model package has its own; `image` is the one that the settings are chosen for.
                image=None if "model_package_name" in archive.data else image.uri,
                **archive.data,
                environment={**environment, **archive.variables},
            ),
        )
        if role is not None:
            model.node.add_dependency(role.policy)
        self.name = model.attr_model_name
        self.fingerprint = replacement_fingerprint(model)
        """64 hex digits that change whenever the model is replaced."""
