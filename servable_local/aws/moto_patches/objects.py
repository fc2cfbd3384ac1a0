"""S3: objects lie in files, and are sent, copied and joined without being read into memory.

Upstream (moto 5.2.5): every request that has to do with an object copies all of it into memory, for a
range of some bytes too; a register of all objects keeps what was deleted.

Answers are moto's own: it is given a content (servable_local/aws/contents.py) where it expects bytes,
in the operations that only measure it, cut it, store it or send it.
"""

import codecs
import hashlib
import io
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import IO, Any

from moto import settings
from moto.s3 import responses
from moto.s3.exceptions import NoSuchUpload, S3ClientError
from moto.s3.models import FakeKey, FakeMultipart, s3_backends
from moto.s3.utils import compute_checksum
from moto.utilities.utils import get_partition

from servable_local.aws.contents import ObjectContent, ObjectFolder, fast_crc
from servable_local.aws.moto_patches.object_inputs import (
    InvalidPartError,
    TooSmallError,
    can_sum,
    check_sums,
    check_version,
)
from servable_local.aws.signed_request import ReceivedRequest

ENVIRON = "servable.content"
"""Key of a request's environment for the content of an object, in place of its body."""
# What an object's PUT has here is a small document, and not the object.
_DOCUMENTS = frozenset({"acl", "legal-hold", "retention", "tagging"})
# Sums that a body has while it is received; what has no fast package is summed when it is asked for.
_ALGORITHMS = {"SHA1", *filter(fast_crc, ("CRC32", "CRC32C", "CRC64NVME"))}
_MOST_PARTS = 10_000
_COMPUTE_CHECKSUM = compute_checksum
_S3Response: Any = responses.S3Response
# Whether FakeKey.value is a content, and not bytes.
_as_content: ContextVar[bool] = ContextVar("as_content", default=False)


def install() -> None:
    """Idempotent. Before moto's S3 is first asked for."""

    def unregistered(kind: Any, *_: Any, **__: Any) -> Any:
        return object.__new__(kind)

    patches: list[tuple[Any, str, Any]] = [
        *((kind, "__new__", staticmethod(unregistered)) for kind in (FakeKey, FakeMultipart)),
        (FakeKey, "__del__", lambda key: None),
        (FakeKey, "__getstate__", _state),
        (FakeKey, "__setstate__", _restore),
        (FakeKey, "value", property(_value, _set_value)),
        (FakeKey, "etag", property(_etag)),
        (FakeMultipart, "complete", _complete),
        (responses, "compute_checksum", _compute_checksum),
        (responses, "S3Response", S3Api),
    ]
    for owner, name, value in patches:
        setattr(owner, name, value)


def is_object(request: ReceivedRequest) -> bool:
    """Whether the request's body may be an S3 object or a part of one."""
    return request.method == "PUT" and request.claimed_service == "s3"


def received(
    folder: ObjectFolder, request: ReceivedRequest, stream: IO[bytes], length: int
) -> ObjectContent:
    """The body of such a request, on the disk, with the checksum that its headers name."""
    named = request.header("x-amz-sdk-checksum-algorithm")
    algorithms = {named.upper()} if named else set()
    prefix = "x-amz-checksum-"
    algorithms |= {name.removeprefix(prefix).upper() for name in request.names if prefix in name}
    query = dict(request.pairs)
    upload, number = query.get("uploadId"), query.get("partNumber", "")
    valid = upload and number.isascii() and number.isdigit() and 0 < int(number) <= _MOST_PARTS
    part = (str(upload), int(number)) if valid else None
    return folder.receive(stream, length, algorithms & _ALGORITHMS, part)


def content_of(account: str, region: str, bucket: str, key: str) -> ObjectContent:
    """Content of an existing object."""
    return _content(s3_backends[account][get_partition(region)].get_object(bucket, key))


def _content(key: Any) -> ObjectContent:
    content: ObjectContent = key.servable_content
    return content


def _state(key: Any) -> dict[str, Any]:
    """Attributes that a copy takes: a list of versions copies each object, and must not read it."""
    return {
        name: value for name, value in vars(key).items() if name not in ("lock", "_value_buffer")
    }


def _restore(key: Any, state: dict[str, Any]) -> None:
    vars(key).update(state)
    key.lock, key._value_buffer = threading.Lock(), io.BytesIO()


def _value(key: Any) -> ObjectContent | bytes:
    return _content(key) if _as_content.get() else bytes(_content(key))


def _set_value(key: Any, value: ObjectContent | bytes | str) -> None:
    if isinstance(value, str):
        value = value.encode()
    key.servable_content = value if isinstance(value, ObjectContent) else ObjectContent.of(value)
    key.contentsize = len(value)


def _etag(key: Any) -> str:
    if key._etag is None:
        key._etag = _content(key).digest("MD5").hex()
    return f'"{key._etag}"'


