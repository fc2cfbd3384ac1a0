"""S3: what answers say of objects, uploads and errors, and moto leaves out.

Upstream (moto 5.2.5): sums have no type, and none is made unless one is named; lists of parts and of versions
have no sums, a part of an object is the whole, keys of KMS are told by their id, errors lack members.
All of it was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the repository.
"""

import contextlib
import re
from collections.abc import Mapping
from email.header import decode_header, make_header
from typing import Any
from urllib.parse import quote, unquote

from botocore import xform_name
from moto.core.serialize import S3Serializer
from moto.core.utils import str_to_rfc_1123_datetime, utcnow
from moto.kms.models import kms_backends
from moto.s3.exceptions import MissingKey
from moto.s3.models import OWNER, FakeDeleteMarker, FakeKey
from werkzeug.datastructures import Headers

from servable_local.aws.contents import ObjectContent
from servable_local.aws.moto_patches import keys
from servable_local.aws.moto_patches.object_inputs import CHECKSUMS, can_sum
from servable_local.aws.moto_patches.object_refusals import (
    CUSTOMER,
    ENCRYPTION,
    customer_of,
    kind_of,
    parts_of,
)
from servable_local.aws.moto_patches.objects import S3Api

KMS_KEY = f"{ENCRYPTION}-aws-kms-key-id"
# The key of AWS in every account, for what is kept with KMS and no key is named.
_OWN_KEY = "alias/aws/s3"
_OF_OWN_KEY = "Default key that protects my S3 objects when no other key is defined"
_BUCKET_KEY = f"{ENCRYPTION}-bucket-key-enabled"
# Errors about what a bucket has not: they name it.
_OF_BUCKET = re.compile(r"NoSuch(TagSet|BucketPolicy|\w+Configuration)|\w+NotFoundError")
_ENCODED = re.compile(
    r"=\?UTF-8\?Q\?.*\?=|=\?UTF-8\?B\?([A-Za-z0-9+/]{4})*(..==|...=)?\?="
)  # RFC 2047
_ALGORITHM = "x-amz-checksum-algorithm"
_ERROR_METADATA = S3Serializer._serialize_error_metadata


def install() -> None:
    """Idempotent."""
    setattr(S3Serializer, "_serialize_error_metadata", _error_metadata)  # noqa: B010 (mypy)


def _error_metadata(serializer: Any, serialized: Any, error: Exception, shape: Any) -> None:
    _ERROR_METADATA(serializer, serialized, error, shape)
    serialized.update(getattr(error, "members", {}))


def sums(key: Any) -> dict[str, str]:
    """Members of an answer: the sum of an object, and of what it is one."""
    if not key.checksum_value:
        return {}
    kind = key.checksum_type or "FULL_OBJECT"
    parts = f"-{key.checksum_parts}" if kind == "COMPOSITE" else ""
    return {
        f"Checksum{key.checksum_algorithm}": f"{key.checksum_value}{parts}",
        "ChecksumType": kind,
    }


def _listed(key: Any) -> dict[str, Any]:
    if not isinstance(key, FakeKey) or not key.checksum_value:
        return {}
    return {
        "ChecksumAlgorithm": [key.checksum_algorithm],
        "ChecksumType": sums(key)["ChecksumType"],
    }


def _summed_parts(key: Any) -> dict[str, Any]:
    """Parts of an object whose sum is one of its parts'."""
    name = f"Checksum{key.checksum_algorithm}"
    parts = [
        {"PartNumber": number, "Size": len(part), name: part.checksum(key.checksum_algorithm)}
        for number, part in enumerate(parts_of(key), 1)
    ]
    return {
        "PartNumberMarker": 0,
        "NextPartNumberMarker": len(parts),
        "MaxParts": 1000,
        "IsTruncated": False,
        "Parts": parts,
    }


def _nameless(value: Any) -> None:
    """AWS no longer says the names of owners (November 2025), but of who began an upload."""
    if isinstance(value, dict):
        value.pop("DisplayName", None)
        for name, member in value.items():
            if name != "Initiator":
                _nameless(member)
    elif isinstance(value, list):
        for member in value:
            _nameless(member)


def _conditions(headers: Any) -> Any:
    """Dates to come, or beside ETags, are no condition; ETags may have no quotes, modes any letters."""
    found = Headers(headers)
    since = found.get("If-Modified-Since")
    if since and str_to_rfc_1123_datetime(since) > utcnow():
        del found["If-Modified-Since"]
    if "If-Match" in found:
        found.pop("If-Unmodified-Since", None)
    for name in ("If-Match", "If-None-Match"):
        if name in found:
            found[name] = '"' + found[name].strip('"') + '"'
    if "x-amz-checksum-mode" in found:
        found["x-amz-checksum-mode"] = found["x-amz-checksum-mode"].upper()
    return found


