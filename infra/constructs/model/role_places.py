"""The ARNs that a model's role has to do with, by the names of the permission table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import aws_cdk as cdk

from infra.catalog.images import Image
from infra.constructs.async_inference.queue import Queue
from infra.constructs.model.archive import Archive
from infra.constructs.model.places import Destination
from infra.parameters.endpoint import Network

ALIAS = "alias/"


@dataclass(frozen=True, kw_only=True)
class RolePlaces:
    """None and empty: the deployment has no such thing, and the role nothing to do there."""

    stack: cdk.Stack
    image: Image
    log_group_arn: str
    rollback_alarm_prefix: str | None = None
    captured: Destination | None = None
    queue: Queue | None = None
    volume_kms_key: str | None = None
    network: Network = field(default_factory=Network)

    def of(self, archive: Archive) -> dict[str, list[str]]:
        """Of one model: everything that is there, as ARNs."""
        arn = self.stack.format_arn
        network = self.network
        found = {
            "archive": [archive.objects],
            "repository": [
                arn(
                    service="ecr",
                    region=self.image.region,
                    account=self.image.account,
                    resource="repository",
                    resource_name=self.image.repository,
                )
            ],
            "log_group": [self.log_group_arn],
            "log_streams": [f"{self.log_group_arn}:log-stream:*"],
            "subnets": [
                arn(service="ec2", resource="subnet", resource_name=one) for one in network.subnets
            ],
            "security_groups": [
                arn(service="ec2", resource="security-group", resource_name=one)
                for one in network.security_groups
            ],
        }
        if archive.listed is not None:
            found["bucket"] = [archive.listed.bucket_arn]
        if network.subnets:
            found["interfaces"] = [
                arn(service="ec2", resource="network-interface", resource_name="*")
            ]
        if self.rollback_alarm_prefix is not None:
            found["rollback_alarms"] = [
                # By prefix: role -> alarm -> configuration -> model -> role is a circle.
                arn(
                    service="cloudwatch",
                    resource="alarm",
                    resource_name=f"{self.rollback_alarm_prefix}*",
                    arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                )
            ]
        if self.captured is not None:
            found["captured"] = [self.captured.objects_arn]
            found["capture_key"] = [self.captured.key_arn]
        if self.queue is not None:
            places, topics = self.queue.places, self.queue.topics
            found["requests"] = [places.requests.objects_arn]
            found["answers"] = [places.answers.objects_arn, places.failures.objects_arn]
            found["queue_key"] = [places.answers.key_arn]
            found["topics"] = [topics.success_arn, topics.error_arn]
            found["topic_key"] = [topics.key_arn]
        if self.volume_kms_key is not None:
            found["volume_key"] = [self._key_arn(self.volume_kms_key)]
        return found

    @property
    def conditions(self) -> Mapping[str, Mapping[str, Mapping[str, object]]]:
        """What narrows a place beyond its ARN, by place."""
        key = self.volume_kms_key
        if key is None or not key.startswith(ALIAS):
            return {}
        return {"volume_key": {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [key]}}}

    def _key_arn(self, given: str) -> str:
        """A policy knows keys by their own ARN; of an alias only the condition above."""
        if given.startswith("arn:"):
            return given
        name = "*" if given.startswith(ALIAS) else given
        return self.stack.format_arn(service="kms", resource="key", resource_name=name)
