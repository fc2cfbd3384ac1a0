"""Archives packed by hand, and the endpoints that most tests share."""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import requests

from local.endpoint.launch import EndpointProcess, launch
from tests.local_endpoint.endpoint_calls import RANKER, Pack

# What it does is chosen by the caller's custom attributes, so that one endpoint serves all tests.
CHOOSING_HANDLER = b"""
import json

import placed_in_lib

def handler(data, context):
    return globals()[context.custom_attributes.split(",")[0]](data, context)

def a_dict(data, context):
    return {"predictions": [1]}, "application/json"

def a_bare_dict(data, context):
    return {"predictions": [1]}

def an_exception(data, context):
    raise RuntimeError("the shelf is empty")

def refusal(data, context):
    import falcon
    raise falcon.HTTPTooManyRequests(title="Busy", headers={"Retry-After": "3"})

def the_context(data, context):
    shown = context._replace(channel=None, timeout=None)
    return json.dumps(shown._asdict()), "application/json"

def the_channel(data, context):
    from serving import wire
    status = context.channel.unary_unary(
        "/tensorflow.serving.ModelService/GetModelStatus",
        request_serializer=wire.GetModelStatusRequest.SerializeToString,
        response_deserializer=wire.GetModelStatusResponse.FromString,
    )
    found = status(wire.GetModelStatusRequest(model_spec={"name": "ranker"}), timeout=10)
    return json.dumps([one.version for one in found.model_version_status]), "application/json"

def from_lib(data, context):
    return placed_in_lib.WORD, "text/plain"

def a_print(data, context):
    print("said on standard output")
    return "", "text/plain"
"""


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """pack(files={name: bytes}, folders={name: path}): an archive in a folder of its own."""

    def packed(files: Mapping[str, bytes] = {}, folders: Mapping[str, Path] = {}) -> Path:
        archive = tmp_path_factory.mktemp("archive") / "model.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name, folder in folders.items():
                tar.add(folder, name)
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return archive

    return packed


@pytest.fixture(scope="session")
def without_code(pack: Pack) -> Iterator[EndpointProcess]:
    variables = {"SAGEMAKER_TFS_ENABLE_BATCHING": "true", "SAGEMAKER_TFS_MAX_BATCH_SIZE": "500"}
    with launch(pack(folders={"ranker/1": RANKER / "model/1"}), variables) as process:
        yield process


@pytest.fixture(scope="session")
def with_code(pack: Pack) -> Iterator[EndpointProcess]:
    folders = {"1": RANKER / "model/1", "code": RANKER / "code"}
    # A proxy that nobody answers at: handlers reach the model server without it.
    variables = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    with launch(pack(folders=folders), variables) as process:
        yield process


@pytest.fixture(scope="session")
def endpoint_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "endpoint.log"


@pytest.fixture(scope="session")
def choosing(pack: Pack, endpoint_log: Path) -> Iterator[Callable[..., requests.Response]]:
    """choosing("name of a function above"): the endpoint's answer after that function ran."""
    files = {
        "code/inference.py": CHOOSING_HANDLER,
        "code/lib/placed_in_lib.py": b"WORD = 'found'\n",
    }
    archive = pack(files, {"ranker/1": RANKER / "model/1", "ranker/02": RANKER / "model/1"})
    variables = {"SAGEMAKER_GUNICORN_WORKERS": "2", "SAGEMAKER_GUNICORN_THREADS": "4"}
    with launch(archive, variables, log=endpoint_log) as process:

        def call(attributes: str, **headers: str) -> requests.Response:
            headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes
            return requests.post(process.url + "/invocations", b"{}", headers=headers, timeout=30)

        yield call
