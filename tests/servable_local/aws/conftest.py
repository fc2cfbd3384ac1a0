"""One local AWS for all tests of the folder; every test has an account of its own in it."""

import functools
import os
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from hypothesis import settings

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.everything_on import watching
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import synthesise
from tests.servable_local.aws.watched_endpoint import Watched, forget_everything

# A busy machine takes its time: how long an example took says nothing about it.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# The descriptions of AWS's services are read once, and not again by every session that a command opens.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


@pytest.fixture(scope="session")
def clock() -> ManualClock:
    """It stands still until a test moves it."""
    return ManualClock()


@pytest.fixture(scope="session")
def launcher(clock: ManualClock) -> Launcher:
    return Launcher(clock)


@pytest.fixture(scope="session")
def server(
    launcher: Launcher, clock: ManualClock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(folder=tmp_path_factory.mktemp("embedded"), launch=launcher, clock=clock)
    server.start()
    _servers.append(server)
    yield server
    _servers.remove(server)
    server.close()


_servers: list[Server] = []


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Endpoints and alarms of a file end with it: every minute of the clock looks at each."""
    yield
    for server in _servers:
        forget_everything(server)


@pytest.fixture(scope="session")
def embedded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> LocalAws:
    folder = tmp_path_factory.mktemp("client")
    return LocalAws(server.url, os.getpid(), "now", folder, server.access.secret_access_key)


@pytest.fixture(scope="session")
def project_templates() -> dict[str, dict[str, Any]]:
    """{environment: its template} of environments/*.toml as they are."""
    return synthesise()


@pytest.fixture(scope="session")
def watching_template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every alarm that an environment file can ask for, with rule and topics."""
    return watching(tmp_path_factory.mktemp("watching"))


@pytest.fixture(scope="session")
def accounts(embedded: LocalAws, launcher: Launcher) -> Account:
    """Its `another` makes an account for several tests."""
    return Account(embedded, launcher)


@pytest.fixture
def account(accounts: Account) -> Account:
    return accounts.another()


@pytest.fixture(scope="module")
def ranker(accounts: Account) -> Account:
    """With the endpoint `ranker` of one variant, `primary`: for all tests of a file."""
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")))
    return account


@pytest.fixture
def watched(account: Account) -> Watched:
    return Watched(account)
