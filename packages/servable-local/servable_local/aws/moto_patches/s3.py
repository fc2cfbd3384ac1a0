"""S3: conditions of bucket policies, buckets that log, default encryption, checksums of copies.

Upstream (moto 5.2.5): every statement of a bucket policy is enforced as if it had no
condition, or denied where it has one, so the usual "deny what is not TLS" denies all.
Here aws:SecureTransport counts as true, for nothing leaves this computer; a statement with
any other condition is left out, because its result isn't known.

PutBucketLogging wants the target's policy, or its access control list, to be there already.
AWS reads the policy when it delivers; CloudFormation creates it last, because its condition
names the bucket that logs.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html

A new bucket has no encryption. On AWS every bucket encrypts with AES256 unless told otherwise.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html

CopyObject gives the copy of an upload in parts the checksum of the parts' checksums, as if it were the
bytes': boto3 refuses to read it. AWS computes that of the bytes.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

import json
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3 import responses
from moto.s3.models import FakeBucket, S3Backend

from servable_local.aws.resources.shapes import is_true

_COPY, _INIT = S3Backend.copy_object, FakeBucket.__init__


def install() -> None:
    """Patch S3. Idempotent."""
    setattr(FakeBucket, "get_permission", _permission)  # noqa: B010 (mypy)
    always = staticmethod(lambda target_bucket, target_prefix: True)
    setattr(FakeBucket, "_log_permissions_enabled_policy", always)  # noqa: B010
    setattr(FakeBucket, "__init__", _new_bucket)  # noqa: B010
    setattr(S3Backend, "copy_object", _copy)  # noqa: B010
    setattr(S3Backend, "delete_bucket_encryption", _reset_encryption)  # noqa: B010


def _new_bucket(bucket: Any, *arguments: Any, **more: Any) -> None:
    _INIT(bucket, *arguments, **more)
    bucket.encryption = _default_encryption()


def _reset_encryption(backend: Any, bucket_name: str) -> None:
    backend.get_bucket(bucket_name).encryption = _default_encryption()


def _default_encryption() -> dict[str, Any]:
    by_default = {"SSEAlgorithm": "AES256"}
    return {"Rule": {"ApplyServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": False}}


def _copy(backend: Any, source: Any, bucket: str, key: str, **more: Any) -> None:
    _COPY(backend, source, bucket, key, **more)
    copy = backend.get_object(bucket, key)
    copy.multipart = None
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
