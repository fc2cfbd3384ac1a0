"""Buckets that outlive the endpoint, each with a key and an expiration for all objects."""

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.acknowledged import AUDITORS, accept_for
from infra.constructs.storage.locations import AsyncInferenceLocations, Destination
from infra.parameters.endpoint import Asynchronous, Capture

# Access logs are kept longer than samples, to answer who read a deleted one; they are small.
ACCESS_LOG_DAYS = 365
ACCESS_LOG = {
    "S3DefaultEncryptionKMS": "S3 delivers access logs only to buckets that it encrypts with its own keys",
    "S3BucketLoggingEnabled": "it stores the access logs; logging access to itself would never end",
}


class RetainedStore(Construct):
    """A bucket, a bucket for its access log, and a key. All are retained when the stack is deleted."""

    holds: str
    """One word: the bucket's ID, and the end of its exports' names."""
    contents: str
    """The objects, in the key's description."""
    why_one_region: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        table: Capture | Asynchronous,
        key: kms.IKey | None,
        fixed_exports: bool,
    ) -> None:
        """Create the buckets, and the key if neither `key` nor the table's is given."""
        super().__init__(scope, construct_id)
        # Without the flag, which an app may lack, S3's log delivery gets an ACL, which this bucket rejects.
        self.node.set_context("@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy", True)
        if key is None and table.kms_key is not None:
            key = kms.Key.from_key_arn(self, "Given", table.kms_key)
        own_key = key is None
        if key is None:
            key = kms.Key(
                self,
                "Key",
                description=f"Encrypts {self.contents}",
                enable_key_rotation=True,
                removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            )
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
        managed = s3.BucketEncryption.S3_MANAGED
        accesses = self._create_bucket("Accesses", encryption=managed, keep_days=ACCESS_LOG_DAYS)
        # A rollback of the creation deletes key and bucket, but can't delete a bucket with objects.
        accesses.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        kept = self._create_bucket(
            self.holds.capitalize(),
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            keep_days=table.keep_days,
            server_access_logs_bucket=accesses,
            server_access_logs_prefix=f"{self.holds}/",
        )
        one_region = {"S3BucketReplicationEnabled": self.why_one_region}
        accept_for(AUDITORS, kept, one_region)
        accept_for(AUDITORS, accesses, one_region | ACCESS_LOG)
        stack = cdk.Stack.of(self)
        self._name, self.key_arn = kept.bucket_name, key.key_arn
        name = f"{stack.stack_name}-{self.holds}"
        if fixed_exports:
            self._name = str(stack.export_value(self._name, name=name))
        if fixed_exports and own_key:
            self.key_arn = str(stack.export_value(self.key_arn, name=f"{name}-key"))

    def build_destination(self, prefix: str) -> Destination:
        objects = f"arn:{cdk.Stack.of(self).partition}:s3:::{self._name}/{prefix}/*"
        url = f"s3://{self._name}/{prefix}"
        return Destination(url=url, objects_arn=objects, key_arn=self.key_arn)

    def _create_bucket(self, construct_id: str, *, keep_days: int, **more: Any) -> s3.Bucket:
        return s3.Bucket(
            self,
            construct_id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            versioned=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=cdk.Duration.days(keep_days),
                    # Overwritten and deleted samples expire with the others.
                    noncurrent_version_expiration=cdk.Duration.days(1),
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
                )
            ],
            **more,
        )


class CaptureStore(RetainedStore):
    """The bucket of captured samples."""

    holds, contents = "samples", "captured requests and answers"
    why_one_region = (
        "it has samples for inspection and their access log: the service doesn't depend on it"
    )

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        capture: Capture,
        key: kms.IKey | None = None,
        fixed_exports: bool = False,
    ) -> None:
        """capture: Days until a sample is deleted, and optionally the ARN of a key.
        key: KMS key of the samples. Default: that of `capture`, otherwise a new one.
        fixed_exports: Whether another stack imports the bucket by exports whose names don't change.
            Default: False, CDK creates the exports that it needs.
        """
        super().__init__(scope, construct_id, table=capture, key=key, fixed_exports=fixed_exports)
        self.captured = self.build_destination("captured")


class AsyncInferenceStore(RetainedStore):
    """The bucket for the requests that callers write and the responses that SageMaker writes."""

    holds, contents = "queue", "asynchronous requests and answers"
    why_one_region = (
        "it has the requests and responses of one region's endpoint, useless without it"
    )

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        asynchronous: Asynchronous,
        key: kms.IKey | None = None,
        fixed_exports: bool = False,
    ) -> None:
        """asynchronous: Days until a request is deleted, and optionally the ARN of a key.
        key: KMS key of requests and responses. Default: that of `asynchronous`, otherwise a new one.
        fixed_exports: As for `CaptureStore`.
        """
        table = asynchronous
        super().__init__(scope, construct_id, table=table, key=key, fixed_exports=fixed_exports)
        prefixes = ("requests", "answers", "failures")
        self.locations = AsyncInferenceLocations(
            **{prefix: self.build_destination(prefix) for prefix in prefixes}
        )
