"""S3: objects in files, conditions of bucket policies, logging, encryption, checksums of copies.

Upstream (moto 5.2.5): every request about an object copies all of it into memory, even for a
range of a few bytes; a register of all objects keeps deleted ones. Here objects are in files, and
are sent, copied, and joined without being read into memory: moto gets a content
(servable_local/aws/contents.py) instead of bytes, in the operations that only measure, slice,
store, or send it. Responses are moto's own.

Upstream, every statement of a bucket policy is enforced without its condition, or denied if it
has one, so the usual "deny what is not TLS" denies all. Here aws:SecureTransport counts as true,
because nothing leaves this computer; a statement with any other condition is ignored, because its
result isn't known.

PutBucketLogging requires the target's policy, or its access control list, to exist.
AWS reads the policy when it delivers; CloudFormation creates it last, because its condition
names the bucket that logs.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html

A new bucket has no encryption. On AWS every bucket encrypts with AES256 by default.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html

CopyObject gives the copy of a multipart upload the checksum of the parts' checksums, as if it
were that of the bytes: boto3 refuses to read it. AWS computes the checksum of the bytes. Source:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

import base64
import codecs
import hashlib
import io
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moto import settings
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3 import responses
from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML
from moto.s3.models import FakeBucket, FakeKey, FakeMultipart, S3Backend, s3_backends
from moto.s3.utils import compute_checksum
from moto.utilities.utils import get_partition

from servable_local.aws.contents import ENVIRON, ObjectContent
from servable_local.aws.loopback import load_service_model
from servable_local.aws.resources.resource_type import is_true

# The parts of an object whose PUT contains a small document instead of the object.
_DOCUMENTS = frozenset({"acl", "legal-hold", "retention", "tagging"})
# Parts of buckets and objects that moto supports.
_WRITTEN = "accelerate acl cors encryption inventory lifecycle logging notification object-lock"
_WRITTEN += " ownershipControls policy publicAccessBlock replication tagging versioning website"
_DELETED = "cors encryption lifecycle ownershipControls policy publicAccessBlock replication tagging website"
_KNOWN = {
    ("bucket", "GET"): {*_WRITTEN.split(), "location", "policyStatus", "uploads", "versions"},
    ("bucket", "PUT"): {*_WRITTEN.split()},
    ("bucket", "DELETE"): {*_DELETED.split()},
    ("bucket", "POST"): {"delete"},
    ("object", "GET"): {"acl", "attributes", "legal-hold", "retention", "tagging"},
    ("object", "PUT"): {"acl", "legal-hold", "retention", "tagging"},
    ("object", "DELETE"): {"tagging"},
    ("object", "POST"): {"restore", "select", "uploads"},
}
_COMPUTE_CHECKSUM = compute_checksum
_S3Response: Any = responses.S3Response
# Whether FakeKey.value returns a content instead of bytes.
_as_content: ContextVar[bool] = ContextVar("as_content", default=False)


def install() -> None:
    """Patch S3, before the first use of moto's. Idempotent."""

    def create_unregistered(kind: Any, *_: Any, **__: Any) -> Any:
        return object.__new__(kind)

    patches: list[tuple[Any, str, Any]] = [
        (FakeKey, "__new__", staticmethod(create_unregistered)),
        (FakeMultipart, "__new__", staticmethod(create_unregistered)),
        (FakeKey, "__del__", lambda key: None),
        (FakeKey, "__getstate__", _copy_state),
        (FakeKey, "__setstate__", _restore_state),
        (FakeKey, "value", property(_read_value, _set_value)),
        (FakeKey, "etag", property(_compute_etag)),
        (FakeMultipart, "complete", _complete_upload),
        (responses, "compute_checksum", _compute_checksum),
        (responses, "S3Response", S3Api),
        (FakeBucket, "get_permission", _evaluate_permission),
        (FakeBucket, "_log_permissions_enabled_policy", staticmethod(lambda *_, **__: True)),
        (FakeBucket, "__init__", _initialize_bucket),
        (S3Backend, "copy_object", _copy_object),
        (S3Backend, "delete_bucket_encryption", _reset_encryption),
    ]
    for owner, name, value in patches:
        setattr(owner, name, value)


