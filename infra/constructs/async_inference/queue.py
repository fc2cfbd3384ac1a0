"""[asynchronous] in CloudFormation's words."""

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from infra.constructs.async_inference.queue_topics import QueueTopics
from infra.constructs.model.places import QueuePlaces
from infra.parameters.retained import Asynchronous

Config = sagemaker.CfnEndpointConfig


@dataclass(frozen=True, kw_only=True)
class Queue:
    """How requests wait and where answers go, as the endpoint configuration asks for it."""

    asynchronous: Asynchronous
    places: QueuePlaces
    topics: QueueTopics

    @property
    def config(self) -> sagemaker.CfnEndpointConfig.AsyncInferenceConfigProperty:
        most = self.asynchronous.max_concurrent_invocations_per_instance
        return Config.AsyncInferenceConfigProperty(
            client_config=Config.AsyncInferenceClientConfigProperty(
                max_concurrent_invocations_per_instance=most
            )
            if most
            else None,
            output_config=Config.AsyncInferenceOutputConfigProperty(
                s3_output_path=self.places.answers.url,
                s3_failure_path=self.places.failures.url,
                kms_key_id=self.places.answers.key_arn,
                notification_config=Config.AsyncInferenceNotificationConfigProperty(
                    success_topic=self.topics.success_arn, error_topic=self.topics.error_arn
                ),
            ),
        )
