"""Thousands of calls under faults of TCP and TLS: what each call says, and what was executed.

python -m tests.servable_client.faults --calls 10000
"""

import argparse
import os
import random
import socket
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from unittest import mock

import numpy as np

from servable_client import Endpoint, PredictionError
from servable_client.sagemaker_runtime import SageMakerRuntime
from tests.servable_client.conftest import open_session
from tests.servable_client.faulty_server import (
    AFTER,
    ANSWERED,
    BEFORE,
    OF_CONNECTIONS,
    TLS_AFTER,
    TURNED_AWAY,
    Certificates,
    FaultyServer,
    certificates,
)

Way = Literal["container", "container over TLS", "SageMaker", "SageMaker over TLS"]
WAYS: tuple[Way, ...] = ("container", "container over TLS", "SageMaker", "SageMaker over TLS")
# Of a hundred requests so many go wrong, and of a hundred connections.
FAULTS_PER_100 = 30
FAULTS_PER_100_CONNECTIONS = 10
TO_NOBODY_PER_100 = 2
NEVER_ANSWERED_PER_1000 = 1
TIMEOUT_SECONDS = 2.0


@dataclass
class Ran:
    way: Way
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    executed: int = 0
    connections: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Drawn:
    """Faults at random, from a seed."""

    def __init__(self, seed: int, tls: bool) -> None:
        self._random = random.Random(seed)
        self._of_connections = OF_CONNECTIONS if tls else OF_CONNECTIONS[:1]
        after = [one for one in AFTER if one != "never answered"] + [*(TLS_AFTER if tls else ())]
        self._of_requests = [*BEFORE, *TURNED_AWAY, *after, *ANSWERED[1:]]

    def __call__(self, of: str) -> str:
        if of == "connection":
            wrong = self._random.randrange(100) < FAULTS_PER_100_CONNECTIONS
            return self._random.choice(self._of_connections) if wrong else ""
        if self._random.randrange(1000) < NEVER_ANSWERED_PER_1000:
            return "never answered"
        wrong = self._random.randrange(100) < FAULTS_PER_100
        return self._random.choice(self._of_requests) if wrong else "answered"


def trusting(made: Certificates) -> AbstractContextManager[object]:
    """The variables by which botocore and OpenSSL know the authority, for as long as it lasts."""
    told = {
        "AWS_CA_BUNDLE": str(made.authority), "SSL_CERT_FILE": str(made.authority),
        "NO_PROXY": "127.0.0.1", "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }  # fmt: skip
    return mock.patch.dict(os.environ, told)


def endpoint_of(way: Way, url: str, **told: object) -> Endpoint:
    """Ready: the boto3 client is made, so that the first call's time is not spent on it."""
    if way.startswith("container"):
        return Endpoint.local(url, **told)
    made = Endpoint("ranker", endpoint_url=url, session=open_session(), **told)  # type: ignore[arg-type]
    assert isinstance(made._transport, SageMakerRuntime)
    made._transport._open_client()
    return made


def ran(way: Way, calls: int, seed: int, made: Certificates, threads: int = 8) -> Ran:
    """`calls` over one way, side by side, with the environment of `trusting`."""
    tls = way.endswith("TLS")
    found = Ran(way, calls)
    began = time.monotonic()
    said: dict[int, int | Exception] = {}
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))  # and never listens
        nobody = f"http{'s' if tls else ''}://127.0.0.1:{taken.getsockname()[1]}"
        server = FaultyServer(Drawn(seed, tls), made.chain if tls else None)
        told = {"connections": threads, "timeout_seconds": TIMEOUT_SECONDS, "sleep": shortly}
        opened = (endpoint_of(way, url, **told) for url in (server.url, nobody))
        there, not_there = map(stack.enter_context, opened)
        drawn = random.Random(seed)
        to_nobody = {call for call in range(calls) if drawn.randrange(100) < TO_NOBODY_PER_100}

        def call(number: int) -> None:
            endpoint = not_there if number in to_nobody else there
            try:
                said[number] = int(endpoint.predict(x=np.array([number]))["y"][0])
            except Exception as error:  # one of another class is noted as wrong
                said[number] = error

        with ThreadPoolExecutor(threads) as executor:
            list(executor.map(call, range(calls)))
        server.close()
    for number in range(calls):
        judge(found, number, said[number], server.executed[number])
    found.executed = server.executed.total()
    found.connections = server.connections
    found.seconds = time.monotonic() - began
    return found


def judge(found: Ran, number: int, said: int | Exception, times: int) -> None:
    """Counts the call, and notes it where what it says is not what happened."""
    if not isinstance(said, PredictionError):
        right = times == 1 and said == 2 * number + 1
        found.outcomes["answered" if isinstance(said, int) else "another exception"] += 1
    else:
        found.outcomes[f"executed: {said.executed}"] += 1
        right = times in {"no": {0}, "maybe": {0, 1}, "yes": {1}}[said.executed]
    if not right:
        found.wrong.append(f"call {number}: {said!r}, executed {times} times")


def shortly(seconds: float) -> None:
    """Waits between attempts are not what is tried here."""
    time.sleep(seconds / 20)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m tests.servable_client.faults"
    )
    parser.add_argument("--calls", type=int, default=10_000, help="Calls in all (default: 10000).")
    parser.add_argument("--seed", type=int, default=1, help="The faults' seed (default: 1).")
    given = parser.parse_args()
    wrong = 0
    threading.stack_size(256 << 10)
    with tempfile.TemporaryDirectory() as folder:
        made = certificates(Path(folder))
        with trusting(made):
            for way in WAYS:
                found = ran(way, given.calls // len(WAYS), given.seed, made)
                outcomes = ", ".join(f"{n:,} {what}" for what, n in sorted(found.outcomes.items()))
                print(
                    f"{way}: {found.calls:,} calls in {found.seconds:.0f} s over "
                    f"{found.connections:,} connections: {outcomes}; "
                    f"{found.executed:,} executions; {len(found.wrong)} calls say it wrongly",
                    flush=True,
                )
                for line in found.wrong[:10]:
                    print(f"  {line}")
                wrong += len(found.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
