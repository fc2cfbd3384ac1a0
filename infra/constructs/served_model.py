"""A model as SageMaker knows it: image, archive, variables, role."""

import hashlib
import json
from collections.abc import Mapping

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.archive import Archive
from infra.constructs.execution_role import ExecutionRole


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
        rollback_alarm_prefix: str | None,
        network_isolation: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        execution = ExecutionRole(
            self,
            "Role",
            archive=archive,
            image=image,
            log_group_arn=log_group_arn,
            rollback_alarm_prefix=rollback_alarm_prefix,
        )
        model = sagemaker.CfnModel(
            self,
            "Resource",
            execution_role_arn=execution.role.role_arn,
            # Left out and not false: a template says what somebody asked for.
            enable_network_isolation=network_isolation or None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=image.uri,
                **archive.data,
                environment={**variables, **archive.variables},
            ),
        )
        model.node.add_dependency(execution.policy)
        self.name = model.attr_model_name
        decides = [
            archive.fingerprint,
            image.uri,
            sorted(variables.items()),
            network_isolation,
        ]
        self.fingerprint = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
        """Changes when the model is replaced, as 64 hex digits."""
