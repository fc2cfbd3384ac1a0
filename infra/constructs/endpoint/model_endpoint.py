"""The endpoint configuration, the endpoint, and the metrics it emits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.acknowledged import AUDITORS, accept_for
from infra.constructs.async_inference.async_inference import AsyncInference
from infra.constructs.endpoint.endpoint_checks import check_when_synthesised
from infra.constructs.endpoint.endpoint_interface import IEndpoint, ImportedEndpoint, endpoint_arns
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.endpoint_variant import EndpointVariant, InstanceVariant
from infra.constructs.endpoint.inference_component import InferenceComponent
from infra.constructs.monitoring.watched_endpoint import (
    EndpointMetrics,
    Tables,
    WatchedEndpoint,
    WatchedVariant,
)
from infra.constructs.replacement import replacement_fingerprint
from infra.constructs.storage.locations import Destination
from infra.parameters.endpoint import Traffic
from infra.parameters.metrics import Metrics
from infra.parameters.retained import Capture
from infra.policy.hosting import kind_of, takes_volume_key

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2

Config = sagemaker.CfnEndpointConfig


# A tag that the local AWS reads (servable_local/aws/sagemaker/runtime_api.py); AWS ignores it.
REQUEST_BYTES_TAG = "servable:request-bytes"
DISKS = {
    "SageMakerEndpointConfigurationKMSKeyConfigured": "local NVMe is encrypted by the instance's "
    "hardware, with a key that dies with it; SageMaker refuses a configuration with a key of ours for "
    "such a type"
}


@dataclass(frozen=True, kw_only=True)
class DataCapture:
    """Samples of requests and answers, and where they go."""

    capture: Capture
    destination: Destination


def data_capture(capture: Capture, captured: Destination) -> DataCapture:
    """The capture of samples, for a `ModelEndpoint`. `captured` is that of a `CaptureStore`."""
    return DataCapture(capture=capture, destination=captured)


def _data_capture(
    given: DataCapture,
) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
    capture = given.capture
    kept = {"Input": capture.requests, "Output": capture.answers}
    return Config.DataCaptureConfigProperty(
        enable_capture=True,
        initial_sampling_percentage=capture.sample_percent,
        destination_s3_uri=given.destination.url,
        kms_key_id=given.destination.key_arn,
        capture_options=[
            Config.CaptureOptionProperty(capture_mode=mode)
            for mode, enabled in kept.items()
            if enabled
        ],
        # These types are kept as text; SageMaker stores all others in base64.
        capture_content_type_header=Config.CaptureContentTypeHeaderProperty(
            csv_content_types=["text/csv"],
            json_content_types=["application/json", "application/jsonlines"],
        ),
    )


class ModelEndpoint(IEndpoint):
    """The endpoint configuration, the endpoint, and the metrics it emits.

    Scaling, rollouts, alarms and dashboards take a `ModelEndpoint`, never its name, so that
    CloudFormation orders them. Of instances of `packed_model`, everything is checked that `servable check`
    knows of an environment file; the findings are annotations of the construct that they are about.

    name: Name that callers invoke, unique in account and region.
    variants: The variants, for example an `InstanceVariant`.
    volume_key: KMS key of the instances' volumes: a key, or its id, alias or ARN. Default: that of the
        variants' models, or else a temporary key of SageMaker's.
    capture: Samples that are kept in S3, from `data_capture`. Default: none.
    async_inference: Queue of an asynchronous endpoint. Default: none, the endpoint answers at once.
    logs: Log group, which must exist before the endpoint. Default: that of the variants' models, or else
        SageMaker makes one.
    metrics: Detailed observability and enhanced metrics. Default: neither.
    protect: Whether CloudFormation retains the endpoint when its stack is deleted. Default: False.
    production: Whether callers depend on it, so that rules about redundancy apply. Default: False.
    traffic: Requests of the callers, for rules that need them. Default: unknown.
    acknowledge: Findings that are accepted: rule to reason. Default: none.
    acknowledged_request_bytes: Size of requests above AWS's API, a tag for the local AWS. Default: none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variants: Sequence[EndpointVariant],
        volume_key: kms.IKey | str | None = None,
        capture: DataCapture | None = None,
        async_inference: AsyncInference | None = None,
        logs: EndpointLogs | None = None,
        metrics: Metrics | None = None,
        protect: bool = False,
        production: bool = False,
        traffic: Traffic | None = None,
        acknowledge: Mapping[str, str] | None = None,
        acknowledged_request_bytes: int | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name, self.variants = name, tuple(variants)
        queued, types = async_inference is not None, [v.watched.instance_types for v in variants]
        self.copies = {copies.name: copies for variant in variants for copies in variant.copies}
        """The copies of inference components, of variants that do not name their model, by name."""
        self.kind = kind_of(queued=queued, has_instances=all(types), copies=bool(self.copies))
        self.locations = async_inference.locations if async_inference else None
        metrics = metrics or Metrics()
        self.metrics = EndpointMetrics(
            endpoint_name=name,
            kind=self.kind,
            published=metrics.published(self.kind),
            components={each: f"{name}-{each}" for each in self.copies},
        )
        self._models = [model for v in variants for model in (v.model, *v.other_models)]
        of_models = [model.logs for model in self._models if model.logs]
        every_log = [logs] if logs else list(dict.fromkeys(of_models))
        self._log_is_counted = (logs := next(iter(every_log), None)) is not None
        key_arn = self._key_arn(volume_key)
        self.config = self._configuration(key_arn, capture, async_inference, metrics)
        self.resource = self._endpoint(protect=protect)
        self.components = dict(self._components())
        """The inference components by the name of their copies."""
        if acknowledged_request_bytes is not None:
            cdk.Tags.of(self.resource).add(REQUEST_BYTES_TAG, str(acknowledged_request_bytes))
        self.resource.node.add_dependency(*every_log)
        self._region = cdk.Stack.of(self).region
        self._arns = endpoint_arns(cdk.Stack.of(self), name)
        self.tables: Tables = {}
        """The tables of an environment file that other constructs of this endpoint stand for."""
        if all(isinstance(variant, InstanceVariant) for variant in variants):
            self._check_logs(logs, *of_models)
            self._join(capture, async_inference, key_arn)
            check_when_synthesised(
                self,
                metrics=metrics,
                production=production,
                traffic=traffic or Traffic(),
                acknowledge=acknowledge or {},
                capture=capture.capture if capture else None,
                asynchronous=async_inference.asynchronous if async_inference else None,
            )

    def _key_arn(self, given: kms.IKey | str | None) -> str | None:
        """The key of the volumes: the given one, or that of the first model that has one."""
        key = given or next((m.volume_key for m in self._models if m.volume_key), None)
        return key if key is None or isinstance(key, str) else key.key_arn

    def _components(self) -> Iterator[tuple[str, InferenceComponent]]:
        for variant in self.variants:
            for copies in variant.copies:
                yield (
                    copies.name,
                    InferenceComponent(
                        self,
                        f"Component-{copies.name}",
                        endpoint=self.resource,
                        variant=variant.name,
                        name=self.metrics.components[copies.name],
                        copies=copies,
                    ),
                )

    def _check_logs(self, *every: EndpointLogs | None) -> None:
        """Raises ValueError for the log group of another endpoint: this one's lines would not be in it."""
        for logs in filter(None, every):
            names = self.name, logs.endpoint_name
            if names[0] != names[1] and not any(map(cdk.Token.is_unresolved, names)):
                raise ValueError(
                    f"{self.node.path}: logs: {logs.node.path} is the log group of {logs.endpoint_name!r}; "
                    f"give this endpoint and its models EndpointLogs(endpoint_name={self.name!r})"
                )

    def _configuration(
        self,
        key_arn: str | None,
        capture: DataCapture | None,
        async_inference: AsyncInference | None,
        metrics: Metrics,
    ) -> sagemaker.CfnEndpointConfig:
        if len({each.name for each in self.variants}) < len(self.variants):
            raise ValueError(f"{self.node.path}: variants have one name; give each its own")
        model = next((each.model for each in self.copies.values()), None)
        network = model.network if model else None
        # It has no name on purpose: a configuration cannot be updated, only
        # replaced, and CloudFormation cannot replace what has a fixed name.
        config = Config(
            self,
            "Config",
            production_variants=[*self._properties(shadow=False)],
            shadow_production_variants=[*self._properties(shadow=True)] or None,
            kms_key_id=key_arn,
            # Where a variant names its model, the model has them.
            execution_role_arn=model.role_arn if model else None,
            enable_network_isolation=(model is not None and model.isolated) or None,
            vpc_config=Config.VpcConfigProperty(
                subnets=network.subnets, security_group_ids=network.security_groups
            )
            if network and network.subnets
            else None,
            data_capture_config=_data_capture(capture) if capture else None,
            async_inference_config=async_inference.config if async_inference else None,
            # Also the fields that are off: SageMaker's defaults depend on the day of creation.
            metrics_config=Config.MetricsConfigProperty(
                enable_detailed_observability=metrics.detailed_observability,
                enable_enhanced_metrics=metrics.enhanced_metrics,
                metric_publish_frequency_in_seconds=metrics.publish_seconds,
            ),
        )
        types = [each for variant in self.variants for each in variant.watched.instance_types]
        if not takes_volume_key(types):
            # Without a key and without NVMe it stays a finding.
            accept_for(AUDITORS, config, DISKS)
        return config

    def _join(
        self,
        capture: DataCapture | None,
        async_inference: AsyncInference | None,
        volume_key_arn: str | None,
    ) -> None:
        """Allows the models' roles what only the endpoint knows of."""
        for model in self._models:
            if model.execution is not None:
                model.execution.add(
                    captured=capture.destination if capture else None,
                    async_inference=async_inference,
                    volume_kms_key=volume_key_arn,
                )

    def _endpoint(self, *, protect: bool) -> sagemaker.CfnEndpoint:
        resource = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_name=self.name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            retain_all_variant_properties=self.kind.has_instances or None,
            exclude_retained_variant_properties=self._not_retained
            if self.kind.has_instances
            else None,
        )
        if protect:
            # Retained also when its own creation fails, it would be in the way of the next attempt.
            resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return resource

    @property
    def _not_retained(self) -> list[sagemaker.CfnEndpoint.VariantPropertyProperty]:
        # An update keeps the number of instances that scaling has reached; weights come
        # from the file, else an edited split would deploy green and change nothing.
        names = ["DesiredWeight"]
        if not any(variant.scaled for variant in self.variants):
            names.append("DesiredInstanceCount")
        retained = sagemaker.CfnEndpoint.VariantPropertyProperty
        return [retained(variant_property_type=name) for name in names]

    def scale(self, variant: str) -> EndpointVariant:
        """The variant of that name, or with copies of that name, whose number is now that of its scaling.

        `EndpointScaling` calls it. Raises ValueError for an unknown name.
        """
        for each in self.variants:
            if any(copies.name == variant for copies in each.copies):
                return each
        names = [each.name for each in self.variants]
        if variant not in names:
            known = ", ".join(names)
            raise ValueError(f"{self.node.path}: variant: {variant!r} is none of {known}")
        at = names.index(variant)
        scaled = self.variants[at]
        if not scaled.scaled and isinstance(scaled, InstanceVariant):
            if (named := "fingerprint" in self.__dict__) and scaled.initial_instances is None:
                # Rollback alarms are named after the configuration, which may not change any more.
                scaled = replace(scaled, initial_instances=max(1, scaled.min_instances))
            scaled = replace(scaled, scaled=True)
            self.variants = (*self.variants[:at], scaled, *self.variants[at + 1 :])
            self.resource.exclude_retained_variant_properties = [*self._not_retained]
            if named:
                cdk.Annotations.of(self).add_warning_v2(
                    "scaling-after-rollout",
                    f"the EndpointScaling of variant {variant} is made after the EndpointRollout, so that "
                    "another min_instances replaces the fleet; make it before",
                )
            elif scaled.shadow:
                self.config.shadow_production_variants = [*self._properties(shadow=True)]
            else:
                self.config.production_variants = [*self._properties(shadow=False)]
        return scaled

    def _properties(
        self, *, shadow: bool
    ) -> list[sagemaker.CfnEndpointConfig.ProductionVariantProperty]:
        return [v.production_variant() for v in self.variants if v.shadow is shadow]

    @cached_property
    def fingerprint(self) -> str:
        """64 hex digits that change whenever the endpoint configuration is replaced."""
        return replacement_fingerprint(self.config, *(model.fingerprint for model in self._models))

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name as CloudFormation's attribute: what uses it is deployed after it."""
        return self.resource.attr_endpoint_name

    @property
    def arns(self) -> Sequence[str]:
        """The ARN in both spellings that IAM may be asked about."""
        return self._arns

    @property
    def connections(self) -> "ec2.Connections":
        """The security groups of the instances of every variant, for what they may reach:
        `endpoint.connections.allow_to(database, port)`. Raises ValueError without a VPC."""
        from aws_cdk import aws_ec2 as ec2  # a fifth of a second, for who has a network

        groups = [group for model in self._models for group in model.security_groups]
        if not groups:
            raise ValueError(f"{self.node.path}: it has no security group; give packed_model a vpc")
        return ec2.Connections(security_groups=groups)

    @property
    def watched(self) -> WatchedEndpoint:
        """The endpoint as alarms and dashboards use it."""
        return WatchedEndpoint(
            name=self.name,
            region=self._region,
            variants=tuple(self._watched()),
            log_is_counted=self._log_is_counted,
            resource=self.resource,
            kind=self.kind,
            published=self.metrics.published,
            tables=self.tables,
        )

    def _watched(self) -> Iterator[WatchedVariant]:
        """The variants, and after one whose instances are shared its components."""
        components = self.metrics.components
        for variant in self.variants:
            watched = variant.watched
            yield replace(watched, component=components.get(variant.name))
            for copies in variant.copies if watched.shared else ():
                least, most = copies.capacity
                yield WatchedVariant(
                    name=copies.name,
                    component=components[copies.name],
                    min_instances=least,
                    max_instances=most,
                    scales=most > least,
                )

    @staticmethod
    def from_endpoint_name(
        scope: Construct,
        construct_id: str,
        endpoint_name: str,
        *,
        variants: Sequence[WatchedVariant] = (),
        asynchronous: bool = False,
    ) -> IEndpoint:
        """An existing endpoint of the stack's account and region.

        variants: Its variants, for alarms, a dashboard and metrics. Default: unknown.
        asynchronous: Whether requests wait in a queue. Default: False.
        """
        return ImportedEndpoint(
            scope, construct_id, name=endpoint_name, variants=variants, asynchronous=asynchronous
        )

    @staticmethod
    def from_endpoint_arn(
        scope: Construct,
        construct_id: str,
        endpoint_arn: str,
        *,
        variants: Sequence[WatchedVariant] = (),
        asynchronous: bool = False,
    ) -> IEndpoint:
        """An existing endpoint, of whichever account and region the ARN names.

        Arguments are those of `from_endpoint_name`.
        """
        parts = cdk.Stack.of(scope).split_arn(endpoint_arn, cdk.ArnFormat.SLASH_RESOURCE_NAME)
        return ImportedEndpoint(
            scope,
            construct_id,
            name=parts.resource_name or "",
            variants=variants,
            asynchronous=asynchronous,
            region=parts.region,
            account=parts.account,
        )
