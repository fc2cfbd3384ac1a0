"""Where alarms and events are sent, and who reads them."""

from collections.abc import Sequence

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.constructs.monitoring.notification_key import alarms_of


class AlarmTopic(Construct):
    """An encrypted topic that CloudWatch may publish to, over TLS only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, notify: Sequence[str], key: kms.IKey
    ) -> None:
        """`notify`: e-mail addresses and https URLs."""
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        # A topic policy replaces the default one, which let alarms of the account publish.
        self.topic.grant_publish(alarms_of(self))
        for address in notify:
            self.topic.add_subscription(subscription(address))


def subscription(address: str) -> sns.ITopicSubscription:
    """Of an e-mail address or an https URL."""
    if address.startswith("https://"):
        return subscriptions.UrlSubscription(address)
    return subscriptions.EmailSubscription(address)
