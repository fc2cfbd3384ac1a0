"""A variant of an environment file, with the SageMaker model that it runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.endpoint_variant import managed
from infra.constructs.endpoint.inference_component import ModelCopies
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
from infra.parameters.placement import Placement, placements_of
from infra.parameters.variant import Serverless
from infra.policy.hosting import Hosting, driver_for_all
from model_packaging.beside import ARCHIVES, MADE

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
        logs: Mapping[str, EndpointLogs],
    ) -> None:
        """`name` is a variant of `environment`; `root` is the project, where archives are packed. `logs` are
        the log groups of what it serves, by name in `Environment.served`."""
        super().__init__(scope, construct_id)
        self.name = name
        self._variant = variant = environment.variants[name]
        # Preflight: its instance types and models are in the catalog.
        self._placements = placements = [
            placed
            for each in variant.components or (name,)
            for placed in placements_of(environment, each)
        ]
        self._placement = placements[0]
        self._hostings = [placement.hosting(environment.region) for placement in placements]
        self._inference_ami = self._placement.driver.value
        if len(placements) > 1 and variant.inference_ami is None:
            hosts = [(placement.tensorflow, placement.whole) for placement in placements]
            self._inference_ami = driver_for_all(
                hosts
            )  # a variant has one AMI for all of its types
        self._kind = environment.kind
        self.scaled = (
            variant.has_copies or variant.scaling is not None
        ) and self._kind.has_instances
        """Whether scaling sets the number of instances, also while `hold` suspends it."""
        self.shadow = variant.shadow
        self.capacity = variant.capacity
        self.start_seconds = self._placement.start_seconds
        self._prices = {}
        for kind in variant.instance_types:
            if price := environment.prices.instance(kind, environment.region):
                self._prices[kind] = price
        self.other_models: tuple[ServedModel, ...] = ()
        """The models of instance types whose image or variables differ from the first one's, and of
        components after the first."""
        self._environment, self._root = environment, root
        self._dependencies, self._logs = dependencies, logs
        self._archives = {
            placed.name: model_archive(cdk.Stack.of(self), environment, placed.variant.model, root)
            for placed in placements
        }
        self._pools: list[sagemaker.CfnEndpointConfig.InstancePoolProperty] | None = None
        self.copies: list[ModelCopies] = []
        if variant.components:
            self._add_components()
        else:
            self.model = self._served("Model", placements[0], self._hostings[0])
            if variant.sleeps:
                self.copies = [self._copies(placements[0], self.model)]
            self._pools = self._instance_pools() if variant.instance_pools else None

    def _add_components(self) -> None:
        served = [
            self._served(f"Model-{placed.name}", placed, hosting)
            for placed, hosting in zip(self._placements, self._hostings, strict=True)
        ]
        self.model, *others = served
        self.other_models = tuple(others)
        self.copies = list(map(self._copies, self._placements, served))

    def _copies(self, placed: Placement, model: ServedModel) -> ModelCopies:
        least, most = placed.variant.capacity
        timeouts = {name: choice.value for name, choice in placed.timeouts.items()}
        return ModelCopies(
            name=placed.name,
            model=model,
            min_copies=least,
            max_copies=most,
            sleep_after_minutes=placed.variant.sleep_after_minutes,
            memory_mib=placed.copy_memory_mib.value,
            cpus=placed.copy_cpus.value,
            gpus=placed.copy_gpus.value,
            **timeouts,
        )

    def _served(self, construct_id: str, placed: Placement, hosting: Hosting) -> ServedModel:
        environment, logs = self._environment, self._logs[placed.name]
        model = ServedModel(
            self,
            construct_id,
            archive=self._archives[placed.name],
            image=hosting.image,
            environment=hosting.variables,
            dependencies=replace(
                self._dependencies,
                log_group_arn=logs.arn,
                execution_role_arn=placed.model.execution_role
                or environment.endpoint.execution_role,
                core_dumps=self._variant.core_dumps,
            ),
            network_isolation=placed.model.network_isolation
            or environment.security.network_isolation,
        )
        model.logs = logs
        return model

    def _instance_pools(self) -> list[sagemaker.CfnEndpointConfig.InstancePoolProperty]:
        """The instance types in order, with a model of their own where image or variables differ."""
        first = self._hostings[0]
        models = [(first.image, first.variables, self.model)]
        pools: list[sagemaker.CfnEndpointConfig.InstancePoolProperty] = []
        instance_types = self._variant.instance_types
        for hosting, instance_type in zip(self._hostings, instance_types, strict=True):
            runs = hosting.image, hosting.variables
            same = (model for image, variables, model in models if (image, variables) == runs)
            model = next(same, None)
            if model is None:
                kind = instance_type.removeprefix("ml.").replace(".", "-")
                model = self._served(f"Model-{kind}", self._placement, hosting)
                models.append((*runs, model))
            pools.append(
                Config.InstancePoolProperty(
                    instance_type=instance_type,
                    priority=len(pools) + 1,
                    model_name_override=None if model is self.model else model.name,
                )
            )
        self.other_models = tuple(model for *_, model in models[1:])
        return pools

    def production_variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """The variant's property of the endpoint configuration."""
        variant, routing = self._variant, self._placement.routing.value
        if variant.serverless is not None:
            return self._in_serverless_containers(variant.serverless)
        return Config.ProductionVariantProperty(
            variant_name=self.name,
            model_name=None if self.copies else self.model.name,
            managed_instance_scaling=managed(*variant.capacity) if self.copies else None,
            instance_type=variant.instance_type,
            instance_pools=self._pools,
            variant_instance_provision_timeout_in_seconds=variant.provision_timeout_seconds,
            initial_instance_count=variant.starts_with,
            initial_variant_weight=variant.weight,
            inference_ami_version=self._inference_ami,
            volume_size_in_gb=variant.volume_gb,
            model_data_download_timeout_in_seconds=self._longest("download_timeout_seconds"),
            container_startup_health_check_timeout_in_seconds=self._longest(
                "startup_timeout_seconds"
            ),
            routing_config=Config.RoutingConfigProperty(routing_strategy=str(routing).upper())
            if routing
            else None,
            enable_ssm_access=variant.ssm_access or None,
            core_dump_config=Config.CoreDumpConfigProperty(
                destination_s3_uri=variant.core_dumps.uri, kms_key_id=variant.core_dumps.kms_key
            )
            if variant.core_dumps
            else None,
        )

    def _in_serverless_containers(
        self, serverless: Serverless
    ) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        return Config.ProductionVariantProperty(
            variant_name=self.name,
            model_name=self.model.name,
            initial_variant_weight=self._variant.weight,
            serverless_config=Config.ServerlessConfigProperty(
                max_concurrency=serverless.max_concurrency,
                memory_size_in_mb=serverless.memory_mib,
                provisioned_concurrency=serverless.provisioned_concurrency,
            ),
        )

    def _longest(self, timeout: str) -> int | None:
        """A variant has one timeout, which the slowest instance type needs; None: SageMaker's own."""
        seconds = [placement.timeouts[timeout].value for placement in self._placements]
        return max(filter(None, seconds), default=None)

    @property
    def watched(self) -> WatchedVariant:
        """The variant as alarms and dashboards use it."""
        variant = self._variant
        return WatchedVariant(
            name=self.name,
            instance_type=next(iter(variant.instance_types), None),
            pools=variant.instance_types if variant.instance_pools else (),
            min_instances=variant.min_instances,
            max_instances=variant.most_instances,
            shared=bool(variant.components),
            scales=(variant.scales or bool(variant.components)) and self._kind.has_instances,
            shadow=variant.shadow,
            prices=self._prices,
        )

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """Model, image and settings for the record of the deployment, which a rollback needs.

        A variant's on its preferred instance type, or those of each of its components.
        """
        return [
            {
                "variant": placed.name,
                "model": placed.variant.model,
                "archive": self._archives[placed.name].url,
                "image": hosting.image.uri,
                "tensorflow": hosting.tensorflow,
                "model_gib": placed.served.model_gib,
                "container": placed.settings.model_dump(mode="json", exclude_none=True),
            }
            for placed, hosting in zip(self._placements, self._hostings, strict=True)
            if not placed.pool
        ]


def model_archive(stack: cdk.Stack, environment: Environment, name: str, root: Path) -> Archive:
    """The archive of a model of an environment file. `root` is the project. Raises `PackagingError`."""
    model = environment.models[name]
    if model.artifact is not None:
        return pinned_archive(stack, model.artifact)
    if model.multi_model is not None:
        members = {
            member: archive_inputs(environment, member, root, at_root=True)
            for member in model.multi_model
        }
        archive = several_archives(stack, members, archives=root / ARCHIVES)
    elif model.compression == "none":
        inputs = archive_inputs(environment, name, root)
        archive = unpacked_files(stack, inputs, made=root / MADE)
    else:
        inputs = archive_inputs(environment, name, root)
        archive = packed_archive(stack, inputs, archives=root / ARCHIVES)
    return replace(archive, key_arns=environment.endpoint.archive_kms_keys)
