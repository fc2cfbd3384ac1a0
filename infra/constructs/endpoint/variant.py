"""A variant of an endpoint: instances or serverless containers, with the model that they run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.arguments import read_arguments
from infra.catalog.prices import Price
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.inference_component import (
    InferenceComponent,
    ScaledEndpoint,
    ScaledPart,
)
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.model.model import HostedModel, Model, choose_hosting
from infra.constructs.monitoring.watched_endpoint import WatchedVariant
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement, list_variant_placements
from infra.parameters.variant import Component as ComponentSettings
from infra.parameters.variant import Variant as VariantSettings
from infra.policy.hosting import Hosting, find_shared_driver

Config = sagemaker.CfnEndpointConfig
Property = sagemaker.CfnEndpointConfig.ProductionVariantProperty
Dependencies = Callable[[str], ModelDependencies]
"""Name of what is served, to what its containers need in addition to archive and image."""


class EndpointVariant(ScaledPart):
    """A production variant; `Endpoint.add_variant` creates it.

    The AWS::SageMaker::Model lies below it, because image and settings depend on the instance type.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ScaledEndpoint,
        name: str,
        endpoint_name: str,
        model: Model | None,
        table: VariantSettings,
        capacity_reservation: Config.CapacityReservationConfigProperty | None = None,
        scale_in_policy: Config.ScaleInPolicyProperty | None = None,
    ) -> None:
        """Store the variant's settings; `create_models` creates its models.

        `table` has the settings that an environment file has too.
        """
        super().__init__(scope, construct_id)
        self.name = self.key = name
        self._scope = scope
        self.model, self.table = model, table
        self._endpoint, self._endpoint_name = endpoint, endpoint_name
        self._reservation, self._scale_in_policy = capacity_reservation, scale_in_policy
        self.components: dict[str, InferenceComponent] = {}
        """The inference components on its instances, by name; none if it names its model itself."""
        self.overrides: dict[str, Any] = {}
        """Properties from `add_property_override`, by path."""
        self._placements: list[Placement] = []
        self._hostings: list[Hosting] = []
        self._hosted: list[HostedModel] = []
        self._pools: list[sagemaker.CfnEndpointConfig.InstancePoolProperty] | None = None
        self._prices: dict[str, Price] = {}
        self._inference_ami: str | None = None
        if model is not None and table.sleep_after_minutes is not None:
            alone = ComponentSettings(
                model=model.name,
                min_copies=0,
                max_copies=max(1, table.instance_limit),
                sleep_after_minutes=table.sleep_after_minutes,
            )
            self._create_component(name, model, alone, None)

    def add_component(
        self,
        name: str,
        model: Model,
        *,
        min_copies: int | None = None,
        max_copies: int | None = None,
        sleep_after_minutes: int | None = None,
        logs: EndpointLogs | None = None,
        settings: ComponentSettings | None = None,
    ) -> InferenceComponent:
        """Add copies of a model, which share the variant's instances with those of other models.

        name: Name in the endpoint. The component, which every request names, is ENDPOINT-NAME: unique in
            account and region.
        model: The model.
        min_copies: Minimum number of copies; 0 with sleep_after_minutes. Default: 1.
        max_copies: Maximum number of copies. Default: min_copies, at least 1.
        sleep_after_minutes: Minutes without a request after which no copy runs. Default: never.
        logs: Log group of the component. Default: a new one.
        settings: Further settings: memory, vCPUs, and GPUs of a copy. Default: derived from the model.
        """
        self._endpoint.require_open("add_component")
        if self.model is not None:
            raise ValueError(
                f"{self.node.path}: add_component: the variant has a model; leave out add_variant's model"
            )
        given = {
            "model": model.name,
            "min_copies": min_copies,
            "max_copies": max_copies,
            "sleep_after_minutes": sleep_after_minutes,
            **model.find_unset_settings(settings),
        }
        table = read_arguments(
            f"{self.node.path}: add_component", ComponentSettings, given, settings
        )
        added = self._create_component(name, model, table, logs)
        components = {key: each.table for key, each in self.components.items()}
        self.table = self.table.model_copy(update={"components": components})
        return added

    def _create_component(
        self, name: str, model: Model, table: ComponentSettings, logs: EndpointLogs | None
    ) -> InferenceComponent:
        self.components[name] = InferenceComponent(
            self._scope,
            f"Component-{name}",
            endpoint=self._endpoint,
            key=name,
            name=f"{self._endpoint_name}-{name}",
            model=model,
            table=table,
            logs=logs,
        )
        return self.components[name]

    def add_property_override(self, path: str, value: Any) -> None:
        """Set any property of the variant, as `ProductionVariants.N.PATH` of the endpoint configuration.

        path: Path in CloudFormation's spelling, for example "ManagedInstanceScaling.ScaleInPolicy.Strategy".
        value: Its value; None removes the property.
        """
        self._endpoint.require_open("add_property_override")
        self.overrides[path] = value

    @property
    def served_models(self) -> Mapping[str, Model]:
        """Return the models that it serves, by name.

        They are its own model under the variant's name, or the model of each component.
        """
        if self.model is not None:
            return {self.name: self.model}
        return {name: each.model for name, each in self.components.items()}

    @property
    def shadow(self) -> bool:
        """Return whether it gets copies of requests and its responses are discarded."""
        return self.table.shadow

    @property
    def is_scaled(self) -> bool:
        """Return whether scaling sets the number of instances, which an update then keeps.

        Scaling on hold counts too.
        """
        instances = self.table.serverless is None
        return (self.table.has_copies or self.table.scaling is not None) and instances

    @property
    def capacity(self) -> tuple[int, int]:
        """Return the bounds of scaling: instances, copies, or provisioned concurrency."""
        return self.table.capacity

    @property
    def start_seconds(self) -> float | None:
        """Return the estimated seconds until a new instance responds, or None if unknown."""
        return self._placements[0].start_seconds

    def create_models(self, described: Environment, needs: Dependencies) -> None:
        """Choose images and settings, and create the SageMaker models and their roles' policies.

        `described` is the endpoint as an environment file describes it. Raises ValueError for an
        unknown instance type, or if no AMI supports all instance types.
        """
        self._prices = {
            kind: price
            for kind in self.table.instance_types
            if (price := described.prices.find_instance_price(kind, described.region))
        }
        for name, model in self.served_models.items():
            placed = list_variant_placements(
                _substitute_model(described, self.name, name, model), name
            )
            if not placed:
                raise ValueError(
                    f"{self.node.path}: instance_type: the catalog doesn't have {self.table.instance_type!r}"
                )
            self._placements += placed
        stack = cdk.Stack.of(self)
        self._hostings = [choose_hosting(stack, placed) for placed in self._placements]
        self._inference_ami = self._placements[0].driver.value
        if len(self._placements) > 1 and self.table.inference_ami is None:
            # A variant has one AMI for all of its types.
            try:
                self._inference_ami = find_shared_driver(
                    [(placed.tensorflow, placed.whole_instance) for placed in self._placements]
                )
            except KeyError as types:
                raise ValueError(
                    f"{self.node.path}: instance_pools: no AMI is for all of {types}; pass types of one "
                    "family"
                ) from None
        self._host(needs)

    def _host(self, needs: Dependencies) -> None:
        """Create a model for each component or instance type.

        Instance types with the same image and variables share one.
        """
        served, hosted = self.served_models, []
        runs: list[tuple[object, HostedModel]] = []
        for placed, hosting in zip(self._placements, self._hostings, strict=True):
            model = served[placed.name]
            same = [each for how, each in runs if how == (model, hosting.image, hosting.variables)]
            if same:
                hosted.append(same[0])
                continue
            construct_id, hosts = "Model", model
            if self.model is None:
                construct_id = f"Model-{placed.name}"
            elif runs:
                kind = (placed.instance.name).removeprefix("ml.").replace(".", "-")
                construct_id, hosts = f"Model-{kind}", model.adapt_to_type(placed.instance.name)
            one = hosts.host(self, construct_id, hosting, needs(placed.name))
            runs.append(((model, hosting.image, hosting.variables), one))
            hosted.append(one)
        self._hosted = hosted
        if self.table.instance_pools is not None:
            self._pools = [
                Config.InstancePoolProperty(
                    instance_type=placed.instance.name,
                    priority=number,
                    model_name_override=None if one is hosted[0] else one.name,
                )
                for number, (placed, one) in enumerate(
                    zip(self._placements, hosted, strict=True), start=1
                )
            ]

    @property
    def fingerprints(self) -> list[str]:
        """Return the fingerprints of the models that it runs."""
        return list(dict.fromkeys(hosted.fingerprint for hosted in self._hosted))

    def create_components(self, endpoint: sagemaker.CfnEndpoint) -> None:
        """Create the resources of the inference components."""
        if not self.components:
            return
        for component, placed, hosted in zip(
            self.components.values(), self._placements, self._hosted, strict=True
        ):
            component.create(endpoint, self.name, placed, hosted)

    def build_production_variant(self) -> Property:
        """Return the variant's property of the endpoint configuration."""
        table, routing = self.table, self._placements[0].routing.value
        if (serverless := table.serverless) is not None:
            return Property(
                variant_name=self.name,
                model_name=self._hosted[0].name,
                initial_variant_weight=table.weight,
                serverless_config=Config.ServerlessConfigProperty(
                    max_concurrency=serverless.max_concurrency,
                    memory_size_in_mb=serverless.memory_mib,
                    provisioned_concurrency=serverless.provisioned_concurrency,
                ),
            )
        dumps = table.core_dumps
        return Property(
            variant_name=self.name,
            model_name=None if self.components else self._hosted[0].name,
            managed_instance_scaling=self._build_managed_scaling() if self.components else None,
            instance_type=table.instance_type,
            instance_pools=self._pools,
            variant_instance_provision_timeout_in_seconds=table.provision_timeout_seconds,
            # The minimum of a scaled variant isn't used here, so that changing it replaces no fleet.
            initial_instance_count=table.configured_instances,
            initial_variant_weight=table.weight,
            inference_ami_version=self._inference_ami,
            volume_size_in_gb=table.volume_gb,
            model_data_download_timeout_in_seconds=self._find_longest_timeout(
                "download_timeout_seconds"
            ),
            container_startup_health_check_timeout_in_seconds=self._find_longest_timeout(
                "startup_timeout_seconds"
            ),
            routing_config=Config.RoutingConfigProperty(routing_strategy=str(routing).upper())
            if routing
            else None,
            enable_ssm_access=table.ssm_access or None,
            core_dump_config=Config.CoreDumpConfigProperty(
                destination_s3_uri=dumps.uri, kms_key_id=dumps.kms_key
            )
            if dumps
            else None,
            capacity_reservation_config=self._reservation,
        )

    def _build_managed_scaling(self) -> sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty:
        """Return the property that lets SageMaker add and remove instances.

        It does so as the copies of components need them.
        """
        least, most = self.table.capacity
        return Config.ManagedInstanceScalingProperty(
            status="ENABLED",
            min_instance_count=least,
            max_instance_count=most,
            scale_in_policy=self._scale_in_policy,
        )

    def _find_longest_timeout(self, timeout: str) -> int | None:
        """Return the timeout of the slowest instance type, or None for SageMaker's default."""
        seconds = [placed.timeouts[timeout].value for placed in self._placements]
        return max(filter(None, seconds), default=None)

    @property
    def watched(self) -> WatchedVariant:
        """Return the variant as alarms and dashboards use it."""
        table = self.table
        return WatchedVariant(
            name=self.name,
            instance_type=next(iter(table.instance_types), None),
            pools=table.instance_types if table.instance_pools else (),
            component=self.components[self.name].name if self.model and self.components else None,
            min_instances=table.min_instances,
            max_instances=table.instance_limit,
            shared=bool(table.components),
            scales=(table.is_scaled or bool(table.components)) and table.serverless is None,
            shadow=table.shadow,
            prices=self._prices,
        )

    @property
    def records(self) -> Sequence[dict[str, Any]]:
        """Return model, image, and settings for the deployment record, which a rollback needs.

        They are those of the variant on its preferred instance type, or of each of its
        components.
        """
        return [
            {
                "variant": placed.name,
                "model": placed.variant.model,
                "archive": self.served_models[placed.name].pack(cdk.Stack.of(self)).url,
                "image": hosting.image.uri,
                "tensorflow": hosting.tensorflow,
                "model_gib": placed.served.model_gib,
                "container": placed.settings.model_dump(mode="json", exclude_none=True),
            }
            for placed, hosting in zip(self._placements, self._hostings, strict=True)
            if not placed.pool
        ]


def _substitute_model(described: Environment, host: str, name: str, model: Model) -> Environment:
    """Return the environment with a variant or component that uses its own model's tables.

    Two models of an endpoint may have the same name in their containers, such as two versions.
    """
    variant = described.variants[host]
    if variant.components:
        component = variant.components[name].model_copy(update={"model": model.name})
        update: dict[str, Any] = {"components": {**variant.components, name: component}}
    else:
        update = {"model": model.name}
    variants = {**described.variants, host: variant.model_copy(update=update)}
    models = {**described.models, **model.tables}
    return described.model_copy(update={"variants": variants, "models": models})