def _complete(
    upload: Any, parts: Iterable[tuple[int, str]]
) -> tuple[ObjectContent, str, tuple[str, str, int] | None]:
    """The parts as one content, its ETag, and its checksum where the upload named an algorithm."""
    chosen: list[Any] = []
    for number, etag in parts:
        part = upload.parts.get(number)
        if part is None or part.etag.strip('"') != etag.replace('"', ""):
            raise InvalidPartError()
        if chosen and chosen[-1].contentsize < settings.S3_UPLOAD_PART_MIN_SIZE:
            raise TooSmallError()
        chosen.append(part)
    if not chosen:
        raise S3ClientError("InvalidRequest", "You must specify at least one part")
    contents = [_content(part) for part in chosen]
    digests = b"".join(codecs.decode(part.etag.strip('"'), "hex") for part in chosen)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(chosen)}"
    whole = ObjectContent.joined(contents)
    upload.servable_unnamed = "x-amz-checksum-algorithm" not in upload.metadata
    of_customer = upload.servable_unnamed and getattr(upload, "servable_customer", "")
    checksum = None if of_customer else _checksum(upload.metadata, contents, whole)
    if checksum:
        upload.metadata.setdefault("x-amz-checksum-algorithm", "CRC64NVME")
    upload.servable_parts = contents
    for part in upload.parts.values():
        part.value = b""  # the object is kept with its upload, whose parts lie in the whole
    return whole, etag, checksum


def _checksum(
    metadata: Mapping[str, str], parts: Sequence[ObjectContent], whole: ObjectContent
) -> tuple[str, str, int] | None:
    """Kind of the object's checksum, the checksum in base64, and its number of parts.

    The algorithm is CRC64NVME if the upload names none.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
    (2026-11-22)
    """
    algorithm = metadata.get("x-amz-checksum-algorithm", "CRC64NVME")
    default = "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE"
    kind = metadata.get("x-amz-checksum-type") or default
    if not all(
        can_sum(algorithm, content) for content in (parts if kind == "COMPOSITE" else [whole])
    ):
        return None
    if kind == "COMPOSITE":
        sums = ObjectContent.of(b"".join(part.digest(algorithm) for part in parts))
        return kind, sums.checksum(algorithm), len(parts)
    return kind, whole.checksum(algorithm), 1


def _compute_checksum(body: Any, algorithm: str, encode_base64: bool = True) -> bytes:
    if isinstance(body, ObjectContent):
        return body.checksum(algorithm).encode() if encode_base64 else body.digest(algorithm)
    return bytes(_COMPUTE_CHECKSUM(body, algorithm, encode_base64))


def _with_contents(operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(api: Any) -> Any:
        token = _as_content.set(True)
        try:
            return operation(api)
        finally:
            _as_content.reset(token)

    return run


def _get_object(api: Any) -> Any:
    check_version(api._get_param("versionId"))
    return _S3Response.get_object(api)


class S3Api(_S3Response):  # type: ignore[misc]
    """moto's, whose objects are contents."""

    def setup_class(self, request: Any, full_url: str | None = None, headers: Any = None) -> None:
        super().setup_class(request, full_url, headers)
        # Taken out: a request and its environment refer to each other, and go late.
        content = request.environ.pop(ENVIRON, None)
        if content is not None:
            document = _DOCUMENTS & self.querystring.keys()
            self.body = self.raw_body = bytes(content) if document else content

    def _bucket_response_put(self, request: Any, bucket: str, query: dict[str, Any]) -> Any:
        # Upstream a versioning that says nothing is a 404 without an error.
        if "versioning" in query and b"<Status>" not in bytes(self.body):
            raise S3ClientError(
                "IllegalVersioningConfigurationException",
                "The Versioning element must be specified",
            )
        return super()._bucket_response_put(request, bucket, query)

    def put_object(self) -> Any:
        check_sums(self.headers, self.raw_body)
        return super().put_object()

    def upload_part(self) -> Any:
        upload = self._get_param("uploadId")
        if upload not in self.backend.get_bucket(self.bucket_name).multiparts:
            raise NoSuchUpload(upload)
        check_sums(self.headers, self.raw_body)
        return super().upload_part()

    def delete_object(self) -> Any:
        check_version(self._get_param("versionId"))
        return super().delete_object()

    get_object = _with_contents(_get_object)
    copy_object = _with_contents(_S3Response.copy_object)
    upload_part_copy = _with_contents(_S3Response.upload_part_copy)

    def _get_checksum(self, response_headers: dict[str, Any]) -> tuple[str, str | None]:
        """moto looks in the body for one, which the local AWS takes without a trailer."""
        content = self.raw_body
        algorithm = self.headers.get("x-amz-sdk-checksum-algorithm", "")
        if not (algorithm and isinstance(content, ObjectContent)):
            return super()._get_checksum(response_headers)  # type: ignore[no-any-return]
        name = f"x-amz-checksum-{algorithm.lower()}"
        value = self.headers.get(name) or content.checksum(algorithm)
        response_headers[name] = value
        return algorithm, value
