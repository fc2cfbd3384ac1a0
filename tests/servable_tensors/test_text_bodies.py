"""servable_tensors/text_bodies.py: what the container's NGINX makes of text when there is no code."""

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from servable_tensors.text_bodies import add_signature, from_csv, from_json, from_records
from tests.servable_handler import text_reference

JSON_LIKE = st.text('[]{}",:\n\r \t\x0b\xa0\ufeff\u2028instances123.5e+-ab', max_size=60)
CSV_LIKE = st.text('12.5eE+-,"\n\r \t\xa0\ufeffab', max_size=60)


@given(JSON_LIKE)
@example('{"instances": [1]}')
@example('{"inputs"\n: 1}')
@example("[1,2]\n[3,4]")
@example("{} {}")
@example("[[1],[2]]")
def test_json_is_converted_as_without_a_handler(text: str) -> None:
    assert from_json(text.encode()) == text_reference.from_json(text.encode())


@given(JSON_LIKE)
@example("[1]\r\n[2]\n")
@example("1\n\n2")
@example('{"instances": 1}')
def test_json_lines_are_read_line_by_line_as_letter_by_letter(text: str) -> None:
    assert from_records(text.encode()) == text_reference.from_records(text.encode())


@pytest.mark.parametrize(
    ("body", "instances"),
    [
        (b"[[1,2],[3,4]]\n", b"[[[1,2],[3,4]]]"),
        (b"[[1,2],[3,4]]\n[[5,6],[7,8]]", b"[[[1,2],[3,4]],[[5,6],[7,8]]]"),
        (b"1\n2\n", b"[1,2]"),
        (b'{"x":1}\n', b'[{"x":1}]'),
        (b"", b"[]"),
    ],
)
def test_each_line_that_is_answered_by_a_line_is_one_row(body: bytes, instances: bytes) -> None:
    assert from_records(body) == b'{"instances":' + instances + b"}"


@given(CSV_LIKE)
@example("1,2\n\n3,4\n")
@example("a,b,c\nd")
@example('"a,b",c')
@example('say ""hi""')
@example('"a"",b')
@example('"""')
@example("Edinburgh,1")
@example('"1,2",a')
@example("a,\ufeff1")
@example("1,,+2,.5,01")
def test_csv_is_converted_as_without_a_handler(text: str) -> None:
    assert from_csv(text.encode()) == text_reference.from_csv(text.encode())


@given(st.binary(max_size=40))
def test_bytes_that_are_no_utf8_are_converted_as_without_a_handler(body: bytes) -> None:
    expected = (text_reference.from_json(body), text_reference.from_csv(body))
    assert (from_json(body), from_csv(body)) == expected


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"instances":[1]}', b'{"signature_name":"s","instances":[1]}'),
        (b'{"signature_name": "own", "inputs": 1}', b'{"signature_name": "own", "inputs": 1}'),
    ],
)
def test_a_signature_is_asked_for_unless_the_body_names_one(body: bytes, asked: bytes) -> None:
    assert add_signature(body, "s") == asked
