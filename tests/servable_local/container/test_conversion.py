import json
from collections.abc import Callable

import pytest

from servable_local.container.http_messages import HttpResponse
from servable_local.container.image_code import ImageCode, find_image_code
from servable_local.container.nginx.routes import (
    apply_accept_header,
    convert_body,
    convert_csv_up_to_2_19,
)
from servable_tensors.text_bodies import from_csv, from_json


@pytest.mark.parametrize(
    ("sent", "instances"),
    [
        ("[1, 2]", [[1, 2]]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ('{"a": 1}', [{"a": 1}]),
        ("5", [5]),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ("[1]\r\n\r\n[2]", [[1], [2]]),
    ],
)
def test_json_becomes_instances(sent: str, instances: object) -> None:
    assert json.loads(from_json(sent.encode())) == {"instances": instances}


def test_own_requests_and_two_values_on_one_line_pass_as_in_the_image() -> None:
    for key in ["instances", "inputs", "examples"]:
        sent = f'{{"signature_name": "x", "{key}" : [1]}}'
        assert from_json(sent.encode()) == sent.encode()
    assert from_json(b'{"a":1}{"a":2}') == b'{"instances":{"a":1}{"a":2}}'


@pytest.mark.parametrize(
    ("sent", "instances"),
    [
        ("1.5,2\n3,4\n", [[1.5, 2], [3, 4]]),
        ("1\n2", [1, 2]),
        ("word", ["word"]),
        ("a,b", [["a", "b"]]),
        ('"a,b","c"', [["a,b", "c"]]),
        ("1,2\n\n3,4", [[1, 2], [3, 4]]),
    ],
)
@pytest.mark.parametrize("read", [from_csv, convert_csv_up_to_2_19])
def test_csv_becomes_instances(
    sent: str, instances: object, read: Callable[[bytes], bytes]
) -> None:
    assert json.loads(read(sent.encode())) == {"instances": instances}


def test_a_field_of_csv_is_a_number_or_a_string_as_in_the_version() -> None:
    cases: list[tuple[str, object]] = [
        ("a,b,c", [["a", "b", "c"]]),
        ("1,a", [[1, "a"]]),
        ("Edinburgh", ["Edinburgh"]),
        ('say ""hi""', ["say hi"]),
        ('"a""b"', ['a"b']),
        ("1,,2", [[1, "", 2]]),
        ("01,+1,.5,1.", [["01", "+1", ".5", "1."]]),
        (" 1 , x ", [[1, " x"]]),
        ("a\\b", ["a\\b"]),
        ("\ufeff1,\u3000", [["\ufeff1", "\u3000"]]),
    ]
    for sent, instances in cases:
        assert json.loads(from_csv(sent.encode())) == {"instances": instances}
    assert json.loads(convert_csv_up_to_2_19(b"a,b,c")) == {"instances": [["a", "b,c"]]}


NEW, OLD = find_image_code("2.20"), find_image_code("2.19")


def test_a_body_that_was_not_sent_is_javascripts_undefined_or_failure() -> None:
    assert convert_body("application/json", None, NEW) == b'{"instances":[undefined]}'

    answer = convert_body("text/csv", None, NEW)
    assert isinstance(answer, HttpResponse)
    assert answer.status == 500


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (NEW, '{"error":"Unsupported Media Type: a/\\"b"}'),
        (OLD, '{"error": "Unsupported Media Type: A/"B"}'),
    ],
)
def test_an_unknown_type_is_named_as_the_version_does(image: ImageCode, text: str) -> None:
    answer = convert_body('A/"B', b"", image)
    assert isinstance(answer, HttpResponse)
    assert (answer.status, answer.body.decode()) == (415, text)


@pytest.mark.parametrize(
    ("image", "accept", "kind"),
    [
        (NEW, "text/csv, application/jsonlines", "application/json"),
        (OLD, "application/jsonlines,text/csv", "application/jsonlines"),
        (NEW, "application/json;q=1", "kept"),
    ],
)
def test_which_type_an_accepted_answer_has(image: ImageCode, accept: str, kind: str) -> None:
    answer = HttpResponse(200, b"a\nb", "kept")
    assert apply_accept_header(accept, answer, image).content_type == kind
