"""A model that lies in S3 as files under a prefix, brought to where containers take theirs from."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def objects(s3: Any, bucket: str, prefix: str) -> Iterator[str]:
    """The keys under the prefix."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (one["Key"] for one in page.get("Contents", []))


def archive(s3: Any, bucket: str, prefix: str, target: Path) -> None:
    """Writes what lies under the prefix as the archive that it would have been.

    SageMaker mounts such a model without unpacking; here a container takes one archive.
    """
    with tarfile.open(target, "w:gz", compresslevel=1) as tar:
        for key in objects(s3, bucket, prefix):
            answer = s3.get_object(Bucket=bucket, Key=key)
            member = tarfile.TarInfo(key.removeprefix(prefix))
            member.size = answer["ContentLength"]
            tar.addfile(member, answer["Body"])
