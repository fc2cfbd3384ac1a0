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

from tests.checkouts import ROOT, run_in, succeed_in
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


def list_words(project: Path, *words: str) -> list[str]:
    """Return the command line of `servable WORDS` in the project."""
    return [sys.executable, "-m", "servable", "--project", str(project), *words]


@contextmanager
def serve(project: Path) -> Iterator[str]:
    """Serve the environment; yield the URL of its predictions."""
    command = list_words(project, "serve", "mine", "--json", "--port", "0")
    with (project / "serve.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (project / "serve.log").read_text()
            yield json.loads(line)["url"] + "/invocations"
        finally:
            process.terminate()
            process.communicate()


def post(url: str, body: Path, content_type: str) -> requests.Response:
    headers = {"Content-Type": content_type}
    response = requests.post(url, body.read_bytes(), headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    return response


def test_the_ranking_articles_code_answers(tmp_path: Path) -> None:
    index = [sys.executable, "-m", "pip", "index", "versions", "tensorflow-serving-api"]
    if subprocess.run(index, capture_output=True, check=False).returncode:
        pytest.skip("the package index, which has the article's requirements, can't be reached")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text(INFERENCE)
    (tmp_path / "code" / "requirements.txt").write_text("tensorflow-serving-api\nnumpy\n")
    project = write_project(tmp_path, "ranking", "ml.c5.4xlarge", SETTINGS)
    before = run_in(ROOT, *list_words(project, "check", "mine"))
    assert before.returncode == 1
    assert "run `servable package mine`" in before.stdout + before.stderr
    for command in ("package", "check"):
        succeed_in(ROOT, *list_words(project, command, "mine"), timeout_seconds=600)
    golden = EXAMPLES / "ranking" / "golden"
    with serve(project) as url:
        response = post(url, golden / "request.pb", "application/x-protobuf")
    expected = np.array(json.loads((golden / "answer.json").read_text())["outputs"], np.float32)
    assert np.allclose(np.frombuffer(response.content, np.float32), expected, rtol=1e-5)


def test_the_tuning_articles_settings_answer(tmp_path: Path) -> None:
    project = write_project(tmp_path, "retrieval", "ml.c5.9xlarge", TUNED)
    golden = EXAMPLES / "retrieval" / "golden"
    with serve(project) as url:
        response = post(url, golden / "request.json", "application/json")
    log = (project / "serve.log").read_text()
    expected = json.loads((golden / "answer.json").read_text())["predictions"]
    for found, row in zip(response.json()["predictions"], expected, strict=True):
        assert [name for name in row if not np.allclose(found[name], row[name], rtol=1e-5)] == []
    assert "SAGEMAKER_TFS_INSTANCE_COUNT=8" in log
    assert "SAGEMAKER_GUNICORN_WORKERS=36" in log
