"""Where samples of requests and answers are kept."""

from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.parameters.capture import Capture

PREFIX = "captured"
# Long enough to answer who read a sample that is gone; access logs are small.
ACCESS_LOG_DAYS = 365
UNFINISHED_DAYS = 7
NIST, HIPAA, PCI = "NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321"


@dataclass(frozen=True, kw_only=True)
class Destination:
    """What writes there needs to know."""

    url: str
    objects_arn: str
    key_arn: str


class CaptureStore(Construct):
    """A bucket with a key and an end for every sample, and one for the log of who read them.

    Both stay when their stack goes: samples outlive the endpoint that they are of.
    """

    def __init__(self, scope: Construct, construct_id: str, *, capture: Capture) -> None:
        super().__init__(scope, construct_id)
        key = self._key(capture.kms_key)
        accesses = self._bucket(
            "Accesses",
            # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
            encryption=s3.BucketEncryption.S3_MANAGED,
            keep_days=ACCESS_LOG_DAYS,
        )
        samples = self._bucket(
            "Samples",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            keep_days=capture.keep_days,
            server_access_logs_bucket=accesses,
            server_access_logs_prefix="samples/",
        )
        for bucket in (samples, accesses):
            _acknowledge(
                bucket,
                "S3BucketReplicationEnabled",
                "samples for looking at, and the log of who did: losing a region loses no service",
            )
        _acknowledge(
            accesses,
            "S3DefaultEncryptionKMS",
            "S3 delivers access logs only to buckets that it encrypts with its own keys",
        )
        _acknowledge(
            accesses, "S3BucketLoggingEnabled", "it is the log; logging itself would never end"
        )
        stack = cdk.Stack.of(self)
        # Exported by names of our own: what reads it knows them while it is being made.
        name = stack.export_value(samples.bucket_name, name=f"{stack.stack_name}-samples")
        self.destination = Destination(
            url=f"s3://{name}/{PREFIX}",
            objects_arn=stack.format_arn(
                service="s3",
                region="",
                account="",
                resource=str(name),
                resource_name=f"{PREFIX}/*",
            ),
            key_arn=capture.kms_key
            or str(stack.export_value(key.key_arn, name=f"{stack.stack_name}-samples-key")),
        )

    def _key(self, given_arn: str | None) -> kms.IKey:
        if given_arn is not None:
            return kms.Key.from_key_arn(self, "Given", given_arn)
        return kms.Key(
            self,
            "Key",
            description="Encrypts captured requests and answers",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )

    def _bucket(self, construct_id: str, *, keep_days: int, **more: Any) -> s3.Bucket:
        return s3.Bucket(
            self,
            construct_id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            versioned=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=cdk.RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=cdk.Duration.days(keep_days),
                    # A sample that was written over or deleted goes with the others.
                    noncurrent_version_expiration=cdk.Duration.days(1),
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(UNFINISHED_DAYS),
                )
            ],
            **more,
        )


def _acknowledge(bucket: s3.Bucket, rule: str, reason: str) -> None:
    for pack in (NIST, HIPAA, PCI):
        cdk.Validations.of(bucket).acknowledge(
            cdk.Acknowledgment(id=f"{pack}-{rule}", reason=reason)
        )
