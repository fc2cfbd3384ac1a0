"""A variant of an environment file, with the SageMaker model that it runs."""

from collections.abc import Iterable, Sequence
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
from infra.parameters.placement import Placement, placements_of
from infra.policy.hosting import Hosting, driver_for_all
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
        every = placements_of(environment, name, root)
        found = every[0]  # preflight: its instance types and model are known
        self.name = name
        self._placement = found
        self._variant = variant = environment.variants[name]
        hosted = [one.hosting(environment.region) for one in every]
        self._hosting = hosted[0]
        self._on_types = hosted
        self._inference_ami = variant.inference_ami or driver_for_all(
            [(one.tensorflow, one.instance) for one in every]
        )
        self._kind = kind = environment.kind
        self.scaled = variant.scaling is not None and kind.has_instances
        """Whether scaling sets the number of instances, also while `hold` suspends it."""
        self.shadow = variant.shadow
        self.capacity = variant.capacity
        self.start_seconds = found.start_seconds
        self._routing = found.routing.value
        prices = {
            kind: environment.prices.instance(kind, environment.region)
            for kind in variant.instance_types
        }
        self._prices = {kind: price for kind, price in prices.items() if price is not None}
        self.other_models: tuple[ServedModel, ...] = ()
        """The models of instance types whose image or variables differ from the first one's."""
        self._archive = _archive(cdk.Stack.of(self), environment, variant.model, root)
        self._role = replace(
            dependencies,
            execution_role_arn=found.model.execution_role or environment.endpoint.execution_role,
            core_dumps=variant.core_dumps,
        )
        self._isolated = found.model.network_isolation or environment.security.network_isolation
        self.model = self._served("Model", self._hosting)
        self._pools = self._of_pools(every, hosted)

    def _served(self, construct_id: str, runs: Hosting) -> ServedModel:
        return ServedModel(
            self,
            construct_id,
            archive=self._archive,
            image=runs.image,
            variables=runs.variables,
            dependencies=self._role,
            network_isolation=self._isolated,
        )

    def _of_pools(
        self, every: Sequence[Placement], hosted: Sequence[Hosting]
    ) -> list[sagemaker.CfnEndpointConfig.InstancePoolProperty]:
        """The instance types in order, with a model of their own where image or variables differ."""
        if self._variant.instance_pools is None:
            return []
        models: list[tuple[Hosting, ServedModel]] = [(self._hosting, self.model)]
        pools = []
        for priority, (placed, runs) in enumerate(zip(every, hosted, strict=True), start=1):
            same = [
                model
                for other, model in models
                if (other.image, other.variables) == (runs.image, runs.variables)
            ]
            if not same:
                kind = placed.instance.name.removeprefix("ml.").replace(".", "-")
                same = [self._served(f"Model-{kind}", runs)]
                models.append((runs, same[0]))
            pools.append(
                Config.InstancePoolProperty(
                    instance_type=placed.instance.name,
                    priority=priority,
                    model_name_override=None if same[0] is self.model else same[0].name,
                )
            )
        self.other_models = tuple(model for _, model in models[1:])
        return pools

    def production_variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """The variant's property of the endpoint configuration."""
        variant = self._variant
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
            instance_pools=self._pools or None,
            variant_instance_provision_timeout_in_seconds=variant.provision_timeout_seconds,
            initial_instance_count=variant.starts_with,
            initial_variant_weight=variant.weight,
            inference_ami_version=self._inference_ami,
            volume_size_in_gb=variant.volume_gb,
            model_data_download_timeout_in_seconds=variant.download_timeout_seconds
            or self._longest(one.download_timeout_seconds for one in self._on_types),
            container_startup_health_check_timeout_in_seconds=variant.startup_timeout_seconds
            or self._longest(one.startup_timeout_seconds for one in self._on_types),
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

    @staticmethod
    def _longest(seconds: Iterable[int | None]) -> int | None:
        """A variant has one timeout, which the slowest instance type needs; None: SageMaker's own."""
        return max((one for one in seconds if one is not None), default=None)

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
            scales=variant.scales and self._kind.has_instances,
            shadow=variant.shadow,
            prices=self._prices,
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
