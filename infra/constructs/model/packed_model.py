"""A SavedModel on this machine becomes a served model, for CDK apps without environment files."""

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.model_archive import ModelArchive
from infra.constructs.model.served_model import ServedModel
from infra.constructs.rollout.rollback_alarms import name_prefix
from infra.parameters.model import folder_gib
from infra.policy.container import ContainerSettings
from infra.policy.hosting import hosting
from infra.policy.sizing import Served
from model_packaging.inputs import ArchiveInputs
from model_packaging.places import ARCHIVES
from model_packaging.servable import Servable

DERIVED = ContainerSettings()


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
    """Image, settings and permissions that fit the model and the machine.

    `name`: in the container. `folder`: of its versions. `code`: with inference.py. `tensorflow`
    None: the newest that the machine runs. `container`: what is left out is derived. The stack
    needs a region of its own: images are named by it. Raises `Refusal`, and KeyError for an
    instance type, version or region that is not in the catalog.
    """
    folder, code = folder.resolve(), code.resolve() if code else None
    runs = hosting(
        instance_type=instance_type,
        tensorflow=tensorflow,
        region=cdk.Stack.of(scope).region,
        container=container,
        default_model=name,
        served=Served(model_gib=folder_gib(folder), has_code=code is not None),
    )
    inputs = ArchiveInputs(servables=(Servable(name=name, folder=folder),), code=code)
    return ServedModel(
        scope,
        construct_id,
        archive=ModelArchive(
            scope, f"{construct_id}Archive", inputs=inputs, archives=ARCHIVES.resolve()
        ),
        image=runs.image,
        variables=runs.variables,
        log_group_arn=logs.arn,
        rollback_alarm_prefix=name_prefix(logs.endpoint_name),
    )
