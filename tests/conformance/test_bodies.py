"""Without code NGINX makes TensorFlow Serving's JSON of what comes in."""

import json
from typing import Any

import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

ROWS = [[1.0, 2.0], [3.0, 4.0]]
TRIPLED = [[3.0, 6.0], [9.0, 12.0]]


def test_rows_columns_lists_and_lines_are_answered(plain: Endpoint) -> None:
    assert plain.predictions({"instances": ROWS}) == TRIPLED
    answer = plain.post({"inputs": ROWS})
    assert (answer.status_code, answer.json()) == (200, {"outputs": TRIPLED})
    assert plain.post({"inputs": {"x": ROWS}}).json() == {"outputs": TRIPLED}

    assert plain.predictions([1.0, 2.0]) == TRIPLED[:1]
    assert plain.predictions(ROWS) == TRIPLED
    assert plain.predictions({"x": [1.0, 2.0]}) == TRIPLED[:1]

    for kind in ["application/json", "application/jsonlines", "application/jsons"]:
        for ending in ["\n", "\r\n"]:
            lines = ending.join(map(json.dumps, ROWS)).encode()
            assert plain.predictions(lines, kind) == TRIPLED
    assert plain.predictions(b"[1.0, 2.0]\n[3.0, 4.0]\n", "application/jsonlines") == TRIPLED
    assert plain.predictions(b"1.0,2.0\n3.0,4.0\n", "text/csv") == TRIPLED
    answer = plain.post(b"a\nb", "text/csv", attributes="tfs-model-name=words")
    assert [row["upper"] for row in answer.json()["predictions"]] == ["A", "B"]
    answer = plain.post(b'a,"b,c",d', "text/csv", attributes="tfs-model-name=words")
    assert answer.json()["predictions"][0]["upper"] == ["A", "B,C", "D"]


def test_content_types_and_accept_are_taken_as_by_nginx(plain: Endpoint) -> None:
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON"]:
        assert plain.predictions(b"[[1.0, 2.0], [3.0, 4.0]]", kind) == TRIPLED
    for kind in ["application/x-npy", "text/plain"]:
        answer = plain.post(b"[[1.0, 2.0]]", kind)
        expected = {"error": f"Unsupported Media Type: {kind}"}
        assert (answer.status_code, answer.json()) == (415, expected)
    answer = plain.post(b"[[1.0, 2.0]]", None)
    assert (answer.status_code, answer.json()["error"]) == (415, "Unsupported Media Type: Unknown")

    assert "\n" not in plain.post({"instances": ROWS}, Accept="application/json").text
    assert "\n" in plain.post({"instances": ROWS}, Accept="*/*").text
    answer = plain.post({"instances": ROWS}, Accept="text/html, application/jsonlines")
    assert (answer.headers["Content-Type"], "\n" in answer.text) == ("application/json", False)


def test_what_is_no_request_of_the_model_is_400_and_says_why(plain: Endpoint) -> None:
    for body in [
        b"",
        b"{",
        b'{"instances": []}',
        b'{"instances": [[1.0, 2.0], [3.0]]}',
        b'{"instances": [["a", "b"]]}',
        b'{"instances": [[1.0, 2.0]], "inputs": [[1.0, 2.0]]}',
        b'{"instances": NaN}',
        b'{"inputs": {"z": [[1.0, 2.0]]}}',
        b'{"instances": [[1.0, 2.0, 3.0, 4.0, 5.0]], "signature_name": "two"}',
    ]:
        answer = plain.post(body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
    answer = plain.post({"signature_name": "none", "instances": ROWS})
    assert (answer.status_code, "none" in answer.json()["error"]) == (400, True)
    cases: list[dict[str, Any]] = [{"whole": 1}, {"whole": 1, "part": 0.5, "more": 1}]
    for row in cases:
        assert plain.post({"signature_name": "two", "instances": [row]}).status_code == 400
    body = {"signature_name": "two", "instances": [{"whole": 1.5, "part": 1}]}
    assert plain.post(body).status_code == 400


def test_signatures_named_inputs_and_bytes_are_taken(plain: Endpoint) -> None:
    body = {"signature_name": "batch", "instances": ROWS}
    assert plain.predictions(body) == [2, 2]

    rows = [{"whole": 1, "part": 0.5}, {"whole": 2, "part": 0.25}]
    expected = [{"sum": 1.5, "whole": 1}, {"sum": 2.25, "whole": 2}]
    assert plain.predictions({"signature_name": "two", "instances": rows}) == expected

    body = {"instances": [{"b64": "YQ=="}]}
    (row,) = plain.post(body, attributes="tfs-model-name=words").json()["predictions"]
    assert row == {"upper": "A", "raw_bytes": {"b64": "YQA="}}
