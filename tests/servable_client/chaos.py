"""A server where everything goes wrong at random, and a count of what its model has seen."""

import random
import threading
from collections import Counter

import numpy as np

from servable_client import Endpoint, PartFailedError, PredictionError
from tests.servable_client.predict_bodies import answering, inputs_of
from tests.servable_client.runtime_server import RESET, Received, Reply, model_error, service_error

# What happens to a request, and of a hundred how many; the rest is answered.
BEFORE = {"reset": 4, "429": 6, "throttled": 5, "loading": 2, "503": 2}
AFTER = {"reset": 3, "503": 3, "500": 2, "slow": 3}
SLOW_SECONDS = 0.02


class Chaos:
    """`executed`: how often the model saw each input, whether its answer arrived or not."""

    def __init__(self, seed: int) -> None:
        self.executed: Counter[int] = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, received: Received) -> Reply:
        with self._lock:
            drawn = self._random.randrange(100)
            happens = _drawn(drawn, BEFORE)
            if happens:
                return _failure(happens)
            x = inputs_of(received.body)["x"]
            self.executed.update(x.tolist())
            happens = _drawn(self._random.randrange(100), AFTER)
        reply = answering({"y": x * 2 + 1})
        if happens == "slow":
            reply.before_seconds = SLOW_SECONDS
        elif happens:
            return _failure(happens)
        return reply


def _drawn(number: int, table: dict[str, int]) -> str | None:
    for name, weight in table.items():
        if number < weight:
            return name
        number -= weight
    return None


def _failure(name: str) -> Reply:
    if name == "reset":
        return Reply(RESET)
    if name == "throttled":
        return service_error(400, "ThrottlingException", **{"Retry-After": "0"})
    if name == "loading":
        return service_error(429, "ModelNotReadyException")
    return model_error(int(name))


def outcomes(endpoint: Endpoint, count: int, rows_each: int) -> dict[int, int | PredictionError]:
    """Each of `count` inputs with its answer, or with the error of the batch's part it was in.

    Half are asked in batches of parts, half one by one.
    """
    found: dict[int, int | PredictionError] = {}
    half = count // 2
    for first in range(0, half, rows_each):
        xs = np.arange(first, min(first + rows_each, half))
        try:
            answers = endpoint.predict(x=xs, split=1)["y"]
            found.update(zip(xs.tolist(), answers.tolist(), strict=True))
        except PartFailedError as failed:
            found.update(dict.fromkeys(xs.tolist(), failed))
    for one in range(half, count):
        try:
            found[one] = int(endpoint.predict(x=np.array([one]))["y"][0])
        except PredictionError as error:
            found[one] = error
    return found
