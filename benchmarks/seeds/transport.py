"""S0 and S4: what a body's form and the way to the model server cost, by size.

From the client's call with an array until it has the decoded answer.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serving import workload
from local.endpoint.launch import launch
from servable_client import Endpoint

REPEATS = 5
CALLS = {1: 60, 111: 20, 2_230: 2}
FORMS = ("json", "npy", "protobuf")
TRANSPORTS = ("rest", "grpc")


def measured(archive: Path, told: Callable[[str], None]) -> list[dict[str, Any]]:
    found = []
    with (
        launch(archive, {"SERVABLE_TRANSPORT": "rest"}) as rest,
        launch(archive, {"SERVABLE_TRANSPORT": "grpc"}) as grpc,
        Endpoint.local(rest.url) as over_rest,
        Endpoint.local(grpc.url) as over_grpc,
    ):
        ways = [
            (transport, endpoint, form)
            for transport, endpoint in zip(TRANSPORTS, (over_rest, over_grpc), strict=True)
            for form in FORMS
        ]
        for repeat in range(REPEATS):
            turn = repeat % len(ways)
            for transport, endpoint, form in ways[turn:] + ways[:turn]:
                for rows, calls in CALLS.items():
                    latency = _latency_ms(endpoint, form, rows, calls)
                    row = {"repeat": repeat, "transport": transport, "form": form}
                    found.append({**row, "rows": rows, "latency_ms": latency})
            told(f"transport: repeat {repeat + 1} of {REPEATS}")
    return found


def _latency_ms(endpoint: Endpoint, form: str, rows: int, calls: int) -> float:
    array, latencies = workload.rows(rows), []
    endpoint.predict(x=array, format=form)
    for _ in range(calls):
        began = time.perf_counter()
        endpoint.predict(x=array, format=form)
        latencies.append((time.perf_counter() - began) * 1000)
    return median(latencies)
