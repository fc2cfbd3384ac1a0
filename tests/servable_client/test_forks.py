"""A forked child has connections, threads and locks of its own; every answer is its asker's."""

import asyncio
import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from servable_client import (
    AsyncEndpoint,
    BadInputError,
    Endpoint,
    FakeEndpoint,
    ModelFailedError,
    PartFailedError,
    ThrottledError,
)
from servable_client.retries import Retries
from tests.servable_client.conftest import Connect, open_session
from tests.servable_client.faults import endpoint_of, trusting
from tests.servable_client.faulty_server import Certificates, FaultyServer
from tests.servable_client.runtime_server import Received, Reply, Server

pytestmark = pytest.mark.long

CALLS = 40
CHILD_SECONDS = 60
Open = Callable[..., Endpoint]


@pytest.fixture(params=["container", "SageMaker"])
def opened(request: pytest.FixtureRequest, server: Server, connect: Connect) -> Iterator[Open]:
    """opened(…): an Endpoint of the server, over HTTP or over boto3."""
    made: list[Endpoint] = []

    def one(**told: Any) -> Endpoint:
        local = request.param == "container"
        made.append(Endpoint.local(server.url, **told) if local else connect(**told))
        return made[-1]

    yield one
    for endpoint in made:
        endpoint.close()


class Child:
    """A fork in which `work` runs; `result()` is what it returned, as JSON holds it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        reader, writer = os.pipe()
        self._reader = reader
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(CHILD_SECONDS)
            try:
                said = work()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            finally:
                os.write(writer, json.dumps(said).encode())
                os._exit(0)
        os.close(writer)

    def result(self) -> Any:
        """Fails where the child did not end in time."""
        with os.fdopen(self._reader, "rb") as pipe:
            said = pipe.read()
        os.waitpid(self.pid, 0)
        assert said, "the child hangs"
        return json.loads(said)


def wrong_answers(endpoint: Endpoint, first: int, count: int = CALLS) -> list[Any]:
    """What is not one's own of `count` answers, each to a number that nobody else asks for."""
    wrong = []
    for number in range(first, first + count):
        y = endpoint.predict(x=np.array([float(number)]))["y"].tolist()
        if y != [2.0 * number]:
            wrong.append((number, y))
    return wrong


def test_a_parent_its_children_and_their_children_get_their_own_answers(opened: Open) -> None:
    endpoint = opened()
    endpoint.predict(x=np.array([1.0]))
    children = [Child(lambda n=n: wrong_answers(endpoint, n * 1000)) for n in (1, 2)]  # type: ignore[misc]
    assert wrong_answers(endpoint, 0) == []
    assert [child.result() for child in children] == [[], []]

    def grandparent() -> list[Any]:
        wrong = wrong_answers(endpoint, 1000, 3)
        child = Child(lambda: wrong_answers(endpoint, 2000, 3))
        return [*wrong, *wrong_answers(endpoint, 3000, 3), *child.result()]

    assert Child(grandparent).result() == []


