"""The endpoints that the cases ask: doubles of our own, or the URLs that were given.

    pytest tests/conformance                              the local container
    pytest tests/conformance --base-url URL --code-url URL    another container, or an endpoint

The archives for the second: `python -m tests.conformance.archives`. Cases that need an archive or
variables of their own always start a double; with a URL they are skipped by name.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from servable_local.container.launch import EndpointProcess, launch
from tests.conformance import archives
from tests.conformance.asking import Endpoint


class Double(Endpoint):
    """A local container of our own: its processes can be looked at."""

    def __init__(self, process: EndpointProcess) -> None:
        super().__init__(process.url)
        self.process = process


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


Start = Callable[[str, Path | None, dict[str, str]], Double]


@pytest.fixture(scope="session")
def start(request: pytest.FixtureRequest, folder: Path) -> Iterator[Start]:
    """start(NAME, archive, variables): a double that serves them until the session ends."""
    for option in ("--base-url", "--code-url"):
        if request.config.getoption(option):
            pytest.skip(f"needs an archive or variables of its own: not with {option}")
    with ExitStack() as doubles:

        def started(name: str, archive: Path | None, variables: dict[str, str]) -> Double:
            log = folder / f"{name}.log"
            # 4 s on an idle computer; the tests' own limit is 120 s.
            process = launch(archive, variables, log=log, ready_timeout_seconds=110.0)
            return Double(doubles.enter_context(process))

        yield started


def _given(request: pytest.FixtureRequest, option: str, other: str) -> Endpoint | None:
    """The endpoint of the option's URL; None for a double."""
    if url := request.config.getoption(option):
        return Endpoint(url.rstrip("/"))
    if request.config.getoption(other):
        pytest.skip(f"needs {option} too")
    return None


@pytest.fixture(scope="session")
def plain(request: pytest.FixtureRequest, folder: Path) -> Endpoint:
    """Without code: NGINX's own conversion."""
    if given := _given(request, "--base-url", "--code-url"):
        return given
    start: Start = request.getfixturevalue("start")
    return start("plain", archives.plain(folder / "plain.tar.gz"), archives.VARIABLES)


@pytest.fixture(scope="session")
def coded(request: pytest.FixtureRequest, folder: Path) -> Endpoint:
    """With inference.py of this folder."""
    if given := _given(request, "--code-url", "--base-url"):
        return given
    start: Start = request.getfixturevalue("start")
    # A proxy that nobody answers at: code reaches the model server without it.
    variables = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    variables |= archives.VARIABLES | {"SAGEMAKER_GUNICORN_THREADS": "4"}
    return start("coded", archives.coded(folder / "coded.tar.gz"), variables)


@pytest.fixture(scope="session")
def coded_double(coded: Endpoint) -> Double:
    """For cases that look at processes."""
    if not isinstance(coded, Double):
        pytest.skip("looks at processes: only with a double")
    return coded


@pytest.fixture(scope="session")
def plain_double(plain: Endpoint) -> Double:
    """For cases that look at processes."""
    if not isinstance(plain, Double):
        pytest.skip("looks at processes: only with a double")
    return plain


@pytest.fixture(scope="session")
def batching(start: Start, folder: Path) -> Double:
    """Two model servers, of which each collects requests of up to 4 rows for up to 0.3 s."""
    variables = archives.VARIABLES | {
        "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
        "SAGEMAKER_TFS_MAX_BATCH_SIZE": "4",
        "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "300000",
        "SAGEMAKER_TFS_NUM_BATCH_THREADS": "1",
        "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "1",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "2",
        "SAGEMAKER_GUNICORN_WORKERS": "2",
        "SAGEMAKER_GUNICORN_WORKER_CLASS": "gthread",
        "SAGEMAKER_GUNICORN_THREADS": "8",
        "SAGEMAKER_TFS_WAIT_TIME_SECONDS": "50",
    }
    return start("batching", archives.coded(folder / "batching.tar.gz"), variables)


PATIENCE = {"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "3"}
PAIR = b"""
import json

def input_handler(data, context):
    return json.dumps({"instances": json.loads(data.read())})

def output_handler(response, context):
    return json.dumps(response.json()["predictions"]), context.accept_header
"""


@pytest.fixture(scope="session")
def pair(start: Start, folder: Path) -> Double:
    """input_handler and output_handler, in one sync worker; no model is named the default.

    Version 1 of its model has three warm-up records.
    """
    folders = {"export/numbers": archives.MODELS / "numbers"}
    files = {"code/inference.py": PAIR}
    files[f"export/numbers/1/{archives.WARM_UP}"] = archives.warm_up("x", "x", "x")
    archive = archives.pack(folder / "pair.tar.gz", files, folders)
    variables = {"SAGEMAKER_GUNICORN_WORKER_CLASS": "sync", **PATIENCE}
    return start("pair", archive, variables)


@pytest.fixture(scope="session")
def lib_alone(start: Start, folder: Path) -> Double:
    """code/lib/ without inference.py; NGINX is patient for 4 s."""
    folders = {"numbers": archives.MODELS / "numbers"}
    archive = archives.pack(folder / "lib.tar.gz", archives.IN_LIB, folders)
    return start("lib", archive, {**PATIENCE, "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "4"})


@pytest.fixture(scope="session")
def several(start: Start) -> Double:
    """Multi-model mode, with nothing loaded."""
    return start("several", None, {"SAGEMAKER_MULTI_MODEL": "true"})
