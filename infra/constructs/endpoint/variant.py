"""A variant of an endpoint: instances or serverless containers, with the model that they run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.arguments import check_kind, read_arguments
from infra.catalog.prices import Price
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.inference_component import (
    InferenceComponent,
    ScaledEndpoint,
    ScaledPart,
)
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.model.hosting import choose_hosting
from infra.constructs.model.model import HostedModel, Model
from infra.constructs.monitoring.watched_endpoint import WatchedVariant
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement, list_variant_placements
from infra.parameters.variant import Component as ComponentSettings
from infra.parameters.variant import Variant as VariantSettings
from infra.policy.hosting import Hosting, find_shared_ami

Config = sagemaker.CfnEndpointConfig
Property = Config.ProductionVariantProperty


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
        model: Model | None,
        table: VariantSettings,
        capacity_reservation: Config.CapacityReservationConfigProperty | None = None,
        scale_in_policy: Config.ScaleInPolicyProperty | None = None,
    ) -> None:
        """Store the settings; `create_models` creates the models. `table` has those of a file."""
        super().__init__(scope, construct_id)
        self.name = self.key = name
        self.model, self.table = model, table
        self._scope, self._endpoint = scope, endpoint
        self._reservation, self._scale_in_policy = capacity_reservation, scale_in_policy
        self.components: dict[str, InferenceComponent] = {}
        """The inference components on its instances, by name; none if it names its model itself."""
        self.overrides: dict[str, Any] = {}
        """Properties from `add_property_override`, by path."""
        self._placements: list[Placement] = []
        self._hostings: list[Hosting] = []
        self._hosted: list[HostedModel] = []
        self._pools: list[Config.InstancePoolProperty] | None = None
        self._prices: dict[str, Price] = {}
        self._inference_ami: str | None = None
        if model is not None and table.sleep_after_minutes is not None:
            alone = ComponentSettings(
                model=model.name, min_copies=0, max_copies=max(1, table.instance_limit),
                sleep_after_minutes=table.sleep_after_minutes,
            )  # fmt: skip
            self._create_component(name, model, alone)

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
        where = f"{self.node.path}: add_component"
        if self.model is not None:
            raise ValueError(f"{where}: the variant has a model; leave out add_variant's model")
        check_kind(where, "model", model=model)
        given = {
            "model": model.name,
            "min_copies": min_copies,
            "max_copies": max_copies,
            "sleep_after_minutes": sleep_after_minutes,
            **model.find_unset_settings(settings),
        }
        table = read_arguments(where, ComponentSettings, given, settings)
        added = self._create_component(name, model, table, logs)
        components = {key: each.table for key, each in self.components.items()}
        self.table = self.table.model_copy(update={"components": components})
        return added

    def _create_component(
        self, name: str, model: Model, table: ComponentSettings, logs: EndpointLogs | None = None
    ) -> InferenceComponent:
        self.components[name] = InferenceComponent(
            self._scope, f"Component-{name}", endpoint=self._endpoint, key=name, model=model,
            table=table, logs=logs,
        )  # fmt: skip
        return self.components[name]

    def create_component_logs(self, given: EndpointLogs | None) -> dict[str, EndpointLogs]:
        """Return the log group of each component, by name, creating those that are missing.

        A component that is the variant's own model uses `given`, the endpoint's log group.
        """
        name, own = self._endpoint.name, given if self.model else None
        return {
            key: each.logs
            or own
            or EndpointLogs(each, "Logs", endpoint_name=name, component=each.name)
            for key, each in self.components.items()
        }

    def add_property_override(self, path: str, value: Any) -> None:
        """Set any property of the variant, as `ProductionVariants.N.PATH` of the endpoint configuration.

        path: Path in CloudFormation's spelling, for example "ManagedInstanceScaling.ScaleInPolicy.Strategy".
        value: Its value; None removes the property.
        """
        self._endpoint.require_open("add_property_override")
        self.overrides[path] = value

    @property
    def served_models(self) -> Mapping[str, Model]:
        """Return its own model by the variant's name, or the model of each component by its name."""
        if self.model is not None:
            return {self.name: self.model}
        return {name: each.model for name, each in self.components.items()}

    @property
    def is_scaled(self) -> bool:
        """Return whether scaling, or scaling on hold, sets the number of instances."""
        instances = self.table.serverless is None
        return (self.table.has_copies or self.table.scaling is not None) and instances

    @property
    def start_seconds(self) -> float | None:
        """Return the estimated seconds until a new instance responds, or None if unknown."""
        return self._placements[0].start_seconds

    def create_models(
        self, described: Environment, needs: ModelDependencies, logs: Mapping[str, EndpointLogs]
    ) -> None:
        """Choose images and settings, and create the SageMaker models and their roles' policies.

        `described` is the endpoint as a file describes it, and `needs` what every model needs. Raises
        ValueError if no AMI supports all instance types.
        """
        self._prices = {
            kind: price
            for kind in self.table.instance_types
            if (price := described.prices.find_instance_price(kind, described.region))
        }
        for name, model in self.served_models.items():
            with_model = _substitute_model(described, self.name, name, model)
            self._placements += list_variant_placements(with_model, name)
        stack = cdk.Stack.of(self)
        self._hostings = [choose_hosting(stack, placed) for placed in self._placements]
        self._inference_ami = self._placements[0].driver.value
        if len(self._placements) > 1 and self.table.inference_ami is None:
            # A variant has one AMI for all of its types.
            run = [(placed.tensorflow, placed.whole_instance) for placed in self._placements]
            try:
                self._inference_ami = find_shared_ami(run)
            except KeyError as types:
                said = f"no AMI supports all of {types}; pass types of one family"
                raise ValueError(f"{self.node.path}: instance_pools: {said}") from None
        self._host(replace(needs, core_dumps=self.table.core_dumps), logs)

    def _host(self, needs: ModelDependencies, logs: Mapping[str, EndpointLogs]) -> None:
        """Create a model for each component or instance type; those of the same variables share one."""
        runs: dict[tuple[object, ...], HostedModel] = {}
        for placed, hosting in zip(self._placements, self._hostings, strict=True):
            model = self.served_models[placed.name]
            run = (model, hosting.image, *sorted(hosting.variables.items()))
            if run not in runs:
                construct_id = "Model"
                if self.model is None:
                    construct_id = f"Model-{placed.name}"
                elif runs:
                    kind = placed.instance.name.removeprefix("ml.").replace(".", "-")
                    construct_id, model = f"Model-{kind}", model.adapt_to_type(kind)
                own = replace(needs, log_group_arn=logs[placed.name].arn)
                runs[run] = model.host(self, construct_id, hosting, own)
            self._hosted.append(runs[run])
        if self.table.instance_pools is not None:
            hosted = zip(self._placements, self._hosted, strict=True)
            self._pools = [
                Config.InstancePoolProperty(
                    instance_type=placed.instance.name,
                    priority=number,
                    model_name_override=None if one is self._hosted[0] else one.name,
                )
                for number, (placed, one) in enumerate(hosted, start=1)
            ]

    @property
    def fingerprints(self) -> list[str]:
        """Return the fingerprints of the models that it runs."""
        return list(dict.fromkeys(hosted.fingerprint for hosted in self._hosted))

    def create_components(self, endpoint: sagemaker.CfnEndpoint) -> None:
        """Create the resources of the inference components."""
        if self.components:
            hosted = zip(self.components.values(), self._placements, self._hosted, strict=True)
            for component, placed, model in hosted:
                component.create(endpoint, self.name, placed, model)

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
        # SageMaker adds and removes instances as copies need them.
        least, most = table.capacity
        managed = Config.ManagedInstanceScalingProperty(
            status="ENABLED",
            min_instance_count=least,
            max_instance_count=most,
            scale_in_policy=self._scale_in_policy,
        )
        dumps, longest, router = table.core_dumps, self._find_longest_timeout, None
        if routing:
            router = Config.RoutingConfigProperty(routing_strategy=str(routing).upper())
        return Property(
            variant_name=self.name,
            model_name=None if self.components else self._hosted[0].name,
            managed_instance_scaling=managed if self.components else None,
            instance_type=table.instance_type,
            instance_pools=self._pools,
            variant_instance_provision_timeout_in_seconds=table.provision_timeout_seconds,
            # The minimum of a scaled variant isn't used here, so that changing it replaces no fleet.
            initial_instance_count=table.configured_instances,
            initial_variant_weight=table.weight,
            inference_ami_version=self._inference_ami,
            volume_size_in_gb=table.volume_gb,
            model_data_download_timeout_in_seconds=longest("download_timeout_seconds"),
            container_startup_health_check_timeout_in_seconds=longest("startup_timeout_seconds"),
            routing_config=router,
            enable_ssm_access=table.ssm_access or None,
            core_dump_config=Config.CoreDumpConfigProperty(
                destination_s3_uri=dumps.uri, kms_key_id=dumps.kms_key
            )
            if dumps
            else None,
            capacity_reservation_config=self._reservation,
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

        They are those of the preferred instance type, or of each component.
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
    variant, update = described.variants[host], dict[str, Any](model=model.name)
    if variant.components:
        component = variant.components[name].model_copy(update=update)
        update = {"components": {**variant.components, name: component}}
    variants = {**described.variants, host: variant.model_copy(update=update)}
    models = {**described.models, **model.tables}
    return described.model_copy(update={"variants": variants, "models": models})
