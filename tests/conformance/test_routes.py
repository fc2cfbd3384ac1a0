"""What is answered on which path, and which model, version and method the attributes choose."""

import pytest
import requests

from tests.conformance.asking import Endpoint
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long


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
    assert [(one["version"], one["state"]) for one in states] == [
        ("2", "AVAILABLE"),
        ("1", "AVAILABLE"),
    ]
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
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "do=size"}
    answer = requests.post(
        coded.url + "/invocations", iter([b"abc", b"de"]), headers=headers, timeout=30
    )
    assert answer.json() == [5, 5]


ROW = {"instances": [[1.0, 2.0]]}


def test_versions_and_models_are_chosen_by_attributes_or_404(plain: Endpoint) -> None:
    assert plain.predictions(ROW) == [[3.0, 6.0]]
    cases: list[tuple[str, object]] = [("1", [[2.0, 4.0]]), ("2", [[3.0, 6.0]])]
    for version, expected in cases:
        answer = plain.post(ROW, attributes=f"tfs-model-version={version}")
        assert answer.json()["predictions"] == expected
    # The archive holds numbers/02.
    assert plain.post(ROW, attributes="tfs-model-version=2").status_code == 200
    attributes = "trace=17,tfs-model-version=1,tfs-model-name=numbers"
    assert plain.post(ROW, attributes=attributes).json()["predictions"] == [[2.0, 4.0]]

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
