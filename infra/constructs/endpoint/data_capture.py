"""[capture] in CloudFormation's words."""

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from infra.constructs.model.places import Destination
from infra.parameters.retained import Capture

Config = sagemaker.CfnEndpointConfig


@dataclass(frozen=True, kw_only=True)
class DataCapture:
    """Samples of requests and answers, as the endpoint configuration asks for them."""

    capture: Capture
    destination: Destination

    @property
    def config(self) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
        kept = {"Input": self.capture.requests, "Output": self.capture.answers}
        return Config.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=self.capture.sample_percent,
            destination_s3_uri=self.destination.url,
            kms_key_id=self.destination.key_arn,
            capture_options=[
                Config.CaptureOptionProperty(capture_mode=mode)
                for mode, wanted in kept.items()
                if wanted
            ],
            # Kept as text; of every other type SageMaker keeps base64.
            capture_content_type_header=Config.CaptureContentTypeHeaderProperty(
                csv_content_types=["text/csv"],
                json_content_types=["application/json", "application/jsonlines"],
            ),
        )
