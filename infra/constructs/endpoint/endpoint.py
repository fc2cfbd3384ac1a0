"""The endpoint: its variants, and what scales, watches, and updates them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.arguments import check_kind, read_arguments
from infra.constructs.endpoint.endpoint_base import BELOW, Creation, EndpointBase
from infra.constructs.endpoint.endpoint_checks import (
    AtSynthesis,
    add_findings,
    build_environment,
    check_endpoint_name,
    check_instances,
    check_variant_name,
)
from infra.constructs.endpoint.endpoint_config import EndpointConfig
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.imported_endpoint import ImportedEndpoint
from infra.constructs.endpoint.inference_component import InferenceComponent, ScaledPart
from infra.constructs.endpoint.variant import EndpointVariant
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.model.model import Model
from infra.constructs.model.network import connect_security_groups
from infra.constructs.monitoring.watched_endpoint import Tables, WatchedEndpoint, WatchedVariant
from infra.constructs.rollout.endpoint_rollout import EndpointRollout
from infra.constructs.scaling.endpoint_scaling import EndpointScaling, keep_scaled_capacity
from infra.constructs.storage.locations import AsyncInference, DataCapture
from infra.parameters.endpoint import Traffic
from infra.parameters.environment import Environment
from infra.parameters.monitoring import Alarms, Metrics
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.parameters.variant import Variant as VariantSettings
from infra.policy.hosting import EndpointKind, select_kind

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2


class Endpoint(EndpointBase):
    """An endpoint, its configuration, and its log group. Add variants, and then what operates them.

    The order of calls doesn't change the template: the constructs are created when the app is synthesized, or
    when you read `alarms`. `cdk synth` runs the rules of `servable check`; a finding is an
    annotation of the construct that it is about.

    endpoint_name: Name that callers invoke, unique in account and region.
    volume_key: KMS key of the instances' volumes: a key, or its ID, alias, or ARN. Default: a temporary key
        of SageMaker's.
    logs: Log group, which must exist before the endpoint. Default: a new one.
    protect: Whether CloudFormation retains the endpoint when its stack is deleted. Default: False.
    production: Whether callers depend on it, so that rules about redundancy apply. Default: False.
    acknowledge: Findings that are accepted: rule to reason. Default: none.
    variant_order: Names of the variants as the deployed configuration lists them; a different order replaces
        it. Default: sorted.
    capture: Samples that are kept in S3. Default: none.
    async_inference: Queue of an asynchronous endpoint. Default: none, the endpoint responds at once.
    metrics: Detailed observability and enhanced metrics. Default: neither.
    traffic: Requests of the callers, for rules that need them. Default: unknown.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        volume_key: kms.IKey | str | None = None,
        logs: EndpointLogs | None = None,
        protect: bool = False,
        production: bool = False,
        acknowledge: Mapping[str, str] | None = None,
        variant_order: Sequence[str] | None = None,
        capture: DataCapture | None = None,
        async_inference: AsyncInference | None = None,
        metrics: Metrics | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name = endpoint_name
        check_endpoint_name(self.node.path, endpoint_name, logs)
        self.locations = async_inference.locations if async_inference else None
        self._file: Environment | None = None
        self._logs, self._order = logs, list(variant_order or ())
        self._capture, self._async_inference = capture, async_inference
        self._metrics = metrics or Metrics()
        key_arn: str | None = getattr(volume_key, "key_arn", None)
        self._volume_key_arn = volume_key if isinstance(volume_key, str) else key_arn
        self._checked = {
            "production": production,
            "metrics": self._metrics,
            "traffic": traffic or Traffic(),
            "capture": capture.capture if capture else None,
            "asynchronous": async_inference.asynchronous if async_inference else None,
            "acknowledge": dict(acknowledge or {}),
        }
        self._variants: dict[str, EndpointVariant] = {}
        self._later: list[tuple[int, Construct, Creation]] = []
        self._created = False
        self.tables: Tables = {}
        """The tables of an environment file that other constructs of this endpoint stand for."""
        self.config = EndpointConfig(
            self, "Config", metrics=self._metrics, volume_key_arn=self._volume_key_arn,
            capture=capture, async_inference=async_inference,
        )  # fmt: skip
        """The endpoint configuration."""
        config_name = self.config.endpoint_config_name
        self.resource = sagemaker.CfnEndpoint(
            self, "Resource", endpoint_name=endpoint_name, endpoint_config_name=config_name
        )
        """The resource itself, for what CDK calls an escape hatch."""
        if protect:
            # If a failed creation retained it too, the next attempt would fail with "already exists".
            self.resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self.node.add_validation(AtSynthesis(self))
        self._schedule_creation(self)

    def add_variant(
        self,
        name: str,
        model: Model | None = None,
        *,
        instance_type: str | None = None,
        min_instances: int | None = None,
        max_instances: int | None = None,
        weight: float | None = None,
        shadow: bool | None = None,
        sleep_after_minutes: int | None = None,
        settings: VariantSettings | None = None,
        capacity_reservation: sagemaker.CfnEndpointConfig.CapacityReservationConfigProperty
        | None = None,
        scale_in_policy: sagemaker.CfnEndpointConfig.ScaleInPolicyProperty | None = None,
    ) -> EndpointVariant:
        """Add a production variant. Raises ValueError for an argument that doesn't fit.

        name: Name of the variant, unique in its endpoint.
        model: The model. Default: none, `add_component` adds models that share the instances.
        instance_type: SageMaker instance type, for example ml.c5.xlarge. Default: that of `settings`, which
            may have instance_pools or serverless instead.
        min_instances: Minimum number of instances; without `auto_scale` this is how many run. Default: 1.
        max_instances: Maximum number of instances that scaling may run. Default: min_instances.
        weight: Share of the traffic relative to the other variants. Default: 1, an even split.
        shadow: Whether it is a shadow, which gets copies of requests. Default: False.
        sleep_after_minutes: Minutes without a request after which no instance runs. Default: never.
        settings: Further settings: routing, ssm_access, core_dumps, instance_pools, serverless, timeouts,
            volume_gb, and so on. Default: none.
        capacity_reservation: ML capacity reservation for the instances. Default: none.
        scale_in_policy: How SageMaker removes instances of components. Default: SageMaker's own.
        """
        where = f"{self.node.path}: add_variant"
        self.require_open("add_variant")
        check_variant_name(where, name, self._variants)
        check_kind(where, "model", model=model)
        given: dict[str, Any] = {
            "model": model.name if model else None,
            "instance_type": instance_type,
            "min_instances": min_instances,
            "max_instances": max_instances,
            "weight": weight,
            "shadow": shadow,
            "sleep_after_minutes": sleep_after_minutes,
            **(model.find_unset_settings(settings) if model else {}),
        }
        table = read_arguments(where, VariantSettings, given, settings)
        check_instances(where, table)
        variant = EndpointVariant(
            self, f"Variant-{name}", endpoint=self, name=name, model=model,
            # add_component adds them, each with its model.
            table=table.model_copy(update={"components": {}}),
            capacity_reservation=capacity_reservation, scale_in_policy=scale_in_policy,
        )  # fmt: skip
        self._variants[name] = variant
        if model is not None and model.execution is not None:
            self._schedule_creation(model.execution)
        return variant

    def roll_out(
        self,
        *,
        canary_percent: int | None = None,
        bake_minutes: int | None = None,
        settings: Rollout | None = None,
        construct_id: str | None = None,
    ) -> None:
        """Replace the fleet step by step in every update, and roll it back by alarms on the new fleet.

        The thresholds are those of `add_alarms`.

        canary_percent: Share of the requests that the new fleet gets first. Default: that of `settings`.
        bake_minutes: Minutes that the alarms watch each step. Default: that of `settings`.
        settings: Further settings: strategy, steps, and batches. Default: `Rollout()`.
        construct_id: ID next to the endpoint, for a rollout that is deployed. Default: Rollout, below it.
        """
        where = f"{self.node.path}: roll_out"
        given: dict[str, Any] = {"canary_percent": canary_percent, "bake_minutes": bake_minutes}
        if canary_percent is not None and settings is None:
            given["strategy"] = "canary"
        rollout = read_arguments(where, Rollout, given, settings)

        def create(place: Construct) -> None:
            alarms = self._thresholds or Alarms()
            EndpointRollout(place, BELOW, endpoint=self, rollout=rollout, alarms=alarms)

        self._add_content(0, "roll_out", construct_id, "Rollout", create)
        self._guarded, self._checked["rollout"] = True, rollout

    def add_scaling(self, part: ScaledPart, settings: Scaling, construct_id: str | None) -> None:
        """Scale a variant or component; its `auto_scale` calls this."""
        variant = self.find_variant(part.key)
        component = variant.components.get(part.key)
        scaled = component if component is not None and variant.model is None else variant
        scaled.table = scaled.table.model_copy(update={"scaling": settings})

        def create(place: Construct) -> None:
            made = EndpointScaling(place, BELOW, endpoint=self, variant=part.key, scaling=settings)
            part.target = made.target

        if not settings.hold:
            self._add_content(1, "auto_scale", construct_id, f"Scaling-{part.key}", create)

    @property
    def variants(self) -> tuple[EndpointVariant, ...]:
        """Return the variants in the order of the endpoint configuration."""
        order = {name: number for number, name in enumerate(self._order)}
        names = sorted(self._variants, key=lambda name: (order.get(name, len(order)), name))
        return tuple(self._variants[name] for name in names)

    @property
    def components(self) -> dict[str, InferenceComponent]:
        """Return the inference components of all variants, by name."""
        return {key: each for variant in self.variants for key, each in variant.components.items()}

    @property
    def kind(self) -> EndpointKind:
        """Return the kind of the endpoint: real-time, asynchronous, or serverless."""
        variants = self._variants.values()
        return select_kind(
            queued=self._async_inference is not None,
            has_instances=all(variant.table.serverless is None for variant in variants),
            copies=any(variant.table.has_copies for variant in variants),
        )

    @property
    def endpoint_name(self) -> str:
        """Return the name as an attribute: a resource that uses it is deployed after the endpoint."""
        return self.resource.attr_endpoint_name

    def _list_invoked_arns(self) -> list[str]:
        """Return the ARNs to invoke, including those of components that are added later."""
        arns = super()._list_invoked_arns
        return cdk.Lazy.list(AtSynthesis(self, arns)) if self._file is None else arns()

    @property
    def connections(self) -> "ec2.Connections":
        """Return the security groups of every variant's instances. Raises ValueError without a VPC."""
        served = (model for each in self.variants for model in each.served_models.values())
        groups = [group for model in dict.fromkeys(served) for group in model.security_groups]
        remedy = "Model.from_saved_model network=ModelNetwork(vpc=…)"
        return connect_security_groups(self.node.path, groups, remedy)

    @property
    def watched(self) -> WatchedEndpoint:
        """Return the endpoint as alarms and dashboards use it."""
        variants: list[WatchedVariant] = []
        for variant in self.variants:
            copies = variant.components.values() if variant.watched.shared else ()
            variants += [each.watched for each in (variant, *copies)]
        return WatchedEndpoint(
            name=self.name,
            region=self.stack.region,
            variants=tuple(variants),
            log_is_counted=True,
            resource=self.resource,
            kind=self.kind,
            published=self._metrics.find_intervals(self.kind),
            tables=self.tables,
        )

    def find_variant(self, name: str) -> EndpointVariant:
        """Return the variant with this name or component. Raises ValueError if there is none."""
        for variant in self.variants:
            if name in variant.components:
                return variant
        if name not in self._variants:
            known, where = ", ".join(self._variants), f"{self.node.path}: variant:"
            raise ValueError(f"{where} {name!r} doesn't exist; use one of {known}")
        return self._variants[name]

    def use_file(self, environment: Environment) -> None:
        """Use the description of an environment file, which has been checked. Call `create` at the end."""
        self._file = environment

    def require_open(self, call: str) -> None:
        """Raise ValueError if the endpoint's constructs exist already."""
        if self._created:
            raise ValueError(
                f"{self.node.path}: {call}: the endpoint's alarms have been read, which creates "
                f"its constructs; call {call} before that"
            )

    def create(self) -> None:
        """Create the constructs that depend on every variant. Synthesis calls it."""
        variants = self.variants
        if self._created or not variants or not all(each.served_models for each in variants):
            return
        self._created = True
        given = {**self._checked, "alarms": self._thresholds}
        described = self._file or build_environment(self, given)
        logs: dict[str, EndpointLogs] = {}
        for variant in variants:
            logs |= variant.create_component_logs(self._logs)
        without = [each.name for each in variants if not each.components]
        if without:
            own = self._logs or EndpointLogs(self, "Logs", endpoint_name=self.name)
            logs |= dict.fromkeys(without, own)
        needs = ModelDependencies(
            rolls_back=self.name if self._guarded else None,
            captured=self._capture.destination if self._capture else None,
            async_inference=self._async_inference,
            volume_kms_key=self._volume_key_arn,
        )
        for variant in variants:
            variant.create_models(described, needs, logs)
        self.config.fill(variants)
        if self.kind.has_instances:
            keep_scaled_capacity(self.resource, scaled=any(each.is_scaled for each in variants))
        for variant in variants:
            variant.create_components(self.resource)
        self.resource.node.add_dependency(*dict.fromkeys(logs.values()))
        for _, place, create in sorted(self._later, key=lambda each: each[0]):
            create(place)
        if self._file is None:
            add_findings(self, described)

    def _create_when_ready(self, order: int, place: Construct, create: Creation) -> None:
        """Create the content of a construct with the endpoint's constructs, sorted by `order`."""
        self._later.append((order, place, create))
        self._schedule_creation(place)

    def _schedule_creation(self, construct: Construct) -> None:
        """Ensure that the endpoint's constructs exist before a construct is synthesized."""
        if self._file is None:
            first = cdk.AspectPriority.MUTATING
            cdk.Aspects.of(construct).add(AtSynthesis(self), priority=first)

    @staticmethod
    def from_endpoint_name(scope: Construct, construct_id: str, endpoint_name: str) -> EndpointBase:
        """Return an existing endpoint of the stack's account and region, for its callers and metrics."""
        return ImportedEndpoint(scope, construct_id, name=endpoint_name)

    @staticmethod
    def from_endpoint_arn(scope: Construct, construct_id: str, endpoint_arn: str) -> EndpointBase:
        """Return an existing endpoint of the account and Region that the ARN names."""
        parts = cdk.Stack.of(scope).split_arn(endpoint_arn, cdk.ArnFormat.SLASH_RESOURCE_NAME)
        return ImportedEndpoint(
            scope, construct_id, name=parts.resource_name or "", region=parts.region,
            account=parts.account,
        )  # fmt: skip

    @staticmethod
    def from_endpoint_attributes(
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        kind: str = "real_time",
        variants: Sequence[WatchedVariant | str] = (),
        components: Sequence[str] = (),
    ) -> EndpointBase:
        """Return an existing endpoint with its variants, for alarms and a dashboard.

        endpoint_name: Name of the endpoint.
        kind: real_time, asynchronous, or serverless. Default: real_time.
        variants: Its variants: names, or with instance types for graphs of utilization and cost.
        components: Names of its inference components, without the endpoint's name. Default: none.
        """
        return ImportedEndpoint(
            scope, construct_id, name=endpoint_name, kind=kind, variants=variants,
            components=components,
        )  # fmt: skip
