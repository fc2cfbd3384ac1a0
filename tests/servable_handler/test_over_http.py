"""Every row of the table of bodies, over HTTP: through an endpoint with the handler."""

import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servable_local.container.launch import launch
from servable_tensors import wire
from servable_tensors.codecs import CSV, JSON, JSON_LINES, NPY, NPZ, PROTOBUF
from servable_tensors.tensors import to_array
from tests.conformance.conftest import Double
from tests.servable_handler.conftest import npy, npz, predict_request
from tests.servable_handler.endpoints import ECHOES, RANKER, golden, packed
from tests.servable_handler.mutation import SEEDS, damaged

pytestmark = pytest.mark.long

ARRAYS, ANSWER = golden()
COLUMNS = {name: array.tolist() for name, array in ARRAYS.items()}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
MODELS = {"ranker": RANKER / "model", "floats": ECHOES / "floats"}
VARIABLES = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "endpoint.log"


@pytest.fixture(scope="module")
def handled(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    archive = packed(tmp_path_factory.mktemp("handled") / "model.tar.gz", MODELS)
    with launch(archive, VARIABLES, log=log) as process:
        yield Double(process)


BODIES = {
    "rows": (JSON, json.dumps({"instances": ROWS}).encode()),
    "columns": (JSON, json.dumps({"inputs": COLUMNS}).encode()),
    "json-lines": (JSON_LINES, "\n".join(map(json.dumps, ROWS)).encode()),
    "npz": (NPZ, npz(**ARRAYS)),
    "protobuf": (PROTOBUF, predict_request(**ARRAYS)),
}
FORMS: dict[str, Callable[[bytes], Any]] = {
    JSON: lambda body: next(iter(json.loads(body).values())),
    JSON_LINES: lambda body: [json.loads(line) for line in body.splitlines()],
    CSV: lambda body: [float(line) for line in body.splitlines()],
    NPY: lambda body: np.load(io.BytesIO(body)).tolist(),
    NPZ: lambda body: np.load(io.BytesIO(body))["prob"].tolist(),
    PROTOBUF: lambda body: to_array(wire.PredictResponse.FromString(body).outputs["prob"]).tolist(),
}


@pytest.mark.parametrize("body", BODIES)
def test_the_ranker_answers_every_body_in_every_form(body: str, handled: Double) -> None:
    content_type, sent = BODIES[body]
    for accept, read in FORMS.items():
        answer = handled.post(sent, content_type, Accept=accept)
        assert answer.headers["Content-Type"] == accept, answer.content
        assert np.allclose(read(answer.content), ANSWER, rtol=1e-5, atol=0)


@pytest.mark.parametrize("content_type", [NPY, PROTOBUF])
def test_megabytes_go_both_ways(content_type: str, handled: Double) -> None:
    array = np.random.default_rng(0).random((3, 500_000), np.float32)
    body = npy(array) if content_type == NPY else predict_request(x=array)
    answer = handled.post(body, content_type, attributes="tfs-model-name=floats", Accept=NPY)
    assert np.array_equal(np.load(io.BytesIO(answer.content)), array)


SHORT = {**ARRAYS, "feat_vals": ARRAYS["feat_vals"][:, :38]}
TOO_SHORT = "feat_vals: got float32 [8, 38]; the signature wants float32 [any, 39]"


def test_a_refusal_has_its_status_and_says_what_is_wrong(handled: Double) -> None:
    json_rows, npz_rows = BODIES["rows"], BODIES["npz"]
    for content_type, body, attributes, status, words in [
        (NPZ, npz(**SHORT), "", 400, TOO_SHORT),
        (*npz_rows, "tfs-model-name=none", 404, "none"),
        (*json_rows, "tfs-model-version=9", 404, "9"),
        (*json_rows, "tfs-model-version=x", 400, "invalid tfs-model-version"),
        ("image/png", b"", "", 415, "image/png"),
    ]:
        answer = handled.post(body, content_type, attributes=attributes, Accept=NPY)
        said: dict[str, Any] = answer.json()
        assert (answer.status_code, list(said)) == (status, ["error"]), said
        assert words in said["error"]


def test_a_full_queue_is_429(handled: Double) -> None:
    handled.process.faults.fill_queue()
    try:
        answers = [handled.post(body, kind).status_code for kind, body in BODIES.values()]
    finally:
        handled.process.faults.end()
    assert set(answers) == {429}


def test_no_damaged_body_is_a_5xx_or_ends_a_worker(handled: Double) -> None:
    workers = handled.process.parts.workers
    for content_type in SEEDS:
        some = itertools.islice(damaged(content_type, 2), 200)
        statuses = {handled.post(body, content_type, Accept=a).status_code for body, a in some}
        assert max(statuses) < 500, (content_type, statuses)
    assert handled.process.parts.workers == workers


def test_the_log_holds_no_body(handled: Double, log: Path) -> None:
    handled.post(b"the secret of the request", NPZ)
    assert '"status": 400' in log.read_text()
    assert "the secret" not in log.read_text()
