"""Every row of the table of bodies, over HTTP: the endpoint with the handler, and one without."""

import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servable_local.container.launch import EndpointProcess, launch
from servable_tensors import wire
from servable_tensors.tensors import to_array
from tests.servable_handler.conftest import npy, npz
from tests.servable_handler.endpoints import ECHOES, RANKER, golden, packed, post, predict_request
from tests.servable_handler.mutation import SEEDS, damaged

pytestmark = pytest.mark.long

ARRAYS, ANSWER = golden()
COLUMNS = {name: array.tolist() for name, array in ARRAYS.items()}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
MODELS = {"ranker": RANKER / "model"} | {
    name: ECHOES / name for name in ("floats", "whole", "words")
}
VARIABLES = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "endpoint.log"


@pytest.fixture(scope="module")
def handled(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    archive = packed(tmp_path_factory.mktemp("handled") / "model.tar.gz", MODELS)
    with launch(archive, VARIABLES, log=log) as process:
        yield process


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    archive = packed(tmp_path_factory.mktemp("bare") / "model.tar.gz", MODELS, handler=False)
    with launch(archive, VARIABLES) as process:
        yield process


BODIES = {
    "rows": ("application/json", json.dumps({"instances": ROWS}).encode()),
    "columns": ("application/json", json.dumps({"inputs": COLUMNS}).encode()),
    "json-lines": ("application/jsonlines", "\n".join(map(json.dumps, ROWS)).encode()),
    "npz": ("application/x-npz", npz(**ARRAYS)),
    "protobuf": ("application/x-protobuf", predict_request(**ARRAYS)),
}
FORMS: dict[str, Callable[[bytes], Any]] = {
    "application/json": lambda body: next(iter(json.loads(body).values())),
    "application/jsonlines": lambda body: [json.loads(line) for line in body.splitlines()],
    "text/csv": lambda body: [float(line) for line in body.splitlines()],
    "application/x-npy": lambda body: np.load(io.BytesIO(body)).tolist(),
    "application/x-npz": lambda body: np.load(io.BytesIO(body))["prob"].tolist(),
    "application/x-protobuf": lambda body: to_array(
        wire.PredictResponse.FromString(body).outputs["prob"]
    ).tolist(),
}


@pytest.mark.parametrize("accept", FORMS)
@pytest.mark.parametrize("body", BODIES)
def test_the_ranker_answers_every_body_in_every_form(
    body: str, accept: str, handled: EndpointProcess
) -> None:
    content_type, sent = BODIES[body]
    answer = post(handled.url, sent, content_type, accept=accept)
    assert answer.headers["Content-Type"] == accept, answer.content
    assert np.allclose(FORMS[accept](answer.content), ANSWER, rtol=1e-5, atol=0)


# (model, content type, body): what clients of an endpoint without code send.
TEXTS = [
    ("floats", "text/csv", b"1,2.5,3e-3\n-4,0.5,6\n"),
    ("floats", "text/csv", b"1.0000001\r\n2\r\n\r\n3"),
    ("floats", "text/csv", b"0.1,0.2"),
    ("whole", "text/csv", b"1,2\n3,9007199254740993\n"),
    ("words", "text/csv", b"a,b\nc,d\n"),
    ("words", "text/csv", b'"a","b,c"\n"d","e"'),
    ("words", "text/csv", "ä\nö".encode()),
    ("floats", "application/json", b"[[1, 2], [3, 4.25]]"),
    ("floats", "application/json", b"[1, 2, 3]"),
    ("floats", "application/json", b"7"),
    ("floats", "application/json", b"[1, 2]\n[3, 4]\n"),
    ("floats", "application/jsonlines", b"[1, 2]\n\n[3, 4]"),
    ("words", "application/json", b'["a", {"b64": "YmM="}]'),
    ("floats", "application/json", b'{"instances": [1.5, NaN, -Infinity]}'),
]


@pytest.mark.parametrize(("model", "content_type", "body"), TEXTS, ids=range(len(TEXTS)))
def test_text_gives_the_tensors_that_it_gives_without_a_handler_relayed_or_parsed(
    model: str, content_type: str, body: bytes, handled: EndpointProcess, bare: EndpointProcess
) -> None:
    attributes = f"tfs-model-name={model}"
    with_handler, without = (
        post(one.url, body, content_type, attributes=attributes) for one in (handled, bare)
    )
    assert without.status_code == 200
    # NGINX drops line breaks where JSON is accepted; in them is no tensor.
    assert with_handler.content.replace(b"\n", b"") == without.content

    attributes = f"tfs-model-name={model}"
    without = post(bare.url, body, content_type, attributes=attributes)
    answer = post(
        handled.url, body, content_type, accept="application/x-npy", attributes=attributes
    )
    array = np.load(io.BytesIO(answer.content))
    expected = np.array(without.json()["predictions"])
    if array.dtype.kind == "S":
        expected = np.char.encode(expected, "utf-8")
    assert np.array_equal(array, expected.astype(array.dtype), equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/jsonlines", b"[[1], [2]] [[3], [4]]"),
        ("text/csv", b"1,+2"),
        ("text/csv", b""),
        ("application/json", b""),
        ("application/json", b"[1, [2]]"),
    ],
)
def test_text_that_is_refused_without_a_handler_is_refused_with_one(
    content_type: str, body: bytes, handled: EndpointProcess, bare: EndpointProcess
) -> None:
    attributes = "tfs-model-name=floats"
    statuses = [
        post(one.url, body, content_type, attributes=attributes).status_code
        for one in (handled, bare)
    ]
    assert statuses == [400, 400]


