"""Archives packed by hand, and the endpoints that most tests share."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from servable_local.container.launch import EndpointProcess, launch
from tests.conformance import archives
from tests.servable_local.container.endpoint_calls import RANKER, Pack


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """pack(files={name: bytes}, folders={name: path}): an archive in a folder of its own."""

    def packed(files: Mapping[str, bytes] = {}, folders: Mapping[str, Path] = {}) -> Path:
        return archives.pack(tmp_path_factory.mktemp("archive") / "model.tar.gz", files, folders)

    return packed


@pytest.fixture(scope="session")
def without_code(pack: Pack) -> Iterator[EndpointProcess]:
    variables = {"SAGEMAKER_TFS_ENABLE_BATCHING": "true", "SAGEMAKER_TFS_MAX_BATCH_SIZE": "500"}
    archive = pack(folders={"ranker/1": RANKER / "model/1"})
    with launch(archive, variables, ready_timeout_seconds=110.0) as process:
        yield process


@pytest.fixture(scope="session")
def endpoint_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "endpoint.log"


@pytest.fixture(scope="session")
def with_code(pack: Pack, endpoint_log: Path) -> Iterator[EndpointProcess]:
    folders = {"1": RANKER / "model/1", "code": RANKER / "code"}
    # A proxy that nobody answers at: handlers reach the model server without it.
    variables = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    variables["SAGEMAKER_GUNICORN_THREADS"] = "4"
    archive = pack(folders=folders)
    with launch(archive, variables, log=endpoint_log, ready_timeout_seconds=110.0) as process:
        yield process
