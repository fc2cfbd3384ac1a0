"""A served model from a SavedModel on this computer, for CDK apps of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct
from pydantic import ValidationError

from infra.catalog import images
from infra.catalog.images import Image
from infra.catalog.instances import instances
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.archive import Archive, packed_archive
from infra.constructs.model.execution_role import ModelDependencies, log_group_arn
from infra.constructs.model.served_model import ServedModel
from infra.packing import archive_inputs
from infra.parameters.batch.job import BatchJob, batch_job
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import EndpointTable, Network
from infra.parameters.environment import Environment
from infra.parameters.finding import meant
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement, placements_of
from infra.parameters.variant import Variant
from infra.policy.container import ContainerSettings
from infra.policy.hosting import Hosting
from model_packaging.places import ARCHIVES

DERIVED = ContainerSettings()
NO_ROLE_RULES = RoleRules()
# Stand for what a stack without account and region does not know, where only the model is looked at.
_SOME_ACCOUNT, SOME_REGION = "000000000000", "us-east-1"
# A key of an environment file that an argument has another name for; the model's is the key of two tables.
_ARGUMENTS: Mapping[int | str, str] = {
    "saved_model": "folder",
    "models": "name",
    "variants": "name",
}


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class PackedModel(ServedModel):
    """A served model from a SavedModel on this computer, packed when the CDK CLI publishes it.

    `packed_model(…)` makes one: a second name, to be read as a verb.

    Image, settings and permissions are chosen for the model and the instance type; a stack without a
    region looks the image's registry up when it is deployed. Grant its container what it needs:
    `bucket.grant_read(model)`. With a VPC, open what it may reach:
    `model.connections.allow_to(database, ec2.Port.tcp(5432))`. Raises ValueError for an argument that does
    not fit, and `PackagingError` for files that do not.

    name: Name of the model in the container.
    folder: Folder of the SavedModel: what `model.export` wrote, or a folder that has one folder for each
        version, named with digits. A relative path is relative to the working folder.
    version: Version number of a `folder` that is one SavedModel. Default: 1.
    instance_type: Instance type that image and settings are chosen for, for example ml.c5.xlarge.
    logs: The endpoint's log group, into which the container writes. Needed without `batch`.
    batch: The batch transform job that the model is for instead of an endpoint, for a `BatchTransform`. Its
        keys `model` and `instance_type` are those given here; `container` and `environment` stand in it.
        Default: none, the model is an endpoint's.
    code: Folder with inference.py, or with transforms.py for Servable's handler. Default: none, the
        container converts JSON and CSV itself.
    handler: "servable": Servable's handler runs in front of the model, also without code. Default: the
        inference.py of `code`, or Servable's handler if `code` has only a transforms.py.
    install: Installation of code/requirements.txt. "at start": by pip in every container, which needs the
        internet. "vendored": from wheels that `servable package` has locked. Default: "at start".
    warm_up: JSON files with requests that the model server runs before it takes traffic. Default: none.
    tensorflow: TensorFlow version of the image, for example "2.20". Default: the newest that the instance
        type runs.
    container: Settings of the container. Default: chosen for instance type, model and code.
    environment: Container environment variables: your own for inference.py, and those of the image, which are
        read into `container`; set each in one of the two. Default: none.
    vpc: VPC of the instances, with a gateway endpoint for S3. Default: SageMaker's own network.
    vpc_subnets: Subnets of `vpc`. Default: its private subnets.
    security_groups: Security groups of the instances. Default: a new one in `vpc`, which lets all out.
    network: Ids of subnets and security groups, where there is no `vpc` to give. Default: none.
    network_isolation: Whether the container is without network access, S3 included. Default: False.
    role: Existing role that SageMaker assumes; it gets the permissions, unless it is immutable. Default:
        a role of the model's own.
    role_rules: IAM path and permissions boundary of a role that is made. Default: none.
    volume_key: KMS key of the instances' volumes. Default: a temporary key of SageMaker's.
    archive_keys: KMS keys of the bucket of `cdk bootstrap`, if it has some. Default: S3's own key.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        folder: Path | str,
        version: int = 1,
        instance_type: str,
        logs: EndpointLogs | None = None,
        batch: BatchSettings | None = None,
        code: Path | str | None = None,
        handler: Literal["servable"] | None = None,
        install: Literal["vendored", "at start"] = "at start",
        warm_up: Sequence[Path | str] = (),
        tensorflow: str | None = None,
        container: ContainerSettings = DERIVED,
        environment: Mapping[str, str] | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        network: Network | None = None,
        network_isolation: bool = False,
        role: iam.IRole | None = None,
        role_rules: RoleRules = NO_ROLE_RULES,
        volume_key: kms.IKey | None = None,
        archive_keys: Sequence[kms.IKey] = (),
    ) -> None:
        given = {
            **_files(folder, version, code, install, warm_up),
            "handler": handler,
            "tensorflow": tensorflow,
            "network_isolation": network_isolation,
        }
        variant = {"container": container, "environment": dict(environment or {})}
        described = _environment(name, given, {**variant, "instance_type": instance_type})
        self.job = _job(described, name, batch, volume_key)
        placement = self.job.deployed if self.job else _placement(described, name)
        runs = _hosting(stack := cdk.Stack.of(scope), placement)
        log_group, rolls_back = _log(stack, logs, batch)
        groups = _groups(scope, construct_id, vpc, security_groups)
        super().__init__(
            scope,
            construct_id,
            archive=_archive(stack, described, name, archive_keys),
            image=runs.image,
            environment=runs.variables,
            dependencies=ModelDependencies(
                log_group_arn=log_group,
                rolls_back=rolls_back,
                batch=batch,
                volume_kms_key=volume_key.key_arn if volume_key else None,
                network=_network(vpc, vpc_subnets, groups, network),
                roles=role_rules,
                role=role,
            ),
            network_isolation=network_isolation,
        )
        self.placement, self.volume_key, self.security_groups = placement, volume_key, groups
        self.logs = logs

    @property
    def role(self) -> iam.IRole:
        """The role that SageMaker assumes: the one that was given, or the model's own."""
        assert self.execution is not None  # no ARN is given above
        return self.execution.role

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The principal of `role`."""
        return self.role.grant_principal

    @property
    def connections(self) -> ec2.Connections:
        """The security groups of the instances. Raises ValueError without a VPC."""
        if not self.security_groups:
            raise ValueError(f"{self.node.path}: it has no security group; give packed_model a vpc")
        return ec2.Connections(security_groups=list(self.security_groups))


packed_model = PackedModel
"""The name under which an app makes a `PackedModel`."""


def _files(
    folder: Path | str,
    version: int,
    code: Path | str | None,
    install: str,
    warm_up: Sequence[Path | str],
) -> dict[str, Any]:
    """The keys of [models.NAME] that name what is packed."""
    return {
        "saved_model": str(folder),
        "version": _version(folder, version),
        "code": None if code is None else str(code),
        "install": install if _has_requirements(code) else "vendored",
        # A str is a sequence too, of its letters.
        "warm_up": list(map(str, [warm_up] if isinstance(warm_up, str) else warm_up)),
    }


def _version(folder: Path | str, version: int) -> int | None:
    """The version of one SavedModel; None for a folder of versions. Raises ValueError for another's."""
    if (Path(folder) / "saved_model.pb").is_file():
        return version
    if version != 1 and Path(folder).is_dir():
        raise ValueError(f"version: the folders in {folder} have their numbers; leave it out")
    return None