def test_one_tensor_in_a_npy_comes_back(handled: EndpointProcess) -> None:
    array = np.random.default_rng(0).random((2, 3, 4), np.float32)
    answer = post(
        handled.url,
        npy(array),
        "application/x-npy",
        accept="*/*",
        attributes="tfs-model-name=floats",
    )
    assert np.load(io.BytesIO(answer.content)).tolist() == array.tolist()


@pytest.mark.parametrize("content_type", ["application/x-npy", "application/x-protobuf"])
def test_megabytes_go_both_ways(content_type: str, handled: EndpointProcess) -> None:
    array = np.random.default_rng(0).random((1_500_000,), np.float32)
    body = npy(array) if content_type == "application/x-npy" else predict_request(x=array)
    answer = post(
        handled.url,
        body,
        content_type,
        accept="application/x-npy",
        attributes="tfs-model-name=floats",
    )
    assert np.array_equal(np.load(io.BytesIO(answer.content)), array)


def compressed_zeros(size: int) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, feat_ids=np.zeros(size // 8))
    return file.getvalue()


def claiming(size: int) -> bytes:
    request = wire.PredictRequest()
    tensor = request.inputs["feat_vals"]
    tensor.dtype, tensor.float_val[:] = 1, [1.0]
    tensor.tensor_shape.dim.add(size=size)
    return bytes(request.SerializeToString())


SHORT = {**ARRAYS, "feat_vals": ARRAYS["feat_vals"][:, :38]}
WRONG = {**ARRAYS, "feat_vals": ARRAYS["feat_vals"].astype(np.float64)}
TOO_SHORT = "feat_vals: got float32 [8, 38]; the signature wants float32 [any, 39]"
TOO_WIDE = "feat_vals: got float64 [8, 39]; the signature wants float32 [any, 39]"
SHORT_COLUMNS = {"inputs": {**COLUMNS, "feat_vals": [[1.0] * 38] * 8}}


@pytest.mark.parametrize(
    ("body", "content_type", "attributes", "status", "words"),
    [
        (npz(**SHORT), "application/x-npz", "", 400, TOO_SHORT),
        (npz(**WRONG), "application/x-npz", "", 400, TOO_WIDE),
        (predict_request(**SHORT), "application/x-protobuf", "", 400, TOO_SHORT),
        (json.dumps(SHORT_COLUMNS).encode(), "application/json", "", 400, TOO_SHORT),
        (b"\x93NUMPY", "application/x-npy", "", 400, "send them by name"),
        (b"{", "application/json", "", 400, "the body is no JSON"),
        (BODIES["npz"][1], "application/x-npz", "tfs-model-name=none", 404, "none"),
        (BODIES["rows"][1], "application/json", "tfs-model-version=9", 404, "9"),
        (BODIES["rows"][1], "application/json", "tfs-model-version=x", 400, "invalid tfs-model-version"),
        (compressed_zeros(70_000_000), "application/x-npz", "", 413, "the maximum is 67108864"),
        (claiming(1_500_000_000), "application/x-protobuf", "", 400, "[1500000000], which exceeds 64 MiB"),
        (b"", "image/png", "", 415, "image/png"),
    ],
    ids=range(12),
)  # fmt: skip
def test_a_refusal_has_its_status_and_says_what_is_wrong(
    body: bytes,
    content_type: str,
    attributes: str,
    status: int,
    words: str,
    handled: EndpointProcess,
) -> None:
    answer = post(
        handled.url, body, content_type, accept="application/x-npy", attributes=attributes
    )
    said: dict[str, Any] = answer.json()
    assert (answer.status_code, list(said), words in said["error"]) == (status, ["error"], True), (
        said
    )


def test_a_full_queue_is_429(handled: EndpointProcess) -> None:
    handled.faults.fill_queue()
    try:
        answers = [post(handled.url, body, kind).status_code for kind, body in BODIES.values()]
    finally:
        handled.faults.end()
    assert set(answers) == {429}


@pytest.mark.parametrize("content_type", SEEDS)
def test_no_damaged_body_is_a_5xx_or_ends_a_worker(
    content_type: str, handled: EndpointProcess
) -> None:
    workers = handled.parts.workers
    statuses = {
        post(handled.url, body, content_type, accept=accept).status_code
        for body, accept in itertools.islice(damaged(content_type, 2), 200)
    }
    assert (max(statuses) < 500, handled.parts.workers) == (True, workers), statuses


def test_the_log_holds_no_body(handled: EndpointProcess, log: Path) -> None:
    post(handled.url, b"the secret of the request", "application/x-npz")
    assert '"status": 400' in log.read_text()
    assert "the secret" not in log.read_text()
