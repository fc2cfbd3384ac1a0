"""A model: its archive, code, image, and environment, and the role that its containers run with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256 as hash_text
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.arguments import check_kind, read_arguments
from infra.catalog import images
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.model.archive import UNKNOWN, Archive, ArchiveSettings, create_model_archive
from infra.constructs.model.execution_role import ExecutionRole, ModelDependencies
from infra.constructs.model.hosting import SOME_ACCOUNT, SOME_REGION
from infra.constructs.model.network import (
    Connectable,
    ModelNetwork,
    connect_security_groups,
    resolve_network,
)
from infra.constructs.replacement import compute_fingerprint
from infra.parameters.endpoint import EndpointTable, Network
from infra.parameters.environment import Environment
from infra.parameters.finding import suggest_name
from infra.parameters.model import ModelTable
from infra.parameters.table import Table
from infra.parameters.variant import Variant
from infra.policy.container import ContainerSettings
from infra.policy.hosting import Hosting

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_s3 as s3

MODEL_NAME = "model"


@dataclass(frozen=True, kw_only=True)
class HostedModel:
    """One AWS::SageMaker::Model: a model with an image and variables."""

    name: str
    """Its name, which only CloudFormation knows."""
    fingerprint: str
    """64 hex digits that change whenever it is replaced."""


@jsii.implements(iam.IGrantable, Connectable)
class Model(Construct):
    """A model that variants of an endpoint or batch transform jobs run.

    It creates its role and, in a VPC, its security group: `bucket.grant_read(model)` and
    `model.connections.allow_to(database, port)` are for its containers. `Endpoint.add_variant` and
    `BatchTransform` create the AWS::SageMaker::Model, because image and settings depend on the instance type.
    Use `Model.from_saved_model`, `from_archive`, or `from_registry`; the constructor takes the tables of an
    environment file.

    name: Name of the model in the container, one of `models`.
    models: The tables of the model and of those packed with it, by name.
    environment: Container environment variables: your own, and those of the image. Default: none.
    container: Settings of the container. Default: chosen for instance type, model, and code.
    network: VPC of the containers. Default: SageMaker's own network.
    role: Role that SageMaker assumes; it gets the permissions unless it is immutable. The ARN of a role gets
        none. Default: a new role.
    role_rules: IAM path and permissions boundary of a role that is created. Default: none.
    archive_keys: ARNs of KMS keys that the archive may be encrypted with. Default: S3's own key.
    root: Folder of the project, where archives are packed. Default: the working folder.
    roles_by_type: Whether each further image that instance pools need has its own role. Default: False.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        models: Mapping[str, ModelTable],
        environment: Mapping[str, str] | None = None,
        container: ContainerSettings | None = None,
        network: ModelNetwork | Network | None = None,
        role: iam.IRole | str | None = None,
        role_rules: RoleRules | None = None,
        archive_keys: Sequence[str] = (),
        root: Path | None = None,
        roles_by_type: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        is_arn = isinstance(role, str) and role.startswith(("arn:", "${Token["))
        check_kind(self.node.path, "role", role=None if is_arn else role)
        self.name, self.environment, self.container = name, dict(environment or {}), container
        settings = {"model": name, "environment": self.environment or None, "container": container}
        read_arguments(self.node.path, Variant, settings)
        isolated = isinstance(network, ModelNetwork) and network.isolated
        self.isolated = models[name].network_isolation or isolated
        """Whether the containers have no network access."""
        own = models[name].model_copy(update={"network_isolation": self.isolated})
        self.tables = {**models, name: own}
        """The tables of the model and of those packed with it, by name."""
        alone = {
            "account": SOME_ACCOUNT,
            "region": SOME_REGION,
            "endpoint": EndpointTable(name="endpoint", archive_kms_keys=list(archive_keys)),
            "models": self.tables,
        }
        self.described = read_arguments(self.node.path, Environment, alone)
        self._scope, self._root, self._role = scope, root, role
        self._rules, self._roles_by_type = role_rules or RoleRules(), roles_by_type
        ids, groups = resolve_network(self, network)
        self.network = ids
        """IDs of subnets and security groups of the containers."""
        self.security_groups = groups
        """Security groups of the instances, as far as they are constructs."""
        self.execution: ExecutionRole | None = None
        if not isinstance(role, str):
            self.execution = ExecutionRole(self, "Role", role=role, rules=self._rules)
        self._archives: dict[str, Archive] = {}
        self._hosted: dict[tuple[Any, ...], HostedModel] = {}
        self.pack(cdk.Stack.of(self))  # its errors are about this call

    @staticmethod
    def from_saved_model(
        scope: Construct,
        construct_id: str,
        folder: Path | str | Mapping[str, Path | str],
        *,
        model_name: str = MODEL_NAME,
        code: Path | str | None = None,
        handler: Literal["servable"] | None = None,
        warm_up: Sequence[Path | str] = (),
        environment: Mapping[str, str] | None = None,
        tensorflow: str | None = None,
        role: iam.IRole | None = None,
        archive: ArchiveSettings | None = None,
        container: ContainerSettings | None = None,
        network: ModelNetwork | Network | None = None,
        role_rules: RoleRules | None = None,
    ) -> "Model":
        """Return a model from a SavedModel on this computer, which is packed when the CDK CLI publishes it.

        Raises ValueError for an argument that doesn't fit, and `PackagingError` for files that don't.

        folder: What `model.export` wrote, or a folder that has one folder for each version, named with
            digits. A relative path is relative to the working folder. Several folders by name are for
            multi-model mode, in which a request names its TargetModel, NAME.tar.gz.
        model_name: Name of the model in the container. Default: model.
        code: Folder with inference.py, or with transforms.py for Servable's handler. Default: none, the
            container converts JSON and CSV itself.
        handler: "servable": Servable's handler runs in front of the model, also without code. Default: the
            inference.py of `code`, or Servable's handler if `code` has only a transforms.py.
        warm_up: JSON files with requests that the model server runs before it takes traffic. Default: none.
        environment: Container environment variables: your own for inference.py, and those of the image, which
            are read into `container`; set each in one of the two. Default: none.
        tensorflow: TensorFlow version of the image, for example "2.20". Default: the newest that the instance
            type runs.
        role: Role that SageMaker assumes; it gets the permissions unless it is immutable. Default: a new one.
        archive: Version, installation of requirements, and compression. Default: `ArchiveSettings()`.
        container: Settings of the container. Default: chosen for instance type, model, and code.
        network: VPC of the containers. Default: SageMaker's own network.
        role_rules: IAM path and permissions boundary of a role that is created. Default: none.
        """
        where, archive = f"{scope.node.path}/{construct_id}", archive or ArchiveSettings()
        given = {
            "code": None if code is None else str(code),
            # A str is a sequence too, of its letters.
            "warm_up": list(map(str, [warm_up] if isinstance(warm_up, str) else warm_up)),
            "handler": handler, "tensorflow": _check_version(where, tensorflow),
        }  # fmt: skip
        folders = folder if isinstance(folder, Mapping) else {model_name: folder}
        built = (_build_packed_table(where, each, archive, given) for each in folders.values())
        tables = dict(zip(folders, built, strict=True))
        if isinstance(folder, Mapping):
            if model_name in folder:
                raise ValueError(f"{where}: model_name is also a folder's name; pass another")
            several = {"multi_model": list(folder), "tensorflow": tensorflow}
            tables[model_name] = read_arguments(where, ModelTable, several)
        return Model(
            scope, construct_id, name=model_name, models=tables, environment=environment,
            container=container, network=network, role=role, role_rules=role_rules,
            archive_keys=[key.key_arn for key in archive.keys],
        )  # fmt: skip

    @staticmethod
    def from_archive(
        scope: Construct,
        construct_id: str,
        *,
        bucket: "s3.IBucket | str",
        key: str,
        sha256: str,
        kms_key: kms.IKey | None = None,
        size_gib: float | None = None,
        environment: Mapping[str, str] | None = None,
        tensorflow: str | None = None,
        role: iam.IRole | None = None,
        container: ContainerSettings | None = None,
        network: ModelNetwork | Network | None = None,
        role_rules: RoleRules | None = None,
    ) -> "Model":
        """Return a model from a model.tar.gz in S3, in the container's layout; nothing is packed.

        bucket: The bucket, or its name.
        key: Key of the archive, which ends with .tar.gz.
        sha256: SHA-256 of the archive: 64 hexadecimal digits. A different hash creates a new model.
        kms_key: KMS key that the archive is encrypted with. Default: S3's own key.
        size_gib: Size of the unpacked files, for the checks of memory. Default: unknown.

        Other arguments are those of `from_saved_model`.
        """
        where = f"{scope.node.path}/{construct_id}"
        if not isinstance(bucket, str) or bucket.startswith("arn:"):
            check_kind(where, "bucket", bucket=bucket)
        name = bucket if isinstance(bucket, str) else bucket.bucket_name
        artifact = {
            "uri": f"s3://{name}/{key}",
            "sha256": sha256,
            "size_gib": size_gib,
            "kms_key": kms_key.key_arn if kms_key else None,
        }
        models = _build_artifact_table(where, artifact, tensorflow)
        return Model(
            scope, construct_id, name=MODEL_NAME, models=models, environment=environment,
            container=container, network=network, role=role, role_rules=role_rules,
        )  # fmt: skip

    @staticmethod
    def from_registry(
        scope: Construct,
        construct_id: str,
        *,
        model_package_arn: str,
        environment: Mapping[str, str] | None = None,
        tensorflow: str | None = None,
        role: iam.IRole | None = None,
        container: ContainerSettings | None = None,
        network: ModelNetwork | Network | None = None,
        role_rules: RoleRules | None = None,
    ) -> "Model":
        """Return a model from an approved version in SageMaker's model registry.

        Only the registry knows the archive: allow the containers to read it with `bucket.grant_read(model)`.

        model_package_arn: ARN of the version, or GROUP/VERSION in the stack's account.

        Other arguments are those of `from_saved_model`.
        """
        digest = hash_text(model_package_arn.encode()).hexdigest()
        artifact = {"model_package": model_package_arn, "uri": UNKNOWN, "sha256": digest}
        models = _build_artifact_table(f"{scope.node.path}/{construct_id}", artifact, tensorflow)
        return Model(
            scope, construct_id, name=MODEL_NAME, models=models, environment=environment,
            container=container, network=network, role=role, role_rules=role_rules,
        )  # fmt: skip

    @property
    def role_arn(self) -> str:
        """Return the ARN of the role that SageMaker assumes."""
        return self._role if isinstance(self._role, str) else self.role.role_arn

    @property
    def role(self) -> iam.IRole:
        """Return the role that SageMaker assumes: the one that was passed, or the model's own.

        Raises ValueError if the role was passed as an ARN.
        """
        if self.execution is None:
            raise ValueError(f"{self.node.path}: role: it is an ARN; pass Role.from_role_arn(…)")
        return self.execution.role

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """Return the principal of `role`."""
        return self.role.grant_principal

    @property
    def connections(self) -> "ec2.Connections":
        """Return the security groups of the instances. Raises ValueError without a VPC."""
        remedy = "network=ModelNetwork(vpc=…)"
        return connect_security_groups(self.node.path, self.security_groups, remedy)

    def find_unset_settings(self, settings: Table | None) -> dict[str, Any]:
        """Return the model's variables and container settings, None for those that `settings` has."""
        own = getattr(settings, "model_fields_set", ())
        given = {"container": self.container, "environment": self.environment or None}
        return {key: None if key in own else value for key, value in given.items()}

    def pack(self, stack: cdk.Stack) -> Archive:
        """Return the archive as an asset of a stack. Raises `PackagingError`."""
        path, root = stack.node.path, self._root or Path.cwd()
        if path not in self._archives:
            self._archives[path] = create_model_archive(stack, self.described, self.name, root)
        return self._archives[path]

    def host(
        self, scope: Construct, construct_id: str, hosting: Hosting, dependencies: ModelDependencies
    ) -> HostedModel:
        """Create the AWS::SageMaker::Model for an image and variables, or return it if it exists.

        It has no name on purpose: a model can't be updated, only replaced, and CloudFormation
        can't replace a resource that has a fixed name. The first one in the model's stack has the
        logical ID of a resource below the model, so that a deployed model stays.
        """
        stack = cdk.Stack.of(scope)
        runs = (stack.node.path, hosting.image, *sorted(hosting.variables.items()))
        dependencies = replace(dependencies, network=self.network)
        archive, policy = self.pack(stack), None
        if self.execution is not None:
            policy = self.execution.allow(scope, archive, hosting.image, dependencies)
        if runs in self._hosted:
            return self._hosted[runs]
        vpc = sagemaker.CfnModel.VpcConfigProperty(
            subnets=self.network.subnets, security_group_ids=self.network.security_groups
        )
        model = sagemaker.CfnModel(
            scope,
            construct_id,
            execution_role_arn=self.role_arn,
            # None and not False: the template contains only what was configured.
            enable_network_isolation=self.isolated or None,
            vpc_config=vpc if self.network.subnets else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                # A model package has its own; `image` is the one that the settings are chosen for.
                image=None if "model_package_name" in archive.data else hosting.image.uri,
                **archive.data,
                environment={**hosting.variables, **archive.variables},
            ),
        )
        if policy is not None:
            model.node.add_dependency(policy)
        if stack is cdk.Stack.of(self) and not self._hosted:
            below = cdk.CfnResource(self, "Resource", type=model.cfn_resource_type)
            model.override_logical_id(stack.get_logical_id(below))
            self.node.try_remove_child("Resource")
        fingerprint = compute_fingerprint(model)
        self._hosted[runs] = HostedModel(name=model.attr_model_name, fingerprint=fingerprint)
        return self._hosted[runs]

    def adapt_to_type(self, kind: str) -> "Model":
        """Return this model, or with `roles_by_type` a new one with `kind` in its ID and its own role."""
        if not self._roles_by_type:
            return self
        return Model(
            self._scope, f"{self.node.id}-{kind}", name=self.name, models=self.tables,
            network=self.network, role=self._role, role_rules=self._rules, root=self._root,
            archive_keys=self.described.endpoint.archive_kms_keys,
        )  # fmt: skip


