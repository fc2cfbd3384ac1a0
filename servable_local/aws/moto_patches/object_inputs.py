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

from servable_local.aws.contents import ObjectContent

# CRC32C and CRC64NVME need packages that may not be installed: what is stated of them is kept.
_COMPARED = ("CRC32", "SHA1", "SHA256")
_VERSION = re.compile(r"null|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # moto's are UUIDs


class _RefusedError(S3ClientError):
    """An error of S3, by its code and its message."""


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


def check_sums(headers: Mapping[str, str], body: ObjectContent | bytes) -> None:
    """Raises where a digest that the client states is malformed, or not the body's."""
    content = body if isinstance(body, ObjectContent) else ObjectContent.of(body or b"")
    md5 = headers.get("Content-MD5")
    if md5 is not None:
        if _bytes(md5) != 16:
            raise _RefusedError("InvalidDigest", "The Content-MD5 you specified was invalid.")
        if md5 != content.checksum("MD5"):
            message = "The Content-MD5 you specified did not match what we received."
            raise _RefusedError("BadDigest", message)
    for algorithm in _COMPARED:
        name = f"x-amz-checksum-{algorithm.lower()}"
        stated = headers.get(name)
        if stated is None:
            continue
        if _bytes(stated) != len(content.digest(algorithm)):
            raise _RefusedError("InvalidRequest", f"Value for {name} header is invalid.")
        if stated != content.checksum(algorithm):
            message = f"The {algorithm} you specified did not match the calculated checksum."
            raise _RefusedError("BadDigest", message)


def _bytes(text: str) -> int:
    """Length of what the text is the base64 of; 0 for none."""
    try:
        return len(base64.b64decode(text, validate=True))
    except ValueError:
        return 0
