"""Captured requests for tests."""

import dataclasses
from pathlib import Path
from typing import Any

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