class DescribedS3Api(S3Api):
    """moto's, whose results have AWS's members."""

    _began: Any = None

    def serialized(self, action_result: Any) -> Any:
        result = action_result.result
        if isinstance(result, dict):
            _nameless(result)
            describe = getattr(self, f"_of_{xform_name(self._get_action())}", None)
            if describe is not None:
                describe(result)
        if isinstance(result, MissingKey) and result.key is None:
            result.key = self.parse_key_name()
        code = str(getattr(result, "code", ""))
        if _OF_BUCKET.fullmatch(code) and not self.parse_key_name():
            setattr(result, "members", {"BucketName": self.bucket_name})  # noqa: B010 (mypy)
        status, headers, body = super().serialized(action_result)
        if code in ("NoSuchKey", "MethodNotAllowed") and self.bucket_name in self.backend.buckets:
            headers |= self._marked()
        return getattr(result, "status", status), headers, body

    def _marked(self) -> dict[str, str]:
        """Headers about the mark of a deletion that an object's name or version is."""
        version = self._get_param("versionId")
        found = self.backend.buckets[self.bucket_name].keys.getlist(self.parse_key_name(), [])
        mark = next((key for key in reversed(found) if version in (None, key.version_id)), None)
        if not isinstance(mark, FakeDeleteMarker):
            return {}
        said = {"x-amz-delete-marker": "true", "x-amz-version-id": mark.version_id}
        return said | ({"allow": "DELETE"} if version else {})

    def _object(self, name: str, version: str | None = None) -> Any:
        return self.backend.get_object(self.bucket_name, name, version_id=version)

    def _upload(self, upload_id: str | None) -> Any:
        return self.backend.get_bucket(self.bucket_name).multiparts.get(upload_id)

    def _of_list_buckets(self, result: Any) -> None:
        result["Owner"] = {"ID": OWNER}  # that of lists of access, and not upstream another
        for item in result["Buckets"]:
            bucket = self.backend.get_bucket(item["Name"])
            item["BucketArn"] = bucket.arn
            if self.querystring.keys() & {"prefix", "max-buckets", "bucket-region"}:
                item["BucketRegion"] = bucket.region_name
        result["Prefix"] = self._get_param("prefix")

    def _of_get_bucket_lifecycle_configuration(self, result: Any) -> None:
        bucket = self.backend.get_bucket(self.bucket_name)
        result["TransitionDefaultMinimumObjectSize"], rules = bucket.servable_lifecycle
        for described, rule in zip(result["Rules"], rules, strict=False):
            for said, place in (
                (described.get("Filter"), "{*}Filter"),
                (described.get("Filter", {}).get("And"), "{*}Filter/{*}And"),
            ):
                for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan"):
                    if bytes_ := rule.findtext(f"{place}/{{*}}{name}"):
                        said[name] = int(bytes_)

    def _of_list_objects(self, result: Any) -> None:
        result.setdefault("Prefix", "")
        if self._get_action() == "ListObjects":
            result["Marker"] = self.querystring.get("marker", [""])[0]
        encoded = "EncodingType" in result
        for item in result["Contents"]:
            item |= _listed(self._object(unquote(item["Key"]) if encoded else item["Key"]))

    _of_list_objects_v2 = _of_list_objects

    def _of_list_object_versions(self, result: Any) -> None:
        encoding = self.querystring.get("encoding-type", [None])[0]
        result["EncodingType"] = encoding
        for item in result["Versions"]:
            item |= _listed(self._object(item["Key"], item["VersionId"]))
        for item in (*result["Versions"], *result["DeleteMarkers"]):
            item["Key"] = quote(item["Key"]) if encoding else item["Key"]

    def _of_list_multipart_uploads(self, result: Any) -> None:
        last = result["Uploads"][-1] if result["Uploads"] else {}
        result["NextKeyMarker"] = last.get("Key", "")
        result["NextUploadIdMarker"] = last.get("UploadId", "")
        for item in result["Uploads"]:
            item["ChecksumType"] = kind_of(self._upload(item["UploadId"]).metadata)

    def _of_get_object_lock_configuration(self, result: Any) -> None:
        rule = result["ObjectLockConfiguration"].get("Rule") or {}
        for name in ("Days", "Years"):
            if not rule.get("DefaultRetention", {}).get(name):
                rule.get("DefaultRetention", {}).pop(name, None)

    def _of_list_parts(self, result: Any) -> None:
        upload = self._upload(result["UploadId"])
        algorithm = upload.metadata.get(_ALGORITHM)
        if algorithm:
            result |= {"ChecksumAlgorithm": algorithm, "ChecksumType": kind_of(upload.metadata)}
        for item in result["Parts"]:
            item |= self._sum_of_part(upload, item["PartNumber"])

    def _sum_of_part(self, upload: Any, number: int) -> dict[str, str]:
        algorithm = upload.metadata.get(_ALGORITHM)
        content = upload.parts[number].servable_content
        known = algorithm and can_sum(algorithm, content)
        return {f"Checksum{algorithm}": content.checksum(algorithm)} if known else {}

    def _of_create_multipart_upload(self, result: Any) -> None:
        self._began = upload = self._upload(result["UploadId"])
        result["ChecksumType"] = kind_of(upload.metadata)
        upload.servable_customer = self.headers.get(f"{CUSTOMER}-key-md5", "")
        stated = self.headers.get(_BUCKET_KEY)
        rule = self.backend.get_bucket(self.bucket_name).encryption["Rule"]
        upload.servable_bucket_key = (
            stated.lower() == "true" if stated else rule.get("BucketKeyEnabled") is True
        )

    def _of_complete_multipart_upload(self, result: Any) -> None:
        place, _, name = result["Location"].rpartition("amazonaws.com/")
        made = self._object(result["Key"])
        if not (made.multipart.servable_unnamed and made.encryption.startswith("aws:kms")):
            result |= sums(made)
        result["Location"] = f"{place}amazonaws.com/{quote(name, safe='')}"

    def _of_copy_object(self, result: Any) -> None:
        result["CopyObjectResult"] |= sums(self._object(self.parse_key_name()))

    def _of_upload_part_copy(self, result: Any) -> None:
        upload = self._upload(self._get_param("uploadId"))
        result["CopyPartResult"] |= self._sum_of_part(upload, self._get_int_param("partNumber"))

    def _of_get_object_attributes(self, result: Any) -> None:
        key = self._object(self.parse_key_name(), self._get_param("versionId"))
        wanted = self.headers.get("x-amz-object-attributes", "").replace(" ", "").split(",")
        if "Checksum" in wanted and key.checksum_value:
            plain = {**sums(key), f"Checksum{key.checksum_algorithm}": key.checksum_value}
            result["Checksum"] = plain
        if "ObjectParts" in wanted and key.multipart:
            result["ObjectParts"] = {"TotalPartsCount": len(parts_of(key))}
            if key.checksum_type == "COMPOSITE":
                result["ObjectParts"] |= _summed_parts(key)

    def _get_checksum(self, response_headers: dict[str, Any]) -> tuple[str, str | None]:
        """With AWS's own sum, where a whole object has none of its client's."""
        algorithm, value = super()._get_checksum(response_headers)
        stated = [name for name in CHECKSUMS if f"x-amz-checksum-{name.lower()}" in self.headers]
        if stated and not value:
            algorithm, value = stated[0], self.headers[f"x-amz-checksum-{stated[0].lower()}"]
            response_headers[f"x-amz-checksum-{algorithm.lower()}"] = value
        if value or self.request.args.keys() - {"x-id"}:
            return algorithm, value
        body = self.raw_body
        content = body if isinstance(body, ObjectContent) else ObjectContent.of(body or b"")
        if can_sum("CRC64NVME", content):
            algorithm, value = "CRC64NVME", content.checksum("CRC64NVME")
            response_headers["x-amz-checksum-crc64nvme"] = value
        return algorithm, value

    def get_object(self) -> Any:
        self.headers: Any = _conditions(self.headers)
        status, headers, body = super().get_object()
        number = self._get_int_param("partNumber")
        if number and status == 200:
            start, size = self._part(number, headers)
            status, body = 206, body[start : start + size]
        return status, headers, body

    def head_object(self, bucket_name: str, query: Any, key_name: str, headers: Any) -> Any:
        if "versionId" in query and not self.backend.get_bucket(bucket_name).is_versioned:
            # Upstream versions are only known while they are made.
            status, answered, body = self.get_object()
            return status, answered | {"content-length": str(len(body))}, ""
        number = query.get("partNumber", [""])[0]
        query = {name: value for name, value in query.items() if name != "partNumber"}
        status, answered, body = super().head_object(
            bucket_name, query, key_name, _conditions(headers)
        )
        if number and status == 200:
            self._part(int(number), answered)
            status = 206
        return status, answered, body

    def _part(self, number: int, headers: dict[str, Any]) -> tuple[int, int]:
        """Where a part of an object begins, and its length, in bytes, with the headers that say so."""
        key = self._object(self.parse_key_name(), self._get_param("versionId"))
        parts = parts_of(key)
        start, size = sum(map(len, parts[: number - 1])), len(parts[number - 1])
        headers["content-range"] = f"bytes {start}-{start + size - 1}/{key.size}"
        headers["content-length"] = str(size)
        if key.multipart:
            headers["x-amz-mp-parts-count"] = str(len(parts))
            algorithm = key.checksum_algorithm
            name = f"x-amz-checksum-{str(algorithm).lower()}"
            summed = headers.pop(name, None)
            if summed and (key.checksum_type == "COMPOSITE" or len(parts) == 1):
                headers[name] = parts[number - 1].checksum(algorithm)
            else:
                headers.pop("x-amz-checksum-type", None)
        return start, size

    def finish_headers(self, query: Mapping[str, Any], headers: dict[str, Any]) -> None:
        """Headers of an answer about an object as AWS has them: its sum, how it is kept, its version."""
        for name in ("x-amz-sdk-checksum-algorithm", _ALGORITHM):
            headers.pop(name, None)
        for name, value in headers.items():
            if name.startswith("x-amz-meta-") and _ENCODED.fullmatch(value):
                # AWS says as plain text what need not have been encoded.
                with contextlib.suppress(UnicodeError):
                    plain = str(make_header(decode_header(value)))
                    headers[name] = plain if plain.isascii() and plain.isprintable() else value
        bucket = self.backend.get_bucket(self.bucket_name)
        found = self._object(self.parse_key_name(), query.get("versionId", [None])[0])
        named_part = query.keys() & {"acl", "tagging"}
        put = (
            self.request.method == "PUT"
            and "x-amz-copy-source" not in self.headers
            and not named_part
        )
        if headers.get("x-amz-version-id") == "null" and (not bucket.versioning_status or put):
            del headers["x-amz-version-id"]
        elif found and bucket.versioning_status and not put and "uploadId" not in query:
            headers.setdefault("x-amz-version-id", found.version_id)
        summed = [name for name in CHECKSUMS if f"x-amz-checksum-{name.lower()}" in headers]
        if summed and not query.keys() - {"versionId", "x-id", "partNumber"}:
            key = self._object(self.parse_key_name(), query.get("versionId", [None])[0])
            members = sums(key)
            if "partNumber" not in query:
                headers[f"x-amz-checksum-{summed[0].lower()}"] = members[f"Checksum{summed[0]}"]
            headers["x-amz-checksum-type"] = members["ChecksumType"]
        upload = self._began or self._upload(query.get("uploadId", [None])[0])
        if getattr(upload or (found and found.multipart), "servable_bucket_key", False):
            headers[_BUCKET_KEY] = "true"
        if headers.get(_BUCKET_KEY) == "false":
            del headers[_BUCKET_KEY]
        self._say_customers_key(query, headers)
        if str(headers.get(ENCRYPTION)).startswith("aws:kms"):
            headers[KMS_KEY] = self._key_arn(headers.get(KMS_KEY) or _OWN_KEY)

    def _say_customers_key(self, query: Mapping[str, Any], headers: dict[str, Any]) -> None:
        stated = self.headers.get(f"{CUSTOMER}-key-md5", "")
        if self.request.method == "PUT" and not query.keys() - {"x-id"}:
            self._object(self.parse_key_name()).servable_customer = stated
        found = self._object(self.parse_key_name(), query.get("versionId", [None])[0])
        kept = stated if {"uploads", "uploadId"} & query.keys() else found and customer_of(found)
        completed = self.request.method == "POST" and "uploadId" in query
        if kept or (completed and customer_of(found)):
            headers.pop(ENCRYPTION, None)
        if kept and not completed:
            headers[f"{CUSTOMER}-algorithm"] = "AES256"
            headers[f"{CUSTOMER}-key-md5"] = kept

    def _key_arn(self, name: str) -> str:
        key = keys.named(kms_backends[self.current_account][self.region], name)
        if name == _OWN_KEY:  # which moto makes when it is asked for
            key.key_manager, key.description = "AWS", _OF_OWN_KEY
        return str(key.arn) if key else name
