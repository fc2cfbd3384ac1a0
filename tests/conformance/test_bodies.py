"""Without code NGINX makes TensorFlow Serving's JSON of what comes in."""

import json
from typing import Any

import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

NEWEST_FACTOR = 3  # version 2 triples
ROWS = [[1.0, 2.0], [3.0, 4.0]]
TRIPLED = [[3.0, 6.0], [9.0, 12.0]]


def test_rows_are_answered_as_predictions(plain: Endpoint) -> None:
    assert plain.predictions({"instances": ROWS}) == TRIPLED


def test_columns_are_answered_as_outputs(plain: Endpoint) -> None:
    answer = plain.post({"inputs": ROWS})
    assert (answer.status_code, answer.json()) == (200, {"outputs": TRIPLED})


def test_columns_of_a_named_input_are_answered_as_outputs(plain: Endpoint) -> None:
    assert plain.post({"inputs": {"x": ROWS}}).json() == {"outputs": TRIPLED}


def test_a_bare_list_is_one_row(plain: Endpoint) -> None:
    assert plain.predictions([1.0, 2.0]) == TRIPLED[:1]


def test_a_bare_list_of_lists_is_rows(plain: Endpoint) -> None:
    assert plain.predictions(ROWS) == TRIPLED


def test_a_bare_object_is_one_row(plain: Endpoint) -> None:
    assert plain.predictions({"x": [1.0, 2.0]}) == TRIPLED[:1]


@pytest.mark.parametrize("kind", ["application/json", "application/jsonlines", "application/jsons"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_json_lines_are_rows(kind: str, ending: str, plain: Endpoint) -> None:
    lines = ending.join(map(json.dumps, ROWS)).encode()
    assert plain.predictions(lines, kind) == TRIPLED


def test_json_lines_may_end_in_a_line_break(plain: Endpoint) -> None:
    assert plain.predictions(b"[1.0, 2.0]\n[3.0, 4.0]\n", "application/jsonlines") == TRIPLED


def test_csv_lines_of_numbers_are_rows(plain: Endpoint) -> None:
    assert plain.predictions(b"1.0,2.0\n3.0,4.0\n", "text/csv") == TRIPLED


def test_a_csv_of_one_column_is_values(plain: Endpoint) -> None:
    answer = plain.post(b"a\nb", "text/csv", attributes="tfs-model-name=words")
    assert [row["upper"] for row in answer.json()["predictions"]] == ["A", "B"]


def test_every_field_of_a_csv_is_one(plain: Endpoint) -> None:
    answer = plain.post(b'a,"b,c",d', "text/csv", attributes="tfs-model-name=words")
    assert answer.json()["predictions"][0]["upper"] == ["A", "B,C", "D"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON"])
def test_a_content_type_counts_without_its_parameters_and_case(kind: str, plain: Endpoint) -> None:
    assert plain.predictions(b"[[1.0, 2.0], [3.0, 4.0]]", kind) == TRIPLED


@pytest.mark.parametrize("kind", ["application/x-npy", "text/plain"])
def test_another_content_type_is_415(kind: str, plain: Endpoint) -> None:
    answer = plain.post(b"[[1.0, 2.0]]", kind)
    expected = {"error": f"Unsupported Media Type: {kind}"}
    assert (answer.status_code, answer.json()) == (415, expected)


def test_no_content_type_is_415_without_code(plain: Endpoint) -> None:
    answer = plain.post(b"[[1.0, 2.0]]", None)
    assert (answer.status_code, answer.json()["error"]) == (415, "Unsupported Media Type: Unknown")


def test_accepting_json_takes_the_line_breaks_out(plain: Endpoint) -> None:
    assert "\n" not in plain.post({"instances": ROWS}, Accept="application/json").text


def test_accepting_anything_leaves_the_line_breaks_in(plain: Endpoint) -> None:
    assert "\n" in plain.post({"instances": ROWS}, Accept="*/*").text


def test_the_answers_type_is_json_whichever_form_of_it_is_accepted(plain: Endpoint) -> None:
    answer = plain.post({"instances": ROWS}, Accept="text/html, application/jsonlines")
    assert (answer.headers["Content-Type"], "\n" in answer.text) == ("application/json", False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"instances": []}',
        b'{"instances": [[1.0, 2.0], [3.0]]}',
        b'{"instances": [["a", "b"]]}',
        b'{"instances": [[1.0, 2.0]], "inputs": [[1.0, 2.0]]}',
        b'{"instances": NaN}',
        b'{"inputs": {"z": [[1.0, 2.0]]}}',
        b'{"instances": [[1.0, 2.0, 3.0, 4.0, 5.0]], "signature_name": "two"}',
    ],
    ids=["empty", "cut", "no rows", "uneven", "words", "both", "nan", "unknown", "two inputs"],
)
def test_what_is_no_request_of_the_model_is_400_and_says_why(body: bytes, plain: Endpoint) -> None:
    answer = plain.post(body)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_another_signature_is_chosen_by_name(plain: Endpoint) -> None:
    body = {"signature_name": "batch", "instances": ROWS}
    assert plain.predictions(body) == [2, 2]


def test_an_unknown_signature_is_400(plain: Endpoint) -> None:
    answer = plain.post({"signature_name": "none", "instances": ROWS})
    assert (answer.status_code, "none" in answer.json()["error"]) == (400, True)


def test_several_inputs_are_named_in_every_row(plain: Endpoint) -> None:
    rows = [{"whole": 1, "part": 0.5}, {"whole": 2, "part": 0.25}]
    expected = [{"sum": 1.5, "whole": 1}, {"sum": 2.25, "whole": 2}]
    assert plain.predictions({"signature_name": "two", "instances": rows}) == expected


@pytest.mark.parametrize("row", [{"whole": 1}, {"whole": 1, "part": 0.5, "more": 1}])
def test_a_row_without_exactly_the_inputs_is_400(row: dict[str, Any], plain: Endpoint) -> None:
    assert plain.post({"signature_name": "two", "instances": [row]}).status_code == 400


def test_a_whole_number_is_no_float_and_a_float_no_whole_number(plain: Endpoint) -> None:
    body = {"signature_name": "two", "instances": [{"whole": 1.5, "part": 1}]}
    assert plain.post(body).status_code == 400


def test_bytes_travel_as_base64(plain: Endpoint) -> None:
    body = {"instances": [{"b64": "YQ=="}]}
    (row,) = plain.post(body, attributes="tfs-model-name=words").json()["predictions"]
    assert row == {"upper": "A", "raw_bytes": {"b64": "YQA="}}


def test_a_body_of_six_megabytes_is_taken(plain: Endpoint) -> None:
    rows = [[0.12345678, 0.87654321]] * 250_000
    answer = plain.post({"instances": rows, "signature_name": "batch"})
    assert (answer.status_code, answer.json()["predictions"][0]) == (200, 250_000)
