"""The endpoint configuration, which CloudFormation can only replace."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.acknowledged import AUDITORS, accept_for
from infra.constructs.endpoint.variant import EndpointVariant
from infra.constructs.replacement import compute_fingerprint
from infra.constructs.storage.locations import AsyncInference, DataCapture
from infra.parameters.monitoring import Metrics
from infra.policy.hosting import can_use_volume_key

DISKS = {
    "SageMakerEndpointConfigurationKMSKeyConfigured": "local NVMe is encrypted by the instance's "
    "hardware, with a key that is lost with it; SageMaker rejects a configuration with a KMS key for "
    "such a type"
}


class _Resource(sagemaker.CfnEndpointConfig):
    """The resource with a record of its overrides, which its properties don't show."""

    def __init__(self, scope: Construct, construct_id: str, **properties: Any) -> None:
        self.overrides: dict[str, Any] = {}
        super().__init__(scope, construct_id, **properties)

    def add_override(self, path: str, value: Any) -> None:
        if path.startswith("Properties."):  # others replace nothing
            self.overrides[path] = value
        super().add_override(path, value)


class EndpointConfig(Construct):
    """The endpoint configuration; `Endpoint` creates it, and its variants fill it.

    It has no name on purpose: a configuration can't be updated, only replaced, and CloudFormation can't
    replace a resource that has a fixed name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        metrics: Metrics,
        volume_key_arn: str | None = None,
        capture: DataCapture | None = None,
        async_inference: AsyncInference | None = None,
    ) -> None:
        """metrics: Detailed observability and enhanced metrics.
        volume_key_arn: KMS key of the instances' volumes. Default: a temporary key of SageMaker's.
        capture: Samples that are kept in S3. Default: none.
        async_inference: Queue of an asynchronous endpoint. Default: none.
        """
        super().__init__(scope, construct_id)
        self._fingerprint: str | None = None
        self._models: list[str] = []
        self.resource = _Resource(
            self,
            # CDK leaves this ID out of logical IDs: they are those of a resource without this construct.
            "Default",
            production_variants=[],
            kms_key_id=volume_key_arn,
            data_capture_config=capture.config if capture else None,
            async_inference_config=async_inference.config if async_inference else None,
            # Also the fields that are off: SageMaker's defaults depend on the day of creation.
            metrics_config=sagemaker.CfnEndpointConfig.MetricsConfigProperty(
                enable_detailed_observability=metrics.detailed_observability,
                enable_enhanced_metrics=metrics.enhanced_metrics,
                metric_publish_frequency_in_seconds=metrics.publish_seconds,
            ),
        )
        self.endpoint_config_name = self.resource.attr_endpoint_config_name
        """Its name, which only CloudFormation knows."""

    def fill(self, variants: Sequence[EndpointVariant]) -> None:
        """Set the variants, and the models' role and network if the variants name no model."""
        resource = self.resource
        main = [each for each in variants if not each.table.shadow]
        shadows = [each for each in variants if each.table.shadow]
        resource.production_variants = [each.build_production_variant() for each in main]
        if shadows:
            resource.shadow_production_variants = [
                each.build_production_variant() for each in shadows
            ]
        self._models = [each for variant in variants for each in variant.fingerprints]
        components = [each for variant in variants for each in variant.components.values()]
        if components:
            # A model has a role and a network only if a variant names it.
            model, network = components[0].model, components[0].model.network
            resource.execution_role_arn = model.role_arn
            resource.enable_network_isolation = model.isolated or None
            if network.subnets:
                resource.vpc_config = sagemaker.CfnEndpointConfig.VpcConfigProperty(
                    subnets=network.subnets, security_group_ids=network.security_groups
                )
        for name, of_name in (("ProductionVariants", main), ("ShadowProductionVariants", shadows)):
            for number, variant in enumerate(of_name):
                for path, value in variant.overrides.items():
                    resource.add_property_override(f"{name}.{number}.{path}", value)
        types = [kind for variant in variants for kind in variant.watched.instance_types]
        if not can_use_volume_key(types):
            # Without a key and without NVMe it stays a finding.
            accept_for(AUDITORS, resource, DISKS)

    @property
    def fingerprint(self) -> str:
        """Return 64 hex digits that change whenever the configuration is replaced, or overridden."""
        if self._fingerprint is None:
            overrides = [self.resource.overrides] if self.resource.overrides else []
            self._fingerprint = compute_fingerprint(self.resource, *self._models, *overrides)
        return self._fingerprint
