import re
from pathlib import Path

import numpy as np
import requests

from servable_local.container.launch import EndpointProcess
from tests.servable_local.container.endpoint_calls import golden, post


def test_the_rankers_code_answers_golden_requests(with_code: EndpointProcess) -> None:
    for name, key in [("columnar", "outputs"), ("rows", "predictions")]:
        answer = post(with_code, golden(f"request-{name}.json")).json()
        np.testing.assert_allclose(answer[key], golden(f"answer-{name}.json")[key], rtol=1e-5)
    assert post(with_code, golden("request-rows.json"), None).status_code == 200


def test_a_refusal_of_code_or_model_server_keeps_its_status(with_code: EndpointProcess) -> None:
    request = golden("request-rows.json")
    request["instances"][1]["feat_ids"].pop()
    answer = post(with_code, request)
    assert (answer.status_code, answer.json()["description"]) == (
        400,
        "feat_ids, row 1: 38 features; the ranker takes 39",
    )

    request = golden("request-rows.json")
    request["instances"][0]["feat_ids"][0] = 0.5
    assert post(with_code, request).status_code == 400


def test_get_is_an_empty_list_of_models(with_code: EndpointProcess) -> None:
    answer = requests.get(with_code.url + "/invocations", timeout=30)
    assert (answer.status_code, answer.json()) == (200, {})


def test_settings_without_effect_are_in_the_log(
    endpoint_log: Path, with_code: EndpointProcess
) -> None:
    line = "these variables have no effect on this endpoint: SAGEMAKER_GUNICORN_THREADS"
    assert line in endpoint_log.read_text()


def test_the_log_has_each_variable_with_its_key(
    endpoint_log: Path, with_code: EndpointProcess
) -> None:
    said = re.findall(r"container\.(\S+): (\w+)=", endpoint_log.read_text())
    assert ("gunicorn_threads", "SAGEMAKER_GUNICORN_THREADS") in said
