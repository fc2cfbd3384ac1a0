"""S3: conditions of bucket policies, buckets that log before their target allows it, checksums of copies.

Upstream (moto 5.2.5): every statement of a bucket policy is enforced as if it had no
condition, or denied where it has one, so the usual "deny what is not TLS" denies all.
Here aws:SecureTransport counts as true, for nothing leaves this computer; a statement with
any other condition is left out: its answer is not known.

PutBucketLogging wants the target's policy, or its access control list, to be there already.
AWS looks at the policy when it delivers; CloudFormation makes it last, because its condition
names the bucket that logs.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html

CopyObject gives the copy of an upload in parts the checksum of the parts' checksums, as if it were the
bytes': boto3 refuses to read it. AWS computes that of the bytes.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html

Names of buckets, states of versioning and policies are kept as they come. AWS's refusals of them were
recorded: tests/servable_local/aws/aws_answers.jsonl in the repository.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3 import responses
from moto.s3.exceptions import (
    AccessDeniedByLock,
    CrossLocationLoggingProhibited,
    InvalidBucketName,
    InvalidLocationConstraintException,
    InvalidTargetBucketForLogging,
    MalformedXML,
    S3ClientError,
)
from moto.s3.models import FakeBucket, S3Backend

from servable_local.aws.resources.shapes import is_true

_COPY = S3Backend.copy_object
_CREATE, _DELETE = S3Backend.create_bucket, S3Backend.delete_bucket
_PUT_POLICY, _PUT_VERSIONING = S3Backend.put_bucket_policy, S3Backend.put_bucket_versioning
_PUT_ENCRYPTION = S3Backend.put_bucket_encryption
_NAME = re.compile(
    r"(?!(\d+\.){3}\d+$|xn--|sthree-)[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)"
)
# A statement has each of them, or its Not….
_OF_A_STATEMENT = ("Effect", "Principal", "Action", "Resource")


def install() -> None:
    """Idempotent."""
    setattr(FakeBucket, "get_permission", _permission)  # noqa: B010 (mypy)
    always = staticmethod(lambda target_bucket, target_prefix: True)
    setattr(FakeBucket, "_log_permissions_enabled_policy", always)  # noqa: B010
    setattr(S3Backend, "copy_object", _copy)  # noqa: B010
    setattr(S3Backend, "create_bucket", _create)  # noqa: B010
    setattr(S3Backend, "delete_bucket", _delete)  # noqa: B010
    setattr(S3Backend, "put_bucket_encryption", _put_encryption)  # noqa: B010
    setattr(S3Backend, "put_bucket_policy", _put_policy)  # noqa: B010
    setattr(S3Backend, "put_bucket_versioning", _put_versioning)  # noqa: B010
    setattr(AccessDeniedByLock, "__init__", _locked)  # noqa: B010
    setattr(CrossLocationLoggingProhibited, "__init__", _elsewhere)  # noqa: B010
    setattr(InvalidTargetBucketForLogging, "__init__", _no_target)  # noqa: B010


def _locked(error: S3ClientError) -> None:
    message = "Access Denied because object protected by object lock."
    S3ClientError.__init__(error, "AccessDenied", message)


def _elsewhere(error: S3ClientError) -> None:
    message = "Cross S3 location logging not allowed. "
    S3ClientError.__init__(error, "CrossLocationLoggingProhibitted", message)


def _no_target(error: S3ClientError, message: str) -> None:
    S3ClientError.__init__(error, "InvalidTargetBucketForLogging", message.rstrip("."))


def _create(backend: Any, bucket_name: str, region_name: str, *arguments: Any, **more: Any) -> Any:
    if not _NAME.fullmatch(bucket_name):
        raise InvalidBucketName()
    if region_name == "aws-global":  # a name for endpoints, and no region
        raise InvalidLocationConstraintException()
    return _CREATE(backend, bucket_name, region_name, *arguments, **more)


def _delete(backend: Any, bucket_name: str) -> Any:
    bucket = backend.get_bucket(bucket_name)
    if bucket.keys and bucket.versioning_status:
        message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
        raise S3ClientError("BucketNotEmpty", message)
    return _DELETE(backend, bucket_name)


def _put_policy(backend: Any, bucket_name: str, policy: bytes) -> None:
    document = json.loads(policy)
    statements = document.get("Statement")
    if statements is None:
        raise S3ClientError("MalformedPolicy", "Missing required field Statement")
    for statement in statements if isinstance(statements, list) else [statements]:
        for name in _OF_A_STATEMENT:
            if name not in statement and f"Not{name}" not in statement:
                raise S3ClientError("MalformedPolicy", f"Missing required field {name}")
    _PUT_POLICY(backend, bucket_name, policy)


def _put_versioning(backend: Any, bucket_name: str, status: str) -> None:
    if status not in ("Enabled", "Suspended"):
        raise MalformedXML()
    _PUT_VERSIONING(backend, bucket_name, status)


def _put_encryption(backend: Any, bucket_name: str, encryption: dict[str, Any]) -> None:
    by_default = encryption["Rule"]["ApplyServerSideEncryptionByDefault"]
    if by_default.get("KMSMasterKeyID") and not by_default["SSEAlgorithm"].startswith("aws:kms"):
        raise S3ClientError(
            "InvalidArgument",
            "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or "
            "aws:kms:dsse",
        )
    _PUT_ENCRYPTION(backend, bucket_name, encryption)


def _copy(backend: Any, source: Any, bucket: str, key: str, **more: Any) -> None:
    _COPY(backend, source, bucket, key, **more)
    copy = backend.get_object(bucket, key)
    if source.checksum_value and source.checksum_type == "COMPOSITE":
        checksum = getattr(responses, "compute_checksum")(copy.value, copy.checksum_algorithm)  # noqa: B009
        copy.checksum_value = checksum.decode()


def _permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy)
    statements = document["Statement"]
    if isinstance(statements, dict):
        statements = [statements]
    applying = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in statements
        if _applies(statement.get("Condition", {}))
    ]
    policy = IAMPolicy(json.dumps(document | {"Statement": applying}))
    return policy.is_action_permitted(action, resource)


def _applies(condition: Mapping[str, Any]) -> bool:
    return all(
        operator == "Bool"
        and key.lower() == "aws:securetransport"
        and any(is_true(value) for value in (values if isinstance(values, list) else [values]))
        for operator, keys in condition.items()
        for key, values in keys.items()
    )
