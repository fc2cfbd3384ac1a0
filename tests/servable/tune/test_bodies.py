"""Bodies from files: any, captured ones, and files that hold none."""

import base64
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.loading import ValidFile
from servable.load.bodies import BodyError, load_bodies, load_body_file
from tests.conftest import VALID


def captured(
    encoding: str, data: str, kind: str = "text/csv", part: str = "endpointInput", **more: Any
) -> str:
    """A record as SageMaker's documentation shows one."""
    asked = {"observedContentType": kind, "mode": "INPUT", "data": data, "encoding": encoding}
    return json.dumps(
        {
            "captureData": {part: asked},
            "eventMetadata": {"eventId": "1", "inferenceTime": "2026-11-21T09:00:00Z"} | more,
            "eventVersion": "0",
        }
    )


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    file = tmp_path / "00-00-000-1.jsonl"
    raw = base64.b64encode(b"\x00\x01").decode()
    lines = [
        captured("CSV", "1,2"),
        captured("BASE64", raw, "application/x-npy", customAttributes=["tfs-model-name=a"]),
    ]
    file.write_text("\n".join([*lines, ""]))
    return file


def test_each_line_of_a_capture_is_a_body(capture: Path, tmp_path: Path) -> None:
    assert [body.content for body in load_body_file(capture)] == [b"1,2", b"\x00\x01"]
    assert [body.content_type for body in load_body_file(capture)] == [
        "text/csv",
        "application/x-npy",
    ]
    assert load_body_file(capture)[1].custom_attributes == "tfs-model-name=a"

    file = tmp_path / "traced.jsonl"
    trace = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,inference-id=1"
    file.write_text(captured("CSV", "1,2", customAttributes=[trace]))
    assert load_body_file(file)[0].custom_attributes is None
    assert sum(body.weight for body in load_body_file(capture, weight=3.0)) == 3.0


def test_other_files_and_stdin_are_one_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    assert [body.content_type for body in load_body_file(file)] == ["application/jsonlines"]

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"inputs": 1}')))
    (body,), _ = load_bodies(["-"], content_type=None, loaded=None)
    assert (body.content, body.content_type) == (b'{"inputs": 1}', "application/json")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", None, "cannot be read"),
        ("a.json", "", "is empty"),
        ("a.bin", "x", "--content-type"),
        ("a.jsonl", captured("CSV", "1", part="endpointOutput"), "no captured input"),
        ("a.jsonl", '{"captureData": 1}', "line 1"),
        ("a.jsonl", captured("BASE64", "!"), "line 1"),
    ],
    ids=["missing", "empty", "unknown", "outputs only", "no record", "no base64"],
)
def test_a_file_without_a_body_is_refused(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises(BodyError, match=said):
        load_body_file(file)


GOLDEN = '[models.ranker.golden]\nrequest = "golden.csv"\n'


@pytest.mark.parametrize(
    ("warm_up", "content"),
    [("", b"1,2"), ('warm_up = ["warm.json"]', b"{}")],
    ids=["golden request alone", "warm-up request too"],
)
def test_without_a_body_the_file_s_own_request_is_sent(
    environment: Callable[..., ValidFile], warm_up: str, content: bytes
) -> None:
    text = VALID.replace('tensorflow = "2.20"', f'tensorflow = "2.20"\n{warm_up}') + GOLDEN
    loaded = environment(text)
    (loaded.root / "golden.csv").write_bytes(b"1,2")
    (loaded.root / "warm.json").write_bytes(b"{}")
    bodies, _ = load_bodies([], content_type=None, loaded=loaded)
    assert [body.content for body in bodies] == [content]
