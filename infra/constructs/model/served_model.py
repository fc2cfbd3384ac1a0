"""A SageMaker model: image, archive, variables, role."""

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.catalog.images import Image
from infra.catalog.instances import instances
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.archive import Archive, packed_archive
from infra.constructs.model.execution_role import ExecutionRole, ModelDependencies
from infra.constructs.replacement import replacement_fingerprint
from infra.parameters.model import folder_gib
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import derive
from infra.policy.hosting import hosting, newest_version
from infra.policy.sizing import Served
from model_packaging.inputs import ArchiveInputs
from model_packaging.places import ARCHIVES
from model_packaging.servable import Servable

DERIVED = ContainerSettings()


class ServedModel(Construct):
    """One AWS::SageMaker::Model.

    It has no name on purpose: a model cannot be updated, only replaced, and CloudFormation
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
        dependencies: ModelDependencies,
        network_isolation: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        role = None
        if dependencies.execution_role_arn is None:
            role = ExecutionRole(
                self, "Role", archive=archive, image=image, dependencies=dependencies
            )
        network = dependencies.network
        model = sagemaker.CfnModel(
            self,
            "Resource",
            execution_role_arn=role.role.role_arn if role else dependencies.execution_role_arn,
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
                environment={**variables, **archive.variables},
            ),
        )
        if role is not None:
            model.node.add_dependency(role.policy)
        self.name = model.attr_model_name
        self.fingerprint = replacement_fingerprint(model)
        """64 hex digits that change whenever the model is replaced."""


def packed_model(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    folder: Path,
    code: Path | None = None,
    instance_type: str,
    logs: EndpointLogs,
    tensorflow: str | None = None,
    container: ContainerSettings = DERIVED,
) -> ServedModel:
    """A served model from a SavedModel on this computer, for CDK apps without environment files.

    Image, settings and permissions are chosen for the model and the instance type. `name` is the
    model's in the container, `folder` holds its versions, and `code` holds inference.py. `tensorflow`
    None means the newest version that the instance type runs. Settings that `container` omits are
    derived. The stack must have a region, because images depend on it. Raises `PackagingError`, and
    KeyError for an instance type, version or region that is not in the catalog.
    """
    folder, code = folder.resolve(), code.resolve() if code else None
    stack = cdk.Stack.of(scope)
    instance = instances()[instance_type]
    sizes = Served(model_gib=folder_gib(folder), has_code=code is not None)
    version = tensorflow or newest_version(instance)
    settings = derive(container, instance=instance, served=sizes, tensorflow=version).settings
    runs = hosting(
        instance=instance,
        tensorflow=version,
        region=stack.region,
        settings=settings,
        default_model=name,
    )
    inputs = ArchiveInputs(servables=(Servable(name=name, folder=folder),), code=code)
    return ServedModel(
        scope,
        construct_id,
        archive=packed_archive(stack, inputs, archives=ARCHIVES.resolve()),
        image=runs.image,
        variables=runs.variables,
        dependencies=ModelDependencies(log_group_arn=logs.arn, rolls_back=logs.endpoint_name),
    )
