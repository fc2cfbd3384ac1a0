"""What inference.py is told, and what becomes of what it returns or raises."""

from pathlib import Path

import pytest

from tests.conformance.asking import Endpoint
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


def _context(coded: Endpoint, attributes: str = "") -> dict[str, object]:
    found: dict[str, object] = coded.do("the_context", attributes=attributes).json()
    return found


def test_the_context_has_the_containers_fields_in_order(coded: Endpoint) -> None:
    assert coded.do("fields").json() == [
        "model_name", "model_version", "method", "rest_uri", "grpc_port", "channel",
        "custom_attributes", "request_content_type", "accept_header", "content_length", "timeout",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["model_name", "model_version", "method"])
def test_what_the_header_does_not_name_is_none(field: str, coded: Endpoint) -> None:
    assert _context(coded)[field] is None


@pytest.mark.parametrize(
    ("attribute", "field", "value"),
    [
        ("tfs-model-name=words", "model_name", "words"),
        ("tfs-model-version=1", "model_version", "1"),
        ("tfs-method=classify", "method", "classify"),
    ],
)
def test_what_the_header_names_is_passed_on(
    attribute: str, field: str, value: str, coded: Endpoint
) -> None:
    assert _context(coded, attribute)[field] == value


def test_the_rest_uri_is_of_the_default_model(coded: Endpoint) -> None:
    assert str(_context(coded)["rest_uri"]).endswith("/v1/models/numbers:predict")


def test_the_rest_uri_follows_the_header(coded: Endpoint) -> None:
    uri = str(
        _context(coded, "tfs-model-name=b,tfs-model-version=3,tfs-method=regress")["rest_uri"]
    )
    assert uri.endswith("/v1/models/b/versions/3:regress")


def test_the_custom_attributes_are_passed_whole(coded: Endpoint) -> None:
    given = "trace=17,tfs-model-version=1"
    assert _context(coded, given)["custom_attributes"] == f"do=the_context,{given}"


def test_the_channel_is_grpcs_own(coded: Endpoint) -> None:
    assert _context(coded)["channel"] == "grpc"


def test_the_grpc_port_is_a_string_of_digits(coded: Endpoint) -> None:
    assert str(_context(coded)["grpc_port"]).isdecimal()


def test_no_content_type_is_accepted_and_called_json(coded: Endpoint) -> None:
    answer = coded.post(b"{}", None, attributes="do=the_context")
    assert answer.json()["request_content_type"] == "application/json"


def test_any_content_type_is_accepted(coded: Endpoint) -> None:
    answer = coded.post(b"x", "application/x-npy", attributes="do=echo")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-npy")


def test_the_accept_header_is_passed_on(coded: Endpoint) -> None:
    answer = coded.post(b"{}", attributes="do=the_context", Accept="application/x-npy")
    assert answer.json()["accept_header"] == "application/x-npy"


def test_the_content_length_is_the_bodys(coded: Endpoint) -> None:
    assert coded.do("size", b"12345").json() == [5, 5]


def test_a_body_arrives_byte_for_byte(coded: Endpoint) -> None:
    body = bytes(range(256)) * 4000
    assert coded.do("echo", body).content == body


def test_the_timeout_is_the_wait_time(coded: Endpoint) -> None:
    # Of an image of 2.20 where nothing is set.
    assert _context(coded)["timeout"] == 60.0


def test_the_model_server_answers_the_handlers_post(coded: Endpoint) -> None:
    assert coded.do("pass_on", ROW).json() == {"predictions": [[3.0, 6.0]]}


def test_a_string_is_answered_as_utf8(coded: Endpoint) -> None:
    assert coded.do("a_string").content == "grüße".encode()


def test_bytes_are_answered_as_they_are(coded: Endpoint) -> None:
    answer = coded.do("some_bytes")
    assert (answer.content, answer.headers["Content-Type"]) == (
        b"\x00\xff",
        "application/octet-stream",
    )


def test_no_body_is_an_empty_200(coded: Endpoint) -> None:
    answer = coded.do("nothing")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_dict_as_the_body_is_an_empty_200(coded: Endpoint) -> None:
    answer = coded.do("a_dict")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_bare_dict_is_500(coded: Endpoint) -> None:
    assert coded.do("a_bare_dict").status_code == 500


def test_an_exception_is_500_with_its_message(coded: Endpoint) -> None:
    answer = coded.do("an_exception")
    assert (answer.status_code, answer.json()) == (500, {"error": "the shelf is empty"})


def test_an_unknown_function_is_a_500_like_any_other(coded: Endpoint) -> None:
    assert coded.do("no_such_name").status_code == 500


def test_falcons_bad_request_carries_its_status(coded: Endpoint) -> None:
    answer = coded.do("a_refusal")
    assert (answer.status_code, answer.json()["title"]) == (400, "No")


def test_falcons_errors_carry_their_headers(coded: Endpoint) -> None:
    answer = coded.do("too_many")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3")


def test_code_lib_is_on_the_path(coded: Endpoint) -> None:
    assert coded.do("from_lib").text == "found"


def test_the_code_is_imported_once_before_the_workers_are_forked(coded: Endpoint) -> None:
    shown = coded.do("the_process").json()
    assert shown["imported_in"] == shown["parent"] != shown["pid"]


def test_openmp_has_one_thread_unless_it_is_set(coded: Endpoint) -> None:
    found = coded.do("the_environment", ["OMP_NUM_THREADS"]).json()
    assert found == {"OMP_NUM_THREADS": "1"}


def test_the_default_model_is_told_to_the_code(coded: Endpoint) -> None:
    found = coded.do("the_environment", ["TFS_DEFAULT_MODEL_NAME"]).json()
    assert found == {"TFS_DEFAULT_MODEL_NAME": "numbers"}


def test_an_attribute_with_two_equal_signs_is_400(coded: Endpoint) -> None:
    assert coded.post(ROW, attributes="tfs-model-version=1=1").status_code == 400


def test_what_the_code_prints_goes_to_the_log(coded_double: Double, folder: Path) -> None:
    coded_double.do("a_print")
    assert "said on standard output" in (folder / "coded.log").read_text()
