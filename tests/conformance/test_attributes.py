"""The custom attributes' header says which model, version and method a request is for."""

import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


def test_every_version_answers_and_the_newest_by_default(plain: Endpoint) -> None:
    assert plain.predictions(ROW) == [[3.0, 6.0]]
    cases: list[tuple[str, object]] = [("1", [[2.0, 4.0]]), ("2", [[3.0, 6.0]])]
    for version, expected in cases:
        answer = plain.post(ROW, attributes=f"tfs-model-version={version}")
        assert answer.json()["predictions"] == expected
    # The archive holds numbers/02.
    assert plain.post(ROW, attributes="tfs-model-version=2").status_code == 200
    attributes = "trace=17,tfs-model-version=1,tfs-model-name=numbers"
    assert plain.post(ROW, attributes=attributes).json()["predictions"] == [[2.0, 4.0]]


def test_another_model_is_chosen_by_name_or_404(plain: Endpoint) -> None:
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
