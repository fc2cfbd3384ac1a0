"""Captured requests for tests."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from servable.captured.lines import CapturedRequest, RecordedAnswer, format_line

# 2026-11-21 09:00:00 UTC.
NINE = 1795251600.0
ANSWER = RecordedAnswer(body=b'{"outputs":[0.5]}', content_type="application/json", status=200)
REQUEST = CapturedRequest(
    event_id="event",
    time=NINE,
    content_type="application/json",
    body=b'{"instances": [[1.0]]}',
    answer=ANSWER,
    file="",
    line=0,
)


def request(number: int = 0, **changed: Any) -> CapturedRequest:
    """A request whose body has its number."""
    body = b'{"instances": [[%d]]}' % number
    given: dict[str, Any] = {"event_id": f"event-{number}", "time": NINE + number, "body": body}
    return dataclasses.replace(REQUEST, **(given | changed))


def written(file: Path, *requests: CapturedRequest) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(format_line(one) + b"\n" for one in requests))
    return file


class Objects:
    """The calls of boto3's client that a place makes: of these objects, or each is refused."""

    def __init__(self, contents: dict[str, bytes], *, refused: bool = False) -> None:
        self._contents, self._refused = contents, refused
        self.ranges: list[str] = []

    def get_paginator(self, operation: str) -> "Objects":
        return self

    def paginate(self, **given: str) -> Iterator[dict[str, Any]]:
        self._check("ListObjectsV2")
        for key in sorted(self._contents, reverse=True):
            if key.startswith(given["Prefix"]):
                yield {"Contents": [{"Key": key, "Size": len(self._contents[key])}]}
            yield {}

    def get_object(self, **given: str) -> dict[str, Any]:
        self._check("GetObject")
        content = self._contents[given["Key"]]
        if "Range" in given:
            self.ranges.append(given["Range"])
            first, last = map(int, given["Range"].removeprefix("bytes=").split("-"))
            content = content[first : last + 1]
        return {"Body": StreamingBody(io.BytesIO(content), len(content))}

    def _check(self, operation: str) -> None:
        if self._refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)
