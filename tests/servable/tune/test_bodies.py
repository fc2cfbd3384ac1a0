"""Bodies from files: any, captured ones, and files that hold none."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.parameters.loading import ValidFile
from servable.load.bodies import load_bodies, load_body_file
from servable.measured.measurement import LoadError
from tests.conftest import VALID
from tests.servable.replay.captures import request, written
from tests.servable.replay.test_capture_lines import INPUT, OUTPUT, record


def test_each_line_of_a_capture_is_a_body(tmp_path: Path) -> None:
    binary = request(body=b"\x00\x01", content_type="application/x-npy", custom_attributes="a=b")
    capture = written(tmp_path / "00-00-000-1.jsonl", request(1), binary)
    first, second = load_body_file(capture)
    assert (first.content, first.content_type) == (request(1).body, "application/json")
    assert (second.content, second.content_type) == (b"\x00\x01", "application/x-npy")
    assert second.custom_attributes == "a=b"
    assert sum(body.weight for body in load_body_file(capture, weight=3.0)) == 3.0

    trace = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,inference-id=1"
    traced = written(tmp_path / "traced.jsonl", request(custom_attributes=trace))
    assert load_body_file(traced)[0].custom_attributes is None


def test_other_files_and_stdin_are_one_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    assert [body.content_type for body in load_body_file(file)] == ["application/jsonlines"]

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"inputs": 1}')))
    (body,), _ = load_bodies(["-"], content_type=None, loaded=None)
    assert (body.content, body.content_type) == (b'{"inputs": 1}', "application/json")
    output = record(captureData={"endpointOutput": OUTPUT})
    not_base64 = record(captureData={"endpointInput": INPUT | {"encoding": "BASE64"}})
    for name, content, said in [
        ("a.json", None, "cannot be read"),
        ("a.json", "", "is empty"),
        ("a.bin", "x", "--content-type"),
        ("a.jsonl", json.dumps(output), "no captured input"),
        ("a.jsonl", '{"captureData": 1}', "line 1"),
        ("a.jsonl", json.dumps(not_base64), "line 1"),
    ]:
        file = tmp_path / name
        if content is not None:
            file.write_text(content)
        with pytest.raises(LoadError, match=said):
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
