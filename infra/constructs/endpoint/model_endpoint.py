"""The endpoint configuration, the endpoint, and the metrics it emits."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.async_inference.queue import Queue
from infra.constructs.endpoint.data_capture import DataCapture
from infra.constructs.endpoint.disk_encryption import accept_disks
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.endpoint_variant import EndpointVariant
from infra.constructs.endpoint.watched_endpoint import WatchedEndpoint
from infra.constructs.monitoring.endpoint_metrics import EndpointMetrics
from infra.constructs.replacement import replacement_fingerprint
from infra.parameters.environment import Kind


class ModelEndpoint(Construct):
    """The endpoint configuration, the endpoint, and the metrics it emits.

    Scaling, rollouts, alarms and dashboards take a `ModelEndpoint`, never its name, so that
    CloudFormation orders them.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variants: Sequence[EndpointVariant],
        volume_kms_key: str | None = None,
        capture: DataCapture | None = None,
        queue: Queue | None = None,
        logs: EndpointLogs | None = None,
    ) -> None:
        """`queue`: requests wait in it, and nobody for an answer. `logs`: made before the endpoint,
        which would make a log group of its own."""
        super().__init__(scope, construct_id)
        self.name = name
        self.variants = tuple(variants)
        serverless = any(one.watched.instance_type is None for one in variants)
        self.kind: Kind = "asynchronous" if queue else "serverless" if serverless else "real_time"
        self.metrics = EndpointMetrics(endpoint_name=name, kind=self.kind)
        # Left unnamed on purpose: a configuration cannot be updated, only
        # replaced, and CloudFormation cannot replace what has a fixed name.
        self.config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[one.production_variant() for one in variants if not one.shadow],
            shadow_production_variants=[one.production_variant() for one in variants if one.shadow]
            or None,
            kms_key_id=volume_kms_key,
            data_capture_config=capture.config if capture else None,
            async_inference_config=queue.config if queue else None,
        )
        accept_disks(
            self.config, instance_types=[one.watched.instance_type or "" for one in variants]
        )
        self.fingerprint = replacement_fingerprint(
            self.config, *(one.model.fingerprint for one in variants)
        )
        """Changes when the endpoint configuration is replaced, as 64 hex digits."""
        self.resource = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_name=name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            # An update keeps the number of instances that scaling has reached; weights come
            # from the file, else an edited split would deploy green and change nothing.
            retain_all_variant_properties=self.kind != "serverless" or None,
            exclude_retained_variant_properties=[
                sagemaker.CfnEndpoint.VariantPropertyProperty(variant_property_type=kind)
                for kind in _not_retained(variants)
            ]
            if self.kind != "serverless"
            else None,
        )
        if logs is not None:
            self.resource.node.add_dependency(logs)
        stack = cdk.Stack.of(self)
        self._region = stack.region
        self.arn = stack.format_arn(service="sagemaker", resource="endpoint", resource_name=name)

    @property
    def watched(self) -> WatchedEndpoint:
        """As alarms and dashboards see it."""
        return WatchedEndpoint(
            name=self.name,
            region=self._region,
            variants=tuple(one.watched for one in self.variants),
            log_is_counted=True,
            resource=self.resource,
            kind=self.kind,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Lets somebody ask this endpoint, and no other, for predictions."""
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[
                "sagemaker:InvokeEndpointAsync"
                if self.kind == "asynchronous"
                else "sagemaker:InvokeEndpoint"
            ],
            resource_arns=[self.arn],
        )

    def metric_model_latency(self, variant: str, statistic: str) -> cloudwatch.Metric:
        """Time the container took to answer one request. Unit: microseconds."""
        return self.metrics.model_latency(variant, statistic).for_cdk


def _not_retained(variants: Sequence[EndpointVariant]) -> list[str]:
    """Counts belong to scaling where there is any, else to the file, as weights do."""
    scaled = any(variant.scaled for variant in variants)
    return ["DesiredWeight"] if scaled else ["DesiredWeight", "DesiredInstanceCount"]
