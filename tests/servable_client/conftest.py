"""A runtime API of one's own for each test, and endpoints that speak to it."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from servable_client import Endpoint
from tests.servable_client.faulty_server import certificates
from tests.servable_client.runtime_server import Server, doubled

Connect = Callable[..., Endpoint]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the computer's own configuration."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "123456789012", "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(doubled) as running:
        yield running


@functools.cache
def open_session() -> boto3.session.Session:
    """One for all: reading SageMaker's model takes longer than most tests."""
    return boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="nothing", region_name="us-east-1"
    )


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Certificates of an authority of our own."""
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """connect(timeout_seconds=…, …): an Endpoint "ranker" of the server, closed afterwards."""
    made: list[Endpoint] = []

    def one(**told: Any) -> Endpoint:
        made.append(Endpoint("ranker", endpoint_url=server.url, session=open_session(), **told))
        return made[-1]

    yield one
    for endpoint in made:
        endpoint.close()
