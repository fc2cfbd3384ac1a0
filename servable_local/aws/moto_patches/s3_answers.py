"""S3: what every bucket and every object has on AWS without being asked, and requests that are refused.

Upstream (moto 5.2.5): a new bucket has no encryption, no block of public access and no ownership, answers
do not say how an object is encrypted, and some conditions of a request are not looked at.
Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html;
tests/servable_local/aws/aws_answers.jsonl in the repository has what was recorded.
"""

import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from moto.core.responses import ActionResult
from moto.kms.models import kms_backends
from moto.s3 import responses
from moto.s3.exceptions import (
    BucketAccessDeniedError,
    MalformedXML,
    PreconditionFailed,
    S3ClientError,
)
from moto.s3.models import FakeBucket, FakeDeleteMarker, PublicAccessBlock, S3Backend

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches import keys
from servable_local.aws.moto_patches.objects import S3Api

_INIT = FakeBucket.__init__
_BEGIN = S3Backend.create_multipart_upload
_OWNERSHIP = re.compile(r"<ObjectOwnership>([^<]*)<")
_OWNERSHIPS = {"BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"}
_ENCRYPTION = "x-amz-server-side-encryption"
_CUSTOMER_ALGORITHM = f"{_ENCRYPTION}-customer-algorithm"
_KMS_KEY = f"{_ENCRYPTION}-aws-kms-key-id"
# Parts of a bucket and of an object that moto knows; of others it takes a request for one about the whole:
# DeleteBucketMetricsConfiguration deleted the bucket.
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
_ACCOUNT = re.compile(r"\d{12}")
_UUID = re.compile(r"(mrk-)?[0-9a-f-]{32,36}")


def install() -> None:
    """Idempotent. After the objects' patches."""
    setattr(FakeBucket, "__init__", _new_bucket)  # noqa: B010 (mypy)
    setattr(S3Backend, "delete_bucket_encryption", _default_encryption)  # noqa: B010
    setattr(S3Backend, "create_multipart_upload", _begin)  # noqa: B010
    setattr(responses, "S3Response", AnsweredS3Api)  # noqa: B010


def _default() -> dict[str, Any]:
    by_default = {"SSEAlgorithm": "AES256"}
    return {"Rule": {"ApplyServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": False}}


def _new_bucket(bucket: Any, *arguments: Any, **more: Any) -> None:
    _INIT(bucket, *arguments, **more)
    bucket.encryption = _default()
    bucket.public_access_block = PublicAccessBlock(True, True, True, True)
    bucket.ownership_rule = "BucketOwnerEnforced"


def _default_encryption(backend: Any, bucket_name: str) -> None:
    backend.get_bucket(bucket_name).encryption = _default()


def _begin(backend: Any, bucket_name: str, *arguments: Any) -> Any:
    upload: Any = _BEGIN(backend, bucket_name, *arguments)
    upload.servable_before = backend.get_object(bucket_name, arguments[0])
    by_default = backend.get_bucket(bucket_name).encryption["Rule"][
        "ApplyServerSideEncryptionByDefault"
    ]
    upload.sse_encryption = upload.sse_encryption or by_default["SSEAlgorithm"]
    upload.kms_key_id = upload.kms_key_id or by_default.get("KMSMasterKeyID")
    return upload


@cache
def _parts() -> dict[tuple[str, str, str], str]:
    """Operation by what it is about, method, and the part that its address names after the ?."""
    found = {}
    for name, operation in service_model("s3")._service_description["operations"].items():
        path, _, query = operation["http"]["requestUri"].partition("?")
        part = query.partition("&")[0]
        if part and "=" not in part:
            about = "object" if "{Key" in path else "bucket"
            found[about, operation["http"]["method"], part] = name
    return found


def _check_part(about: str, method: str, full_url: str) -> None:
    for part in parse_qs(urlsplit(full_url).query, keep_blank_values=True):
        operation = _parts().get((about, method, part))
        if operation and part not in _KNOWN.get((about, method), ()):
            raise NotImplementedError(f"{operation} is no operation here")


