"""Who is told of an asynchronous answer, or failure."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.alarm_topic import subscription
from infra.parameters.retained import Asynchronous


class QueueTopics(Construct):
    """Two encrypted topics that the model's role publishes to, over TLS only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, asynchronous: Asynchronous, key: kms.IKey
    ) -> None:
        super().__init__(scope, construct_id)
        self.key_arn = key.key_arn
        self.success_arn = self._topic("Success", asynchronous.notify_success, key)
        self.error_arn = self._topic("Error", asynchronous.notify_error, key)

    def _topic(self, construct_id: str, addresses: list[str], key: kms.IKey) -> str:
        topic = sns.Topic(self, construct_id, master_key=key, enforce_ssl=True)
        for address in addresses:
            topic.add_subscription(subscription(address))
        return topic.topic_arn
