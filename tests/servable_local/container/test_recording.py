"""`servable serve --record`: predictions are appended as lines of data capture, up to a size."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from servable_local.container.http_messages import HeaderFields, HttpRequest, HttpResponse
from servable_local.container.recording import CaptureRecorder, Recording

ANSWER = HttpResponse(200, b'{"predictions": [0.5]}')


def recorded(file: Path, *requests: HttpRequest, most_bytes: int = 10**6) -> list[dict[str, Any]]:
    async def answer(request: HttpRequest) -> HttpResponse:
        return ANSWER

    async def ask() -> None:
        answering = CaptureRecorder(Recording(file=str(file), most_bytes=most_bytes)).add_recording(
            answer
        )
        for request in requests:
            assert await answering(request) is ANSWER

    asyncio.run(ask())
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def request(
    path: str = "/invocations", method: str = "POST", kind: bytes = b"application/json"
) -> HttpRequest:
    headers = HeaderFields([(b"content-type", kind), (b"accept", b"a/b")])
    return HttpRequest(method, path, headers, b'{"instances": [1]}')


def test_a_line_has_both_directions_and_what_sagemaker_does_not_capture(tmp_path: Path) -> None:
    (line,) = recorded(tmp_path / "x.jsonl", request())
    assert [part["data"] for part in line["captureData"].values()] == [
        '{"instances": [1]}',
        '{"predictions": [0.5]}',
    ]

    (line,) = recorded(tmp_path / "y.jsonl", request("/models/a/invoke"))
    metadata = line["eventMetadata"]
    assert (metadata["accept"], metadata["statusCode"], metadata["targetModel"]) == (
        "a/b",
        200,
        "a",
    )


@pytest.mark.parametrize("other", [request("/ping", "GET"), request("/models", "POST")])
def test_what_is_no_prediction_is_not_recorded(tmp_path: Path, other: HttpRequest) -> None:
    assert recorded(tmp_path / "x.jsonl", other) == []


def test_a_recording_ends_at_its_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.jsonl"
    recorded(file, request())
    size = file.stat().st_size
    assert len(recorded(file, request(), request(), request(), most_bytes=2 * size + 50)) == 2
    assert "recording stopped: the file reached" in capfd.readouterr().err
