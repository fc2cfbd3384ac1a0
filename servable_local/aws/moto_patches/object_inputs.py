"""S3: what AWS refuses of a request that has to do with an object, in its words.

Upstream (moto 5.2.5): a checksum or an MD5 that a client states is kept and not compared, any text is a
version, and some sentences are moto's own.
Every code and sentence was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the
repository has each with its date and source.
"""

import base64
import re
from collections.abc import Mapping

from moto.s3.exceptions import EntityTooSmall, InvalidPart, InvalidVersion, S3ClientError

from servable_local.aws.contents import SLOWLY_SUMMED_BYTES, ObjectContent, fast_crc

CHECKSUMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
_VERSION = re.compile(r"null|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # moto's are UUIDs


class S3RefusedError(S3ClientError):
    """An error of S3 by its code and its message, with its status and its further members."""

    def __init__(
        self, code: str, message: str, members: Mapping[str, str] | None = None, status: int = 400
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.members = members or {}


class InvalidPartError(InvalidPart):
    """moto's, in AWS's words."""

    def __init__(self) -> None:
        super().__init__()
        self.message = (
            "One or more of the specified parts could not be found.  The part may not have been "
            "uploaded, or the specified entity tag may not match the part's entity tag."
        )


class TooSmallError(EntityTooSmall):
    """moto's, in AWS's words."""

    def __init__(self) -> None:
        super().__init__()
        self.message = "Your proposed upload is smaller than the minimum allowed size"


def check_version(version: str | None) -> None:
    """Raises for a version's id that cannot be one."""
    if version is not None and not _VERSION.fullmatch(version):
        raise InvalidVersion(version)


def can_sum(algorithm: str, content: ObjectContent) -> bool:
    """Whether a sum of the content is a matter of a second: CRC32C and CRC64NVME have packages for more."""
    slow = algorithm in ("CRC32C", "CRC64NVME") and fast_crc(algorithm) is None
    return not slow or len(content) <= SLOWLY_SUMMED_BYTES


def check_sums(headers: Mapping[str, str], body: ObjectContent | bytes) -> None:
    """Raises where a digest that the client states is malformed, or not the body's."""
    content = body if isinstance(body, ObjectContent) else ObjectContent.of(body or b"")
    md5 = headers.get("Content-MD5")
    if md5 is not None:
        if _bytes(md5) != 16:
            message = "The Content-MD5 you specified was invalid."
            raise S3RefusedError("InvalidDigest", message, {"Content-MD5": md5})
        if md5 != content.checksum("MD5"):
            message = "The Content-MD5 you specified did not match what we received."
            members = {"ExpectedDigest": md5, "CalculatedDigest": content.checksum("MD5")}
            raise S3RefusedError("BadDigest", message, members)
    if sum(f"x-amz-checksum-{name.lower()}" in headers for name in CHECKSUMS) > 1:
        raise S3RefusedError(
            "InvalidRequest",
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    for algorithm in CHECKSUMS:
        name = f"x-amz-checksum-{algorithm.lower()}"
        stated = headers.get(name)
        if stated is None:
            continue
        if _bytes(stated) != len(ObjectContent.of(b"").digest(algorithm)):
            raise S3RefusedError("InvalidRequest", f"Value for {name} header is invalid.")
        if can_sum(algorithm, content) and stated != content.checksum(algorithm):
            message = f"The {algorithm} you specified did not match the calculated checksum."
            raise S3RefusedError("BadDigest", message)


def _bytes(text: str) -> int:
    """Length of what the text is the base64 of; 0 for none."""
    try:
        return len(base64.b64decode(text, validate=True))
    except ValueError:
        return 0
