"""Configuration of [asynchronous]: the queue, response locations, and notification topics."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.notifications import create_subscription
from infra.constructs.storage.locations import AsyncInferenceLocations
from infra.parameters.endpoint import Asynchronous

Config = sagemaker.CfnEndpointConfig


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
        self.config = Config.AsyncInferenceConfigProperty(
            client_config=client if most else None,
            output_config=Config.AsyncInferenceOutputConfigProperty(
                s3_output_path=locations.answers.url,
                s3_failure_path=locations.failures.url,
                kms_key_id=locations.answers.key_arn,
                notification_config=Config.AsyncInferenceNotificationConfigProperty(
                    success_topic=self.success_arn, error_topic=self.error_arn
                ),
            ),
        )
        """The property of the endpoint configuration."""

    def _create_topic(self, construct_id: str, addresses: list[str], key: kms.IKey) -> str:
        topic = sns.Topic(self, construct_id, master_key=key, enforce_ssl=True)
        for address in addresses:
            topic.add_subscription(create_subscription(address))
        return topic.topic_arn
