"""The articles' code and settings, as they print them: packaged, checked, served, and invoked.

The ranking article's requirements bring TensorFlow, 2 GB from the package index.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests

from tests.checkouts import ROOT
from tests.constructs.test_articles_environment import RANKING, TUNED

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
EXAMPLES = ROOT / "examples"
# In the article's way: TensorFlow's own messages and a channel to the model server, whose port the
# container names; the request's body is a serialized PredictRequest, and the response's the raw scores.
INFERENCE = """\
import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

stubs = {}


def handler(data, context):
    port = context.grpc_port
    if port not in stubs:
        channel = grpc.insecure_channel(f"localhost:{port}")
        stubs[port] = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.ParseFromString(data.read())
    request.model_spec.name = "mine"
    response = stubs[port].Predict(request, 60.0)
    return tf.make_ndarray(response.outputs["prob"]).astype(np.float32).tobytes(), "application/octet-stream"
"""
SETTINGS = {
    **RANKING,
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "16",
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "16",
    "SAGEMAKER_GUNICORN_WORKERS": "8",
}


def write_project(folder: Path, preset: str, instance_type: str, settings: dict[str, str]) -> Path:
    """Write an environment `mine` with the small model of a preset and an article's environment dict."""
    (folder / "environments").mkdir()
    shutil.copytree(EXAMPLES / preset / "model", folder / "exported")
    pasted = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
    code = 'code = "code"' if (folder / "code").exists() else ""
    (folder / "environments" / "mine.toml").write_text(f"""
account = "111111111111"
region = "us-east-1"
endpoint.name = "mine"
[models.mine]
saved_model = "exported"
tensorflow = "2.20"
{code}
[variants.primary]
model = "mine"
instance_type = "{instance_type}"
min_instances = 1
[variants.primary.environment]
{pasted}
""")
    return folder


def run(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run `servable WORDS` in the project."""
    command = [sys.executable, "-m", "servable", "--project", str(project), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@contextmanager
def serve(project: Path) -> Iterator[str]:
    """Serve the environment; yield the URL of its predictions."""
    command = [sys.executable, "-m", "servable", "--project", str(project), "serve", "mine"]
    with (project / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--json", "--port", "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (project / "serve.log").read_text()
            yield json.loads(line)["url"] + "/invocations"
        finally:
            process.terminate()
            process.communicate()


def test_the_ranking_articles_code_answers(tmp_path: Path) -> None:
    index = [sys.executable, "-m", "pip", "index", "versions", "tensorflow-serving-api"]
    if subprocess.run(index, capture_output=True, check=False).returncode:
        pytest.skip("the package index, which has the article's requirements, can't be reached")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text(INFERENCE)
    (tmp_path / "code" / "requirements.txt").write_text("tensorflow-serving-api\nnumpy\n")
    project = write_project(tmp_path, "ranking", "ml.c5.4xlarge", SETTINGS)
    before = run(project, "check", "mine")
    packaged = run(project, "package", "mine")
    checked = run(project, "check", "mine")
    assert (before.returncode, packaged.returncode) == (1, 0), packaged.stderr
    assert "run `servable package mine`" in before.stdout + before.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr
    golden = EXAMPLES / "ranking" / "golden"
    with serve(project) as url:
        body = (golden / "request.pb").read_bytes()
        response = requests.post(
            url, body, headers={"Content-Type": "application/x-protobuf"}, timeout=60
        )
    assert response.status_code == 200, response.text
    expected = np.array(json.loads((golden / "answer.json").read_text())["outputs"], np.float32)
    assert np.allclose(np.frombuffer(response.content, np.float32), expected, rtol=1e-5)


def test_the_tuning_articles_settings_answer(tmp_path: Path) -> None:
    project = write_project(tmp_path, "retrieval", "ml.c5.9xlarge", TUNED)
    golden = EXAMPLES / "retrieval" / "golden"
    with serve(project) as url:
        response = requests.post(
            url,
            (golden / "request.json").read_bytes(),
            headers={"Content-Type": "application/json"},
            timeout=60,
        )
    log = (project / "serve.log").read_text()
    assert response.status_code == 200, response.text
    expected = json.loads((golden / "answer.json").read_text())["predictions"]
    for found, row in zip(response.json()["predictions"], expected, strict=True):
        assert {
            name: np.allclose(found[name], row[name], rtol=1e-5) for name in row
        } == dict.fromkeys(row, True)
    assert "SAGEMAKER_TFS_INSTANCE_COUNT=8" in log
    assert "SAGEMAKER_GUNICORN_WORKERS=36" in log
