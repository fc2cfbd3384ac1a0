"""What is answered on which path and body, and which model, version and method the attributes choose."""

import json

import pytest
import requests

from tests.conformance.asking import ATTRIBUTES, Endpoint
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}
ROWS = [[1.0, 2.0], [3.0, 4.0]]
TRIPLED = [[3.0, 6.0], [9.0, 12.0]]


def test_ping_is_200_and_another_path_leads_nowhere(plain: Endpoint, coded: Endpoint) -> None:
    assert plain.get("/ping").status_code == 200
    assert coded.get("/ping").status_code == 200
    for path in ["/", "/metrics", "/v1/models/numbers"]:
        answer = plain.get(path)
        assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})
    assert plain.get("/models").status_code == 502


def test_the_model_servers_own_interface_is_below_tfs(plain_double: Double) -> None:
    # Only from inside: SageMaker forwards /ping and /invocations.
    states = plain_double.get("/tfs/v1/models/numbers").json()["model_version_status"]
    found = [(one["version"], one["state"]) for one in states]
    assert found == [("2", "AVAILABLE"), ("1", "AVAILABLE")]
    states = plain_double.get("/tfs/v1/models/numbers/versions/1").json()["model_version_status"]
    assert [one["version"] for one in states] == ["1"]

    found = plain_double.get("/tfs/v1/models/numbers/metadata").json()
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) >= {"serving_default", "batch", "large", "two"}
    assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"


def test_another_method_than_post_is_no_prediction(coded: Endpoint) -> None:
    for method, status in [("GET", 200), ("PUT", 405), ("DELETE", 500)]:
        answer = requests.request(method, f"{coded.url}/invocations", timeout=30)
        assert (answer.status_code, "predictions" in answer.text) == (status, False)


def test_a_body_in_chunks_has_a_length_for_the_code(coded: Endpoint) -> None:
    url, parts = f"{coded.url}/invocations", iter([b"abc", b"de"])
    answer = requests.post(url, parts, headers={ATTRIBUTES: "do=size"}, timeout=30)
    assert answer.json() == [5, 5]


def test_versions_and_models_are_chosen_by_attributes_or_404(plain: Endpoint) -> None:
    for attributes, predictions in [
        ("", [[3.0, 6.0]]),
        ("tfs-model-version=1", [[2.0, 4.0]]),
        ("tfs-model-version=2", [[3.0, 6.0]]),  # the archive holds numbers/02
        ("trace=17,tfs-model-version=1,tfs-model-name=numbers", [[2.0, 4.0]]),
    ]:
        answer = plain.post(ROW, attributes=attributes)
        assert (answer.status_code, answer.json()["predictions"]) == (200, predictions)

    answer = plain.post({"instances": ["a"]}, attributes="tfs-model-name=words")
    assert answer.json()["predictions"][0]["upper"] == "A"
    for attributes, message in [
        ("tfs-model-name=other", "Latest(other)"),
        ("tfs-model-version=9", "Specific(numbers, 9)"),
    ]:
        answer = plain.post(ROW, attributes=attributes)
        expected = f"Servable not found for request: {message}"
        assert (answer.status_code, answer.json()["error"]) == (404, expected)


def test_classify_and_regress_answer_examples(plain: Endpoint) -> None:
    attributes = "tfs-model-name=labels,tfs-method=classify"
    answer = plain.post({"examples": [{"x": 0.25}, {"x": 1.0}]}, attributes=attributes)
    assert answer.json() == {"result": [[["yes", 0.25], ["no", 0.75]], [["yes", 1.0], ["no", 0.0]]]}

    attributes = "tfs-model-name=labels,tfs-method=regress"
    body = {"signature_name": "number", "examples": [{"x": 0.25}, {"x": [0.5]}]}
    assert plain.post(body, attributes=attributes).json() == {"result": [2.5, 5.0]}
    body = {"signature_name": "number", "context": {"x": 1.0}, "examples": [{"other": 1.0}]}
    assert plain.post(body, attributes=attributes).json() == {"result": [10.0]}
    for method in ["classify", "regress"]:
        answer = plain.post({"examples": [{"x": 1.0}]}, attributes=f"tfs-method={method}")
        assert (answer.status_code, "tensorflow/serving/predict" in answer.text) == (400, True)


