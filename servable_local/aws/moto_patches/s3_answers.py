"""S3: what every bucket and every object has on AWS without being asked, and requests that are refused.

Upstream (moto 5.2.5): a new bucket has no encryption, no block of public access and no ownership, answers
do not say how an object is encrypted, and some conditions of a request are not looked at.
Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html;
tests/servable_local/aws/aws_answers.jsonl in the repository has what was recorded.
"""

import re
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moto.core.responses import ActionResult
from moto.iam.access_control import PermissionResult
from moto.kms.models import kms_backends
from moto.s3 import responses
from moto.s3.exceptions import (
    BucketAccessDeniedError,
    BucketAlreadyOwnedByYou,
    MalformedXML,
    MissingVersion,
    S3ClientError,
)
from moto.s3.models import FakeBucket, PublicAccessBlock, S3Backend

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches import keys
from servable_local.aws.moto_patches.object_inputs import S3RefusedError
from servable_local.aws.moto_patches.object_refusals import (
    ENCRYPTION,
    asked_of,
    check_bypass,
    check_canned,
    document,
    refuse,
)
from servable_local.aws.moto_patches.s3_described import KMS_KEY, DescribedS3Api
from servable_local.aws.moto_patches.s3_documents import check_document

_INIT = FakeBucket.__init__
_BEGIN = S3Backend.create_multipart_upload
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
_RANGE = re.compile(r"bytes=(\d+-\d*|-\d+)")
_TAG = re.compile(rb"<Tag[ />]")
_DENIED = PermissionResult.DENIED
_ACCOUNT = re.compile(r"\d{12}")
_UUID = re.compile(r"(mrk-)?[0-9a-f-]{32,36}")
_SIZES = ("all_storage_classes_128K", "varies_by_storage_class")
_MINIMUM = "x-amz-transition-default-minimum-object-size"


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
    bucket.servable_lifecycle = (_SIZES[0], [])


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


def _operation(about: str, method: str, full_url: str) -> str | None:
    """The operation that the address names a part for; raises for one that moto does not know."""
    for part in parse_qs(urlsplit(full_url).query, keep_blank_values=True):
        operation = _parts().get((about, method, part))
        if operation and part not in _KNOWN.get((about, method), ()):
            raise NotImplementedError(f"{operation} is no operation here")
        if operation:
            return operation
    return None


