"""A model as SageMaker knows it: image, archive, variables, role."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.async_inference.queue import Queue
from infra.constructs.model.archive import Archive
from infra.constructs.model.execution_role import ExecutionRole
from infra.constructs.model.places import Destination
from infra.constructs.model.role_places import RolePlaces
from infra.constructs.replacement import replacement_fingerprint
from infra.parameters.endpoint import Network

NO_NETWORK = Network()


class ServedModel(Construct):
    """One AWS::SageMaker::Model.

    Unnamed on purpose: a model cannot be updated, only replaced, and CloudFormation
    cannot replace what has a fixed name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        archive: Archive,
        image: Image,
        variables: Mapping[str, str],
        log_group_arn: str,
        rollback_alarm_prefix: str | None = None,
        network_isolation: bool = False,
        network: Network = NO_NETWORK,
        captured: Destination | None = None,
        queue: Queue | None = None,
        volume_kms_key: str | None = None,
    ) -> None:
        """`rollback_alarm_prefix`, `captured`, `queue`, `volume_kms_key`: what the role needs beyond its
        model; None where the endpoint has no such thing."""
        super().__init__(scope, construct_id)
        places = RolePlaces(
            stack=cdk.Stack.of(self),
            image=image,
            log_group_arn=log_group_arn,
            rollback_alarm_prefix=rollback_alarm_prefix,
            captured=captured,
            queue=queue,
            volume_kms_key=volume_kms_key,
            network=network,
        )
        execution = ExecutionRole(self, "Role", archive=archive, places=places)
        model = sagemaker.CfnModel(
            self,
            "Resource",
            execution_role_arn=execution.role.role_arn,
            # Left out and not false: a template says what somebody asked for.
            enable_network_isolation=network_isolation or None,
            vpc_config=sagemaker.CfnModel.VpcConfigProperty(
                subnets=network.subnets, security_group_ids=network.security_groups
            )
            if network.subnets
            else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=image.uri,
                **archive.data,
                environment={**variables, **archive.variables},
            ),
        )
        model.node.add_dependency(execution.policy)
        self.name = model.attr_model_name
        self.fingerprint = replacement_fingerprint(model)
        """Changes when the model is replaced, as 64 hex digits."""
