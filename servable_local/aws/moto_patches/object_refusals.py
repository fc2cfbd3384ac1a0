"""S3: requests about an object that AWS refuses, and moto takes or fails on, by what they state.

Each code, sentence and member was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the
repository has them with date and source. Order: first what a request states alone, then what is there.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cached_property
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from moto.core.utils import str_to_rfc_1123_datetime, utcnow
from moto.s3.exceptions import MalformedXML, MissingKey, MissingVersion, PreconditionFailed
from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey

from servable_local.aws.contents import ObjectContent
from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches.object_inputs import (
    CHECKSUMS,
    InvalidPartError,
    S3RefusedError,
    can_sum,
)

ENCRYPTION = "x-amz-server-side-encryption"
CUSTOMER = f"{ENCRYPTION}-customer"
_OF_SOURCE = f"x-amz-copy-source-{CUSTOMER.removeprefix('x-amz-')}"
_NOT_IMPLEMENTED = "A header you provided implies functionality that is not implemented"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
# Parts of an object that are asked for by name, and not the object.
_NAMED_PARTS = frozenset({"acl", "attributes", "legal-hold", "retention", "tagging"})
_AES_KEY_BYTES = 32
_BYPASS = "x-amz-bypass-governance-retention"


@dataclass
class Asked:
    """A request about an object. `bucket` is moto's, None where there is none."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, list[str]]
    bucket: FakeBucket | None
    buckets: Mapping[str, FakeBucket]
    name: str
    body: Any

    @cached_property
    def target(self) -> Any:
        """The object, or a mark of its deletion; None where there is none."""
        return _version(self.bucket, self.name, self.query.get("versionId", [None])[0])

    @cached_property
    def upload(self) -> Any:
        """The upload in parts that is named, None where there is none."""
        return self.bucket and self.bucket.multiparts.get(self.query.get("uploadId", [""])[0])

    @cached_property
    def source(self) -> Any:
        """What is copied, like `target`."""
        path, _, version = unquote(self.headers.get("x-amz-copy-source", "")).partition(
            "?versionId="
        )
        bucket, _, name = path.lstrip("/").partition("/")
        return _version(self.buckets.get(bucket), name, version or None)


def _version(bucket: FakeBucket | None, name: str, version: str | None) -> Any:
    found = bucket.keys.getlist(name, []) if bucket else []
    return next((key for key in reversed(found) if version in (None, str(key.version_id))), None)


def document(body: Any) -> Any:
    """Root of a request's XML; raises MalformedXML where it is none."""
    try:
        return ElementTree.fromstring(bytes(body))
    except ElementTree.ParseError:
        raise MalformedXML() from None


def refuse(asked: Asked) -> None:
    """Raises where AWS refuses the request."""
    for check in _CHECKS:
        check(asked)


def _without_meaning(asked: Asked) -> None:
    headers, changes = asked.headers, asked.method in ("POST", "PUT")
    match, none = headers.get("If-Match"), headers.get("If-None-Match")
    if asked.method == "DELETE":
        for header in ("x-amz-if-match-last-modified-time", "x-amz-if-match-size"):
            if header in headers:
                raise S3RefusedError("NotImplemented", _NOT_IMPLEMENTED, {"Header": header}, 501)
    for given, header, words in (
        (match is not None and none is not None, "If-Match,If-None-Match", _SEVERAL),
        (none not in (None, "*"), "If-None-Match", _VALUE.format("If-None-Match")),
        (match == "*", "If-Match", _VALUE.format("If-Match")),
    ):
        if changes and given:
            members = {"Header": header, "additionalMessage": words}
            raise S3RefusedError("NotImplemented", _NOT_IMPLEMENTED, members, 501)


_SEVERAL = "Multiple conditional request headers present in the request"
_VALUE = "We don't accept the provided value of {} header for this API"