def _has_requirements(code: Path | str | None) -> bool:
    return code is not None and Path(code, "requirements.txt").is_file()


def _placement(environment: Environment, name: str) -> Placement:
    """The model on its instance type. Raises ValueError for a type or version that is none."""
    instance_type, tensorflow = (
        environment.variants[name].instance_type,
        environment.models[name].tensorflow,
    )
    if cdk.Token.is_unresolved(instance_type):
        raise ValueError(
            "instance_type: its value is known only to CloudFormation, and image, driver and settings are "
            "chosen for it; give the type"
        )
    if instance_type not in instances():
        close = meant(str(instance_type), instances())
        raise ValueError(f"instance_type: {instance_type!r} is no instance type; {close}")
    if tensorflow is not None and tensorflow not in images.versions():
        allowed = ", ".join(images.versions())
        raise ValueError(f"tensorflow: no image has {tensorflow!r}; allowed: {allowed}")
    (placement,) = placements_of(environment, name)
    return placement


def _log(
    stack: cdk.Stack, logs: EndpointLogs | None, batch: BatchSettings | None
) -> tuple[str, str | None]:
    """ARN of the log group, and the name of the endpoint that may roll back. Raises ValueError."""
    if batch is not None:
        return log_group_arn(stack), None
    if logs is None:
        raise ValueError("logs: a model of an endpoint writes there; give logs, or batch")
    return logs.arn, logs.endpoint_name


def _groups(
    scope: Construct,
    construct_id: str,
    vpc: ec2.IVpc | None,
    given: Sequence[ec2.ISecurityGroup] | None,
) -> list[ec2.ISecurityGroup]:
    """The security groups; a new one in a VPC for which none is given."""
    if vpc is not None and not given:
        return [ec2.SecurityGroup(scope, f"{construct_id}SecurityGroup", vpc=vpc)]
    return list(given or ())


