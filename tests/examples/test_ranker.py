import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

RANKER = Path(__file__).parents[2] / "examples" / "ranker"


@pytest.fixture(scope="module")
def loaded() -> Any:
    import tensorflow as tf

    return tf.saved_model.load(str(RANKER / "model/1"), tags=["serve"])


def _golden(name: str) -> Any:
    return json.loads((RANKER / "golden" / name).read_bytes())


def test_the_saved_model_is_small_and_has_the_rankers_signature(loaded: Any) -> None:
    signature = loaded.signatures["serving_default"]
    inputs = signature.structured_input_signature[1]
    shown = {
        name: (spec.dtype.name, spec.shape.as_list())
        for name, spec in {**inputs, **signature.structured_outputs}.items()
    }
    assert shown == {
        "feat_ids": ("int64", [None, 39]),
        "feat_vals": ("float32", [None, 39]),
        "prob": ("float32", [None]),
    }
    files = (RANKER / "model").rglob("*")
    assert sum(path.stat().st_size for path in files if path.is_file()) < 1_000_000


def test_golden_requests_are_answered_as_tensorflow_computes_and_not_all_alike(loaded: Any) -> None:
    for name in ["columnar", "rows"]:
        import tensorflow as tf

        request, answer = _golden(f"request-{name}.json"), _golden(f"answer-{name}.json")
        columns = request.get("inputs") or {
            key: [row[key] for row in request["instances"]] for key in ("feat_ids", "feat_vals")
        }
        found = loaded.signatures["serving_default"](
            feat_ids=tf.constant(columns["feat_ids"], tf.int64),
            feat_vals=tf.constant(columns["feat_vals"], tf.float32),
        )["prob"].numpy()
        # Another kind of CPU adds in another order.
        np.testing.assert_allclose(found, answer.get("outputs") or answer["predictions"], rtol=1e-5)
    assert np.ptp(_golden("answer-columnar.json")["outputs"]) > 0.1


@pytest.fixture(scope="module")
def inference() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(RANKER / "code/inference.py")))


@pytest.mark.parametrize("name", ["columnar", "rows"])
def test_the_code_takes_golden_requests(name: str, inference: SimpleNamespace) -> None:
    body = (RANKER / "golden" / f"request-{name}.json").read_bytes()
    assert inference.problem_with(body) is None


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (b"{", "the body is not JSON"),
        (b"[]", "send an object"),
        (b'{"inputs": {}, "instances": []}', "send an object"),
        (b'{"inputs": []}', '"inputs" must be an object'),
        (b'{"instances": [1]}', '"instances" must be a list of objects'),
        (b'{"instances": []}', "feat_ids must be a list of at least one row of 39 numbers"),
        (b'{"inputs": {"feat_ids": [[1, 2]]}}', "feat_ids, row 0: 2 features; the ranker takes 39"),
        (b'{"inputs": {"feat_ids": [7]}}', "feat_ids, row 0: no list of features"),
        (
            json.dumps({"inputs": {"feat_ids": [[1] * 39], "feat_vals": [[1] * 39] * 2}}).encode(),
            "feat_ids has 1 rows, feat_vals 2",
        ),
    ],
)
def test_a_problem_is_named(request_: bytes, sentence: str, inference: SimpleNamespace) -> None:
    assert sentence in inference.problem_with(request_)