def _customers_key(asked: Asked) -> None:
    for prefix in (CUSTOMER, _OF_SOURCE):
        given = {
            part: asked.headers.get(f"{prefix}-{part}") for part in ("algorithm", "key", "key-md5")
        }
        if not any(given.values()):
            continue
        if asked.method in ("GET", "HEAD") and given["key"] and not given["key-md5"]:
            raise S3RefusedError("AccessDenied", _WRONG_KEY, status=403)
        both = asked.headers.get(ENCRYPTION)
        if both and prefix == CUSTOMER:
            raise S3RefusedError(
                "InvalidArgument",
                "Server Side Encryption with Customer provided key is incompatible with the "
                "encryption method specified",
                {"ArgumentName": ENCRYPTION, "ArgumentValue": both},
            )
        if given["algorithm"] not in (None, "AES256"):
            raise S3RefusedError(
                "InvalidEncryptionAlgorithmError",
                "The Encryption request you specified is not valid. Supported value: AES256.",
                {"ArgumentName": ENCRYPTION, "ArgumentValue": str(given["algorithm"])},
            )
        problem = _problem_of_key(given)
        if problem:
            raise S3RefusedError("InvalidArgument", problem, {"ArgumentName": ENCRYPTION})


_WRONG_KEY = (
    "Requests specifying Server Side Encryption with Customer provided keys must provide the correct secret "
    "key."
)


def _problem_of_key(given: Mapping[str, str | None]) -> str:
    own = "Requests specifying Server Side Encryption with Customer provided keys must provide"
    if not given["algorithm"]:
        return f"{own} a valid encryption algorithm."
    if not given["key"]:
        return f"{own} an appropriate secret key."
    try:
        key = base64.b64decode(given["key"])
    except ValueError:
        key = b""
    if not given["key-md5"] or len(key) != _AES_KEY_BYTES:
        return "The secret key was invalid for the specified algorithm."
    if (
        given["key-md5"]
        != base64.b64encode(hashlib.md5(key, usedforsecurity=False).digest()).decode()
    ):
        return "The calculated MD5 hash of the key did not match the hash that was provided."
    return ""


def customer_of(kept: Any) -> str:
    """MD5 of the customer's key that an object or an upload is kept with; empty for none."""
    own = vars(kept).get("servable_customer")
    return (
        own
        if own is not None
        else getattr(getattr(kept, "multipart", None), "servable_customer", "")
    )


def _kept_with_customers_key(asked: Asked) -> None:
    given = asked.headers.get(f"{CUSTOMER}-key-md5", "")
    if asked.upload and asked.method == "PUT" and customer_of(asked.upload) != given:
        both = customer_of(asked.upload) and given
        raise S3RefusedError(
            "InvalidRequest",
            "The provided encryption parameters did not match the ones used originally."
            if both
            else "The multipart upload initiate requested encryption. Subsequent part requests must "
            "include the appropriate encryption parameters.",
        )
    read = asked.target if asked.method in ("GET", "HEAD") and _whole(asked) else None
    for kept, stated in (
        (read, given),
        (asked.source, asked.headers.get(f"{_OF_SOURCE}-key-md5", "")),
    ):
        if not isinstance(kept, FakeKey) or not customer_of(kept):
            continue
        if not stated:
            raise S3RefusedError(
                "InvalidRequest",
                "The object was stored using a form of Server Side Encryption. The correct "
                "parameters must be provided to retrieve the object.",
            )
        if stated != customer_of(kept):
            raise S3RefusedError("AccessDenied", _WRONG_KEY, status=403)


def _whole(asked: Asked) -> bool:
    return not asked.query.keys() & (_NAMED_PARTS | {"uploadId"})


def _parts(asked: Asked) -> None:
    query, method = asked.query, asked.method
    if "uploadId" in query and asked.bucket and not asked.upload:
        raise S3RefusedError(
            "NoSuchUpload",
            "The specified upload does not exist. The upload ID may be invalid, or the upload "
            "may have been aborted or completed.",
            {"UploadId": query["uploadId"][0]},
            404,
        )
    number = query.get("partNumber", ["1"])[0]
    if method == "PUT" and not (number.isdigit() and 0 < int(number) <= 10_000):
        message = "Part number must be an integer between 1 and 10000, inclusive"
        members = {"ArgumentName": "partNumber", "ArgumentValue": number}
        raise S3RefusedError("InvalidArgument", message, members)
    if method in ("GET", "HEAD") and "partNumber" in query:
        if "Range" in asked.headers:
            message = "Cannot specify both Range header and partNumber query parameter"
            raise S3RefusedError("InvalidRequest", message)
        key = asked.target
        count = len(parts_of(key)) if isinstance(key, FakeKey) else 10_000
        if number.isdigit() and int(number) > count:
            members = {"ActualPartCount": str(count), "PartNumberRequested": number}
            message = "The requested partnumber is not satisfiable"
            raise S3RefusedError("InvalidPartNumber", message, members, 416)


