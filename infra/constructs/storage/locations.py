"""Locations of samples, requests, and responses in the retained buckets, and what SageMaker writes there.

They are separate from the buckets, whose CDK modules would slow down every synth.
"""

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.notifications import create_subscription
from infra.parameters.endpoint import Asynchronous, Capture

Config = sagemaker.CfnEndpointConfig


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A prefix in a bucket that SageMaker or callers write to, with its ARN and key."""

    url: str
    objects_arn: str
    key_arn: str


@dataclass(frozen=True, kw_only=True)
class AsyncInferenceLocations:
    """Three prefixes of one bucket: requests, responses, and failures."""

    requests: Destination
    answers: Destination
    failures: Destination


@dataclass(frozen=True, kw_only=True)
class DataCapture:
    """Samples of requests and responses, and where SageMaker writes them."""

    capture: Capture
    """Percentage of requests, and which bodies are kept."""
    destination: Destination
    """`captured` of a `CaptureStore`."""

    @property
    def config(self) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
        """Return the data capture property of the endpoint configuration."""
        kept = {"Input": self.capture.requests, "Output": self.capture.answers}
        modes = [mode for mode, enabled in kept.items() if enabled]
        return Config.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=self.capture.sample_percent,
            destination_s3_uri=self.destination.url,
            kms_key_id=self.destination.key_arn,
            capture_options=[Config.CaptureOptionProperty(capture_mode=mode) for mode in modes],
            # These types are kept as text; SageMaker stores all others in base64.
            capture_content_type_header=Config.CaptureContentTypeHeaderProperty(
                csv_content_types=["text/csv"],
                json_content_types=["application/json", "application/jsonlines"],
            ),
        )


class AsyncInference(Construct):
    """The asynchronous configuration and two encrypted topics to which the model's role publishes."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        asynchronous: Asynchronous,
        locations: AsyncInferenceLocations,
        key: kms.IKey,
    ) -> None:
        """Create the topics and the configuration. `key` encrypts the topics."""
        super().__init__(scope, construct_id)
        self.asynchronous, self.locations, self.key_arn = asynchronous, locations, key.key_arn
        self.success_arn = self._create_topic("Success", asynchronous.notify_success, key)
        self.error_arn = self._create_topic("Error", asynchronous.notify_error, key)
        most = asynchronous.max_concurrent_invocations_per_instance
        client = Config.AsyncInferenceClientConfigProperty(
            max_concurrent_invocations_per_instance=most
        )
        topics = Config.AsyncInferenceNotificationConfigProperty(
            success_topic=self.success_arn, error_topic=self.error_arn
        )
        output = Config.AsyncInferenceOutputConfigProperty(
            s3_output_path=locations.answers.url,
            s3_failure_path=locations.failures.url,
            kms_key_id=locations.answers.key_arn,
            notification_config=topics,
        )
        self.config = Config.AsyncInferenceConfigProperty(
            client_config=client if most else None, output_config=output
        )
        """The property of the endpoint configuration."""

    def _create_topic(self, construct_id: str, addresses: list[str], key: kms.IKey) -> str:
        topic = sns.Topic(self, construct_id, master_key=key, enforce_ssl=True)
        for address in addresses:
            topic.add_subscription(create_subscription(address))
        return topic.topic_arn
