from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import requests

from local.endpoint.launch import EndpointProcess
from tests.local_endpoint.endpoint_calls import golden, post

Choose = Callable[..., requests.Response]


@pytest.mark.parametrize(("name", "key"), [("columnar", "outputs"), ("rows", "predictions")])
def test_the_rankers_code_answers_golden_requests(
    name: str, key: str, with_code: EndpointProcess
) -> None:
    answer = post(with_code, golden(f"request-{name}.json")).json()
    np.testing.assert_allclose(answer[key], golden(f"answer-{name}.json")[key], rtol=1e-5)


def test_no_content_type_is_accepted(with_code: EndpointProcess) -> None:
    assert post(with_code, golden("request-rows.json"), None).status_code == 200


def test_a_row_without_39_features_is_400_and_says_so(with_code: EndpointProcess) -> None:
    request = golden("request-rows.json")
    request["instances"][1]["feat_ids"].pop()
    answer = post(with_code, request)
    assert (answer.status_code, answer.json()["description"]) == (
        400,
        "feat_ids, row 1: 38 features; the ranker takes 39",
    )


def test_the_model_servers_refusal_keeps_its_status(with_code: EndpointProcess) -> None:
    request = golden("request-rows.json")
    request["instances"][0]["feat_ids"][0] = 0.5
    assert post(with_code, request).status_code == 400


def test_get_is_405(with_code: EndpointProcess) -> None:
    assert requests.get(with_code.url + "/invocations", timeout=30).status_code == 405


def test_ping_is_200(with_code: EndpointProcess) -> None:
    assert requests.get(with_code.url + "/ping", timeout=30).status_code == 200


def test_a_body_that_is_a_dict_is_an_empty_200(choosing: Choose) -> None:
    answer = choosing("a_dict")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_bare_dict_is_500(choosing: Choose) -> None:
    answer = choosing("a_bare_dict")
    assert answer.json() == {"error": "not enough values to unpack (expected 2, got 1)"}


def test_an_exception_is_500_with_its_message(choosing: Choose) -> None:
    answer = choosing("an_exception")
    assert (answer.status_code, answer.json()) == (500, {"error": "the shelf is empty"})


def test_a_falcon_error_carries_its_status_and_headers(choosing: Choose) -> None:
    pytest.importorskip("falcon")
    answer = choosing("refusal")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3")


def test_code_lib_is_on_the_path(choosing: Choose) -> None:
    assert choosing("from_lib").text == "found"


def test_the_channel_reaches_the_model_server(choosing: Choose) -> None:
    assert choosing("the_channel").json() == [2, 1]


def test_the_context_has_the_containers_fields(choosing: Choose) -> None:
    assert list(choosing("the_context").json()) == [
        "model_name",
        "model_version",
        "method",
        "rest_uri",
        "grpc_port",
        "channel",
        "custom_attributes",
        "request_content_type",
        "accept_header",
        "content_length",
        "timeout",
    ]


def test_the_model_name_is_none_unless_the_header_names_it(choosing: Choose) -> None:
    assert choosing("the_context").json()["model_name"] is None


def test_the_rest_uri_follows_the_header(choosing: Choose) -> None:
    shown = choosing("the_context,tfs-model-name=b,tfs-model-version=3,tfs-method=classify").json()
    assert shown["rest_uri"].endswith("/v1/models/b/versions/3:classify")


def test_the_rest_uris_model_reports_every_version(choosing: Choose) -> None:
    uri = choosing("the_context").json()["rest_uri"].removesuffix(":predict")
    states = requests.get(uri, timeout=30).json()["model_version_status"]
    assert [(s["version"], s["state"]) for s in states] == [("2", "AVAILABLE"), ("1", "AVAILABLE")]


def test_what_the_code_prints_goes_to_the_log(choosing: Choose, endpoint_log: Path) -> None:
    choosing("a_print")
    assert "said on standard output" in endpoint_log.read_text()


def test_settings_without_effect_are_in_the_log(choosing: Choose, endpoint_log: Path) -> None:
    line = "without effect on this endpoint: SAGEMAKER_GUNICORN_THREADS"
    assert line in endpoint_log.read_text()
