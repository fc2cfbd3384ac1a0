"""Filters and joins of a transform job, as SageMaker's guide describes them."""

import io
import json
from typing import Any

import pytest

from servable_tensors.records import (
    DataProcessing,
    JsonPath,
    TransformError,
    read_records,
)

CSV = ("text/csv", "Line")
JSON_LINES = ("application/jsonlines", "Line")
JSON = ("application/json", "None")


def processing(form: tuple[str, str], **given: str) -> DataProcessing:
    content_type, split = form
    return DataProcessing(
        {
            "DataProcessing": given,
            "TransformInput": {"ContentType": content_type, "SplitType": split},
            "TransformOutput": {"Accept": content_type, "AssembleWith": split},
        }
    )


def through(
    one: DataProcessing, source: bytes, answer: bytes | None = None
) -> tuple[bytes, list[bytes]]:
    """What is sent for a file, and the records of the result; without `answer`, what is sent comes back."""
    found = read_records(
        io.BytesIO(source), "None" if b"\n" not in source else "Line", 100, single=False
    )
    (batch,) = one.build_batches(found, 100, single=False, end=b"\n")
    sent = bytes(batch.body)
    return sent, list(one.build_results(batch, sent if answer is None else answer))


ROW = {"id": 7, "features": {"a": 1, "b": [10, 11, 12, 13]}}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("$", ROW),
        ("$.id", 7),
        ("$['id']", 7),
        ("$.features.a", 1),
        ("$.features.*", [1, [10, 11, 12, 13]]),
        ("$['id','features']", ROW),
        ("$.['id','features']", ROW),
        ("$.features.b[0]", 10),
        ("$.features.b[-1]", 13),
        ("$.features.b[0,2]", [10, 12]),
        ("$.features.b[1:2]", [11, 12]),
        ("$.features.b[:1]", [10, 11]),
        ("$.features.b[2:]", [12, 13]),
        ("$.features.b[-2:]", [12, 13]),
        ("$.features.b[0,2:]", [10, 12, 13]),
    ],
)
def test_a_path_selects(path: str, selected: Any) -> None:
    assert JsonPath(path).select(ROW) == selected


@pytest.mark.parametrize(
    "path", ["", "id", "$..id", "$[?(@.a)]", "$.a.length()", "$['a'", "$[]", "$[a]"]
)
def test_a_path_that_sagemaker_does_not_support_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="support"):
        JsonPath(path)


@pytest.mark.parametrize("path", ["$.other", "$.features.b[4]", "$.features.b[2:4]", "$.id.a"])
def test_a_path_that_selects_nothing_fails_the_record(path: str) -> None:
    with pytest.raises(TransformError, match="selects nothing"):
        JsonPath(path).select(ROW)


def test_rows_of_csv_are_filtered_and_joined_with_their_answers() -> None:
    sent, _ = through(processing(CSV, InputFilter="$[1:]"), b"7,1,2\n8,3,4\n")
    assert sent == b"1,2\n3,4"
    joined = processing(CSV, JoinSource="Input", InputFilter="$[1:]")
    assert through(joined, b"7,1,2\n8,3,4\n", b"0.5\n0.6\n")[1] == [b"7,1,2,0.5", b"8,3,4,0.6"]
    joined = processing(CSV, JoinSource="Input", OutputFilter="$[0,-1]")
    assert through(joined, b"7,1,2\n8,3,4\n", b"0.5\n0.6")[1] == [b"7,0.5", b"8,0.6"]

    joined = processing(CSV, JoinSource="Input")
    source = b'"a,b","say ""x""",1\n2,3,4\n'
    assert through(joined, source, b"0.5\n0.6")[1][0] == b'"a,b","say ""x""",1,0.5'


def test_what_cannot_be_joined_or_parsed_fails() -> None:
    joined = processing(CSV, JoinSource="Input")
    with pytest.raises(TransformError) as failed:
        through(joined, b"1\n2\n", b'{"predictions": [\n[1.0],\n[2.0]\n]}')
    assert str(failed.value) == (
        'Failed to parse output from the algorithm as CSV: bare " in non quoted field'
    )
    with pytest.raises(TransformError, match="1 output records for 2"):
        through(processing(CSV, JoinSource="Input"), b"1\n2\n", b"0.5\n")
    with pytest.raises(TransformError, match="Failed to parse input as JSON"):
        through(processing(JSON, InputFilter="$.x"), b"{")


def test_answers_are_attributes_of_json() -> None:
    joined = processing(
        JSON_LINES, JoinSource="Input", InputFilter="$.x", OutputFilter="$['id','SageMakerOutput']"
    )
    source = b'{"id":1,"x":[1]}\n{"id":2,"x":[2]}\n'
    sent, result = through(joined, source, b"[0.5]\n[0.6]\n")
    assert sent == b"[1]\n[2]"
    assert result == [b'{"id":1,"SageMakerOutput":[0.5]}', b'{"id":2,"SageMakerOutput":[0.6]}']
    joined = processing(JSON, JoinSource="Input")
    assert through(joined, b"[1]", b'{\n"label": 1}')[1] == [
        b'{"SageMakerInput":[1],"SageMakerOutput":{"label":1}}'
    ]

    source = json.dumps({"id": "ä"}, ensure_ascii=False).encode()
    joined = processing(JSON, JoinSource="Input")
    assert json.loads(through(joined, source, b"1")[1][0]) == {"id": "ä", "SageMakerOutput": 1}


def test_without_join_and_output_filter_an_answer_stays_as_it_is() -> None:
    answer = b'{"predictions": [1.0]}\n'
    assert through(processing(CSV, InputFilter="$[0]"), b"1\n2\n", answer)[1] == [answer]


@pytest.mark.parametrize(
    ("content_type", "accept", "lines", "problem"),
    [
        ("text/csv", "application/json", "Line", "Accept must equal ContentType"),
        ("text/csv", "text/csv", "None", "needs SplitType and AssembleWith Line"),
        ("application/x-npy", "application/x-npy", "Line", "needs CSV or JSON"),
    ],
)
def test_forms_that_cannot_be_joined_are_refused(
    content_type: str, accept: str, lines: str, problem: str
) -> None:
    request = {
        "DataProcessing": {"JoinSource": "Input"},
        "TransformInput": {"ContentType": content_type, "SplitType": lines},
        "TransformOutput": {"Accept": accept, "AssembleWith": lines},
    }
    with pytest.raises(ValueError, match=problem):
        DataProcessing(request)
