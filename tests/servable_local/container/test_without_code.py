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


def test_ping_is_200_and_another_path_404(without_code: EndpointProcess) -> None:
    assert requests.get(without_code.url + "/ping", timeout=30).status_code == 200
    assert requests.get(without_code.url + "/metrics", timeout=30).status_code == 404


@pytest.mark.parametrize("rows", [1, 500])
def test_predictions_equal_what_tensorflow_computes(
    rows: int, without_code: EndpointProcess, tensorflow_answers: Any
) -> None:
    columns = _candidates(rows)
    answer = post(without_code, {"inputs": columns}).json()["outputs"]
    expected = tensorflow_answers(columns["feat_ids"], columns["feat_vals"])
    # A few units in the last place: thread counts change the order of additions.
    np.testing.assert_allclose(np.float32(answer), expected, rtol=1e-6)


def test_golden_requests_lines_and_chunks_are_answered(without_code: EndpointProcess) -> None:
    for name, key in [("columnar", "outputs"), ("rows", "predictions")]:
        answer = post(without_code, golden(f"request-{name}.json")).json()
        np.testing.assert_allclose(answer[key], golden(f"answer-{name}.json")[key], rtol=1e-5)

    rows = golden("request-rows.json")["instances"]
    lines = "\n".join(str(row).replace("'", '"') for row in rows)
    answer = post(without_code, lines.encode(), "application/jsonlines").json()
    assert len(answer["predictions"]) == len(rows)

    body = (RANKER / "golden/request-rows.json").read_bytes()
    headers = {"Content-Type": "application/json"}
    answer = requests.post(
        without_code.url + "/invocations",
        data=iter([body[:100], body[100:]]),
        headers=headers,
        timeout=30,
    )
    assert answer.status_code == 200


def test_another_or_no_content_type_is_415(without_code: EndpointProcess) -> None:
    assert post(without_code, b"x", "application/x-npy").status_code == 415
    answer = post(without_code, b"x", None)
    assert (answer.status_code, answer.text) == (415, '{"error":"Unsupported Media Type: Unknown"}')


def test_accepting_json_takes_the_line_breaks_out(without_code: EndpointProcess) -> None:
    answer = post(without_code, golden("request-rows.json"), Accept="application/json")
    assert "\n" not in answer.text


def test_what_the_model_cannot_take_is_400_and_says_why(without_code: EndpointProcess) -> None:
    answer = post(without_code, {"inputs": _candidates(501)})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Task size 501 is larger than maximum input batch size 500",
    )
    answer = post(without_code, {"inputs": {"feat_ids": [[1, 2]], "feat_vals": [[1, 2]]}})
    assert answer.status_code == 400
    for body in [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"instances": NaN}', b'{"inputs": {}}']:
        answer = post(without_code, body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])


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
