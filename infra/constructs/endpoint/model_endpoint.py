"""The endpoint configuration, the endpoint, and the metrics it emits."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.acknowledged import AUDITORS, accept_for
from infra.constructs.async_inference.async_inference import AsyncInference
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.endpoint_variant import EndpointVariant
from infra.constructs.monitoring.watched_endpoint import EndpointMetrics, WatchedEndpoint
from infra.constructs.replacement import replacement_fingerprint
from infra.constructs.storage.locations import Destination
from infra.parameters.metrics import Metrics
from infra.parameters.retained import Capture
from infra.policy.kinds import kind_of
from infra.policy.volume_key import takes_volume_key

Config = sagemaker.CfnEndpointConfig


# A tag that the local AWS reads (servable_local/aws/sagemaker/runtime_api.py); AWS ignores it.
REQUEST_BYTES_TAG = "servable:request-bytes"
DISKS = {
    "SageMakerEndpointConfigurationKMSKeyConfigured": "local NVMe is encrypted by the instance's "
    "hardware, with a key that dies with it; SageMaker refuses a configuration with a key of ours for "
    "such a type"
}


def data_capture(
    capture: Capture, captured: Destination
) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
    """The data capture property of the endpoint configuration."""
    kept = {"Input": capture.requests, "Output": capture.answers}
    return Config.DataCaptureConfigProperty(
        enable_capture=True,
        initial_sampling_percentage=capture.sample_percent,
        destination_s3_uri=captured.url,
        kms_key_id=captured.key_arn,
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
        capture: sagemaker.CfnEndpointConfig.DataCaptureConfigProperty | None = None,
        async_inference: AsyncInference | None = None,
        logs: EndpointLogs | None = None,
        metrics: Metrics | None = None,
        protect: bool = False,
        acknowledged_request_bytes: int | None = None,
    ) -> None:
        """`capture` comes from `data_capture`; `logs` must exist before the endpoint. `metrics` None means
        neither detailed observability nor enhanced metrics. With `protect` CloudFormation retains the
        endpoint. `acknowledged_request_bytes` above AWS's API become a tag for the local AWS."""
        super().__init__(scope, construct_id)
        self.name = name
        self.variants = tuple(variants)
        types = [variant.watched.instance_types for variant in variants]
        self.kind = kind_of(queued=async_inference is not None, has_instances=all(types))
        metrics = metrics or Metrics()
        self.metrics = EndpointMetrics(
            endpoint_name=name, kind=self.kind, published=metrics.published(self.kind)
        )
        # It has no name on purpose: a configuration cannot be updated, only
        # replaced, and CloudFormation cannot replace what has a fixed name.
        self.config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[v.production_variant() for v in variants if not v.shadow],
            shadow_production_variants=[v.production_variant() for v in variants if v.shadow]
            or None,
            kms_key_id=volume_kms_key,
            data_capture_config=capture,
            async_inference_config=async_inference.config if async_inference else None,
            # Also the fields that are off: SageMaker's defaults depend on the day of creation.
            metrics_config=Config.MetricsConfigProperty(
                enable_detailed_observability=metrics.detailed_observability,
                enable_enhanced_metrics=metrics.enhanced_metrics,
                metric_publish_frequency_in_seconds=metrics.publish_seconds,
            ),
        )
        if not takes_volume_key([instance_type for some in types for instance_type in some]):
            # Without a key and without NVMe it stays a finding.
            accept_for(AUDITORS, self.config, DISKS)
        models = [model for v in variants for model in (v.model, *v.other_models)]
        self.fingerprint = replacement_fingerprint(
            self.config, *(model.fingerprint for model in models)
        )
        """64 hex digits that change whenever the endpoint configuration is replaced."""
        self.resource = self._endpoint(protect=protect)
        if acknowledged_request_bytes is not None:
            cdk.Tags.of(self.resource).add(REQUEST_BYTES_TAG, str(acknowledged_request_bytes))
        if logs is not None:
            self.resource.node.add_dependency(logs)
        self._region = cdk.Stack.of(self).region
        self.arns = endpoint_arns(cdk.Stack.of(self), name)

    def _endpoint(self, *, protect: bool) -> sagemaker.CfnEndpoint:
        # An update keeps the number of instances that scaling has reached; weights come
        # from the file, else an edited split would deploy green and change nothing.
        not_retained = ["DesiredWeight"]
        if not any(variant.scaled for variant in self.variants):
            not_retained.append("DesiredInstanceCount")
        retained = sagemaker.CfnEndpoint.VariantPropertyProperty
        resource = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_name=self.name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            retain_all_variant_properties=self.kind.has_instances or None,
            exclude_retained_variant_properties=[
                retained(variant_property_type=name) for name in not_retained
            ]
            if self.kind.has_instances
            else None,
        )
        if protect:
            # Retained also when its own creation fails, it would be in the way of the next attempt.
            resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return resource

    @property
    def watched(self) -> WatchedEndpoint:
        """The endpoint as alarms and dashboards use it."""
        return WatchedEndpoint(
            name=self.name,
            region=self._region,
            variants=tuple(variant.watched for variant in self.variants),
            log_is_counted=True,
            resource=self.resource,
            kind=self.kind,
            published=self.metrics.published,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows `grantee` to invoke this endpoint, and no other."""
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[self.kind.invoke_action],
            resource_arns=self.arns,
        )

    def metric_model_latency(self, variant: str, statistic: str) -> cloudwatch.Metric:
        """Time the container took to answer one request. Unit: microseconds."""
        return self.metrics.model_latency(variant, statistic).for_cdk


def endpoint_arns(stack: cdk.Stack, name: str) -> list[str]:
    """The endpoint's ARN as SageMaker writes it, in lower case, and as the name is spelt.

    IAM compares case-sensitively, and no page of AWS says which of the two it is asked about; one of AWS's
    solutions came to name both: https://github.com/aws-solutions/research-service-workbench-on-aws/pull/1048
    AWS's example of an event has EndpointName MyEndpoint and endpoint/myendpoint among its resources:
    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html (2026-11-22)
    """
    # A name that only CloudFormation knows cannot be changed here.
    spelt = [name] if cdk.Token.is_unresolved(name) else dict.fromkeys((name.lower(), name))
    return [
        stack.format_arn(service="sagemaker", resource="endpoint", resource_name=each)
        for each in spelt
    ]