def find_content(account: str, region: str, bucket: str, key: str) -> ObjectContent:
    """Return the content of an existing object."""
    return _read_content(s3_backends[account][get_partition(region)].get_object(bucket, key))


def _read_content(key: Any) -> ObjectContent:
    content: ObjectContent = key.servable_content
    return content


def _copy_state(key: Any) -> dict[str, Any]:
    """Return the attributes for a copy: listing versions copies objects without reading them."""
    attributes = vars(key).items()
    return {name: item for name, item in attributes if name not in ("lock", "_value_buffer")}


def _restore_state(key: Any, state: dict[str, Any]) -> None:
    vars(key).update(state)
    key.lock, key._value_buffer = threading.Lock(), io.BytesIO()


def _read_value(key: Any) -> ObjectContent | bytes:
    return _read_content(key) if _as_content.get() else bytes(_read_content(key))


def _set_value(key: Any, value: ObjectContent | bytes | str) -> None:
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        value = ObjectContent.from_bytes(value)
    key.servable_content, key.contentsize = value, len(value)


def _compute_etag(key: Any) -> str:
    if key._etag is None:
        key._etag = _read_content(key).compute_digest("MD5").hex()
    return f'"{key._etag}"'


def _complete_upload(
    upload: Any, parts: Iterable[tuple[int, str]]
) -> tuple[ObjectContent, str, tuple[str, str, int] | None]:
    """Return the joined parts, their ETag, and a checksum if the upload named an algorithm."""
    chosen: list[Any] = []
    for number, etag in parts:
        part = upload.parts.get(number)
        if part is None or part.etag.strip('"') != etag.replace('"', ""):
            raise InvalidPart()
        if chosen and chosen[-1].contentsize < settings.S3_UPLOAD_PART_MIN_SIZE:
            raise EntityTooSmall()
        chosen.append(part)
    if not chosen:
        raise MalformedXML()
    contents = [_read_content(part) for part in chosen]
    digests = b"".join(codecs.decode(part.etag.strip('"'), "hex") for part in chosen)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(chosen)}"
    whole = ObjectContent.join(contents)
    checksum = _compute_upload_checksum(upload.metadata, contents, whole)
    for part in upload.parts.values():
        part.value = b""  # frees the parts: moto keeps the upload, and the whole contains them
    return whole, etag, checksum


def _compute_upload_checksum(
    metadata: Mapping[str, str], parts: Sequence[ObjectContent], whole: ObjectContent
) -> tuple[str, str, int] | None:
    """Return the checksum's kind, the checksum in base64, and its number of parts.

    Return None if the upload names no algorithm, CRC32C, or CRC64NVME.

    Source:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
    (2026-11-22)
    """
    algorithm = metadata.get("x-amz-checksum-algorithm")
    if algorithm is None or algorithm in ("CRC32C", "CRC64NVME"):
        return None
    kind = metadata.get("x-amz-checksum-type") or "COMPOSITE"
    if kind == "COMPOSITE":
        sums = ObjectContent.from_bytes(b"".join(part.compute_digest(algorithm) for part in parts))
        return kind, sums.encode_checksum(algorithm), len(parts)
    return kind, whole.encode_checksum(algorithm), 1


def _compute_checksum(body: Any, algorithm: str, encode_base64: bool = True) -> bytes:
    if isinstance(body, ObjectContent):
        digest = body.compute_digest(algorithm)
        return base64.b64encode(digest) if encode_base64 else digest
    return bytes(_COMPUTE_CHECKSUM(body, algorithm, encode_base64))