def parts_of(key: Any) -> list[Any]:
    """Contents of the parts that an object was uploaded in; its own where it was not."""
    return getattr(key.multipart, "servable_parts", None) or [key.servable_content]


def _sums_of_upload(asked: Asked) -> None:
    algorithm = asked.headers.get("x-amz-checksum-algorithm")
    kind = asked.headers.get("x-amz-checksum-type")
    if asked.method == "POST" and "uploads" in asked.query:
        message = ""
        if algorithm is None and kind:
            message = (
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm "
                "header."
            )
        elif algorithm is not None and algorithm not in CHECKSUMS:
            message = (
                "Checksum algorithm provided is unsupported. Please try again with any of the valid "
                f"types: [{', '.join(CHECKSUMS)}]"
            )
        elif (kind, algorithm) in _IMPOSSIBLE:
            message = (
                f"The {kind} checksum type cannot be used with the {str(algorithm).lower()} checksum "
                "algorithm."
            )
        if message:
            raise S3RefusedError("InvalidRequest", message)
    upload = asked.upload
    if not upload:
        return
    wanted = upload.metadata.get("x-amz-checksum-algorithm")
    if asked.method == "PUT" and wanted:
        for other in CHECKSUMS:
            if other != wanted and f"x-amz-checksum-{other.lower()}" in asked.headers:
                raise S3RefusedError(
                    "InvalidRequest",
                    f"Checksum Type mismatch occurred, expected checksum Type: {wanted.lower()}, "
                    f"actual checksum Type: {other.lower()}",
                )
    if asked.method == "POST":
        _completed(asked, wanted)


_IMPOSSIBLE = {("COMPOSITE", "CRC64NVME"), ("FULL_OBJECT", "SHA1"), ("FULL_OBJECT", "SHA256")}


def kind_of(metadata: Mapping[str, str]) -> str | None:
    """What the sum of an upload is one of: None where it names no algorithm."""
    algorithm = metadata.get("x-amz-checksum-algorithm")
    default = "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE"
    return metadata.get("x-amz-checksum-type") or (default if algorithm else None)


def _completed(asked: Asked, wanted: str | None) -> None:
    upload = asked.upload
    kind, stated = kind_of(upload.metadata), asked.headers.get("x-amz-checksum-type")
    if stated and stated != kind:
        raise S3RefusedError(
            "InvalidRequest",
            f"The upload was created using the {kind or 'null'} checksum mode. The complete request "
            "must use the same checksum mode.",
        )
    last, computed = 0, 0
    for part in document(asked.body):
        given = {child.tag.rpartition("}")[2]: child.text or "" for child in part}
        if not given.get("PartNumber", "").isdigit():
            raise MalformedXML()
        number = int(given["PartNumber"])
        if number <= last:
            raise S3RefusedError(
                "InvalidPartOrder",
                "The list of parts was not in ascending order. Parts must be ordered by part number.",
                {"UploadId": upload.id},
            )
        last, found = number, upload.parts.get(number)
        if found is None:
            continue  # which moto refuses
        computed += found.contentsize
        etag = given.get("ETag", "").strip('"')
        given_sum = given.get(f"Checksum{wanted}")
        content = found.servable_content
        named = [name for name in CHECKSUMS if name != wanted and f"Checksum{name}" in given]
        if wanted and named:
            raise S3RefusedError(
                "BadDigest",
                f"The {named[0].lower()} you specified for part {number} did not match what we received.",
            )
        if wanted and kind == "COMPOSITE" and given_sum is None:
            raise S3RefusedError(
                "InvalidRequest",
                f"The upload was created using a {wanted.lower()} checksum. The complete request must "
                f"include the checksum for each part. It was missing for part {number} in the request.",
            )
        known = wanted and can_sum(wanted, content)
        wrong = known and given_sum is not None and given_sum != content.checksum(wanted)
        if wrong or (named and not wanted):
            members = {"ETag": etag, "PartNumber": str(number), "UploadId": upload.id}
            raise S3RefusedError("InvalidPart", InvalidPartError().message, members)
    if wanted and kind == "FULL_OBJECT":
        _whole_sum(asked, wanted)
    size = asked.headers.get("x-amz-mp-object-size")
    if size is not None and size != str(computed):
        raise S3RefusedError(
            "InvalidRequest",
            f"The provided 'x-amz-mp-object-size' header value {size} does not match what was computed: "
            f"{computed}",
        )