class AnsweredS3Api(DescribedS3Api):
    """One of AWS's buckets."""

    def _bucket_response(self, request: Any, full_url: str) -> Any:
        self._check_owner(request, full_url)
        operation = _operation("bucket", request.method, full_url)
        check_canned(request.headers)
        owned = request.headers.get("x-amz-object-ownership")
        if owned is not None and owned not in service_model("s3").shape_for("ObjectOwnership").enum:
            message = f"Invalid x-amz-object-ownership header: {owned}"
            raise S3RefusedError(
                "InvalidArgument", message, {"ArgumentName": "x-amz-object-ownership"}
            )
        name = self.parse_bucket_name_from_url(request, full_url)
        body = bytes(self.body or b"")
        with_tags = request.method == "PUT" and not operation and _TAG.search(body)
        if operation and request.method == "PUT":
            self.backend.get_bucket(name)
            if operation == "PutBucketAccelerateConfiguration" and "." in name:
                message = "S3 Transfer Acceleration is not supported for buckets with periods"
                raise S3RefusedError("InvalidRequest", f"{message} (.) in their names")
            check_document(operation, body, request.headers)
        elif with_tags:
            check_document("CreateBucket", body, request.headers)
            if name in self.backend.buckets:
                raise BucketAlreadyOwnedByYou(name)
        minimum = request.headers.get(_MINIMUM, _SIZES[0])
        if minimum not in _SIZES:
            message = f"Invalid TransitionDefaultMinimumObjectSize found: {minimum}"
            raise S3RefusedError("InvalidRequest", message)
        status, headers, answer = self._send_response(super()._bucket_response(request, full_url))
        if with_tags:
            tags = document(body).iterfind("{*}Tags/{*}Tag")
            pairs = ((tag.findtext("{*}Key"), tag.findtext("{*}Value")) for tag in tags)
            self.backend.put_bucket_tagging(name, {str(key): value or "" for key, value in pairs})
        bucket = self.backend.buckets.get(name)
        if bucket is None or status != 200:
            return status, headers, answer
        if operation == "PutBucketLifecycleConfiguration":
            rules = document(body).findall("{*}Rule")
            bucket.servable_lifecycle, headers[_MINIMUM] = (minimum, rules), minimum
        if operation is None and request.method in ("GET", "HEAD"):
            headers["x-amz-bucket-region"] = bucket.region_name
        if not urlsplit(full_url).query and request.method in ("HEAD", "PUT"):
            headers["x-amz-bucket-arn"] = bucket.arn
            if request.method == "HEAD":
                headers["x-amz-access-point-alias"] = "false"
            elif bucket.region_name != "us-east-1":
                headers["Location"] = f"http://{name}.s3.amazonaws.com/"
        return 204 if operation == "PutBucketPolicy" else status, headers, answer

    def _tagging_from_xml(self) -> dict[str, str]:
        return super()._tagging_from_xml() if b"<Tag>" in bytes(self.body) else {}

    def _bucket_response_delete_keys(self, bucket_name: str, authenticated: bool = True) -> Any:
        """Upstream, marks that go are not said, versions that are not there go, and Quiet is not read."""
        bucket = self.backend.get_bucket(bucket_name)
        check_bypass(bucket, self.headers)
        asked = document(self.body)
        objects = asked.findall("{*}Object")
        if not 0 < len(objects) <= 1000:
            raise MalformedXML()
        bypass = self.headers.get("x-amz-bypass-governance-retention", "").lower() == "true"
        gone, errors = [], []
        for item in objects:
            name, version = item.findtext("{*}Key", ""), item.findtext("{*}VersionId")
            there = [str(key.version_id) for key in bucket.keys.getlist(name, [])]
            try:
                if bucket.get_permission("s3:DeleteObject", f"{bucket.arn}/{name}") is _DENIED:
                    raise S3ClientError("AccessDenied", "Access Denied")
                if version and version not in there:
                    raise MissingVersion()
                _, meta = self.backend.delete_object(bucket_name, name, version, bypass)
            except S3ClientError as error:
                said: dict[str, Any] = {"Key": name, "Code": error.code, "Message": error.message}
                errors.append(said | {"VersionId": version})
                continue
            mark = {"DeleteMarker": True, "DeleteMarkerVersionId": meta.get("version-id")}
            gone.append(
                {"Key": name, "VersionId": version} | (mark if "delete-marker" in meta else {})
            )
        self.data["Action"] = "DeleteObjects"
        quiet = asked.findtext("{*}Quiet", "").lower() == "true"
        return self.serialized(ActionResult({"Deleted": [] if quiet else gone, "Errors": errors}))

    def get_object(self) -> Any:
        if "retention" not in self.querystring:
            return super().get_object()
        key = self._object(self.parse_key_name(), self._get_param("versionId"))
        self.data["Action"] = "GetObjectRetention"
        until = datetime.fromisoformat(key.lock_until)
        held = {"Mode": key.lock_mode, "RetainUntilDate": until}
        return self.serialized(ActionResult({"Retention": held}))

    def _bucket_tagging_from_body(self) -> dict[str, str]:
        return {name: value or "" for name, value in super()._bucket_tagging_from_body().items()}

    def _handle_range_header(self, request: Any, headers: Any, content: Any) -> Any:
        """A range that is none is not looked at."""
        if not _RANGE.fullmatch(request.headers.get("Range", "")):
            return 200, headers, content
        return super()._handle_range_header(request, headers, content)

    def _key_response(self, request: Any, full_url: str) -> Any:
        self._check_owner(request, full_url)
        operation = _operation("object", request.method, full_url)
        query = parse_qs(urlsplit(full_url).query, keep_blank_values=True)
        name = self.parse_bucket_name_from_url(request, full_url)
        check_canned(request.headers)
        if operation and request.method == "PUT":
            self.backend.get_bucket(name)
            check_document(operation, bytes(self.body or b""), request.headers)
        refuse(asked_of(self, request, query, name))
        self._refuse_key(request, query, name)
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

    def _is_elsewhere(self, key_id: str, region: str) -> bool:
        of_account = kms_backends[self.current_account]
        return region != self.region and any(
            name == region and keys.named(backend, key_id) for name, backend in of_account.items()
        )

    def _refuse_key(self, request: Any, query: Any, bucket: str) -> None:
        """Raises for the key of KMS that the object is kept with, or shall be."""
        method = request.method
        key_id = request.headers.get(KMS_KEY)
        if method == "GET" and not query:
            key_id = getattr(
                self.backend.get_object(bucket, self.parse_key_name()), "kms_key_id", ""
            )
        of_kms = kms_backends[self.current_account][self.region]
        key = keys.named(of_kms, key_id) if key_id else None
        for code, message in keys.unusable(key):
            raise S3RefusedError(f"KMS.{code}", message)
        # A key's ARN in a user's file names one of their account, which nobody makes here.
        if key is None and key_id and method in ("POST", "PUT"):
            place = key_id.split(":")[3] if key_id.startswith("arn:") else ""
            if place and not self._is_elsewhere(key_id, place):
                return
            arn = (
                f"arn:aws:kms:{self.region}:{self.current_account}:key/{key_id.rpartition('/')[2]}"
            )
            is_id = _UUID.fullmatch(key_id.rpartition("/")[2])
            words = f"Key '{arn}' does not exist" if is_id else f"Invalid keyId '{key_id}'"
            words = f"Invalid arn {place}" if place else words
            raise S3RefusedError("KMS.NotFoundException", words)
