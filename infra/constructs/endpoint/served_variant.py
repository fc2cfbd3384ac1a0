"""A variant of an environment file, with the SageMaker model that it runs."""

from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.model.archive import (
    Archive,
    packed_archive,
    pinned_archive,
    several_archives,
    unpacked_files,
)
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.model.served_model import ServedModel
from infra.constructs.monitoring.watched_endpoint import WatchedVariant
from infra.packing import archive_inputs
from infra.parameters.environment import Environment
from infra.parameters.placement import placement
from model_packaging.places import ARCHIVES, MADE

Config = sagemaker.CfnEndpointConfig


class ServedVariant(Construct):
    """A variant of an environment file as an `EndpointVariant`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        environment: Environment,
        root: Path,
        dependencies: ModelDependencies,
    ) -> None:
        """`name` is a variant of `environment`; `root` is the project that paths are relative to."""
        super().__init__(scope, construct_id)
        found = placement(environment, name, root)
        assert found is not None  # preflight: its instance type and model are known
        self.name = name
        self._placement = found
        self._variant = variant = found.variant
        self._hosting = found.hosting(environment.region)
        self._kind = kind = environment.kind
        self.scaled = variant.scaling is not None and kind.has_instances
        """Whether scaling sets the number of instances, also while `hold` suspends it."""
        self.shadow = variant.shadow
        self.capacity = variant.capacity
        self.start_seconds = found.start_seconds
        self._routing = found.routing.value
        self._price = environment.prices.instance(variant.instance_type or "", environment.region)
        self._archive = _archive(cdk.Stack.of(self), environment, variant.model, root)
        self.model = ServedModel(
            self,
            "Model",
            archive=self._archive,
            image=self._hosting.image,
            variables=self._hosting.variables,
            dependencies=replace(
                dependencies,
                execution_role_arn=found.model.execution_role
                or environment.endpoint.execution_role,
                core_dumps=variant.core_dumps,
            ),
            network_isolation=found.model.network_isolation
            or environment.security.network_isolation,
        )

    def production_variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """The variant's property of the endpoint configuration."""
        variant, runs = self._variant, self._hosting
        if variant.serverless is not None:
            return Config.ProductionVariantProperty(
                variant_name=self.name,
                model_name=self.model.name,
                initial_variant_weight=variant.weight,
                serverless_config=Config.ServerlessConfigProperty(
                    max_concurrency=variant.serverless.max_concurrency,
                    memory_size_in_mb=variant.serverless.memory_mib,
                    provisioned_concurrency=variant.serverless.provisioned_concurrency,
                ),
            )
        return Config.ProductionVariantProperty(
            variant_name=self.name,
            model_name=self.model.name,
            instance_type=variant.instance_type,
            initial_instance_count=variant.starts_with,
            initial_variant_weight=variant.weight,
            inference_ami_version=runs.inference_ami,
            volume_size_in_gb=variant.volume_gb,
            model_data_download_timeout_in_seconds=variant.download_timeout_seconds
            or runs.download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=variant.startup_timeout_seconds
            or runs.startup_timeout_seconds,
            routing_config=Config.RoutingConfigProperty(routing_strategy=str(self._routing).upper())
            if self._routing
            else None,
            enable_ssm_access=variant.ssm_access or None,
            core_dump_config=Config.CoreDumpConfigProperty(
                destination_s3_uri=variant.core_dumps.uri, kms_key_id=variant.core_dumps.kms_key
            )
            if variant.core_dumps
            else None,
        )

    @property
    def watched(self) -> WatchedVariant:
        """The variant as alarms and dashboards use it."""
        variant = self._variant
        return WatchedVariant(
            name=self.name,
            instance_type=variant.instance_type,
            min_instances=variant.min_instances,
            max_instances=variant.most_instances,
            scales=variant.scales and self._kind.has_instances,
            shadow=variant.shadow,
            price=self._price,
        )

    @property
    def recorded(self) -> dict[str, object]:
        """What the variant runs, for the record of the deployment, which a rollback needs."""
        return {
            "variant": self.name,
            "model": self._variant.model,
            "archive": self._archive.url,
            "image": self._hosting.image.uri,
            "tensorflow": self._hosting.tensorflow,
            "model_gib": self._placement.served.model_gib,
            "container": self._hosting.settings.model_dump(mode="json", exclude_none=True),
        }


def _archive(stack: cdk.Stack, environment: Environment, name: str, root: Path) -> Archive:
    model = environment.models[name]
    if model.artifact is not None:
        return pinned_archive(stack, model.artifact)
    return replace(
        _published(stack, environment, name, root), key_arns=environment.endpoint.archive_kms_keys
    )


def _published(stack: cdk.Stack, environment: Environment, name: str, root: Path) -> Archive:
    model = environment.models[name]
    if model.multi_model is not None:
        members = {
            one: archive_inputs(environment, one, root, at_root=True) for one in model.multi_model
        }
        return several_archives(stack, members, archives=root / ARCHIVES)
    inputs = archive_inputs(environment, name, root)
    if model.compression == "none":
        return unpacked_files(stack, inputs, made=root / MADE)
    return packed_archive(stack, inputs, archives=root / ARCHIVES)
