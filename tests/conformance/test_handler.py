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


def test_the_context_has_the_containers_fields_and_what_the_header_names(coded: Endpoint) -> None:
    assert coded.do("fields").json() == [
        "model_name", "model_version", "method", "rest_uri", "grpc_port", "channel",
        "custom_attributes", "request_content_type", "accept_header", "content_length", "timeout",
    ]  # fmt: skip
    for field in ["model_name", "model_version", "method"]:
        assert _context(coded)[field] is None
    for attribute, field, value in [
        ("tfs-model-name=words", "model_name", "words"),
        ("tfs-model-version=1", "model_version", "1"),
        ("tfs-method=classify", "method", "classify"),
    ]:
        assert _context(coded, attribute)[field] == value
    assert str(_context(coded)["rest_uri"]).endswith("/v1/models/numbers:predict")
    uri = str(
        _context(coded, "tfs-model-name=b,tfs-model-version=3,tfs-method=regress")["rest_uri"]
    )
    assert uri.endswith("/v1/models/b/versions/3:regress")
    given = "trace=17,tfs-model-version=1"
    assert _context(coded, given)["custom_attributes"] == f"do=the_context,{given}"
    assert _context(coded)["channel"] == "grpc"
    assert str(_context(coded)["grpc_port"]).isdecimal()
    # Of an image of 2.20 where nothing is set.
    assert _context(coded)["timeout"] == 60.0


def test_any_type_and_body_reaches_the_handler_as_it_is(coded: Endpoint) -> None:
    answer = coded.post(b"{}", None, attributes="do=the_context")
    assert answer.json()["request_content_type"] == "application/json"
    answer = coded.post(b"x", "application/x-npy", attributes="do=echo")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-npy")
    answer = coded.post(b"{}", attributes="do=the_context", Accept="application/x-npy")
    assert answer.json()["accept_header"] == "application/x-npy"
    assert coded.do("size", b"12345").json() == [5, 5]
    body = bytes(range(256)) * 4000
    assert coded.do("echo", body).content == body


def test_a_text_bytes_or_nothing_is_answered(coded: Endpoint) -> None:
    assert coded.do("pass_on", ROW).json() == {"predictions": [[3.0, 6.0]]}
    assert coded.do("a_string").content == "grüße".encode()
    answer = coded.do("some_bytes")
    assert (answer.content, answer.headers["Content-Type"]) == (
        b"\x00\xff",
        "application/octet-stream",
    )
    answer = coded.do("nothing")
    assert (answer.status_code, answer.content) == (200, b"")
    answer = coded.do("a_dict")
    assert (answer.status_code, answer.content) == (200, b"")


def test_an_exception_is_500_and_falcons_errors_are_as_they_are(coded: Endpoint) -> None:
    assert coded.do("a_bare_dict").status_code == 500
    answer = coded.do("an_exception")
    assert (answer.status_code, answer.json()) == (500, {"error": "the shelf is empty"})
    assert coded.do("no_such_name").status_code == 500
    answer = coded.do("a_refusal")
    assert (answer.status_code, answer.json()["title"]) == (400, "No")
    answer = coded.do("too_many")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3")
    assert coded.post(ROW, attributes="tfs-model-version=1=1").status_code == 400


def test_the_code_has_its_lib_one_import_and_the_variables(coded: Endpoint) -> None:
    assert coded.do("from_lib").text == "found"
    shown = coded.do("the_process").json()
    assert shown["imported_in"] == shown["parent"] != shown["pid"]
    found = coded.do("the_environment", ["OMP_NUM_THREADS"]).json()
    assert found == {"OMP_NUM_THREADS": "1"}
    found = coded.do("the_environment", ["TFS_DEFAULT_MODEL_NAME"]).json()
    assert found == {"TFS_DEFAULT_MODEL_NAME": "numbers"}


def test_the_log_has_what_code_prints_and_each_variable_with_its_key(
    coded_double: Double, folder: Path
) -> None:
    coded_double.do("a_print")
    log = (folder / "coded.log").read_text()
    assert "said on standard output" in log
    assert "container.gunicorn_threads: SAGEMAKER_GUNICORN_THREADS=" in log
    assert "variables have no effect on this endpoint: SAGEMAKER_GUNICORN_THREADS" in log
