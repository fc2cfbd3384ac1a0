"""The custom attributes' header says which model, version and method a request is for."""

import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


def test_without_attributes_the_newest_version_of_the_default_model_answers(
    plain: Endpoint,
) -> None:
    assert plain.predictions(ROW) == [[3.0, 6.0]]


@pytest.mark.parametrize(("version", "expected"), [("1", [[2.0, 4.0]]), ("2", [[3.0, 6.0]])])
def test_every_version_of_the_archive_is_loaded(
    version: str, expected: object, plain: Endpoint
) -> None:
    answer = plain.post(ROW, attributes=f"tfs-model-version={version}")
    assert answer.json()["predictions"] == expected


def test_a_version_whose_folder_has_a_leading_zero_goes_by_its_number(plain: Endpoint) -> None:
    # The archive holds numbers/02.
    assert plain.post(ROW, attributes="tfs-model-version=2").status_code == 200


def test_another_model_is_chosen_by_name(plain: Endpoint) -> None:
    answer = plain.post({"instances": ["a"]}, attributes="tfs-model-name=words")
    assert answer.json()["predictions"][0]["upper"] == "A"


def test_attributes_of_others_are_left_alone(plain: Endpoint) -> None:
    attributes = "trace=17,tfs-model-version=1,tfs-model-name=numbers"
    assert plain.post(ROW, attributes=attributes).json()["predictions"] == [[2.0, 4.0]]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("tfs-model-name=other", "Latest(other)"),
        ("tfs-model-version=9", "Specific(numbers, 9)"),
    ],
)
def test_what_is_not_loaded_is_404(attributes: str, message: str, plain: Endpoint) -> None:
    answer = plain.post(ROW, attributes=attributes)
    expected = f"Servable not found for request: {message}"
    assert (answer.status_code, answer.json()["error"]) == (404, expected)


def test_classify_answers_labels_with_their_scores(plain: Endpoint) -> None:
    attributes = "tfs-model-name=labels,tfs-method=classify"
    answer = plain.post({"examples": [{"x": 0.25}, {"x": 1.0}]}, attributes=attributes)
    assert answer.json() == {"result": [[["yes", 0.25], ["no", 0.75]], [["yes", 1.0], ["no", 0.0]]]}


def test_regress_answers_a_number_for_each_example(plain: Endpoint) -> None:
    attributes = "tfs-model-name=labels,tfs-method=regress"
    body = {"signature_name": "number", "examples": [{"x": 0.25}, {"x": [0.5]}]}
    assert plain.post(body, attributes=attributes).json() == {"result": [2.5, 5.0]}


def test_the_examples_context_is_shared(plain: Endpoint) -> None:
    attributes = "tfs-model-name=labels,tfs-method=regress"
    body = {"signature_name": "number", "context": {"x": 1.0}, "examples": [{"other": 1.0}]}
    assert plain.post(body, attributes=attributes).json() == {"result": [10.0]}


@pytest.mark.parametrize("method", ["classify", "regress"])
def test_a_method_that_the_signature_is_not_for_is_400(method: str, plain: Endpoint) -> None:
    answer = plain.post({"examples": [{"x": 1.0}]}, attributes=f"tfs-method={method}")
    assert (answer.status_code, "tensorflow/serving/predict" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("tfs-model-name=../etc", "tfs-model-name"),
        ("tfs-model-name=a b", "tfs-model-name"),
        ("tfs-model-version=-1", "tfs-model-version"),
        ("tfs-method=delete", "tfs-method"),
    ],
)
def test_an_attribute_that_is_not_of_its_form_is_400(
    attribute: str, name: str, plain: Endpoint
) -> None:
    answer = plain.post(ROW, attributes=attribute)
    assert (answer.status_code, answer.json()) == (400, {"error": f"invalid {name}"})


def test_an_attribute_with_two_equal_signs_is_passed_over_without_code(plain: Endpoint) -> None:
    assert plain.post(ROW, attributes="tfs-model-version=1=1").status_code == 200