def test_a_child_of_a_parent_in_the_middle_of_calls_gets_its_own_answers(opened: Open) -> None:
    endpoint = opened()
    stop, wrong = threading.Event(), []

    def ask(first: int) -> None:
        while not stop.is_set():
            wrong.extend(wrong_answers(endpoint, first, 5))

    threads = [threading.Thread(target=ask, args=(10_000 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    try:
        for n in range(5):
            child = Child(lambda n=n: wrong_answers(endpoint, n * 1000, 5))  # type: ignore[misc]
            assert child.result() == []
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


FORK_DURING_IMPORT = """
import os, signal, sys, threading
import numpy as np
from servable_client import Endpoint

endpoint = Endpoint.local(sys.argv[1])
first = threading.Thread(target=endpoint.predict, kwargs={"x": np.array([1.0])})
first.start()
while sys.argv[2] not in sys.modules:
    pass
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(endpoint.predict(x=np.array([2.0]))["y"].tolist() != [4.0])
first.join()
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("imported", ["numpy.ma", "servable_tensors.codecs", "encodings.idna"])
def test_a_child_forked_during_the_imports_does_not_hang(server: Server, imported: str) -> None:
    command = [sys.executable, "-c", FORK_DURING_IMPORT, server.url, imported]
    assert subprocess.run(command, timeout=CHILD_SECONDS).returncode == 0


def test_a_fork_waits_until_another_threads_boto3_client_exists(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL holds locks meanwhile, for which a child would wait forever."""
    began, created, create = threading.Event(), [], open_session().client

    def create_slowly(*told: Any, **named: Any) -> Any:
        began.set()
        time.sleep(0.3)
        created.append(create(*told, **named))
        return created[-1]

    monkeypatch.setattr(open_session(), "client", create_slowly)
    first = threading.Thread(target=connect().predict, kwargs={"x": np.array([1.0])})
    first.start()
    began.wait()
    child = Child(lambda: len(created))
    first.join()
    assert child.result() == 1


def split(endpoint: Endpoint) -> Any:
    return endpoint.predict(x=np.arange(20.0), split=3, timeout_seconds=30)["y"].tolist()


def test_a_child_does_not_wait_for_locks_that_the_parent_held_at_the_fork(opened: Open) -> None:
    endpoint = opened()
    split(endpoint)
    batches, retries = endpoint._batches, endpoint._retries
    held = [batches._part_sizes._lock, batches._executor._shutdown_lock, retries._lock]
    pool = _pool_of(endpoint)
    if pool is not None:
        held.append(pool.pool.mutex)
    for lock in held:
        lock.acquire()
    try:
        child = Child(lambda: split(endpoint))
    finally:
        for lock in held:
            lock.release()
    assert child.result() == [2.0 * n for n in range(20)]


def _pool_of(endpoint: Endpoint) -> Any:
    """urllib3's pool of connections to the server."""
    transport: Any = endpoint._transport
    if hasattr(transport, "_pool"):
        manager = transport._pool
    else:
        manager = transport._clients["sagemaker-runtime"]._endpoint.http_session._manager
    (key,) = manager.pools.keys()
    return manager.pools[key]


def test_a_collected_pool_of_the_parents_does_not_hang_the_child(opened: Open) -> None:
    endpoint = opened()
    endpoint.predict(x=np.array([1.0]))
    pool = _pool_of(endpoint)
    pool.pool.mutex.acquire()
    try:

        def collected() -> bool:
            import gc

            nonlocal pool
            pool = None
            gc.collect()
            import weakref

            for one in list(weakref.finalize._registry):  # type: ignore[attr-defined]
                if one.alive and "urllib3" in repr(one.peek()):
                    one()  # as the interpreter does it at its end
            return True

        child = Child(collected)
    finally:
        pool.pool.mutex.release()
    assert child.result() is True


def test_what_the_parent_learnt_is_not_the_childs(server: Server) -> None:
    def json_only(received: Received) -> Reply:
        if received.headers["content-type"] != "application/json":
            return Reply(415, b"{}")
        return Reply(200, b'{"outputs": [1.0]}', {"Content-Type": "application/json"})

    server.answer = json_only
    with Endpoint.local(server.url) as endpoint:
        endpoint.predict(x=np.zeros(1))

        def learnt() -> bool:
            return endpoint._json_only

        assert (learnt(), Child(learnt).result()) == (True, False)


def test_a_child_is_not_held_back_by_the_parents_throttling() -> None:
    retries = Retries()
    retries._throttled_until = time.monotonic() + 1000
    assert Child(lambda: retries._throttled_until).result() == 0


def test_the_childs_copies_of_the_parents_connections_are_closed(opened: Open) -> None:
    endpoint = opened()
    endpoint.predict(x=np.array([1.0]))
    kept = [one for one in _pool_of(endpoint).pool.queue if one is not None]
    descriptors = [one.sock.fileno() for one in kept]
    names = [one.sock.getpeername() for one in kept]

    def still_there() -> list[bool]:
        found = []
        for descriptor, name in zip(descriptors, names, strict=True):
            try:
                with socket.socket(fileno=os.dup(descriptor)) as copy:
                    found.append(copy.getpeername() == name)
            except OSError:
                found.append(False)
        return found

    assert descriptors
    assert still_there() == [True] * len(descriptors)
    assert Child(still_there).result() == [False] * len(descriptors)


@pytest.mark.parametrize("way", ["container over TLS", "SageMaker over TLS"])
def test_a_child_says_no_goodbye_on_the_parents_tls(made: Certificates, way: Any) -> None:
    """A close_notify of the child's would end the parent's connection."""
    with (
        trusting(made),
        FaultyServer(lambda of: "answered" if of == "request" else "", made.chain) as server,
        endpoint_of(way, server.url) as endpoint,
    ):
        first = endpoint.predict(x=np.array([1]))["y"].tolist()

        def child() -> Any:
            import gc

            mine = endpoint.predict(x=np.array([2]))["y"].tolist()
            gc.collect()
            return mine

        assert Child(child).result() == [5]
        assert (first, endpoint.predict(x=np.array([3]))["y"].tolist()) == ([3], [7])
        assert server.connections == 2


def test_asyncio_works_in_a_child(server: Server) -> None:
    endpoint = AsyncEndpoint.local(server.url)

    async def both() -> list[Any]:
        calls = [endpoint.predict(x=np.array([float(n)])) for n in range(5)]
        return [one["y"].tolist() for one in await asyncio.gather(*calls)]

    wanted = [[2.0 * n] for n in range(5)]
    assert asyncio.run(both()) == wanted
    assert Child(lambda: asyncio.run(both())).result() == wanted
    asyncio.run(endpoint.close())


def test_closing_is_a_processs_own_and_lasts(opened: Open) -> None:
    endpoint = opened()
    endpoint.predict(x=np.array([1.0]))
    assert Child(endpoint.close).result() is None
    assert wrong_answers(endpoint, 0, 2) == []
    endpoint.close()
    with pytest.raises(BadInputError, match="closed; create a new one"):
        endpoint.predict(x=np.array([1.0]))
    assert "closed; create a new one" in Child(lambda: wrong_answers(endpoint, 1)).result()


SHARED: Endpoint | None = None


def ask_shared(number: int) -> Any:
    assert SHARED is not None
    return SHARED.predict(x=np.array([float(number)] * 4), split=2)["y"].tolist()


def test_a_pool_of_forked_processes_inherits_an_endpoint(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SHARED", opened())
    ask_shared(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        waiting = pool.map_async(ask_shared, range(CALLS))
        assert waiting.get(CHILD_SECONDS) == [[2.0 * n] * 4 for n in range(CALLS)]


def test_an_error_is_the_same_after_pickling() -> None:
    throttled = ThrottledError("no", status=429, executed="maybe")
    for error in (ModelFailedError("no", status=500), throttled):
        error.attempts = 3
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), vars(again)) == (type(error), vars(error))
    part = pickle.loads(pickle.dumps(PartFailedError(1, 2, range(3), throttled, 0)))
    assert "part 2 of 2" in str(part)
    assert (part.failure.status, part.executed) == (429, "maybe")


def test_endpoints_and_jobs_are_not_pickled_and_say_what_to_do() -> None:
    cases: list[Any] = [FakeEndpoint(lambda x: x), AsyncEndpoint(FakeEndpoint(lambda x: x))]
    for made in cases:
        with pytest.raises(TypeError, match="create one in each process"):
            pickle.dumps(made)
    with pytest.raises(TypeError, match="output_location and failure_location"):
        pickle.dumps(FakeEndpoint(lambda x: {"y": x}).submit(x=1.0))
