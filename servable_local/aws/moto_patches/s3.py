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
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3 import responses
from moto.s3.exceptions import (
    AccessDeniedByLock,
    InvalidBucketName,
    InvalidBucketState,
    InvalidLocationConstraintException,
    MalformedXML,
    S3ClientError,
)
from moto.s3.models import FakeBucket, FakeDeleteMarker, S3Backend

from servable_local.aws.moto_patches.object_inputs import S3RefusedError
from servable_local.aws.resources.shapes import is_true

_COPY = S3Backend.copy_object
_CREATE, _DELETE = S3Backend.create_bucket, S3Backend.delete_bucket
_PUT_POLICY, _PUT_VERSIONING = S3Backend.put_bucket_policy, S3Backend.put_bucket_versioning
_PUT, _DELETE_OBJECT, _PUT_LOGGING = (
    S3Backend.put_object,
    S3Backend.delete_object,
    S3Backend.put_bucket_logging,
)
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
    setattr(S3Backend, "put_bucket_logging", _put_logging)  # noqa: B010
    setattr(S3Backend, "put_object", _put)  # noqa: B010
    setattr(S3Backend, "delete_object", _delete_object)  # noqa: B010
    setattr(InvalidBucketState, "status", 409)  # noqa: B010
    # Raised for this one only.
    named = {"LocationConstraint": "us-east-1"}
    setattr(InvalidLocationConstraintException, "members", named)  # noqa: B010


def _locked(error: Any) -> None:
    message = "Access Denied because object protected by object lock."
    S3ClientError.__init__(error, "AccessDenied", message)
    error.status = 403


def _put_logging(backend: Any, bucket_name: str, config: Any) -> None:
    bucket = backend.get_bucket(bucket_name)
    name = config.get("TargetBucket") if config else None
    target = backend.buckets.get(name)
    if name and target is None:
        message = "The target bucket for logging does not exist"
        raise S3RefusedError("InvalidTargetBucketForLogging", message, {"TargetBucket": name})
    if target and target.region_name != bucket.region_name:
        members = {"TargetBucketLocation": target.region_name}
        if bucket.region_name != "us-east-1":
            members["SourceBucketLocation"] = bucket.region_name
        message = "Cross S3 location logging not allowed. "
        raise S3RefusedError("CrossLocationLoggingProhibitted", message, members, 403)
    _PUT_LOGGING(backend, bucket_name, config)


@cache
def _regions() -> list[str]:
    return list(boto3.Session().get_available_regions("s3"))


def _create(backend: Any, bucket_name: str, region_name: str, *arguments: Any, **more: Any) -> Any:
    if not _NAME.fullmatch(bucket_name):
        raise InvalidBucketName()
    if region_name not in (*_regions(), "EU"):  # aws-global is a name for endpoints, and no region
        message = "The specified location-constraint is not valid"
        members = {"LocationConstraint": region_name}
        raise S3RefusedError("InvalidLocationConstraint", message, members)
    region = "eu-west-1" if region_name == "EU" else region_name
    return _CREATE(backend, bucket_name, region, *arguments, **more)


def _delete(backend: Any, bucket_name: str) -> Any:
    bucket = backend.get_bucket(bucket_name)
    if bucket.keys and bucket.versioning_status:
        message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
        raise S3RefusedError("BucketNotEmpty", message, {"BucketName": bucket_name}, 409)
    return _DELETE(backend, bucket_name)


def _others(bucket: Any, name: str) -> list[Any]:
    """Versions of an object that stay when its version without an id is written or deleted."""
    return [key for key in bucket.keys.getlist(name, []) if str(key.version_id) != "null"]


def _put(backend: Any, bucket_name: str, key_name: str, *arguments: Any, **more: Any) -> Any:
    """Upstream an object that is put while versioning is suspended replaces all of its versions."""
    bucket = backend.get_bucket(bucket_name)
    stay = _others(bucket, key_name) if bucket.versioning_status == "Suspended" else []
    key = _PUT(backend, bucket_name, key_name, *arguments, **more)
    if stay:
        bucket.keys.setlist(key_name, [*stay, key])
    return key


def _named(name: str) -> Any:
    return SimpleNamespace(name=name)  # all that a mark reads of what it hides


def _delete_object(
    backend: Any,
    bucket_name: str,
    key_name: str,
    version_id: str | None = None,
    bypass: bool = False,
) -> tuple[bool, dict[str, Any]]:
    """With marks where versioning is suspended, and with whether it was a mark that went."""
    bucket = backend.get_bucket(bucket_name)
    before = bucket.keys.getlist(key_name, [])
    gone = [key for key in before if str(key.version_id) == version_id]
    marks = any(isinstance(key, FakeDeleteMarker) for key in gone)
    said = {"delete-marker": "true"} if marks else {}
    if bucket.versioning_status != "Suspended":
        if version_id is None and bucket.versioning_status and key_name not in bucket.keys:
            bucket.keys[key_name] = mark = FakeDeleteMarker(_named(key_name))
            return True, {"version-id": mark.version_id, "delete-marker": "true"}
        done, meta = _DELETE_OBJECT(backend, bucket_name, key_name, version_id, bypass)
        return done, meta | said
    if version_id is None:
        mark = FakeDeleteMarker(_named(key_name))
        mark._version_id = "null"
        bucket.keys.setlist(key_name, [*_others(bucket, key_name), mark])
        return True, {"version-id": "null", "delete-marker": "true"}
    bucket.keys.setlist(key_name, [key for key in before if key not in gone])
    if not bucket.keys.getlist(key_name):
        bucket.keys.pop(key_name)
    return bool(gone), {"version-id": version_id} | said


def _put_policy(backend: Any, bucket_name: str, policy: bytes) -> None:
    try:
        statements = json.loads(policy).get("Statement")
    except (AttributeError, ValueError):
        message = "Policies must be valid JSON and the first byte must be '{'"
        raise S3ClientError("MalformedPolicy", message) from None
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
    if status == "Suspended" and backend.get_bucket(bucket_name).object_lock_enabled:
        message = (
            "An Object Lock configuration is present on this bucket, so the versioning state cannot be "
            "changed."
        )
        raise S3RefusedError("InvalidBucketState", message, status=409)
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
    backend.get_bucket(bucket_name).servable_encrypted = True  # and not by default alone


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