def _job(
    environment: Environment, name: str, batch: BatchSettings | None, volume_key: kms.IKey | None
) -> BatchJob | None:
    """The job of the model; None without a batch. Raises ValueError for one of another model or type."""
    if batch is None:
        return None
    variant = environment.variants[name]
    for key in ("model", "instance_type"):
        given, wanted = getattr(batch, key), getattr(variant, key)
        if given != wanted:
            raise ValueError(
                f"batch: {key} is {given!r}, and the model's is {wanted!r}; give the same"
            )
    with_batch = environment.model_copy(update={"batch": {name: batch}})
    job = batch_job(with_batch, name)
    assert job is not None  # model and type are known
    return replace(job, volume_kms_key=volume_key.key_arn if volume_key else None)


def _hosting(stack: cdk.Stack, placement: Placement) -> Hosting:
    """Image and variables. Raises ValueError for a region without the image."""
    if cdk.Token.is_unresolved(stack.region):
        runs = placement.hosting(SOME_REGION)
        return replace(runs, image=_of_any_region(stack, runs.image, runs.tensorflow))
    regions = images.regions(placement.tensorflow)
    if stack.region not in regions:
        allowed = ", ".join(regions)
        raise ValueError(
            f"region: no image of TensorFlow {placement.tensorflow} in {stack.region}; allowed: {allowed}"
        )
    return placement.hosting(stack.region)


def _environment(name: str, model: Mapping[str, Any], variant: Mapping[str, Any]) -> Environment:
    """The smallest environment with this model, from which placement and archive are derived.

    Raises ValueError with every argument that does not fit.
    """
    try:
        return Environment(
            account=_SOME_ACCOUNT,
            region=SOME_REGION,
            endpoint=EndpointTable(name="endpoint"),
            models={name: ModelTable.model_validate(model, context={"project": Path.cwd()})},
            variants={name: Variant(model=name, **variant)},
        )
    except ValidationError as wrong:
        problems = []
        for error in wrong.errors():
            if not error["loc"]:  # about several arguments
                problems.append(str(error["ctx"]["error"]))
                continue
            key = error["loc"][0]
            problems.append(f"{_ARGUMENTS.get(key, key)}: {error['input']!r}: {error['msg']}")
        raise ValueError("; ".join(dict.fromkeys(problems))) from None


def _archive(
    stack: cdk.Stack, environment: Environment, name: str, keys: Sequence[kms.IKey]
) -> Archive:
    inputs = archive_inputs(environment, name, Path.cwd())
    archive = packed_archive(stack, inputs, archives=ARCHIVES.resolve())
    return replace(archive, key_arns=[key.key_arn for key in keys])


def _network(
    vpc: ec2.IVpc | None,
    selection: ec2.SubnetSelection | None,
    groups: Sequence[ec2.ISecurityGroup],
    ids: Network | None,
) -> Network:
    """Subnets and security groups. Raises ValueError for what belongs to a VPC that is not given."""
    if vpc is not None and ids is not None:
        raise ValueError("network: vpc says which subnets and groups; give one of the two")
    if vpc is None:
        if groups or selection is not None:
            raise ValueError("vpc: security_groups and vpc_subnets need it; give vpc, or network")
        return ids or Network()
    chosen = selection or ec2.SubnetSelection()
    subnets = vpc.select_subnets(
        availability_zones=chosen.availability_zones,
        one_per_az=chosen.one_per_az,
        subnet_filters=chosen.subnet_filters,
        subnet_group_name=chosen.subnet_group_name,
        subnets=chosen.subnets,
        subnet_type=chosen.subnet_type,
    )
    return Network(
        subnets=subnets.subnet_ids,
        security_groups=[group.security_group_id for group in groups],
    )


def _of_any_region(stack: cdk.Stack, image: Image, tensorflow: str) -> Image:
    """The image in the region that the stack is deployed to, looked up in a mapping of the template."""
    mapping_id = f"ServableRegistries{tensorflow.replace('.', '')}"
    mapping = stack.node.try_find_child(mapping_id)
    if mapping is None:
        mapping = cdk.CfnMapping(
            stack,
            mapping_id,
            mapping={
                region: {"account": account, "domain": images.domain(region)}
                for region, account in images.registries(tensorflow).items()
            },
        )
    assert isinstance(mapping, cdk.CfnMapping)
    account = mapping.find_in_map(cdk.Aws.REGION, "account")
    domain = mapping.find_in_map(cdk.Aws.REGION, "domain")
    host = f"{account}.dkr.ecr.{cdk.Aws.REGION}.{domain}"
    return Image(
        account,
        cdk.Aws.REGION,
        image.repository,
        image.tag,
        own_uri=f"{host}/{image.repository}:{image.tag}",
    )