def _build_artifact_table(
    where: str, artifact: Mapping[str, Any], tensorflow: str | None
) -> dict[str, ModelTable]:
    """Return the table of a model whose archive exists, by name. Raises ValueError."""
    known = {key: value for key, value in artifact.items() if value is not None}
    given = {"artifact": known, "tensorflow": _check_version(where, tensorflow)}
    return {MODEL_NAME: read_arguments(where, ModelTable, given)}


def _build_packed_table(
    where: str, folder: Path | str, archive: ArchiveSettings, given: Mapping[str, Any]
) -> ModelTable:
    """Return the table of a model whose files are on this computer. Raises ValueError."""
    is_version = (Path(folder) / "saved_model.pb").is_file()
    if not is_version and archive.version != 1 and Path(folder).is_dir():
        said = f"the names of the folders in {folder} set it; leave it out"
        raise ValueError(f"{where}: version: {said}")
    code = given["code"]
    installs = code is not None and Path(code, "requirements.txt").is_file()
    packed = {
        "saved_model": str(folder),
        "version": archive.version if is_version else None,
        "install": archive.install if installs else "vendored",
        "compression": archive.compression,
    }
    return read_arguments(where, ModelTable, {**packed, **given})


def _check_version(where: str, tensorflow: str | None) -> str | None:
    """Return the TensorFlow version. Raises ValueError if no image has it."""
    if tensorflow is not None and tensorflow not in images.list_versions():
        close = suggest_name(tensorflow, images.list_versions())
        raise ValueError(f"{where}: tensorflow: no image has {tensorflow!r}; {close}")
    return tensorflow
