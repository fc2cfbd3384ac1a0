"""A server for the load generator."""

from collections.abc import Iterator

import pytest

from tests.servable.tune.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that takes 5 ms for each request."""
    with Server(seconds=0.005) as running:
        yield running