def _whole_sum(asked: Asked, wanted: str) -> None:
    headers = asked.headers
    stated = {name: headers.get(f"x-amz-checksum-{name.lower()}") for name in CHECKSUMS}
    own = stated.pop(wanted)
    contents = [part.servable_content for _, part in sorted(asked.upload.parts.items())]
    whole = ObjectContent.joined(contents)
    wrong = own and can_sum(wanted, whole) and own != whole.checksum(wanted)
    # A sum that is right is none without its kind, unless the algorithm has only one.
    untold = own and wanted != "CRC64NVME" and "x-amz-checksum-type" not in headers
    if wrong or untold or any(stated.values()):
        message = f"The {wanted.lower()} you specified did not match the calculated checksum."
        raise S3RefusedError("BadDigest", message)


def _copies(asked: Asked) -> None:
    headers, source = asked.headers, asked.source
    stated = headers.get("x-amz-copy-source")
    if stated is None:
        return
    if "/" not in unquote(stated).lstrip("/"):
        members = {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "x-amz-copy-source"}
        raise S3RefusedError("InvalidArgument", "Invalid copy source object key", members)
    if isinstance(source, FakeDeleteMarker) and "versionId=" in unquote(stated):
        raise S3RefusedError(
            "InvalidRequest",
            "The source of a copy request may not specifically refer to a delete marker by version id.",
        )
    if not isinstance(source, FakeKey):
        return
    _conditions_of_source(headers, source)
    _range_of_source(headers, source)
    unchanged = (
        source is _version(asked.bucket, asked.name, None)
        and "versionId=" not in unquote(stated)
        and "uploadId" not in asked.query
        and headers.get("x-amz-metadata-directive") != "REPLACE"
        and not any(name in headers for name in _CHANGING)
        and source.encryption in (None, "AES256")
        and not getattr(asked.bucket, "servable_encrypted", False)
    )
    if unchanged:
        raise S3RefusedError(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without "
            "changing the object's metadata, storage class, website redirect location or encryption "
            "attributes.",
        )


_CHANGING = (
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
    ENCRYPTION,
    f"{CUSTOMER}-algorithm",
    "x-amz-checksum-algorithm",
)


def _conditions_of_source(headers: Mapping[str, str], source: FakeKey) -> None:
    prefix = "x-amz-copy-source-"
    match, none = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    since = headers.get(f"{prefix}if-modified-since")
    until = headers.get(f"{prefix}if-unmodified-since")
    etag, made = source.etag.strip('"'), source.last_modified.replace(microsecond=0)
    failed = ""
    if match and match.strip('"') != etag:
        failed = "If-Match"
    elif until and not match and made > str_to_rfc_1123_datetime(until):
        failed = "If-Unmodified-Since"
    elif none and none.strip('"') == etag:
        failed = "If-None-Match"
    elif since and not none and made <= str_to_rfc_1123_datetime(since) <= utcnow():
        failed = "If-Modified-Since"
    if failed:
        raise PreconditionFailed(f"{prefix}{failed}")


def _range_of_source(headers: Mapping[str, str], source: FakeKey) -> None:
    stated = headers.get("x-amz-copy-source-range")
    if stated is None:
        return
    members = {"ArgumentName": "x-amz-copy-source-range", "ArgumentValue": stated}
    found = _RANGE.fullmatch(stated)
    first, last = (int(found[1]), int(found[2])) if found else (1, 0)
    if first > last:
        raise S3RefusedError(
            "InvalidArgument",
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and "
            "last are the zero-based offsets of the first and last bytes to copy",
            members,
        )
    if first >= source.size:
        message = "The specified copy range is invalid for the source object size"
        raise S3RefusedError("InvalidRequest", message)
    if last >= source.size:
        message = f"Range specified is not valid for source object of size: {source.size}"
        raise S3RefusedError("InvalidArgument", message, members)


