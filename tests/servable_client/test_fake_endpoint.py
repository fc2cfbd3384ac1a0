"""The seam for tests of applications, and the same in asyncio."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from servable_client import (
    AsyncEndpoint,
    BadInputError,
    BodyTooLargeError,
    FakeEndpoint,
    RefusedError,
    ThrottledError,
)
from tests.servable_client.runtime_server import Received, Reply, Server, doubled


def double(x: Any) -> Any:
    return {"y": x * 2}


def test_the_function_answers_whatever_the_form_name_and_variant() -> None:
    cases: list[Any] = ["protobuf", "npz", "json"]
    for form in cases:
        found = FakeEndpoint(double).predict(x=np.arange(3.0), format=form)["y"].tolist()
        assert found == [0, 2, 4]
    assert FakeEndpoint(lambda only: {"y": only}).predict(np.arange(3)).only.tolist() == [0, 1, 2]
    assert FakeEndpoint(double).predict(x=[1.0], variant="green").variant == "green"
    assert FakeEndpoint(double).submit(x=[1.0]).result(timeout_seconds=0)["y"].tolist() == [2]


def test_calls_are_remembered_and_failures_come_first_once_each() -> None:
    fake = FakeEndpoint(double)
    fake.predict(x=[1.0, 2.0])
    assert [call["x"].tolist() for call in fake.calls] == [[1, 2]]
    fake = FakeEndpoint(double, failures=[None, RefusedError("no"), None])
    fake.predict(x=[1.0])
    with pytest.raises(RefusedError):
        fake.predict(x=[1.0])
    fake.predict(x=[1.0])
    assert len(fake.calls) == 2
    fake = FakeEndpoint(double, failures=[ThrottledError("no", retry_after_seconds=30)])
    assert fake.predict(x=[1.0])["y"].tolist() == [2]


def test_limits_are_kept_and_what_the_function_raises_is_the_tests_own_error() -> None:
    with pytest.raises(BodyTooLargeError):
        FakeEndpoint(double).predict(x=np.zeros(7_000_000, np.uint8))
    with pytest.raises(ZeroDivisionError):
        FakeEndpoint(lambda x: {"y": 1 // 0}).predict(x=[1.0])


X = np.arange(3.0)


def test_arrays_batches_bytes_and_jobs_go_in_and_come_out(server: Server) -> None:
    async def ask_server() -> Any:
        async with AsyncEndpoint.local(server.url, timeout_seconds=20) as endpoint:
            arrays = await endpoint.predict(x=X)
            server.answer = lambda got: Reply(200, got.body, {"Content-Type": "text/plain"})
            return arrays, await endpoint.invoke(b"abc", content_type="text/plain")

    async def ask_fake() -> Any:
        async with AsyncEndpoint(FakeEndpoint(double)) as endpoint:
            batch = await endpoint.predict(x=X, split=1)
            return batch, await endpoint.result(await endpoint.submit(x=X), 1)

    arrays, answer = asyncio.run(ask_server())
    assert (arrays["y"].tolist(), answer.body) == ([0, 2, 4], b"abc")
    assert [one["y"].tolist() for one in asyncio.run(ask_fake())] == [[0, 2, 4]] * 2


def test_errors_are_the_same_and_an_endpoint_that_is_given_has_its_options() -> None:
    async def main() -> Any:
        async with AsyncEndpoint(FakeEndpoint(double, failures=[RefusedError("no")])) as endpoint:
            return await endpoint.predict(x=X)

    with pytest.raises(RefusedError):
        asyncio.run(main())
    with pytest.raises(BadInputError, match="connections"):
        AsyncEndpoint(FakeEndpoint(double), connections=3)


@pytest.mark.parametrize("local", [False, True], ids=["given", "local"])
def test_as_many_calls_at_once_as_there_are_connections(local: bool, server: Server) -> None:
    """More than there are by default, and each waits for the others."""
    together = threading.Barrier(12, timeout=20)

    def meet(x: Any) -> Any:
        together.wait()
        return {"y": x}

    def met(received: Received) -> Reply:
        together.wait()
        return doubled(received)

    async def main() -> Any:
        server.answer = met
        made = AsyncEndpoint.local(server.url, connections=12)
        if not local:
            made = AsyncEndpoint(FakeEndpoint(meet, connections=12))
        async with made as endpoint:
            return await asyncio.gather(*(endpoint.predict(x=X) for _ in range(12)))

    assert len(asyncio.run(main())) == 12


def test_the_loop_goes_on_while_a_prediction_is_waited_for() -> None:
    gone_on = threading.Event()

    def wait(x: Any) -> Any:
        assert gone_on.wait(20)
        return {"y": x}

    async def main() -> Any:
        async with AsyncEndpoint(FakeEndpoint(wait)) as endpoint:
            prediction = asyncio.create_task(endpoint.predict(x=X))
            await asyncio.sleep(0)
            gone_on.set()
            return await prediction

    assert asyncio.run(main())["y"].tolist() == [0, 1, 2]
