"""Locations of samples, requests, and responses in the retained buckets, and capture settings.

They are separate from the buckets, whose CDK modules would slow down every synth.
"""

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from infra.parameters.endpoint import Capture

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