def _conditions_of_target(asked: Asked) -> None:
    headers = asked.headers
    writes = "x-amz-copy-source" in headers or (asked.method == "POST" and asked.upload)
    if not writes or "partNumber" in asked.query:
        return
    now = asked.target if isinstance(asked.target, FakeKey) else None
    match = headers.get("If-Match")
    if match and now is None:
        raise MissingKey(asked.name)
    if match and now and now.etag.strip('"') != match.strip('"'):
        raise PreconditionFailed("If-Match")
    if match and asked.method == "POST" and now is not asked.upload.servable_before:
        raise S3RefusedError(
            "ConditionalRequestConflict",
            "The conditional request cannot succeed due to a conflicting operation against this "
            "resource.",
            {"Condition": "If-Match", "Key": asked.name},
            409,
        )
    if "If-None-Match" in headers and now:
        raise PreconditionFailed("If-None-Match")


def _named_part(asked: Asked) -> None:
    named = asked.query.keys() & _NAMED_PARTS
    of_version = asked.method == "GET" and "versionId" in asked.query and _whole(asked)
    if (
        not asked.bucket
        or not (named or of_version)
        or asked.method not in ("DELETE", "GET", "PUT")
    ):
        return
    locks = bool(named & {"legal-hold", "retention"})
    marked = isinstance(asked.target, FakeDeleteMarker)
    latest = marked and "versionId" not in asked.query
    if latest and asked.method == "GET" and named & {"acl", "attributes"}:
        raise MissingKey(asked.name)
    if marked:
        members = {"Method": asked.method, "ResourceType": "DeleteMarker"}
        message = "The specified method is not allowed against this resource."
        raise S3RefusedError("MethodNotAllowed", message, members, 405)
    if asked.target is None and named:
        version = asked.query.get("versionId", [None])[0]
        of_tags = asked.method == "GET" and "tagging" in named  # whose error names the bucket too
        name = f"{asked.bucket.name}/{asked.name}" if of_tags else asked.name
        raise MissingVersion(asked.name, version) if version else MissingKey(name)
    if locks and not asked.bucket.object_lock_enabled:
        raise S3RefusedError("InvalidRequest", "Bucket is missing Object Lock Configuration")
    held = {"legal-hold": "lock_legal_status", "retention": "lock_mode"}
    for name in named & held.keys():
        if asked.method == "GET" and not getattr(asked.target, held[name], None):
            message = "The specified object does not have a ObjectLock configuration"
            raise S3RefusedError("NoSuchObjectLockConfiguration", message, status=404)


def check_bypass(bucket: FakeBucket | None, headers: Mapping[str, str]) -> None:
    """Raises where locks are passed over that a bucket cannot have."""
    if bucket and _BYPASS in headers and not bucket.object_lock_enabled:
        message = f"{_BYPASS} is only applicable to Object Lock enabled buckets."
        raise S3RefusedError("InvalidArgument", message, {"ArgumentName": _BYPASS})


def _locks(asked: Asked) -> None:
    if asked.method == "DELETE":
        check_bypass(asked.bucket, asked.headers)
    mine: Any = asked.target if "retention" in asked.query and asked.method == "PUT" else None
    until = document(asked.body).findtext("{*}RetainUntilDate") if mine else ""
    if until and datetime.fromisoformat(until) < datetime.now(UTC):
        # AWS says it in the time of its own place, in winter.
        there = datetime.fromisoformat(until).astimezone(timezone(timedelta(hours=-8)))
        raise S3RefusedError(
            "InvalidArgument",
            "The retain until date must be in the future!",
            {
                "ArgumentName": "RetainUntilDate",
                "ArgumentValue": there.strftime("%a %b %d %H:%M:%S PST %Y"),
            },
        )
    stated = document(asked.body).findtext("{*}Mode") if mine else None
    sooner = str(until) < str(getattr(mine, "lock_until", None) or "")
    fixed = getattr(mine, "lock_mode", None) == "COMPLIANCE"
    if (fixed and stated != "COMPLIANCE") or (sooner and (fixed or _BYPASS not in asked.headers)):
        message = "Access Denied because object protected by object lock."
        raise S3RefusedError("AccessDenied", message, status=403)
    until, mode = "x-amz-object-lock-retain-until-date", "x-amz-object-lock-mode"
    if (until in asked.headers) != (mode in asked.headers):
        message = f"{until} and {mode} must both be supplied"
        missing = until if mode in asked.headers else mode
        raise S3RefusedError("InvalidArgument", message, {"ArgumentName": missing})
    if asked.headers.get(mode, "COMPLIANCE") not in ("COMPLIANCE", "GOVERNANCE"):
        members = {"ArgumentName": mode, "ArgumentValue": asked.headers[mode]}
        raise S3RefusedError("InvalidArgument", "Unknown wormMode directive.", members)


