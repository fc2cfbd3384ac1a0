from typing import Any

import numpy as np
import pytest
import requests

from servable_local.container.launch import EndpointProcess
from tests.servable_local.container.endpoint_calls import RANKER, golden, post


@pytest.fixture(scope="module")
def tensorflow_answers() -> Any:
    """What TensorFlow itself computes from the same SavedModel: ids, vals -> prob."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(RANKER / "model/1"), tags=["serve"])
    signature = loaded.signatures["serving_default"]

    def computed(ids: Any, vals: Any) -> Any:
        feed = {"feat_ids": tf.constant(ids, tf.int64), "feat_vals": tf.constant(vals, tf.float32)}
        return signature(**feed)["prob"].numpy()

    # The module and not only the function: its variables go away with it.
    computed.loaded = loaded  # type: ignore[attr-defined]
    return computed


def _candidates(rows: int) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    vals = random.random((rows, 39)).round(4)
    return {"feat_ids": random.integers(0, 4000, (rows, 39)).tolist(), "feat_vals": vals.tolist()}


def test_ping_is_200(without_code: EndpointProcess) -> None:
    assert requests.get(without_code.url + "/ping", timeout=30).status_code == 200


@pytest.mark.parametrize("rows", [1, 500])
def test_predictions_equal_what_tensorflow_computes(
    rows: int, without_code: EndpointProcess, tensorflow_answers: Any
) -> None:
    columns = _candidates(rows)
    answer = post(without_code, {"inputs": columns}).json()["outputs"]
    expected = tensorflow_answers(columns["feat_ids"], columns["feat_vals"])
    # A few units in the last place: thread counts change the order of additions.
    np.testing.assert_allclose(np.float32(answer), expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "key"), [("columnar", "outputs"), ("rows", "predictions")])
def test_golden_requests_get_their_golden_answers(
    name: str, key: str, without_code: EndpointProcess
) -> None:
    answer = post(without_code, golden(f"request-{name}.json")).json()
    np.testing.assert_allclose(answer[key], golden(f"answer-{name}.json")[key], rtol=1e-5)


def test_json_lines_are_rows(without_code: EndpointProcess) -> None:
    rows = golden("request-rows.json")["instances"]
    lines = "\n".join(str(row).replace("'", '"') for row in rows)
    answer = post(without_code, lines.encode(), "application/jsonlines").json()
    assert len(answer["predictions"]) == len(rows)


def test_another_content_type_is_415(without_code: EndpointProcess) -> None:
    assert post(without_code, b"x", "application/x-npy").status_code == 415


def test_no_content_type_is_415(without_code: EndpointProcess) -> None:
    answer = post(without_code, b"x", None)
    assert (answer.status_code, answer.text) == (
        415,
        '{"error":"Unsupported Media Type: Unknown"}',
    )


def test_accepting_json_takes_the_line_breaks_out(without_code: EndpointProcess) -> None:
    answer = post(without_code, golden("request-rows.json"), Accept="application/json")
    assert "\n" not in answer.text


def test_a_larger_request_than_the_batch_is_400(without_code: EndpointProcess) -> None:
    answer = post(without_code, {"inputs": _candidates(501)})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Task size 501 is larger than maximum input batch size 500",
    )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("tfs-model-name=other", "Servable not found for request: Latest(other)"),
        ("a=b,tfs-model-version=9", "Servable not found for request: Specific(ranker, 9)"),
    ],
)
def test_a_model_that_is_not_there_is_404(
    attributes: str, message: str, without_code: EndpointProcess
) -> None:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": attributes}
    answer = post(without_code, golden("request-rows.json"), **headers)
    assert (answer.status_code, answer.json()["error"]) == (404, message)


def test_a_shape_that_the_model_cannot_take_is_400(without_code: EndpointProcess) -> None:
    answer = post(without_code, {"inputs": {"feat_ids": [[1, 2]], "feat_vals": [[1, 2]]}})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"instances": NaN}', b'{"inputs": {}}']
)
def test_a_malformed_body_is_400_with_an_error(body: bytes, without_code: EndpointProcess) -> None:
    answer = post(without_code, body)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_another_path_is_404(without_code: EndpointProcess) -> None:
    assert requests.get(without_code.url + "/metrics", timeout=30).status_code == 404


def test_a_body_in_chunks_is_read(without_code: EndpointProcess) -> None:
    body = (RANKER / "golden/request-rows.json").read_bytes()
    headers = {"Content-Type": "application/json"}
    answer = requests.post(
        without_code.url + "/invocations",
        data=iter([body[:100], body[100:]]),
        headers=headers,
        timeout=30,
    )
    assert answer.status_code == 200