class AnsweredS3Api(S3Api):
    """One of AWS's buckets. An error is raised, or is an answer where moto has another status for it."""

    def _bucket_response(self, request: Any, full_url: str) -> Any:
        self._check_owner(request, full_url)
        _check_part("bucket", request.method, full_url)
        if request.method == "PUT" and "ownershipControls" in urlsplit(full_url).query:
            stated = _OWNERSHIP.findall(
                self.body if isinstance(self.body, str) else self.body.decode()
            )
            if not set(stated) <= _OWNERSHIPS:
                raise MalformedXML()
        answer = super()._bucket_response(request, full_url)
        name = self.parse_bucket_name_from_url(request, full_url)
        if not name or urlsplit(full_url).query or request.method not in ("HEAD", "PUT"):
            return answer
        status, headers, body = self._send_response(answer)
        bucket = self.backend.buckets.get(name)
        if status == 200 and bucket is not None:
            headers["x-amz-bucket-arn"] = bucket.arn
            if request.method == "HEAD":
                headers["x-amz-access-point-alias"] = "false"
            elif bucket.region_name != "us-east-1":
                headers["Location"] = f"http://{name}.s3.amazonaws.com/"
        return status, headers, body

    def _key_response(self, request: Any, full_url: str) -> Any:
        self._check_owner(request, full_url)
        _check_part("object", request.method, full_url)
        query = parse_qs(urlsplit(full_url).query, keep_blank_values=True)
        name = self.parse_bucket_name_from_url(request, full_url)
        refused = self._refused(request, query, name)
        if refused is not None:
            status, error = refused
            _, headers, body = self.serialized(error)
            return status, headers, body
        status, headers, body = self._send_response(super()._key_response(request, full_url))
        bucket = self.backend.buckets.get(name)
        if status == 200 and bucket is not None and request.method in ("POST", "PUT"):
            self._say_how_it_is_kept(bucket, query, headers)
        return status, headers, body

    def _say_how_it_is_kept(self, bucket: Any, query: Any, headers: dict[str, Any]) -> None:
        if not query.keys() - {"partNumber", "uploadId", "uploads", "versionId"}:
            rule = bucket.encryption["Rule"]["ApplyServerSideEncryptionByDefault"]
            headers.setdefault(_ENCRYPTION, rule["SSEAlgorithm"])
        summed = any(name.lower().startswith("x-amz-checksum-") for name in headers)
        if summed and not query:
            headers.setdefault("x-amz-checksum-type", "FULL_OBJECT")

    def _check_owner(self, request: Any, full_url: str) -> None:
        owner = request.headers.get("x-amz-expected-bucket-owner")
        if owner is not None and not _ACCOUNT.fullmatch(owner):
            raise S3ClientError(
                "InvalidBucketOwnerAWSAccountID",
                f"The value of the expected bucket owner parameter must be an AWS Account ID... [{owner}]",
            )
        bucket = self.backend.buckets.get(self.parse_bucket_name_from_url(request, full_url))
        if owner is not None and bucket is not None and owner != bucket.account_id:
            raise BucketAccessDeniedError(bucket.name)

    def _refused(self, request: Any, query: Any, bucket: str) -> tuple[int, Any] | None:
        """Status and error of a request about an object that AWS refuses and moto takes."""
        headers, method = request.headers, request.method
        if headers.get(_CUSTOMER_ALGORITHM, "AES256") != "AES256":
            message = "The Encryption request you specified is not valid. Supported value: AES256."
            return 400, _error("InvalidEncryptionAlgorithmError", message)
        found = self.backend.buckets.get(bucket)
        if (
            method == "POST"
            and found
            and query.get("uploadId", [""])[0] not in {*found.multiparts, ""}
        ):
            message = (
                "The specified upload does not exist. The upload ID may be invalid, or the upload "
                "may have been aborted or completed."
            )
            return 404, _error("NoSuchUpload", message)
        if headers.get("If-None-Match", "*") != "*" and method in ("POST", "PUT"):
            message = "A header you provided implies functionality that is not implemented"
            return 501, _error("NotImplemented", message)
        number = query.get("partNumber", ["1"])[0]
        if method == "PUT" and not (number.isdigit() and 0 < int(number) <= 10_000):
            message = "Part number must be an integer between 1 and 10000, inclusive"
            return 400, _error("InvalidArgument", message)
        if method in ("GET", "HEAD") and "partNumber" in query:
            key = self.backend.get_object(bucket, self.parse_key_name())
            parts = len(key.multipart.parts) if key and key.multipart else 1
            if key and number.isdigit() and int(number) > parts:
                return 416, _error(
                    "InvalidPartNumber", "The requested partnumber is not satisfiable"
                )
        source = unquote(headers.get("x-amz-copy-source", "")).lstrip("/")
        if "If-Match" in headers and (source or (method == "POST" and "uploadId" in query)):
            target = self.backend.get_object(bucket, self.parse_key_name())
            if target is None or target.etag.strip('"') != headers["If-Match"].strip('"'):
                raise PreconditionFailed("If-Match")
            if not source and target is not found.multiparts[query["uploadId"][0]].servable_before:
                message = (
                    "The conditional request cannot succeed due to a conflicting operation against "
                    "this resource."
                )
                return 409, _error("ConditionalRequestConflict", message)
        if "versionId=" in source and self._is_marker(source):
            message = (
                "The source of a copy request may not specifically refer to a delete marker by "
                "version id."
            )
            return 400, _error("InvalidRequest", message)
        return self._refused_key(request, query, bucket)

    def _refused_key(self, request: Any, query: Any, bucket: str) -> tuple[int, Any] | None:
        """The same, for the key of KMS that the object is kept with, or shall be."""
        method = request.method
        key_id = request.headers.get(_KMS_KEY)
        if method == "GET" and not query:
            key_id = getattr(
                self.backend.get_object(bucket, self.parse_key_name()), "kms_key_id", ""
            )
        of_kms = kms_backends[self.current_account][self.region]
        key = keys.named(of_kms, key_id) if key_id else None
        for code, message in keys.unusable(key):
            return 400, _error(f"KMS.{code}", message)
        # A key's ARN in a user's file names one of their account, which nobody makes here.
        if not key_id or key_id.startswith("arn:") or method not in ("POST", "PUT"):
            return None
        if key is None:
            is_id = _UUID.fullmatch(key_id.rpartition("/")[2])
            words = f"Key '{key_id}' does not exist" if is_id else f"Invalid keyId '{key_id}'"
            return 400, _error("KMS.NotFoundException", words)
        return None

    def _is_marker(self, source: str) -> bool:
        path, _, version = source.partition("?versionId=")
        bucket, _, name = path.partition("/")
        found = self.backend.buckets.get(bucket)
        versions = found.keys.getlist(name, []) if found else []
        return any(isinstance(v, FakeDeleteMarker) and v.version_id == version for v in versions)


def _error(code: str, message: str) -> Any:
    return ActionResult(S3ClientError(code, message))