def _wrap_with_contents(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run_with_contents(api: Any) -> Any:
        token = _as_content.set(True)
        try:
            return operation(api)
        finally:
            _as_content.reset(token)

    return run_with_contents


@cache
def _map_operations() -> dict[tuple[str, str, str], str]:
    """Map "bucket" or "object", the method, and the part named after the ? to the operation."""
    found = {}
    for name, operation in load_service_model("s3")._service_description["operations"].items():
        path, _, query = operation["http"]["requestUri"].partition("?")
        part = query.partition("&")[0]
        if part and "=" not in part:
            about = "object" if "{Key" in path else "bucket"
            found[about, operation["http"]["method"], part] = name
    return found


def _check_part(about: str, method: str, full_url: str) -> None:
    """Raise NotImplementedError for a part of a bucket or an object that moto doesn't support.

    Upstream, the request affects the whole: DeleteBucketMetricsConfiguration deletes the bucket.
    """
    for part in parse_qs(urlsplit(full_url).query, keep_blank_values=True):
        operation = _map_operations().get((about, method, part))
        if operation and part not in _KNOWN.get((about, method), ()):
            raise NotImplementedError(f"{operation} isn't an operation of the local AWS")


class S3Api(_S3Response):  # type: ignore[misc]
    """moto's API of S3, with contents as objects."""

    def setup_class(self, request: Any, full_url: str | None = None, headers: Any = None) -> None:
        super().setup_class(request, full_url, headers)
        # Removed, because a request and its environment refer to each other and are freed late.
        content = request.environ.pop(ENVIRON, None)
        if content is not None:
            document = _DOCUMENTS & self.querystring.keys()
            self.body = self.raw_body = bytes(content) if document else content

    def _bucket_response(self, request: Any, full_url: str) -> Any:
        _check_part("bucket", request.method, full_url)
        return super()._bucket_response(request, full_url)

    def _key_response(self, request: Any, full_url: str) -> Any:
        _check_part("object", request.method, full_url)
        return super()._key_response(request, full_url)

    get_object = _wrap_with_contents(_S3Response.get_object)
    copy_object = _wrap_with_contents(_S3Response.copy_object)
    upload_part_copy = _wrap_with_contents(_S3Response.upload_part_copy)

    def _get_checksum(self, response_headers: dict[str, Any]) -> tuple[str, str | None]:
        """Return algorithm and checksum; moto reads a trailer, which was removed on arrival."""
        content = self.raw_body
        algorithm = self.headers.get("x-amz-sdk-checksum-algorithm", "")
        if not (algorithm and isinstance(content, ObjectContent)):
            return super()._get_checksum(response_headers)  # type: ignore[no-any-return]
        name = f"x-amz-checksum-{algorithm.lower()}"
        value = self.headers.get(name) or content.encode_checksum(algorithm)
        response_headers[name] = value
        return algorithm, value


_COPY, _INIT = S3Backend.copy_object, FakeBucket.__init__


def _initialize_bucket(bucket: Any, *arguments: Any, **more: Any) -> None:
    _INIT(bucket, *arguments, **more)
    bucket.encryption = _build_default_encryption()


def _reset_encryption(backend: Any, bucket_name: str) -> None:
    backend.get_bucket(bucket_name).encryption = _build_default_encryption()


def _build_default_encryption() -> dict[str, Any]:
    by_default = {"SSEAlgorithm": "AES256"}
    return {"Rule": {"ApplyServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": False}}


def _copy_object(backend: Any, source: Any, bucket: str, key: str, **more: Any) -> None:
    _COPY(backend, source, bucket, key, **more)
    copy = backend.get_object(bucket, key)
    copy.multipart = None
    if source.checksum_value and source.checksum_type == "COMPOSITE":
        checksum = getattr(responses, "compute_checksum")(copy.value, copy.checksum_algorithm)  # noqa: B009
        copy.checksum_value = checksum.decode()


def _evaluate_permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy)
    statements = document["Statement"]
    if isinstance(statements, dict):
        statements = [statements]
    applying = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in statements
        if _is_condition_met(statement.get("Condition", {}))
    ]
    policy = IAMPolicy(json.dumps(document | {"Statement": applying}))
    return policy.is_action_permitted(action, resource)


def _is_condition_met(condition: Mapping[str, Any]) -> bool:
    return all(
        operator == "Bool"
        and key.lower() == "aws:securetransport"
        and any(is_true(value) for value in (values if isinstance(values, list) else [values]))
        for operator, keys in condition.items()
        for key, values in keys.items()
    )
