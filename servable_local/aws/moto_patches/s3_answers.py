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
from servable_local.aws.moto_patches.object_inputs import RefusedError
from servable_local.aws.moto_patches.s3_described import (
    ENCRYPTION,
    KMS_KEY,
    DescribedS3Api,
    parts_of,
)

_INIT = FakeBucket.__init__
_BEGIN = S3Backend.create_multipart_upload
_OWNERSHIP = re.compile(r"<ObjectOwnership>([^<]*)<")
_OWNERSHIPS = {"BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"}
_CUSTOMER_ALGORITHM = f"{ENCRYPTION}-customer-algorithm"
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
_ONLY_STAR = "We don't accept the provided value of If-None-Match header for this API"
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


class AnsweredS3Api(DescribedS3Api):
    """One of AWS's buckets."""

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
        if request.method == "PUT" and "policy" in parse_qs(
            urlsplit(full_url).query, keep_blank_values=True
        ):
            return 204, *self._send_response(answer)[1:]
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
        self._refuse(request, query, name)
        status, headers, body = self._send_response(super()._key_response(request, full_url))
        bucket = self.backend.buckets.get(name)
        if status not in (200, 206) or bucket is None:
            return status, headers, body
        kept = not query.keys() - {"partNumber", "uploadId", "uploads", "versionId", "x-id"}
        if kept and request.method in ("POST", "PUT"):
            upload = bucket.multiparts.get(query.get("uploadId", [""])[0])
            rule = bucket.encryption["Rule"]["ApplyServerSideEncryptionByDefault"]
            headers.setdefault(
                ENCRYPTION, upload.sse_encryption if upload else rule["SSEAlgorithm"]
            )
            if upload and upload.kms_key_id:
                headers.setdefault(KMS_KEY, upload.kms_key_id)
        self.finish_headers(query, headers)
        return status, headers, body

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

    def _refuse(self, request: Any, query: Any, bucket: str) -> None:
        """Raises where AWS refuses a request about an object that moto takes."""
        headers, method = request.headers, request.method
        if headers.get(_CUSTOMER_ALGORITHM, "AES256") != "AES256":
            raise RefusedError(
                "InvalidEncryptionAlgorithmError",
                "The Encryption request you specified is not valid. Supported value: AES256.",
                {"ArgumentName": ENCRYPTION, "ArgumentValue": headers[_CUSTOMER_ALGORITHM]},
            )
        found = self.backend.buckets.get(bucket)
        upload = query.get("uploadId", [""])[0]
        if method == "POST" and found and upload not in {*found.multiparts, ""}:
            raise RefusedError(
                "NoSuchUpload",
                "The specified upload does not exist. The upload ID may be invalid, or the upload "
                "may have been aborted or completed.",
                {"UploadId": upload},
                404,
            )
        if headers.get("If-None-Match", "*") != "*" and method in ("POST", "PUT"):
            message = "A header you provided implies functionality that is not implemented"
            members = {"Header": "If-None-Match", "additionalMessage": _ONLY_STAR}
            raise RefusedError("NotImplemented", message, members, 501)
        number = query.get("partNumber", ["1"])[0]
        if method == "PUT" and not (number.isdigit() and 0 < int(number) <= 10_000):
            message = "Part number must be an integer between 1 and 10000, inclusive"
            members = {"ArgumentName": "partNumber", "ArgumentValue": number}
            raise RefusedError("InvalidArgument", message, members)
        if method in ("GET", "HEAD") and "partNumber" in query:
            if "Range" in headers:
                message = "Cannot specify both Range header and partNumber query parameter"
                raise RefusedError("InvalidRequest", message)
            key = self.backend.get_object(bucket, self.parse_key_name())
            if key and number.isdigit() and int(number) > len(parts_of(key)):
                raise RefusedError(
                    "InvalidPartNumber",
                    "The requested partnumber is not satisfiable",
                    {
                        "ActualPartCount": str(len(parts_of(key))),
                        "PartNumberRequested": number,
                    },
                    416,
                )
        source = unquote(headers.get("x-amz-copy-source", "")).lstrip("/")
        if "If-Match" in headers and (source or (method == "POST" and "uploadId" in query)):
            target = self.backend.get_object(bucket, self.parse_key_name())
            if target is None or target.etag.strip('"') != headers["If-Match"].strip('"'):
                raise PreconditionFailed("If-Match")
            if not source and target is not found.multiparts[upload].servable_before:
                raise RefusedError(
                    "ConditionalRequestConflict",
                    "The conditional request cannot succeed due to a conflicting operation against "
                    "this resource.",
                    status=409,
                )
        if "versionId=" in source and self._is_marker(source):
            raise RefusedError(
                "InvalidRequest",
                "The source of a copy request may not specifically refer to a delete marker by "
                "version id.",
            )
        self._refuse_key(request, query, bucket)

    def _refuse_key(self, request: Any, query: Any, bucket: str) -> None:
        """The same, for the key of KMS that the object is kept with, or shall be."""
        method = request.method
        key_id = request.headers.get(KMS_KEY)
        if method == "GET" and not query:
            key_id = getattr(
                self.backend.get_object(bucket, self.parse_key_name()), "kms_key_id", ""
            )
        of_kms = kms_backends[self.current_account][self.region]
        key = keys.named(of_kms, key_id) if key_id else None
        for code, message in keys.unusable(key):
            raise RefusedError(f"KMS.{code}", message)
        # A key's ARN in a user's file names one of their account, which nobody makes here.
        if key is None and key_id and not key_id.startswith("arn:") and method in ("POST", "PUT"):
            is_id = _UUID.fullmatch(key_id.rpartition("/")[2])
            words = f"Key '{key_id}' does not exist" if is_id else f"Invalid keyId '{key_id}'"
            raise RefusedError("KMS.NotFoundException", words)

    def _is_marker(self, source: str) -> bool:
        path, _, version = source.partition("?versionId=")
        bucket, _, name = path.partition("/")
        found = self.backend.buckets.get(bucket)
        versions = found.keys.getlist(name, []) if found else []
        return any(isinstance(v, FakeDeleteMarker) and v.version_id == version for v in versions)