def test_an_attribute_that_is_not_of_its_form_is_400_or_passed_over(plain: Endpoint) -> None:
    for attribute, name in [
        ("tfs-model-name=../etc", "tfs-model-name"),
        ("tfs-model-name=a b", "tfs-model-name"),
        ("tfs-model-version=-1", "tfs-model-version"),
        ("tfs-method=delete", "tfs-method"),
    ]:
        answer = plain.post(ROW, attributes=attribute)
        assert (answer.status_code, answer.json()) == (400, {"error": f"invalid {name}"})
    assert plain.post(ROW, attributes="tfs-model-version=1=1").status_code == 200


def test_rows_columns_lists_and_lines_are_answered(plain: Endpoint) -> None:
    for inputs in (ROWS, {"x": ROWS}):
        answer = plain.post({"inputs": inputs})
        assert (answer.status_code, answer.json()) == (200, {"outputs": TRIPLED})
    assert plain.predictions({"instances": ROWS}) == plain.predictions(ROWS) == TRIPLED
    assert plain.predictions([1.0, 2.0]) == plain.predictions({"x": [1.0, 2.0]}) == TRIPLED[:1]

    for kind in ["application/json", "application/jsonlines", "application/jsons"]:
        for ending in ["\n", "\r\n"]:
            lines = ending.join(map(json.dumps, ROWS)).encode()
            assert plain.predictions(lines, kind) == TRIPLED
    assert plain.predictions(b"[1.0, 2.0]\n[3.0, 4.0]\n", "application/jsonlines") == TRIPLED
    assert plain.predictions(b"1.0,2.0\n3.0,4.0\n", "text/csv") == TRIPLED
    cases: list[tuple[bytes, object]] = [
        (b"a\nb", ["A", "B"]),
        (b'a,"b,c",d', [["A", "B,C", "D"]]),
    ]
    for sent, upper in cases:
        answer = plain.post(sent, "text/csv", attributes="tfs-model-name=words")
        assert [row["upper"] for row in answer.json()["predictions"]] == upper


def test_content_types_and_accept_are_taken_as_by_nginx(plain: Endpoint) -> None:
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON"]:
        assert plain.predictions(b"[[1.0, 2.0], [3.0, 4.0]]", kind) == TRIPLED
    for kind in ["application/x-npy", "text/plain", None]:
        answer = plain.post(b"[[1.0, 2.0]]", kind)
        expected = {"error": f"Unsupported Media Type: {kind or 'Unknown'}"}
        assert (answer.status_code, answer.json()) == (415, expected)

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
    for row in [{"whole": 1}, {"whole": 1, "part": 0.5, "more": 1}, {"whole": 1.5, "part": 1}]:
        assert plain.post({"signature_name": "two", "instances": [row]}).status_code == 400


def test_signatures_named_inputs_and_bytes_are_taken(plain: Endpoint) -> None:
    assert plain.predictions({"signature_name": "batch", "instances": ROWS}) == [2, 2]

    rows = [{"whole": 1, "part": 0.5}, {"whole": 2, "part": 0.25}]
    expected = [{"sum": 1.5, "whole": 1}, {"sum": 2.25, "whole": 2}]
    assert plain.predictions({"signature_name": "two", "instances": rows}) == expected

    body = {"instances": [{"b64": "YQ=="}]}
    (row,) = plain.post(body, attributes="tfs-model-name=words").json()["predictions"]
    assert row == {"upper": "A", "raw_bytes": {"b64": "YQA="}}
