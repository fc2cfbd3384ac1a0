"""An endpoint at zero copies: told from a broken one, waited for as allowed, executed once."""

from typing import Any

import numpy as np
import pytest

from servable_client import AsleepError, BusyError, ModelFailedError
from servable_client.retries import WAKE_LOOK_SECONDS
from tests.servable_client.conftest import Connect
from tests.servable_client.predict_bodies import doubled
from tests.servable_client.runtime_server import (
    Received,
    Reply,
    RuntimeServer,
    model_error,
    service_error,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ASLEEP = service_error(
    400,
    "ValidationError",
    "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
    "in-progress (if configured) or try to increase the capacity by invoking "
    "UpdateInferenceComponentRuntimeConfig API.",
)


def asleep_for(server: RuntimeServer, requests: int, then: Reply | None = None) -> None:
    def answer(received: Received) -> Reply:
        if len(server.received) <= requests:
            return ASLEEP
        return then or doubled(received)

    server.answer = answer


def test_without_wake_seconds_a_request_names_its_component_and_is_told_of_the_sleep(
    server: RuntimeServer, connect: Connect
) -> None:
    connect(component="ranker-primary").predict(x=X)
    assert server.received[0].headers["x-amzn-sagemaker-inference-component"] == "ranker-primary"

    asleep_for(server, 99)
    with pytest.raises(AsleepError, match="wake_seconds") as raised:
        connect(attempts=1).predict(x=X)
    assert (raised.value.executed, isinstance(raised.value, BusyError)) == ("no", True)


def test_a_caller_waits_beyond_its_timeout_until_it_is_awake(
    server: RuntimeServer, connect: Connect
) -> None:
    asleep_for(server, 30)
    told: list[float] = []
    slept: list[float] = []
    ranker = connect(wake_seconds=900, waiting=told.append, sleep=slept.append, timeout_seconds=20)
    np.testing.assert_array_equal(ranker.predict(x=X)["y"], X * 2)
    assert (told, slept) == ([900], [WAKE_LOOK_SECONDS] * 30)


def test_one_that_wakes_broken_or_does_not_wake_is_given_up(
    server: RuntimeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep_for(server, 2, model_error(500))
    with pytest.raises(ModelFailedError):
        connect(wake_seconds=900, sleep=lambda seconds: None).predict(x=X)
    assert len(server.received) == 3
    asleep_for(server, 10**6)
    with pytest.raises(AsleepError, match="did not start within 0.2 s"):
        connect(wake_seconds=0.2, sleep=lambda seconds: None).predict(x=X)


def test_a_caller_s_own_mistake_is_no_sleep(server: RuntimeServer, connect: Connect) -> None:
    wrong: Any = service_error(400, "ValidationError", "Inference Component x not found.")
    server.answer = lambda received: wrong
    with pytest.raises(Exception, match="not found"):
        connect(component="x", wake_seconds=900).predict(x=X)
    assert len(server.received) == 1