def _values(asked: Asked) -> None:
    """Values and lengths of what is stated.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html (2026-11-28)
    """
    for header, known, message in _OF_HEADERS:
        for stated in filter(None, asked.headers.get(header, "").replace(" ", "").split(",")):
            if stated not in known:
                members = {"ArgumentName": header, "ArgumentValue": stated}
                raise S3RefusedError("InvalidArgument", message, members)
    user_bytes = sum(
        len(name) - len(_METADATA) + len(value)
        for name, value in asked.headers.items()
        if name.lower().startswith(_METADATA)
    )
    for code, message, size, most in (
        ("KeyTooLongError", "Your key is too long", len(asked.name.encode()), 1024),
        ("MetadataTooLarge", _TOO_MUCH_METADATA, user_bytes, 2048),
    ):
        if asked.method in ("POST", "PUT") and size > most:
            members = {"Size": str(size), "MaxSizeAllowed": str(most)}
            raise S3RefusedError(code, message, members)


_METADATA = "x-amz-meta-"
_TOO_MUCH_METADATA = "Your metadata headers exceed the maximum allowed metadata size"
_DIRECTIVES = ("COPY", "REPLACE")
_OF_HEADERS = (
    (
        ENCRYPTION,
        service_model("s3").shape_for("ServerSideEncryption").enum,
        "The encryption method specified is not supported",
    ),
    ("x-amz-metadata-directive", _DIRECTIVES, "Unknown metadata directive."),
    ("x-amz-tagging-directive", _DIRECTIVES, "Unknown tagging directive."),
    (
        "x-amz-object-attributes",
        service_model("s3").shape_for("ObjectAttributes").enum,
        "Invalid attribute name specified.",
    ),
)


def _storage(asked: Asked) -> None:
    stated = asked.headers.get("x-amz-storage-class")
    if stated is not None and stated not in _STORAGE:
        message = "The storage class you specified is not valid"
        raise S3RefusedError("InvalidStorageClass", message, {"StorageClassRequested": stated})


def check_canned(headers: Mapping[str, str]) -> None:
    """Raises for a canned list that AWS does not know: its error has no sentence."""
    stated = headers.get("x-amz-acl")
    if stated is not None and stated not in _CANNED:
        members = {"ArgumentName": "x-amz-acl", "ArgumentValue": stated}
        raise S3RefusedError("InvalidArgument", "", members)


_STORAGE = [
    name for name in service_model("s3").shape_for("StorageClass").enum if name != "OUTPOSTS"
]
_CANNED = service_model("s3").shape_for("ObjectCannedACL").enum + ["log-delivery-write"]


def _tags(asked: Asked) -> None:
    stated = asked.headers.get("x-amz-tagging", "")
    pairs = [part.partition("=")[0] for part in stated.split("&") if part]
    if len(set(pairs)) < len(pairs) or any(part.count("=") > 1 for part in stated.split("&")):
        raise S3RefusedError(
            "InvalidArgument",
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters "
            "without tag name duplicates.",
            {"ArgumentName": "x-amz-tagging", "ArgumentValue": stated},
        )


_CHECKS: tuple[Callable[[Asked], None], ...] = (
    _without_meaning,
    _customers_key,
    _values,
    _parts,
    _sums_of_upload,
    _named_part,
    _locks,
    _tags,
    _storage,
    _copies,
    _conditions_of_target,
    _kept_with_customers_key,
)


def asked_of(api: Any, request: Any, query: Mapping[str, list[str]], bucket: str) -> Asked:
    """The request as moto's handler has it."""
    return Asked(
        method=request.method,
        headers=request.headers,
        query=query,
        bucket=api.backend.buckets.get(bucket),
        buckets=api.backend.buckets,
        name=api.parse_key_name(),
        body=api.body or b"",
    )
